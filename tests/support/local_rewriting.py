"""Rewrite tasks executed in this process, as Spark's workers execute them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

import lance_core
from lance_core.optimize import CompactionTask
from lance_pipelines.maintenance.rewrite_commit import Rewritten


def rewrite_locally(
    uri: str,
    tasks: Sequence[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    stop_at: float | None = None,
) -> Rewritten:
    file_token = secrets.token_hex(8)
    dataset = lance_core.dataset(uri, storage_options=storage_options)
    results = [
        CompactionTask.from_json(task).execute(dataset, file_token=file_token).json()
        for number, task in enumerate(tasks)
        if number == 0 or stop_at is None or time.time() < stop_at
    ]
    return Rewritten(file_token=file_token, results=tuple(results))


def write_fragments(uri: str, count: int, rows: int = 10) -> lance_core.LanceDataset:
    """Write a dataset of so many fragments, with one version for each; ``id`` numbers the rows."""
    for number in range(count):
        table = pa.table({"id": pa.array(range(number * rows, (number + 1) * rows), pa.int64())})
        lance_core.write_dataset(table, uri, mode="append" if number else "create")
    return lance_core.dataset(uri)


def ids(uri: str, version: int | None = None) -> list[int]:
    return sorted(lance_core.dataset(uri, version=version).to_table(columns=["id"])["id"].to_pylist())
