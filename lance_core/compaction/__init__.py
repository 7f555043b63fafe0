"""Compaction: fewer and larger fragments, without deleted rows, holding the same data.

Start with ``plan``: ``make_plan`` turns a version and ``options`` (checked by ``option_values``) into tasks;
``grouping`` decides which fragments are rewritten together, ``checks`` whether the table can be, ``figures`` has the
statistics. ``execution`` runs a task and writes its ``output_files``; its outcome is a ``result``. ``commit_rewrites``
commits results, and ``lost_groups`` handles those that no longer apply. ``rounds`` does all of it in one call;
``optimizer`` has the public classes.
"""
