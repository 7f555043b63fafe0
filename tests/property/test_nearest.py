"""Nearest-vector searches return the same rows as a comparison of all vectors in NumPy, and the same as pylance."""

from __future__ import annotations

import tempfile
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core

DIMENSION = 3
SPECIAL = {
    "l2": (np.nan, np.inf, -np.inf, -0.0, 1e-30, 1e30),
    "dot": (np.nan, np.inf, -np.inf, -0.0, 1e-30),
    "cosine": (np.nan, -0.0),
}
"""Values whose effect does not depend on the order in which numbers are added."""


@st.composite
def searches(draw: st.DrawFn) -> dict[str, Any]:
    """A table, deleted rows, and the arguments of a search.

    Cosines are rounded, so that which of two rows is nearer may be a matter of the last bit: all of them are returned.
    """
    element = draw(st.sampled_from(["float16", "float32", "float64", "uint8"]))
    metric = "hamming" if element == "uint8" else draw(st.sampled_from(["l2", "cosine", "dot"]))
    plain = st.integers(0, 255) if element == "uint8" else st.integers(-4, 4).map(float)
    values = plain if element == "uint8" else st.one_of(plain, plain, plain, st.sampled_from(SPECIAL[metric]))
    vector = st.lists(values, min_size=DIMENSION, max_size=DIMENSION)
    rows = draw(st.lists(st.none() | vector | vector | vector, min_size=1, max_size=40))
    num_queries = draw(st.sampled_from([None, None, 1, 2]))
    query = st.lists(plain, min_size=DIMENSION, max_size=DIMENSION)
    return {
        "element": element,
        "rows": rows,
        "per_file": draw(st.integers(3, 20)),
        "deleted": draw(st.integers(2, 12)),
        "query": draw(query if num_queries is None else st.lists(query, min_size=num_queries, max_size=num_queries)),
        "metric": metric,
        "k": draw(st.integers(1, 50)) if metric != "cosine" else 50,
        "filter": draw(st.sampled_from([None, "number % 3 != 1", "number < 0"])),
        "prefilter": draw(st.booleans()),
        "limit": draw(st.none() | st.integers(1, 5)) if metric != "cosine" else None,
        "offset": draw(st.none() | st.integers(0, 3)) if metric != "cosine" else None,
        "distance_range": draw(st.sampled_from([None, (1.0, None), (None, 20.0), (0.5, 9.0)]))
        if metric != "cosine"
        else None,
        "refine_factor": draw(st.sampled_from([None, 2])),
    }


def model_distances(metric: str, vectors: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the distances, computed directly from their definitions."""
    with np.errstate(all="ignore"):
        if metric == "hamming":
            return np.unpackbits(vectors ^ query, axis=1).sum(axis=1).astype(np.float32)
        if metric == "l2":
            return ((vectors - query) ** 2).sum(axis=1).astype(np.float32)
        products = (vectors * query).sum(axis=1)
        if metric == "dot":
            return (1 - products).astype(np.float32)
        return (1 - products / np.sqrt((vectors**2).sum(axis=1)) / np.sqrt((query**2).sum())).astype(np.float32)


def model(search: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return the query, number, and distance of each row in the result."""
    numbers = [
        number for number, row in enumerate(search["rows"]) if row is not None and number % search["deleted"] != 1
    ]
    chosen = [number for number in numbers if matches(search["filter"], number)]
    if search["prefilter"]:
        numbers = chosen
    compared = "uint8" if search["element"] == "uint8" else "float64" if search["element"] == "float64" else "float32"
    with np.errstate(all="ignore"):
        stored = [np.array(search["rows"][number]).astype(search["element"]).astype(compared) for number in numbers]
    vectors = np.array(stored, compared).reshape(len(stored), DIMENSION)
    lower, upper = search["distance_range"] or (None, None)
    found = []
    for index, query in enumerate(np.atleast_2d(np.array(search["query"], compared))):
        measured = model_distances(search["metric"], vectors, query)
        ranking = [
            (distance, number)
            for distance, number in zip(measured.tolist(), numbers, strict=True)
            if not np.isnan(distance) and (lower is None or distance >= lower) and (upper is None or distance < upper)
        ]
        found += [(index, number, distance) for distance, number in sorted(ranking)[: search["k"]]]
    if not search["prefilter"]:
        found = [each for each in found if each[1] in set(chosen)]
    start = search["offset"] or 0
    return found[start : None if search["limit"] is None else start + search["limit"]]


def matches(condition: str | None, number: int) -> bool:
    return condition is None or (condition == "number % 3 != 1" and number % 3 != 1)


def table_of(search: dict[str, Any], directory: str) -> str:
    rows = search["rows"]
    filled = [row or [0] * DIMENSION for row in rows]
    with np.errstate(all="ignore"):
        flat = pa.array(np.array(filled).astype(search["element"]).reshape(-1))
    mask = pa.array([row is None for row in rows])
    vectors = pa.FixedSizeListArray.from_arrays(flat, DIMENSION, mask=mask)
    path = f"{directory}/t"
    lance.write_dataset(
        pa.table({"number": range(len(rows)), "v": vectors}), path, max_rows_per_file=search["per_file"]
    )
    lance.dataset(path).delete(f"number % {search['deleted']} = 1")
    return path


def arguments_of(search: dict[str, Any]) -> dict[str, Any]:
    names = ("metric", "k", "distance_range", "refine_factor")
    nearest = {"column": "v", "q": search["query"], "use_index": False, **{name: search[name] for name in names}}
    options = {name: search[name] for name in ("filter", "prefilter", "limit", "offset")}
    return {"columns": ["number", "_distance"], "nearest": nearest, **options}


def shown(found: pa.Table) -> list[tuple[int, int, float]]:
    queries = found["query_index"].to_pylist() if "query_index" in found.column_names else [0] * len(found)
    return list(zip(queries, found["number"].to_pylist(), found["_distance"].to_pylist(), strict=True))


def assert_alike(ours: list[tuple[int, int, float]], expected: list[tuple[int, int, float]]) -> None:
    """Check that the rows are the same and ordered by distance, although distances may differ in the last bits."""
    by_row = {each[:2]: each[2] for each in expected}
    assert sorted(each[:2] for each in ours) == sorted(by_row)
    assert [each[2] for each in ours] == pytest.approx([each[2] for each in expected], rel=1e-4, abs=1e-5)
    assert [each[2] for each in ours] == pytest.approx([by_row[each[:2]] for each in ours], rel=1e-4, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(searches())
def test_nearest_search_finds_the_same_rows_as_a_comparison_of_all_vectors(search: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        ours = shown(lance_core.dataset(table_of(search, directory)).to_table(**arguments_of(search)))
        assert_alike(ours, model(search))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(searches())
def test_nearest_search_finds_the_same_rows_as_pylance(search: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = table_of(search, directory)
        ours = shown(lance_core.dataset(path).to_table(**arguments_of(search)))
        theirs = shown(lance.dataset(path).to_table(**arguments_of(search)))
        assert_alike(ours, theirs)
