"""Publishing: a tag names the version that readers see, and only versions that passed their checks get the tag.

``settings`` declares the tag, ``promotion_plan`` describes a planned promotion, and ``tag_move`` moves the tag.
"""
