"""Write policy: the rules that decide how pages are encoded.

The modules answer single questions (is a page constant, does a dictionary pay, which compression), and encode nothing.
``…_pages`` of the parent package, for example ``string_pages``, ask them in order and encode what they choose.
Format 2.0 has its own rules: ``v2_0/page_encoder``.
"""
