"""merge_insert: inserts, updates, and deletes rows by comparing the keys of a source with those of a table.

Modules, in the order in which a merge uses them::

    rules           what happens to rows that match, and to those that do not
    source          the rows of the source, which are kept so that they can be read again
    keys            hashes and comparison of key columns of any type
    join            finds the rows of the source that have the keys of some rows of the table
    matching        applies the join and the condition to the fragments of a version
    changes         the rows to insert, update, and delete
    new_rows        writes the inserted and updated rows
    key_filter      the filter of the inserted primary keys
    merge           the attempts, and the commit of their results
"""
