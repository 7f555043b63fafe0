"""Reads versions of a dataset: projections, scans, takes, row ids, and TableView, on which all operations are based.

Start with ``table_view``, which represents one version of a dataset or the destination of a write, and ``scanner``,
which reads its fragments. ``projection`` selects the columns, ``scan_plan`` selects the rows of each fragment, and
``matching`` finds the rows that match a filter. ``fragment_reader`` combines the files of one fragment according to a
``read_plan``, and applies ``fragment_overlays``; ``fragment_group`` reads neighboring fragments together. ``take``
reads individual rows, and ``row_id_lookup`` finds rows by id. ``row_columns`` computes system columns.
``shown_columns`` and ``output_schema`` convert stored columns to their public form. ``row_order`` sorts rows, and
``nearest`` finds those with the nearest vectors. ``blob_rows`` finds the values of blobs, ``loaded_blobs`` loads the
blobs of rows that are rewritten, and ``delta`` finds what changed between two versions. ``sql_table`` and
``arrow_dataset`` make a version readable by DataFusion, and by libraries that read Arrow datasets. ``hidden_columns``
and ``early_fragments`` read information from data files if the manifest lacks it.
"""
