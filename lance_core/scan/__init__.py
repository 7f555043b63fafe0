"""Reading versions: projections, scans, takes, row ids, and the handle with which all operations start.

Start with ``table_view``, one version of a dataset, and ``scanner``, which reads its fragments. ``projection`` selects
the columns, ``scan_plan`` the rows of each fragment, and ``matching`` finds the rows that match a filter.
``fragment_reader`` joins the files of one fragment according to a ``read_plan``, using ``open_files`` and
``column_sources``, and applies ``fragment_overlays``. ``take`` reads individual rows, which ``row_id_lookup`` finds by
id. ``row_columns`` adds the columns that no file stores, ``shown_columns`` and ``output_schema`` convert the others to
their public form, and ``blob_rows`` reads blobs. ``hidden_columns`` and ``early_fragments`` read information from files
that the manifests of some writers lack.
"""
