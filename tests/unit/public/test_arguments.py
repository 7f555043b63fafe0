"""An argument of a wrong type or value raises a typed error that is also the built-in exception raised by pylance."""

import re
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidSchemaError,
    InvalidTypeError,
    LanceError,
    NotSupportedError,
    RowOutOfRangeError,
    SchemaMismatchError,
    StorageError,
    UnsupportedSchemeError,
)

ROWS = pa.table({"a": [1, 2, 3], "s": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}, None]})


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    return lance_core.write_dataset(ROWS, uri)


# ── Columns ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", ["a", b"a", [1], ["a", None], 5], ids=repr)
def test_columns_that_are_not_names_raise_invalid_type(dataset: lance_core.LanceDataset, columns: object) -> None:
    for read in (dataset.to_table, dataset.scanner, lambda columns: dataset.take([0], columns)):
        found = re.escape(repr(columns))
        with pytest.raises(InvalidTypeError, match=f"columns must be a list of names, found {found}"):
            read(columns=columns)


def test_columns_may_come_from_any_iterable(dataset: lance_core.LanceDataset) -> None:
    names = ["s.x", "a"]
    expected = dataset.to_table(columns=names)
    assert expected.schema.names == names
    assert dataset.to_table(columns=(name for name in names)).equals(expected)
    assert dataset.to_table(columns=dict.fromkeys(names).keys()).equals(expected)
    assert dataset.take([1], columns=(name for name in ["a"])).to_pylist() == [{"a": 2}]


def test_take_of_struct_members_returns_the_same_structs_as_pylance(tmp_path: Path) -> None:
    ours = lance_core.write_dataset(ROWS, tmp_path / "t")
    theirs = lance.dataset(str(tmp_path / "t"))
    for columns in (["s.x"], ["s.y", "a", "s.x"], ["a", "s"], ["a"]):
        assert ours.take([2, 0], columns=columns).to_pylist() == theirs.take([2, 0], columns=columns).to_pylist()
        found = ours.get_fragment(0).take([1], columns=columns)
        assert found.to_pylist() == theirs.get_fragments()[0].take([1], columns=columns).to_pylist()
        assert ours.to_table(columns=columns).to_pylist() == theirs.to_table(columns=columns).to_pylist()


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["limit", "offset", "batch_size"])
@pytest.mark.parametrize("value", [1.5, 2.0, "2", [1]], ids=repr)
def test_scan_numbers_that_are_not_integers_raise_invalid_type(
    dataset: lance_core.LanceDataset, name: str, value: object
) -> None:
    with pytest.raises(InvalidTypeError, match=name) as caught:
        dataset.to_table(**{name: value})
    assert isinstance(caught.value, TypeError)


def test_numpy_integers_are_accepted_as_integers(dataset: lance_core.LanceDataset) -> None:
    rows = dataset.to_table(limit=np.int64(1), offset=np.uint8(1), batch_size=np.int32(7))
    assert rows["a"].to_pylist() == [2]
    assert dataset.checkout_version(np.int64(1)).version == 1


@pytest.mark.parametrize("indices", [[1.5], ["a"], [None]], ids=repr)
def test_row_positions_that_are_not_integers_raise_invalid_type(
    dataset: lance_core.LanceDataset, indices: list[object]
) -> None:
    with pytest.raises(InvalidTypeError):
        dataset.take(indices)


@pytest.mark.parametrize("index", [3, -1])
def test_row_position_out_of_range_raises_os_error(dataset: lance_core.LanceDataset, index: int) -> None:
    with pytest.raises(RowOutOfRangeError, match=f"row {index} ") as caught:
        dataset.take([0, index])
    assert isinstance(caught.value, OSError)


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_bytes_per_file", "data_cache_bytes", "max_page_bytes"])
def test_write_sizes_must_be_integers_or_none_for_the_default(uri: str, name: str) -> None:
    for write in (lance_core.write_dataset, lance_core.write_fragments):
        with pytest.raises(InvalidTypeError, match=name):
            write(ROWS, uri, **{name: 1.5})
    assert lance_core.write_dataset(ROWS, uri, **{name: None}).count_rows() == 3


def test_retries_and_read_versions_must_be_integers(dataset: lance_core.LanceDataset, uri: str) -> None:
    append = lance_core.LanceOperation.Append(lance_core.write_fragments(ROWS, uri))
    with pytest.raises(InvalidTypeError, match="max_retries"):
        lance_core.LanceDataset.commit(uri, append, read_version=1, max_retries=1.5)
    with pytest.raises(InvalidTypeError, match="read_version"):
        lance_core.LanceDataset.commit(uri, append, read_version=1.5)


