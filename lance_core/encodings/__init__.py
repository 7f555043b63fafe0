"""Page encodings: conversion of arrays to pages and back.

Start with ``page_encoder`` and ``page_decoder``; ``registry`` maps the arms of each protobuf oneof to modules. There
is one module per page layout in ``structural`` and one per compressive encoding in ``compressive``. ``policy``
contains the rules that decide how a page is written; ``string_pages`` and ``dictionary_pages`` apply them to their
kinds of pages, and ``page_layouts`` builds the chosen page. ``levels`` converts nesting to repetition and definition
levels and back, and ``kernels`` contains algorithms on numpy arrays.
``v0_1`` and ``v2_0`` contain the encodings of formats 0.1 and 2.0.
"""
