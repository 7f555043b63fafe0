"""Files with repeated values are at most 5% larger than those of pylance, and are read back unchanged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader as ReferenceReader
from lance.file import LanceFileWriter as ReferenceWriter

from lance_core.errors import InvalidInputError
from lance_core.file.lance_file import LanceFileWriter

NUM_ROWS = 20_000
MOST = 1.05
PREFIX = "lance-encoding:"


def _columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(0)
    n = NUM_ROWS
    few = np.repeat(rng.integers(0, 1000, n // 10), 10)
    return {
        "runs of 10": pa.array(few),
        "runs of 10, nulls": pa.array(few, mask=np.repeat(rng.random(n // 10) < 0.1, 10)),
        "runs of 2": pa.array(np.repeat(rng.integers(0, 1 << 30, n // 2), 2).astype("i4")),
        "extremes": pa.array(rng.choice(np.array([-1, 0, (1 << 63) - 1]), n)),
        "float32, few": pa.array(rng.choice(np.array([0, 1, np.nan], "f4"), n)),
        "float64, few": pa.array(rng.choice(np.array([0, 1, 2.5, -1]), n)),
        "zipf": pa.array(np.minimum(rng.zipf(1.3, n), 10**6)),
        "skewed": pa.array(np.exp(rng.standard_normal(n) * 3).astype("i8")),
        "mostly zero": pa.array(np.where(rng.random(n) < 0.7, 0, rng.integers(0, 1 << 40, n))[:5000]),
        "outliers": pa.array(np.where(np.arange(5000) % 1000 == 5, 1 << 60, rng.integers(0, 4, 5000))),
        "sequence": pa.array(np.arange(n)),
        "decimals": pa.array(np.round(rng.random(n) * 100, 2)),
        "users": pa.array([f"user_{number}" for number in rng.integers(0, 1250, 5000)]),
        "users, zipf": pa.array([f"user_{number}" for number in np.minimum(rng.zipf(1.3, n), 10**5)]),
        "letters": pa.array([chr(97 + number) for number in rng.integers(0, 26, 5000)]),
    }


COLUMNS = _columns()


def periodic(num_rows: int) -> dict[str, pa.Array]:
    """Return columns whose nulls and values have periods equal to the spacing of evenly spaced samples."""
    index = np.arange(num_rows)

    def nulls(values, every):
        return pa.array(values, mask=index % every == 0)

    return {
        "one, null every 2": nulls(np.full(num_rows, "n/a"), 2),
        "one, null every 3": nulls(np.full(num_rows, "n/a"), 3),
        "one of 40 bytes, null every 3": nulls(np.full(num_rows, "x" * 40), 3),
        "bytes, null every 3": pa.array([b"xyz" if row % 3 else None for row in range(num_rows)]),
        "two, null every 3": nulls(np.array(["aa", "bb"])[index // 3 % 2], 3),
        "fifty, null every 3": nulls(np.char.add("cat", (index * 7919 % 50).astype(str)), 3),
        "16 bytes, null every 3": pa.array(
            [b"0123456789abcdef" if row % 3 else None for row in range(num_rows)], pa.binary(16)
        ),
        "values every 48": pa.array([f"v{row % 7}" if row % 48 == 0 else None for row in range(num_rows)]),
        "value every 24": pa.array(["same" if row % 24 == 5 else None for row in range(num_rows)]),
        "word every 12": nulls(np.where(index % 12 == 5, 10**12, 0), 5),
        "cycle of 24": pa.array(index % 24 * 1234567),
        "cycle of 6 texts": pa.array(np.char.add("cat_", (index % 6).astype(str))),
    }


PERIODIC = list(periodic(1000))


def sizes(tmp_path, column, version, metadata=None):
    metadata = {PREFIX + key: value for key, value in (metadata or {}).items()}
    schema = pa.schema([pa.field("c", column.type, metadata=metadata)])
    table = pa.table([column], schema=schema)
    paths = [tmp_path / "ours.lance", tmp_path / "theirs.lance"]
    for path, writer in zip(paths, (LanceFileWriter, ReferenceWriter), strict=True):
        with writer(str(path), schema, version=version) as file:
            for batch in table.to_batches():
                file.write_batch(batch)
    read = ReferenceReader(str(paths[0])).read_all(batch_size=NUM_ROWS).to_table()["c"].combine_chunks()
    if pa.types.is_floating(column.type):
        assert np.array_equal(read.to_numpy(), column.to_numpy(), equal_nan=True)
    else:
        assert read.equals(column)
    return [path.stat().st_size for path in paths]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", COLUMNS)
def test_files_with_default_options_are_at_most_slightly_larger_than_those_of_pylance(tmp_path, name, version):
    ours, theirs = sizes(tmp_path, COLUMNS[name], version)
    assert ours <= MOST * theirs


@pytest.mark.parametrize(
    ("name", "version", "metadata"),
    [
        ("runs of 10", "2.2", {"structural-encoding": "fullzip"}),
        ("skewed", "2.2", {"structural-encoding": "fullzip", "compression": "zstd"}),
        ("runs of 10", "2.2", {"compression": "zstd"}),
        ("extremes", "2.1", {"compression": "zstd", "bss": "on"}),
        ("zipf", "2.2", {"minichunk-size": "0", "compression-level": "99"}),
        ("zipf", "2.1", {"minichunk-size": "abc", "compression-level": "-3"}),
        ("runs of 2", "2.1", {"rle-threshold": "2.0", "dict-divisor": "0"}),
    ],
)
def test_files_with_encoding_metadata_are_at_most_slightly_larger_than_those_of_pylance(
    tmp_path, name, version, metadata
):
    ours, theirs = sizes(tmp_path, COLUMNS[name], version, metadata)
    assert ours <= MOST * theirs


@pytest.mark.parametrize("num_rows", [20_000, 50_000, 100_000, 200_000])
@pytest.mark.parametrize("name", PERIODIC)
@pytest.mark.sampled(3)
def test_periodic_values_take_at_most_slightly_more_bytes_than_in_pylance(tmp_path, name, num_rows):
    column = periodic(num_rows)[name]
    for version in ("2.1", "2.2"):
        ours, theirs = sizes(tmp_path, column, version)
        assert ours <= MOST * theirs, version


def test_the_same_values_are_always_written_as_the_same_bytes(tmp_path):
    column = periodic(50_000)["fifty, null every 3"]
    schema = pa.schema([("c", column.type)])
    for path in ("first", "second"):
        with LanceFileWriter(str(tmp_path / path), schema, version="2.2") as writer:
            writer.write_batch(pa.record_batch([column], schema=schema))
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


COMPRESSIBLE = {
    "int64": pa.array(range(3000)),
    "string": pa.array([f"https://example.com/{row * 7919 % 10007}" for row in range(3000)]),
    "dictionary": pa.array(["a", "b"] * 500).dictionary_encode(),
    "16 bytes": pa.array([row.to_bytes(16, "little") for row in range(1000)], pa.binary(16)),
}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("value", ["gzip", "", "ZSTD", " zstd", "zstd "])
@pytest.mark.parametrize("name", COMPRESSIBLE)
def test_compressions_that_lance_core_refuses_are_also_refused_by_pylance(tmp_path, name, value, version):
    column = COMPRESSIBLE[name]
    schema = pa.schema([pa.field("c", column.type, metadata={PREFIX + "compression": value})])
    with pytest.raises(InvalidInputError, match="compression"):
        LanceFileWriter(str(tmp_path / "ours.lance"), schema, version=version)
    with (
        pytest.raises(ValueError, match=r"(?i)compression"),
        ReferenceWriter(str(tmp_path / "theirs.lance"), schema, version=version) as writer,
    ):
        writer.write_batch(pa.record_batch([column], schema=schema))


def test_an_unknown_compression_is_refused_before_a_byte_is_written(tmp_path):
    schema = pa.schema([pa.field("c", pa.int64(), metadata={PREFIX + "compression": "gzip"})])
    path = tmp_path / "refused.lance"
    with pytest.raises(InvalidInputError, match="gzip"), LanceFileWriter(str(path), schema, version="2.2"):
        pass
    assert not path.exists()
