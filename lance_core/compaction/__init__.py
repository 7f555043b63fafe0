"""Compaction: rewrites fragments into fewer, larger ones with the same data, without deleted rows.

The entry point is ``plan.make_plan``, which plans tasks for a version. ``options`` defines the options, and
``option_values`` checks their values. ``grouping`` decides which fragments are rewritten together, ``checks`` decides
whether the table can be rewritten, and ``plan_figures`` computes statistics. ``execution`` runs a task,
``output_files`` writes the new files, and ``result`` describes the outcome. ``commit_rewrites`` commits results, and
``lost_groups`` handles results that no longer apply. ``rounds`` performs all of these steps in one call, and
``optimizer`` contains the public classes.
"""
