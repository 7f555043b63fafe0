"""Rewriting fragments: Spark executes the tasks of a plan. No version is created here.

Plain functions without Dagster, so that a script or a test can rewrite as the op does.
"""

import secrets
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.spark.leftovers import discard_until_quiet
from lance_pipelines.spark.rewriter import execute_tasks

__all__ = ["rewrite_tasks"]


def rewrite_tasks(session: SparkSession, uri: str, tasks: Sequence[str]) -> Rewritten:
    """Write the new fragments of every task to the dataset's data directory.

    Args:
        session: a running Spark session.
        uri: the dataset.
        tasks: one ``CompactionTask.json()`` text each.

    Raises:
        LanceError: a fragment cannot be read, or a file cannot be written. Files written until then are deleted.
    """
    file_token = secrets.token_hex(8)
    try:
        results = execute_tasks(session, tasks, dataset_uri=uri, file_token=file_token)
    except BaseException as error:
        discard_until_quiet(uri, file_token, error)
        raise
    return Rewritten(file_token=file_token, results=results)
