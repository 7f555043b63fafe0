"""Every type in every version is written by one implementation and read by the other, or refused before writing.

Format 0.1 does not preserve every value; there, both implementations must agree with each other.
"""

import lance
import lance.file
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import LanceError, NotSupportedError
from lance_core.schema.extension_types import storage_array
from tests.support.type_catalogue import REFUSED, TYPES, column

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]

NOT_IN = {
    "fixed_size_binary of no bytes": ["0.1", "2.0", "2.1"],
    "dictionary of bool": ["0.1"],
    "dictionary of double": ["0.1"],
    "empty struct": ["0.1"],
    "map": ["0.1", "2.0", "2.1"],
    "map of struct": ["0.1", "2.0", "2.1"],
    "fixed_size_list of struct": ["0.1", "2.0", "2.1"],
    "packed struct with strings": ["2.0", "2.1"],
    # Their nulls cannot be stored.
    "struct with nulls": ["2.0"],
    "list of struct": ["2.0"],
    "large_list of struct": ["2.0"],
    **{name: ["0.1"] for name in TYPES if name.startswith("dictionary")},
}
"""Kind → versions that cannot hold its table."""

ALONE = {"fixed_size_list of struct"}
"""pylance 14.0.2 cannot read it beside another column."""

NO_FILE = {("string_view", "2.0"), ("binary_view", "2.0")}
"""pylance 14.0.2 converts views in tables only."""

HELD = [(name, version) for name in TYPES for version in VERSIONS if version not in NOT_IN.get(name, [])]
MISSING = [(name, version) for name, versions in NOT_IN.items() for version in versions]


def _rows(name: str) -> pa.Table:
    rows = TYPES[name]()
    return rows.select(["x"]) if name in ALONE else rows


def _stored(rows: pa.Table) -> str:
    """Return the values without extension types, which need not be registered."""
    return repr([value for chunk in rows["x"].chunks for value in storage_array(chunk).to_pylist()])


def _same(left: pa.Table, right: pa.Table) -> bool:
    return left.schema.equals(right.schema, check_metadata=True) and repr(column(left)) == repr(column(right))


@pytest.mark.parametrize(("name", "version"), HELD)
@pytest.mark.sampled(50)
def test_tables_of_every_type_are_read_by_lance_core_and_pylance(tmp_path, name: str, version: str) -> None:
    rows = _rows(name)
    mine, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    lance_core.write_dataset(rows, mine, data_storage_version=version)
    lance.write_dataset(rows, theirs, data_storage_version="legacy" if version == "0.1" else version)
    expected = lance.dataset(theirs).to_table()
    if version != "0.1":
        assert _stored(expected) == _stored(rows) or name == "json"
    assert _same(lance.dataset(mine).to_table(), expected)
    assert _same(lance_core.dataset(mine).to_table(), expected)
    assert _same(lance_core.dataset(theirs).to_table(), expected)
    last = [rows.num_rows - 1, 0]
    assert lance_core.dataset(theirs).take(last)["x"].to_pylist() == expected.take(last)["x"].to_pylist()
    lance.dataset(mine).validate()
    lance_core.dataset(mine).validate()
    ours_schema, their_schema = (lance_core.dataset(uri).lance_schema for uri in (mine, theirs))
    assert ours_schema == their_schema


@pytest.mark.parametrize(("name", "version"), [pair for pair in HELD if pair[1] != "0.1" and pair not in NO_FILE])
@pytest.mark.sampled(110)
def test_files_of_every_type_are_read_by_lance_core_and_pylance(tmp_path, name: str, version: str) -> None:
    rows = _rows(name)
    mine, theirs = str(tmp_path / "ours.lance"), str(tmp_path / "theirs.lance")
    with lance_core.LanceFileWriter(mine, rows.schema, version=version) as file:
        file.write_batch(rows)
    with lance.file.LanceFileWriter(theirs, rows.schema, version=version) as file:
        file.write_batch(rows)
    expected = lance.file.LanceFileReader(theirs).read_all().to_table()
    assert _same(lance.file.LanceFileReader(mine).read_all().to_table(), expected)
    assert _same(lance_core.LanceFileReader(mine).read_all().to_table(), expected)
    assert _same(lance_core.LanceFileReader(theirs).read_all().to_table(), expected)


@pytest.mark.parametrize(("name", "version"), MISSING)
def test_a_type_that_a_version_cannot_store_is_refused_before_a_byte_is_written(
    tmp_path, name: str, version: str
) -> None:
    rows = _rows(name)
    with pytest.raises(LanceError, match=r"2\.[012]"):
        lance_core.write_dataset(rows, str(tmp_path / "table"), data_storage_version=version)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", REFUSED)
def test_a_column_that_no_version_can_store_is_refused_and_named_in_the_error(
    tmp_path, name: str, version: str
) -> None:
    rows = REFUSED[name]()
    with pytest.raises(NotSupportedError, match="column 'x'"):
        lance_core.write_dataset(rows, str(tmp_path / "table"), data_storage_version=version)
    assert not list(tmp_path.iterdir())
