"""Files in formats 2.1 and 2.2, written by lance_core and read by pylance 14.0.2: every encoding, option, and size.

Full scans, takes, and ranges are compared with the input, because pylance misreads some files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.registry import describe
from lance_core.errors import InvalidInputError, NotSupportedError, UnsupportedVersionError
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from lance_core.file.reader import FileReader
from lance_core.io.local_store import LocalStore

reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

VERSIONS = ["2.1", "2.2"]
every_version = pytest.mark.parametrize("version", VERSIONS)
RNG = np.random.default_rng(5)


def _write(
    writer: Any, path: Path, table: pa.Table, version: str, batch_rows: int | None = None, **options: Any
) -> int:
    with writer(str(path), table.schema, version=version, **options) as out:
        for batch in table.to_batches(max_chunksize=batch_rows):
            out.write_batch(batch)
    return path.stat().st_size


def _column(array: pa.Array, metadata: dict[str, str] | None = None) -> pa.Table:
    metadata = {f"lance-encoding:{key}": value for key, value in (metadata or {}).items()}
    return pa.table([array], pa.schema([pa.field("c", array.type, metadata=metadata)]))


def _assert_both_read(path: Path, table: pa.Table) -> None:
    expected = table["c"].to_pylist()
    rows = sorted({0, len(expected) - 1, *RNG.integers(0, len(expected), 40).tolist()})
    start = len(expected) // 3
    for reader in (LanceFileReader(str(path)), reference.LanceFileReader(str(path))):
        assert reader.read_all().to_table()["c"].to_pylist() == expected
        assert reader.take_rows(rows).to_table()["c"].to_pylist() == [expected[row] for row in rows]
        got = reader.read_range(start, len(expected) - start).to_table()["c"].to_pylist()
        assert got == expected[start:]


def _null_some(array: pa.Array, share: float = 0.2) -> pa.Array:
    mask = RNG.random(len(array)) < share
    return pa.array(
        [None if hidden else value for value, hidden in zip(array.to_pylist(), mask, strict=True)], array.type
    )


def _strings(num_rows: int, length: int = 12) -> pa.Array:
    return pa.array([f"{RNG.integers(0, 10**9):0{length}d} and more" for _ in range(num_rows)])


def _columns() -> dict[str, tuple[pa.Array, dict[str, str]]]:
    num_rows = 3000
    words = {bits: RNG.integers(0, 1 << (bits - 3), num_rows).astype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
    floats = RNG.normal(size=num_rows).astype(np.float32)
    wide = pa.array([RNG.bytes(16) for _ in range(40)], pa.binary(16)).take(pa.array(RNG.integers(0, 40, num_rows)))
    rows = {
        "n": pa.array(words[32]),
        "x": pa.array(floats),
    }
    fixed = pa.StructArray.from_arrays([rows["n"], rows["x"], pa.array(words[8])], ["n", "x", "b"])
    strings = _strings(num_rows)
    longs = pa.array([str(value) * 40 for value in RNG.integers(0, 10**9, 300)])
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(0, np.cumsum(RNG.integers(0, 6, 800))).astype(np.int32)), pa.array(np.arange(5000) % 97)
    )
    return {
        **{f"packed_{bits}": (pa.array(values), {}) for bits, values in words.items()},
        "runs": (pa.array(np.repeat(RNG.integers(0, 1 << 50, 30), 100)), {}),
        "runs_refused": (pa.array(np.repeat(RNG.integers(0, 1 << 50, 30), 100)), {"rle-threshold": "0"}),
        "runs_beyond_255": (pa.array(np.repeat([1.5, 2.5], 5000)), {}),
        "nulls": (_null_some(pa.array(words[64])), {}),
        "few_words": (pa.array(RNG.choice(RNG.integers(-(1 << 60), 1 << 60, 9), num_rows)), {}),
        "few_decimal": (wide, {}),
        "few_strings": (_strings(20).take(pa.array(RNG.integers(0, 20, num_rows))), {}),
        "few_strings_zstd": (
            _strings(20).take(pa.array(RNG.integers(0, 20, num_rows))),
            {"dict-values-compression": "zstd", "dict-values-compression-level": "5"},
        ),
        "few_strings_plain": (
            _strings(20).take(pa.array(RNG.integers(0, 20, num_rows))),
            {"dict-values-compression": "none", "compression": "none"},
        ),
        "split_zstd": (pa.array(np.sort(floats)), {"compression": "zstd", "bss": "on"}),
        "split_lz4": (pa.array(np.sort(floats.astype(np.float64))), {"compression": "lz4", "bss": "on"}),
        "words_zstd": (pa.array(np.sort(words[64])), {"compression": "zstd", "compression-level": "7", "bss": "off"}),
        "words_none": (pa.array(words[32]), {"compression": "none"}),
        "strings": (strings, {}),
        "strings_nulls": (_null_some(strings), {}),
        "strings_none": (strings, {"compression": "none"}),
        "strings_fsst": (_null_some(strings), {"compression": "fsst"}),
        "strings_lz4": (strings, {"compression": "lz4"}),
        "large_strings": (strings.cast(pa.large_string()), {}),
        "strings_small_chunks": (strings, {"minichunk-size": "512"}),
        "words_small_chunks": (pa.array(RNG.normal(size=num_rows)), {"minichunk-size": "256"}),
        "long": (longs, {}),
        "long_zipped": (_null_some(longs), {"structural-encoding": "fullzip"}),
        "long_fsst": (_null_some(longs), {"compression": "fsst", "structural-encoding": "fullzip"}),
        "long_none": (longs, {"compression": "none"}),
        "words_zipped": (_null_some(pa.array(words[16])), {"structural-encoding": "fullzip"}),
        "bools_zipped": (pa.array(RNG.random(500) < 0.5), {"structural-encoding": "fullzip"}),
        "lists": (lists, {}),
        "lists_nulls": (_null_some(lists), {}),
        "lists_zipped": (_null_some(lists), {"structural-encoding": "fullzip"}),
        "vectors": (pa.FixedSizeListArray.from_arrays(pa.array(floats), 3), {}),
        "vectors_nulls": (_null_some(pa.FixedSizeListArray.from_arrays(_null_some(pa.array(floats)), 3)), {}),
        "vectors_zstd": (pa.FixedSizeListArray.from_arrays(pa.array(np.sort(floats)), 3), {"compression": "zstd"}),
        "vectors_chunked": (
            pa.FixedSizeListArray.from_arrays(pa.array(floats), 3),
            {"structural-encoding": "miniblock"},
        ),
        "vectors_all_null": (pa.array([[None] * 3, [None] * 3, None], pa.list_(pa.int32(), 3)), {}),
        "vectors_nested": (
            pa.FixedSizeListArray.from_arrays(
                _null_some(pa.FixedSizeListArray.from_arrays(_null_some(pa.array(words[8])), 2)), 5
            ),
            {},
        ),
        "vectors_wide_nulls": (_null_some(pa.FixedSizeListArray.from_arrays(_null_some(pa.array(floats)), 100)), {}),
        "bits": (_null_some(pa.FixedSizeListArray.from_arrays(pa.array(floats > 0), 6)), {}),
        "packed_rows": (fixed, {"packed": "true"}),
        "packed_rows_nulls": (_nulled_rows(fixed), {"packed": "true"}),
    }


def _nulled_rows(rows: pa.StructArray) -> pa.StructArray:
    members = [rows.field(index) for index in range(rows.type.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(rows.type), mask=pa.array(RNG.random(len(rows)) < 0.2))


COLUMNS = _columns()


@every_version
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.sampled(20)
def test_pylance_reads_every_encoding_that_lance_core_writes(tmp_path: Path, name: str, version: str) -> None:
    array, metadata = COLUMNS[name]
    table = _column(array, metadata)
    _write(LanceFileWriter, tmp_path / "one.lance", table, version)
    _assert_both_read(tmp_path / "one.lance", table)
    _write(LanceFileWriter, tmp_path / "many.lance", table, version, batch_rows=211, data_cache_bytes=1)
    _assert_both_read(tmp_path / "many.lance", table)


def _describe(path: Path) -> str:
    """Return the encodings of all pages of the first column."""
    reader = FileReader.open(LocalStore(), str(path))
    (column,) = reader.metadata.columns([0])
    encodings = []
    for page in column.pages:
        arm = page.layout.WhichOneof("layout")
        layout = getattr(page.layout, arm)
        if arm != "constant":
            encodings.append(describe(layout.value_compression))
        if arm == "mini_block" and layout.HasField("dictionary"):
            encodings.append(f"dictionary {describe(layout.dictionary)}")
    return "\n".join(encodings)


@every_version
def test_field_metadata_selects_the_encoding(tmp_path: Path, version: str) -> None:
    """Each column above is named after the encoding that it requests."""
    expected = {
        "packed_32": "inline_bitpacking[32]",
        "runs": "rle(",
        "split_zstd": "general[zstd](byte_stream_split(flat[32]))",
        "split_lz4": "general[lz4](byte_stream_split(flat[64]))",
        "words_none": "flat[32]",
        "strings": "general[zstd](variable(",
        "strings_none": "variable(",
        "strings_fsst": "fsst(variable(",
        "strings_lz4": "general[lz4](variable(",
        "long_zipped": "general[zstd](variable(",
        "long_fsst": "fsst(variable(",
        "few_decimal": "dictionary",
        "vectors_zstd": "general[zstd](fixed_size_list[3](flat[32]))",
        "packed_rows": "packed_struct[32, 32, 8](flat[72])",
    }
    if version == "2.2":
        expected["few_words"] = "dictionary"
    for name, words in expected.items():
        array, metadata = COLUMNS[name]
        _write(LanceFileWriter, tmp_path / "f.lance", _column(array, metadata), version)
        assert words in _describe(tmp_path / "f.lance"), name


def _benchmark_columns(num_rows: int) -> dict[str, pa.Array]:
    """Return the columns of ``benchmarks/bench_file.py``, with fewer rows."""
    random = np.random.default_rng(11)
    words = np.array([f"word{index}" for index in random.integers(0, 10**6, 3000)])
    texts = [" ".join(random.choice(words, 40))[:200] for _ in range(num_rows // 5)]
    names = pa.array([f"category {index}" for index in range(50)])
    offsets = np.append(0, np.cumsum(random.integers(0, 8, num_rows))).astype(np.int32)
    small = random.integers(0, 1000, num_rows)
    return {
        "sequence": pa.array(np.arange(num_rows)),
        "small": pa.array(small),
        "small_nulls": pa.array(small, mask=random.random(num_rows) < 0.1),
        "random": pa.array(random.integers(-(1 << 31), 1 << 31, num_rows, np.int32)),
        "floats": pa.array(random.standard_normal(num_rows)),
        "uniform": pa.array(random.random(num_rows)),
        "bools": pa.array(random.random(num_rows) < 0.5),
        "strings": pa.array([f"user-{i:08d}-{x:06x}" for i, x in enumerate(random.integers(0, 1 << 24, num_rows))]),
        "names": names.take(pa.array(random.integers(0, 50, num_rows))),
        "strings_nulls": _null_some(pa.array([f"name {value}" for value in random.integers(0, 10**9, num_rows)])),
        "texts": pa.array(texts),
        "times": pa.array(
            1_700_000_000_000_000 + np.cumsum(random.integers(0, 2_000_000, num_rows)), pa.timestamp("us")
        ),
        "vectors": pa.FixedSizeListArray.from_arrays(pa.array(random.random(num_rows * 16, np.float32)), 128),
        "lists": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(random.integers(0, 100_000, offsets[-1]).astype(np.int32))
        ),
        "structs": pa.StructArray.from_arrays(
            [pa.array(small), pa.array(random.standard_normal(num_rows)), names.take(pa.array(small % 50))],
            ["a", "b", "c"],
        ),
        "binaries": pa.array([random.bytes(10_000) for _ in range(100)], pa.binary()),
        "empty_lists": pa.array([[1], [], [], []] * (num_rows // 4)),
        "runs": pa.array(np.repeat(random.integers(0, 1 << 50, num_rows // 100), 100)),
        "dates": pa.array(np.sort(random.integers(0, 20_000, num_rows)).astype(np.int32), pa.date32()),
        "decimals": pa.array(small).cast(pa.decimal128(22, 2)),
    }


@every_version
def test_total_size_of_files_is_at_most_that_of_pylance(tmp_path: Path, version: str) -> None:
    totals = np.zeros(2)
    for name, array in _benchmark_columns(40_000).items():
        table = _column(array)
        ours = _write(LanceFileWriter, tmp_path / "ours.lance", table, version)
        theirs = _write(reference.LanceFileWriter, tmp_path / "theirs.lance", table, version)
        assert ours <= 1.05 * theirs, f"{name}: {ours} bytes, pylance {theirs}"
        totals += ours, theirs
    assert totals[0] <= totals[1]


@pytest.mark.slow
def test_the_bytes_of_a_file_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    columns = _benchmark_columns(100_000)
    table = pa.table({name: columns[name] for name in ("sequence", "strings", "lists", "structs", "names")})
    written = []
    for _ in range(2):
        _write(LanceFileWriter, tmp_path / "f.lance", table, "2.2", batch_rows=30_000, data_cache_bytes=5 << 20)
        written.append((tmp_path / "f.lance").read_bytes())
    assert written[0] == written[1]
    with LanceFileWriter(str(tmp_path / "g.lance"), table.schema, data_cache_bytes=5 << 20) as writer:
        queue = writer._writer._queue  # type: ignore[union-attr]  # no public switch for one thread
        queue._num_threads = 1
        for batch in table.to_batches(max_chunksize=30_000):
            writer.write_batch(batch)
    assert (tmp_path / "g.lance").read_bytes() == written[0]


PACKED = {"lance-encoding:packed": "true"}
POINT = pa.struct([("x", pa.int32())])


@pytest.mark.parametrize(
    ("dtype", "metadata", "version", "message"),
    [
        (pa.map_(pa.string(), pa.int32()), {}, "2.1", "2.2"),
        (pa.list_(POINT, 2), {}, "2.1", "2.2"),
        (pa.struct([("s", pa.string()), ("x", pa.int32())]), PACKED, "2.1", "2.2"),
        (pa.struct([("b", pa.binary(300))]), PACKED, "2.1", "expected 1 to 255 bytes"),
        (pa.struct([("b", pa.binary(300))]), PACKED, "2.2", "expected 1 to 255 bytes"),
        (pa.struct([("s", pa.string()), ("b", pa.bool_())]), PACKED, "2.2", "cannot be stored in a packed struct"),
        (pa.struct([("l", pa.list_(pa.int8()))]), PACKED, "2.2", "cannot be stored in a packed struct"),
        (pa.struct([("a", pa.int32()), ("f", pa.list_(POINT, 2))]), {}, "2.2", "only member"),
        (pa.list_(pa.list_(POINT, 2)), {}, "2.2", "cannot be nested in a list"),
        (
            pa.list_(pa.struct([("l", pa.list_(pa.int8()))]), 2),
            {},
            "2.2",
            "cannot be nested in a list, and cannot contain lists or maps",
        ),
        (pa.list_(pa.struct([])), {}, "2.2", "without fields"),
        (pa.string(), {"lance-encoding:compression": "gzip"}, "2.2", "expected one of none, zstd"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_read_back_are_refused_before_a_byte_is_written(
    tmp_path: Path, dtype: pa.DataType, metadata: dict[str, str], version: str, message: str
) -> None:
    schema = pa.schema([pa.field("c", dtype, metadata=metadata)])
    with pytest.raises((NotSupportedError, UnsupportedVersionError, InvalidInputError), match=message):
        LanceFileWriter(str(tmp_path / "f.lance"), schema, version=version)
    assert list(tmp_path.iterdir()) == []


def test_nulls_in_packed_struct_members_are_refused(tmp_path: Path) -> None:
    table = _column(pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.int32())])), {"packed": "true"})
    with pytest.raises(NotSupportedError, match="'a' has a null"):
        _write(LanceFileWriter, tmp_path / "f.lance", table, "2.2")
    assert list(tmp_path.iterdir()) == []


def test_packed_structs_with_strings_are_read_by_lance_core_and_pylance(tmp_path: Path) -> None:
    rows = pa.StructArray.from_arrays(
        [
            pa.array(range(50), pa.int16()),
            _strings(50),
            pa.array([b"x" * size for size in range(50)], pa.large_binary()),
        ],
        ["n", "s", "b"],
    )
    for array in (rows, _nulled_rows(rows), rows[7:30]):
        _write(LanceFileWriter, tmp_path / "f.lance", _column(array, {"packed": "true"}), "2.2")
        _assert_both_read(tmp_path / "f.lance", _column(array))


def test_structs_with_lists_whose_pages_differ_in_nulls_are_read_by_both_libraries(tmp_path: Path) -> None:
    """pylance reads such a column only if every page declares the layers nullable."""
    dtype = pa.struct([("a", pa.list_(pa.int32())), ("b", pa.struct([("c", pa.list_(pa.string()))]))])
    full: dict[str, Any] = {"a": [1, 2], "b": {"c": ["x"]}}
    pages = [
        [full] * 6,
        [full, None, full],
        [{"a": None, "b": None}, {"a": [], "b": {"c": None}}],
        [{"a": [None], "b": {"c": [None, "y"]}}, {"a": [], "b": {"c": []}}],
        [None, None],
    ]
    for order in (pages, pages[::-1], pages[1:4], pages[:2]):
        table = pa.concat_tables([_column(pa.array(rows, dtype)) for rows in order])
        for version in VERSIONS:
            _write(LanceFileWriter, tmp_path / "f.lance", table, version, data_cache_bytes=1)
            _assert_both_read(tmp_path / "f.lance", table)
