"""Finds everything that is wrong with a table: tasks examine the files of its fragments, and all values on request.

The driver parses the manifests of all versions, and compares tags, branches, and indices with what exists.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lance_core.metadata import open_version_log
from lance_core.repair import Fault, find_faults, find_fragment_faults
from lance_pipelines.spark.tasks import default_parallelism, run_tasks
from lance_pipelines.spark.verbs.table_change import execute_on, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    import lance_core

__all__ = ["verify"]


def verify(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    *,
    reads_pages: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> list[Fault]:
    """Return everything that is wrong with a table; an empty list if nothing is. Changes nothing.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. If a handle is given, the files of its version are examined.
        reads_pages: whether all values of the version are read, too.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        DatasetNotFoundError: the table does not exist.
        LanceError: the latest version cannot be read at all.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    log = open_version_log(dataset.uri, dataset.storage_options)
    faults = list(find_faults(log, dataset.version, storage_options=dataset.storage_options, examines_fragments=False))
    ids = [fragment.id for fragment in dataset.manifest.fragments]
    num_tasks = min(len(ids), 4 * default_parallelism(session))
    tasks = [frozenset(ids[part::num_tasks]) for part in range(num_tasks)]
    examine = partial(execute_on, partial(_examine, reads_pages), dataset.uri, dataset.version, dataset.storage_options)
    done = run_tasks(session, examine, tasks, f"cannot verify {dataset.uri}")
    return faults + [fault for found in done.results for fault in found]


def _examine(reads_pages: bool, dataset: lance_core.LanceDataset, fragment_ids: frozenset[int]) -> list[Fault]:
    return find_fragment_faults(dataset, fragment_ids, reads_pages=reads_pages)
