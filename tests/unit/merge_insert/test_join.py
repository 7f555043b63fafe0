"""Keys of every type are compared by value, whatever the memory limit is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.commit.replanning import RetryPolicy
from lance_core.join.key_index import KeyIndex
from lance_core.join.keys import byte_ranges, complete_keys, equal_keys, hash_keys
from lance_core.merge_insert.merge import MergeRequest, merge_rows
from lance_core.merge_insert.rules import MergeRules, WhenMatched
from lance_core.merge_insert.source import SourceRows
from lance_core.merge_insert.xxhash64 import xxhash64
from lance_core.write.request import WriteRequest

POINT = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
KEYS: dict[str, pa.Array] = {
    "int8": pa.array([1, -1, 0], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    "bool": pa.array([True, False]),
    "double": pa.array([0.0, -0.0, float("nan"), 1.5]),
    "half": pa.array(np.array([0.5, 1.5], np.float16)),
    "decimal": pa.array([1, 2, 3]).cast(pa.decimal128(38, 2)),
    "timestamp": pa.array([1, 2], pa.timestamp("us", "UTC")),
    "string": pa.array(["", "a", "b", "ab", "a\0", "12345678", "123456789", "x" * 100, "x" * 99 + "y"]),
    "large binary": pa.array([b"", b"a", b"\0"], pa.large_binary()),
    "fixed binary": pa.array([b"abc", b"abd"], pa.binary(3)),
    "struct": pa.array([{"x": 1, "y": ["a", None]}, {"x": 1, "y": ["a"]}, {"x": None, "y": None}], POINT),
    "list": pa.array([[1, 2], [2, 1], [], [1], [12]], pa.list_(pa.int64())),
    "fixed-size list": pa.array([[1.0, 2.0], [2.0, 1.0]], pa.list_(pa.float32(), 2)),
    "map": pa.array([[("a", 1)], [("a", 2)], []], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("kind", KEYS)
def test_merge_key_matches_only_equal_keys(kind: str) -> None:
    keys = KEYS[kind]
    # Slices start inside their buffers.
    padded = pa.concat_arrays([keys.slice(0, 1), keys, pa.nulls(1, keys.type)]).slice(1)
    assert complete_keys([padded]).tolist() == [True] * len(keys) + [False]
    pairs = [pair for found in KeyIndex([keys], first_row=10).find([padded]) for pair in zip(*found, strict=True)]
    assert sorted(pairs) == [(10 + row, row) for row in range(len(keys))]
    shifted = padded.take(pa.array((np.arange(len(keys)) + 1) % len(keys)))
    assert not equal_keys([keys], [shifted]).any()
    assert len(np.unique(hash_keys([keys]))) == len(keys)


def test_merge_keys_in_dictionaries_are_compared_by_value() -> None:
    ours = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["b", "a"]))
    theirs = pa.array(["a", "b", None])
    pairs = [pair for found in KeyIndex([ours]).find([theirs]) for pair in zip(*found, strict=True)]
    assert sorted(pairs) == [(0, 1), (1, 0)]


def test_order_of_merge_key_columns_is_significant() -> None:
    one, other = pa.array([1, 2]), pa.array([2, 1])
    assert hash_keys([one, other]).tolist() != hash_keys([other, one]).tolist()
    assert list(KeyIndex([one, one]).find([one, other])) == [] or all(
        not len(rows) for rows, _ in KeyIndex([one, one]).find([one, other])
    )


def test_repeated_source_keys_are_all_found() -> None:
    source = pa.array([7] * 1000)
    found = list(KeyIndex([source]).find([pa.array([7, 8, 7])]))
    assert sum(len(rows) for rows, _ in found) == 2000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxhash64_has_the_published_values(text: bytes, expected: int) -> None:
    values = pa.array([b"other", text, b"x" * 70])
    assert int(xxhash64(*byte_ranges(values))[1]) == expected


def _rows(keys: Any, add: int = 0) -> pa.Table:
    keys = np.asarray(keys, np.int64)
    return pa.table({"a": keys, "b": [f"v{key + add}" for key in keys.tolist()], "c": keys + add})


@pytest.mark.parametrize("columns", [["a", "b", "c"], ["a", "b"]])
@pytest.mark.parametrize("memory_bytes", [0, 1_500_000, 1 << 28])
def test_merge_with_a_low_memory_limit_has_the_same_result(
    tmp_path: Path, memory_bytes: int, columns: list[str]
) -> None:
    rng = np.random.default_rng(0)
    table = lance_core.write_dataset(_rows(np.arange(30_000)), tmp_path, max_rows_per_file=7_000)
    keys = rng.permutation(200_000)
    source = _rows(keys, add=5).select(columns)
    rules = MergeRules(
        keys=("a",), when_matched=WhenMatched.UPDATE, condition="source.b != 'v12' and target.a >= 10", inserts=True
    )
    request = MergeRequest(rules=rules, write=WriteRequest.of(mode="append"), memory_bytes=memory_bytes)
    merged = merge_rows(table.view, request, source.to_reader(max_chunksize=10_000), RetryPolicy())
    # Key 7 would get the value v12, and is also below 10.
    assert (merged.changes.num_updated, merged.changes.num_inserted) == (29_990, 170_000)
    found = lance_core.dataset(tmp_path).to_table().sort_by("a")
    numbers = np.arange(200_000)
    assert found["a"].to_pylist() == numbers.tolist()
    assert found["b"].to_pylist() == [f"v{number + 5 if number >= 10 else number}" for number in numbers.tolist()]
    if "c" not in columns:
        assert found["c"].to_pylist() == [number if number < 30_000 else None for number in numbers.tolist()]


def test_spilled_source_is_read_in_any_order_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dictionaries = [pa.array(list(text)).dictionary_encode() for text in ("abc", "xyz")]
    batches = [
        pa.record_batch({"a": pa.array(range(start, start + 70_000)), "d": pa.concat_arrays([each] * 23_334)[:70_000]})
        for start, each in zip((0, 70_000), dictionaries, strict=True)
    ]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    with SourceRows(reader, memory_bytes=batches[0].nbytes + 10) as source:
        assert source.is_spilled
        assert len(list(tmp_path.iterdir())) == 1
        taken = source.take(np.array([139_999, 0, 70_000, 69_999, 0]))
        assert taken["a"].to_pylist() == [139_999, 0, 70_000, 69_999, 0]
        assert taken["d"].to_pylist() == ["x", "a", "x", "a", "a"]
        assert [(start, batch.num_rows) for start, batch in source.batches()] == [(0, 70_000), (70_000, 70_000)]
    assert list(tmp_path.iterdir()) == []
