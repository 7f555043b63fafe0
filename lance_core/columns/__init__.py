"""Changes the columns of a table: adds, drops, renames, and casts columns, and rewrites columns of a fragment.

Start with ``add``, ``drop``, ``alter``, and ``update_fragment``. ``column_values`` computes the values of new columns,
with ``batch_udf`` for functions, and ``joined_rows`` finds them by keys. ``casts`` defines which types can be changed
to which. ``column_files`` writes the files of all these changes, and commits them; changes that write no data need
only the manifest.
"""
