"""Data frames of other libraries: how each is loaded from a version of a dataset, and how its rows are staged.

``frame_types`` is the table of supported types, with one module per library. A library is imported only when one of its
frames is loaded. The package does not need Dagster.
"""
