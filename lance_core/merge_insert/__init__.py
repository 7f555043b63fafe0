"""merge_insert: inserts, updates, and deletes rows by comparing the keys of a source with those of a table.

Modules, in the order in which a merge uses them::

    rules           what happens to rows that match, and to those that do not
    key_types       converts the keys of a source whose other columns are not needed
    source          the rows of the source, which are kept so that they can be read again
    matching        joins the source with the fragments of a version (``lance_core.join``), and applies the condition
    changes         the rows to insert, update, and delete; rejects several source rows with the key of one table row
    new_rows        writes the inserted and updated rows
    changed_columns updates columns in place instead, if rows keep their addresses
    key_filter      the filter of the inserted primary keys, whose hashes ``xxhash64`` computes
    merge           the attempts, and the commit of their results
    merge_plan      describes a merge as text, without executing it
    staged_rows     merges rows that are already written as fragments

A merge by several processes uses these modules, and two others::

    staged_source   the rows of the source, in fragments that no version refers to
    merge_tasks     the tasks that match and write, and the commit of their results
"""
