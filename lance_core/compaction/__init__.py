"""Compaction: fewer and larger fragments with the same data, without deleted rows.

Start with ``plan``: ``make_plan`` converts a version and ``options`` (checked by ``option_values``) to tasks;
``grouping`` decides which fragments are rewritten together, ``checks`` whether the table can be rewritten, and
``figures`` has the statistics. ``execution`` runs a task and writes its ``output_files``; the outcome is a ``result``.
``commit_rewrites`` commits results, and ``lost_groups`` handles those that no longer apply. ``rounds`` performs all of
these steps in one call; ``optimizer`` has the public classes.
"""
