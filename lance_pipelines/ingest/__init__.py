"""The rules of an ingest, from the declaration of a dataset to the committed version, without Spark or Dagster.

``declaration`` is what a project declares; ``partition_rows`` determines which rows belong to partitions.
``write_plan`` examines the dataset before the write, ``schema_changes`` adds new columns, ``staged_write`` describes
what Spark wrote, ``verify`` checks it, ``write_commit`` commits it exactly once, and ``write_report`` reports the new
version.
"""
