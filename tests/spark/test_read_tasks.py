"""How the rows of a version are divided into tasks."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_core
from lance_pipelines.spark.read_tasks import plan_tasks


@pytest.mark.parametrize(("parallelism", "num_tasks"), [(1, 1), (2, 2), (3, 3), (100, 4)])
def test_a_read_is_divided_among_all_processors_unless_the_parts_are_small(
    uri: str, parallelism: int, num_tasks: int
) -> None:
    values = pa.table({"x": pa.array(range(0, 1_000_000_000, 1000), pa.int64())})
    dataset = lance_core.write_dataset(values, uri)
    fragments = dataset.manifest.fragments
    num_bytes = sum(size or 0 for fragment in fragments for size in fragment.data_file_bytes)
    tasks = plan_tasks(fragments, share=15 * 1024**2 / num_bytes, parallelism=parallelism)
    assert len(tasks) == num_tasks
    ranges = [task.rows or (0, 1_000_000) for task in tasks]
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == 1_000_000


def test_fragments_of_equal_size_are_divided_into_no_more_tasks_than_processors(uri: str) -> None:
    values = pa.table({"x": pa.array(range(1_000_000), pa.int64())})
    fragments = lance_core.write_dataset(values, uri, max_rows_per_file=200_000).manifest.fragments
    tasks = plan_tasks(fragments, share=10_000, parallelism=2, task_bytes=1 << 40)
    assert [task.fragment_ids for task in tasks] == [(0, 1, 2), (3, 4)]
