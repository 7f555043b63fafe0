"""The right side of a join: finding keys and taking the rows with these keys."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from lance_core.columns import joined_rows
from lance_core.columns.joined_rows import NO_ROW, JoinedRows
from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.join import key_index

RNG = np.random.default_rng(7)
WORDS = ["", "a", "aa", "b\0", "b", "\0b", "é", "z" * 1000, *(f"word {number}" for number in range(40))]
KEYS = {
    "int8": pa.array([-1, 0, None, 127, -128, 0], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None, 2**63, 0], pa.uint64()),
    "bool": pa.array([True, None, True, False]),
    "date": pa.array([1, None, -1], pa.date32()),
    "duration": pa.array([1, None, -1, 1], pa.duration("us")),
    "half": pa.array(np.array([1, 2, 1], np.float16)),
    "decimal": pa.array([1, -1, None, 10**30], pa.decimal128(38, 0)),
    "wide decimal": pa.array([1, -1, None, 10**30], pa.decimal256(60, 0)),
    "binary": pa.array([b"", b"\0", None, b"\0\0", b"\1", b""]),
    "fixed-size binary": pa.array([b"ab", b"ba", None, b"ab"], pa.binary(2)),
    "text": pa.array([*RNG.choice(WORDS, 500).tolist(), None]),
    "dictionary": pa.array(["x", None, "y", "x"]).dictionary_encode(),
}


def _rows(*parts: pa.Array) -> JoinedRows:
    """Return rows with the given keys."""
    schema = pa.schema([("k", parts[0].type), ("v", pa.null())])
    batches = [pa.record_batch([part, pa.nulls(len(part))], schema=schema) for part in parts]
    return JoinedRows(pa.RecordBatchReader.from_batches(schema, batches), "k")


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("num_parts", [1, 3])
def test_each_join_key_matches_the_last_row_with_that_key(kind: str, num_parts: int) -> None:
    keys = KEYS[kind]
    cuts = np.linspace(0, len(keys), num_parts + 1).astype(int).tolist()
    index = _rows(*(keys.slice(start, stop - start) for start, stop in pairwise(cuts)))
    values = keys.to_pylist()
    last = {value: row for row, value in enumerate(values)}
    assert index.find(keys).tolist() == [last[value] for value in values]
    # An array that does not start at the beginning of its buffers.
    assert index.find(keys.slice(1)).tolist() == [last[value] for value in values[1:]]


def test_join_keys_missing_from_all_rows_are_not_found() -> None:
    index = _rows(pa.array(["b", "d", "b"]))
    assert index.find(pa.array(["a", "b", "c", "d", "e", "", None])).tolist() == [NO_ROW, 2, NO_ROW, 1, *[NO_ROW] * 3]
    assert _rows(pa.array([], pa.string())).find(pa.array(["a", None])).tolist() == [NO_ROW, NO_ROW]
    assert _rows(pa.array([None], pa.int64())).find(pa.array([0, None])).tolist() == [NO_ROW, 0]


def test_different_keys_with_the_same_hash_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "hash_keys", lambda columns: np.zeros(len(columns[0]), np.uint64))
    index = _rows(pa.array(["same", "other", "second", "second", "same"]))
    assert index.find(pa.array(["second", "like", "same", "other"])).tolist() == [3, NO_ROW, 4, 1]


def test_many_rows_with_the_same_join_key_take_no_more_time_than_rows_with_distinct_keys() -> None:
    keys = pa.array(np.zeros(100_000, np.int64))
    assert set(_rows(keys).find(keys).tolist()) == {99_999}


def test_joined_rows_are_taken_from_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rows, "_PART_BYTES", 100)
    batches = [pa.record_batch({"k": [10 * at, 10 * at + 1], "v": [f"{at}" * 30, None]}) for at in range(5)]
    rows = JoinedRows(iter(batches), "k")
    found = rows.find(pa.array([41, 7, 0, 30, 0, 11, 20]))
    assert found.tolist() == [9, NO_ROW, 0, 6, 0, 3, 4]
    assert rows.take(found).to_pydict() == {"v": [None, None, "0" * 30, "3" * 30, "0" * 30, None, "2" * 30]}
    assert rows.take(np.zeros(0, np.int64)).to_pydict() == {"v": []}
    assert len(rows._loaded[1]) == 3


def test_joined_data_without_rows_yields_only_nulls() -> None:
    rows = JoinedRows(pa.table({"k": pa.array([], pa.int8()), "v": pa.array([], pa.string())}), "k")
    assert rows.take(rows.find(pa.array([1], pa.int8()))).to_pydict() == {"v": [None]}


def test_data_that_cannot_be_joined_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="cannot be joined on values of type list"):
        JoinedRows(pa.table({"k": [[1]], "v": [1]}), "k")
    with pytest.raises(NotSupportedError, match="cannot be joined on values of type null"):
        JoinedRows(pa.table({"k": [None], "v": [1]}), "k")
    with pytest.raises(InvalidInputError, match="no column besides 'k'"):
        JoinedRows(pa.table({"k": [1]}), "k")
    with pytest.raises(SchemaMismatchError, match="no column 'k' to join on"):
        JoinedRows(pa.table({"v": [1]}), "k")
    with pytest.raises(SchemaMismatchError, match="int64 in the table, int8 in the data"):
        JoinedRows(pa.table({"k": pa.array([1], pa.int8()), "v": [1]}), "k").check_keys("k", pa.int64())


def test_failure_to_read_data_to_be_joined_is_reported() -> None:
    def batches() -> object:
        yield pa.record_batch({"k": [1], "v": [1]})
        raise OSError("gone")

    rows = JoinedRows(pa.RecordBatchReader.from_batches(pa.schema({"k": pa.int64(), "v": pa.int64()}), batches()), "k")
    with pytest.raises(InvalidInputError, match="could not be read: gone"):
        rows.find(pa.array([1]))
