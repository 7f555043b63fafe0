"""Reading versions: projections, scans, takes, row ids, and the handle that all verbs start from.

Start with ``table_view``, one version of a dataset, and ``scanner``, which reads its fragments. ``projection`` says
which columns, ``scan_plan`` which rows of which fragment, ``matching`` finds the rows of a filter. ``fragment_reader``
joins the files of one fragment by a ``read_plan``, from ``open_files`` and ``column_sources``, and applies
``fragment_overlays``. ``take`` reads individual rows, which ``row_id_lookup`` finds by id. ``row_columns`` adds the
columns that no file stores, ``shown_columns`` and ``output_schema`` give the others their public form, and
``blob_rows`` reads blobs. ``hidden_columns`` and ``early_fragments`` read from files what manifests of some writers
lack.
"""
