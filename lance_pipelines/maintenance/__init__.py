"""The rules of maintenance: policies, plans, commits and reports. No Dagster, no Spark.

Whether work is due: ``policy`` has the limits, ``health`` and ``old_versions`` the statistics, ``evaluate`` compares
them. The work: ``rewrite_…`` (compaction and materialization of deletions), ``delete_…`` and ``cleanup_…``, each with a
plan, the commit if there is one, and a report. ``staged_rewrite`` has the messages between the steps of a rewrite,
``plan_table`` is what a dry run prints, and ``content`` tells whether two versions have the same rows.
"""
