"""Rows with a column for each kind of index, and searches whose results pylance must find with and without indices."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType

DIMENSION = 8
DECLARED = (
    IndexDeclaration(column="id", type=IndexType.BTREE),
    IndexDeclaration(column="kind", type=IndexType.BITMAP),
    IndexDeclaration(column="text", type=IndexType.INVERTED, parameters={"with_position": True}),
    IndexDeclaration(column="vector", type=IndexType.IVF_FLAT, parameters={"num_partitions": 2}),
)


def rows(start: int, stop: int) -> pa.Table:
    """Rows with the ids from ``start`` to ``stop``; the vector of row ``i`` is ``i`` in all dimensions."""
    numbers = np.arange(start, stop)
    vectors = np.repeat(numbers.astype(np.float32), DIMENSION)
    return pa.table(
        {
            "id": pa.array(numbers),
            "kind": pa.array(numbers % 7),
            "text": pa.array([f"word{number} common" for number in numbers]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
        }
    )


SEARCHES = ("btree", "bitmap", "text", "vector")


def search(uri: str, kind: str, number: int) -> list[int]:
    """The ids that pylance finds for the row with this id; searches for text need an index."""
    dataset = lance.dataset(uri)
    nearest = {"column": "vector", "q": [float(number)] * DIMENSION, "k": 1, "nprobes": 2}
    arguments = {
        "btree": {"columns": ["id"], "filter": f"id = {number}"},
        "bitmap": {"columns": ["id"], "filter": f"kind = {number % 7} AND id = {number}"},
        "text": {"columns": ["id", "_score"], "full_text_query": f"word{number}"},
        "vector": {"columns": ["id", "_distance"], "nearest": nearest},
    }
    found: list[int] = dataset.to_table(**arguments[kind])["id"].to_pylist()
    return found


def check_searches(uri: str, *present: int, absent: tuple[int, ...] = (), kinds: tuple[str, ...] = SEARCHES) -> None:
    """Check that each kind of search finds the rows that are present, and none of the absent ones."""
    for kind in kinds:
        for number in present:
            assert search(uri, kind, number) == [number], (kind, number)
        for number in absent:
            assert number not in search(uri, kind, number), (kind, number)
    lance.dataset(uri).validate()
