"""Scattered rows of single files: lance_core, pylance, and the input agree for every type and encoding."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.errors import InvalidInputError
from lance_core.file.lance_file import LanceFileReader
from lance_core.file.reader import FileReader
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore

reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

NUM_ROWS = 6_000
WORDS = ["alpha", "beta", "gamma", "", "a rather long word that is stored in a dictionary"]


def _integers(random: np.random.Generator) -> pa.Array:
    return pa.array(random.integers(0, 1000, NUM_ROWS))


def _random_words(random: np.random.Generator, length: int) -> pa.Array:
    return pa.array(["".join(map(chr, row)) for row in random.integers(97, 123, (NUM_ROWS, length)).tolist()])


def _lists(random: np.random.Generator, items: Callable[[int], pa.Array], most: int = 9) -> pa.Array:
    lengths = random.integers(0, most, NUM_ROWS)
    offsets = np.zeros(NUM_ROWS + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, items(int(offsets[-1])))


def _vectors(random: np.random.Generator, dimension: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(random.random(NUM_ROWS * dimension, np.float32), dimension)


COLUMNS: dict[str, Callable[[np.random.Generator], pa.Array]] = {
    "sequence": lambda _: pa.array(np.arange(NUM_ROWS)),
    "small": _integers,
    "runs": lambda random: pa.array(np.repeat(random.integers(0, 5, NUM_ROWS // 100), 100)),
    "int8": lambda random: pa.array(random.integers(0, 7, NUM_ROWS, np.int8)),
    "int16": lambda random: pa.array(random.integers(0, 300, NUM_ROWS, np.int16)),
    "uint32": lambda random: pa.array(random.integers(0, 1 << 32, NUM_ROWS, np.uint32)),
    "double": lambda random: pa.array(random.standard_normal(NUM_ROWS)),
    "rounded double": lambda random: pa.array(np.round(random.standard_normal(NUM_ROWS), 1)),
    "bool": lambda random: pa.array(random.random(NUM_ROWS) < 0.5),
    "decimal": lambda random: pa.array(
        [decimal.Decimal(number) for number in random.integers(0, 10**9, NUM_ROWS).tolist()], pa.decimal128(20, 2)
    ),
    "constant": lambda _: pa.array(["the same"] * NUM_ROWS),
    "all null": lambda _: pa.nulls(NUM_ROWS, pa.int32()),
    "null": lambda _: pa.nulls(NUM_ROWS),
    "words": lambda random: pa.array(WORDS).take(pa.array(random.integers(0, 5, NUM_ROWS))),
    "dictionary": lambda random: pa.array(WORDS).take(pa.array(random.integers(0, 5, NUM_ROWS))).dictionary_encode(),
    "strings": lambda random: _random_words(random, 12),
    "urls": lambda random: pc.binary_join_element_wise("https://example.com/", _random_words(random, 6), ""),
    "long strings": lambda random: pc.binary_repeat(_random_words(random, 6), 60),
    "binary": lambda random: _random_words(random, 30).cast(pa.large_binary()),
    "fixed binary": lambda random: _random_words(random, 7).cast(pa.binary()).cast(pa.binary(7)),
    "vectors": lambda random: _vectors(random, 3),
    "long vectors": lambda random: _vectors(random, 80),
    "lists": lambda random: _lists(random, lambda count: pa.array(random.integers(0, 1000, count, np.int32))),
    "lists of strings": lambda random: _lists(
        random, lambda count: pa.array(WORDS).take(pa.array(random.integers(0, 5, count)))
    ),
    "long lists": lambda random: _lists(random, lambda count: pa.array(random.integers(0, 1000, count)), 300),
    "lists of vectors": lambda random: _lists(
        random, lambda count: pa.FixedSizeListArray.from_arrays(random.random(count * 80, np.float32), 80), 3
    ),
    "lists of long strings": lambda random: _lists(
        random, lambda count: pc.binary_repeat(pa.array(WORDS[:2]), 60).take(pa.array(random.integers(0, 2, count))), 3
    ),
    "lists of lists": lambda random: _lists_of_lists(random),
    "structs": lambda random: pa.StructArray.from_arrays([_integers(random), _random_words(random, 5)], ["a", "b"]),
}


def _lists_of_lists(random: np.random.Generator) -> pa.Array:
    inner = _lists(random, lambda count: pa.array(random.integers(0, 9, count)))
    offsets = np.sort(random.integers(0, NUM_ROWS, NUM_ROWS - 1))
    return pa.ListArray.from_arrays(np.concatenate([[0], offsets, [NUM_ROWS]]).astype(np.int32), inner)


def _with_nulls(array: pa.Array, random: np.random.Generator) -> pa.Array:
    indices = pa.array(np.arange(len(array)), mask=random.random(len(array)) < 0.2)
    return array.take(indices)


def _table(name: str, *, nulls: bool) -> pa.Table:
    random = np.random.default_rng(len(name))
    array = COLUMNS[name](random)
    return pa.table({"c": _with_nulls(array, random) if nulls else array})


def _rows(random: np.random.Generator) -> list[np.ndarray]:
    few = np.sort(random.choice(NUM_ROWS, 40, replace=False))
    many = np.sort(random.choice(NUM_ROWS, NUM_ROWS // 3, replace=False))
    near = np.arange(2990, 3030)
    ends = np.array([0, 1, NUM_ROWS - 1])
    return [few, many, near, np.unique(np.concatenate([few, near, ends])), ends, np.array([777])]


def _plain(table: pa.Table) -> pa.Table:
    """Return decoded values, because the items of a dictionary depend on the pages that are read."""
    dtype = table.schema.field(0).type
    return table.cast(pa.schema([("c", dtype.value_type)])) if pa.types.is_dictionary(dtype) else table


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", [False, True], ids=["valid", "nulls"])
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.sampled(8)
def test_scattered_rows_taken_from_a_file_equal_those_taken_by_pylance(
    name: str, nulls: bool, version: str, tmp_path: Path
) -> None:
    table = _table(name, nulls=nulls)
    path = str(tmp_path / "f.lance")
    # The pages are small, so that the rows lie in many pages.
    with reference.LanceFileWriter(path, table.schema, version=version, data_cache_bytes=16 * 1024) as writer:
        for batch in table.to_batches(max_chunksize=1500):
            writer.write_batch(batch)
    ours, theirs = LanceFileReader(path), reference.LanceFileReader(path)
    # A store in memory provides only the requested ranges; a mapped file always provides everything.
    remote = MemoryStore()
    remote.put("f", Path(path).read_bytes())
    reader = FileReader.open(remote, "f")
    for rows in _rows(np.random.default_rng(1)):
        expected = _plain(table.take(pa.array(rows)).combine_chunks())
        found = ours.take_rows(rows.tolist()).to_table()
        found.validate(full=True)
        assert _plain(found).equals(expected)
        assert _plain(theirs.take_rows(rows.tolist()).to_table()).equals(expected)
        assert _plain(reader.take(reader.schema.fields, rows)).equals(expected)


@pytest.mark.parametrize("name", ["small", "strings", "lists", "structs", "long vectors", "lists of vectors"])
def test_file_reader_takes_rows_in_any_order_and_repeatedly(name: str, tmp_path: Path) -> None:
    table = _table(name, nulls=True)
    path = str(tmp_path / "f.lance")
    with reference.LanceFileWriter(path, table.schema) as writer:
        writer.write_batch(table)
    rows = np.random.default_rng(3).integers(0, NUM_ROWS, 500)
    reader = FileReader.open(LocalStore(), path)
    assert reader.take(reader.schema.fields, rows).combine_chunks().equals(table.take(pa.array(rows)).combine_chunks())


def test_public_file_readers_of_both_libraries_refuse_unsorted_repeated_or_missing_row_positions(
    tmp_path: Path,
) -> None:
    table = _table("small", nulls=False)
    path = str(tmp_path / "f.lance")
    with reference.LanceFileWriter(path, table.schema) as writer:
        writer.write_batch(table)
    for rows in ([5, 3], [3, 3, 5], [3, NUM_ROWS]):
        with pytest.raises(ValueError, match=r"."):
            reference.LanceFileReader(path).take_rows(rows).to_table()
        with pytest.raises(InvalidInputError):
            LanceFileReader(path).take_rows(rows).to_table()
    for reader in (LanceFileReader(path), reference.LanceFileReader(path)):
        assert reader.take_rows([]).to_table().equals(table.slice(0, 0))
