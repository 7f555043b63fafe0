"""The rules of maintenance: policies, plans, commits, and reports, without Dagster or Spark.

To determine whether work is due, ``policy`` defines the limits, ``health`` and ``old_versions`` compute statistics, and
``evaluate`` compares them. The work is done by the modules ``rewrite_…`` (compaction and materialization of deletions),
``delete_…``, ``cleanup_…``, ``index_…``, and ``restore_…``. Each of these operations consists of a plan, a commit
(except for a cleanup), and a report. ``staged_rewrite`` defines the messages between the steps of a rewrite,
``plan_table`` prints the table of a dry run, and ``content`` tells whether two versions have the same rows.
"""