# ── Versions and timestamps ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", [1.9, 1.0, (1,), (), (None, 1, 2), (None, 1.5), [1]], ids=repr)
def test_version_that_is_not_a_number_tag_or_pair_raises_invalid_type(
    dataset: lance_core.LanceDataset, uri: str, version: object
) -> None:
    for find in (dataset.checkout_version, lambda version: lance_core.dataset(uri, version=version)):
        with pytest.raises(InvalidTypeError, match="version"):
            find(version)


def test_checkout_of_version_none_raises_invalid_type(dataset: lance_core.LanceDataset) -> None:
    with pytest.raises(InvalidTypeError, match="version"):
        dataset.checkout_version(None)
    assert dataset.checkout_version((None, None)).version == 1


def test_asof_that_is_not_a_date_is_refused(dataset: lance_core.LanceDataset, uri: str) -> None:
    with pytest.raises(InvalidInputError, match="asof 'garbage'"):
        lance_core.dataset(uri, asof="garbage")
    with pytest.raises(InvalidTypeError, match="asof"):
        lance_core.dataset(uri, asof=5)


@pytest.mark.parametrize("argument", ["data_storage_version", "mode"])
def test_mode_and_storage_version_must_be_strings(uri: str, argument: str) -> None:
    for write in (lance_core.write_dataset, lance_core.write_fragments):
        with pytest.raises(InvalidTypeError, match=argument):
            write(ROWS, uri, **{argument: 2.1})


# ── Locations and data ────────────────────────────────────────────────────────────────────────────────────────────


def test_arguments_that_are_neither_uris_nor_data_raise_invalid_type(uri: str) -> None:
    with pytest.raises(InvalidTypeError, match="URI"):
        lance_core.dataset(5)
    with pytest.raises(InvalidTypeError, match="int"):
        lance_core.write_dataset(5, uri)
    with pytest.raises(InvalidTypeError, match="RecordBatch"):
        lance_core.write_dataset(iter([5]), uri)
    with pytest.raises(InvalidTypeError, match="operation"):
        lance_core.LanceDataset.commit(uri, "append", read_version=1)
    with pytest.raises(InvalidTypeError, match="fragments"):
        lance_core.LanceOperation.Append(5)


def test_uri_scheme_without_a_store_raises_unsupported_scheme(tmp_path: Path) -> None:
    for call in (lambda: lance_core.dataset("zz://a/b"), lambda: lance_core.write_dataset(ROWS, "zz://a/b")):
        with pytest.raises(UnsupportedSchemeError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, OSError)


def test_file_at_the_location_of_a_dataset_is_refused_and_not_changed(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("no dataset")
    for version in (None, 1, "tag"):
        with pytest.raises(DatasetNotFoundError, match="not a directory"):
            lance_core.dataset(place, version=version)
    for mode in ("create", "append", "overwrite"):
        with pytest.raises(StorageError):
            lance_core.write_dataset(ROWS, place, mode=mode)
    assert place.read_text() == "no dataset"


# ── Built-in exceptions as in the reference ───────────────────────────────────────────────────────────────────────────

REQUIRED = pa.schema([pa.field("a", pa.int64(), nullable=False)])
NO_COLUMNS = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), 3, [None]))


@pytest.mark.parametrize(
    ("first", "rows", "expected"),
    [
        (pa.table({"a": [1]}), pa.table({"q": [1]}), SchemaMismatchError),
        (pa.table({"a": [1]}, schema=REQUIRED), pa.table({"a": pa.array([None], pa.int64())}), SchemaMismatchError),
        (pa.table({"a": [1]}), NO_COLUMNS, SchemaMismatchError),
        (None, NO_COLUMNS, SchemaMismatchError),
        (None, pa.table([[1], [2]], names=["a", "a"]), InvalidSchemaError),
        (None, pa.table({"a.b": [1]}), InvalidSchemaError),
        (None, pa.table({"a": pa.array([None], pa.month_day_nano_interval())}), NotSupportedError),
    ],
    ids=["other columns", "nulls", "append no columns", "create no columns", "repeated", "dotted", "type"],
)
def test_refused_write_raises_os_error_as_in_pylance(
    tmp_path: Path, first: pa.Table | None, rows: pa.Table, expected: type[LanceError]
) -> None:
    for number, library in enumerate((lance, lance_core)):
        place = str(tmp_path / str(number))
        if first is not None:
            library.write_dataset(first, place)
        with pytest.raises(OSError) as caught:  # noqa: PT011  # the reference has no narrower class
            library.write_dataset(rows, place, mode="append")
    assert type(caught.value) is expected
