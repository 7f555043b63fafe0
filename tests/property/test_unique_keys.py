"""Repeated keys equal those found by counting all keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_pipelines.checks.unique_keys import find_duplicates

KEYS = st.tuples(st.integers(0, 5) | st.none(), st.sampled_from(["", "a", "b", None]))


@settings(deadline=None, max_examples=40)
@given(st.lists(KEYS, max_size=40))
def test_duplicate_keys_equal_those_found_by_counting_all_keys(tmp_path_factory, rows) -> None:
    data = pa.table({"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string())})
    uri = str(tmp_path_factory.mktemp("t") / "t.lance")
    found = find_duplicates(lance_core.write_dataset(data, uri), ["a", "b"], max_bytes=64)
    complete = [row for row in rows if None not in row]
    assert found.rows_examined == len(complete)
    assert found.surplus_rows == len(complete) - len(set(complete))
