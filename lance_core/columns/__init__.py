"""Changes the columns of a table: adds, drops, renames, and casts columns.

Start with ``add``, ``drop``, and ``alter``. Most changes write no data; ``cast_files`` writes the data files of columns
whose type changes, and ``casts`` defines which types can be changed to which.
"""
