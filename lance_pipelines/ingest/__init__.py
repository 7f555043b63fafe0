"""The rules of an ingest, from the declaration of a dataset to the committed version. No Spark, no Dagster.

``declaration`` is what a project declares. ``write_plan`` examines the dataset before the write, ``staged_write``
describes what Spark wrote, ``verify`` checks it, ``write_commit`` commits it once, and ``write_report`` reports the new
version.
"""
