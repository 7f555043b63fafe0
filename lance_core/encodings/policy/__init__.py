"""Write policy: the rules that decide how pages are encoded.

Each module answers one question (whether a page is constant, whether a dictionary makes it smaller, which compression
to use) and does not encode anything. The ``…_pages`` modules of the parent package, such as ``string_pages``, ask these
questions in order and encode the page accordingly. Format 2.0 has its own rules; see ``v2_0/page_encoder.py``.
"""
