"""The table of file formats: every version belongs to one format, whose functions work on a file of that version."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file.describe import describe_file
from lance_core.file.families import FORMATS, keeps_statistics, open_writer
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

ROWS = pa.record_batch({"a": pa.array([1, 2, 3]), "b": pa.array(["x", None, "z"])})


def test_every_readable_file_version_is_implemented_by_exactly_one_file_format() -> None:
    versions = [version for family in FORMATS for version in family.versions]
    assert sorted(versions) == [version for version in LanceFileVersion if version.is_readable]


@pytest.mark.parametrize(
    "version", [version for family in FORMATS for version in family.versions], ids=lambda version: version.value
)
def test_file_of_every_version_is_written_read_and_described(version: LanceFileVersion) -> None:
    store = MemoryStore()
    with open_writer(store.create("f"), schema_from_arrow(ROWS.schema), WriteConfig(version=version)) as writer:
        writer.write_batch(ROWS)
        assert writer.num_rows == 3
        assert dict(writer.dictionaries) == {}
        writer.finish()
    reader = FileReader.open(store, "f")
    assert reader.version is version
    assert pa.Table.from_batches(reader.read_batches(reader.schema.fields)).to_pylist()[2] == {"a": 3, "b": "z"}
    assert describe_file(reader).startswith(f"data file in format {version.value}: 3 rows")


@pytest.mark.parametrize(
    "version", [version for family in FORMATS for version in family.versions], ids=lambda version: version.value
)
def test_only_files_in_format_0_1_have_statistics_bounds(version: LanceFileVersion) -> None:
    store = MemoryStore()
    config = WriteConfig(version=version, max_rows_per_group=2)
    with open_writer(store.create("f"), schema_from_arrow(ROWS.schema), config) as writer:
        writer.write_batch(ROWS)
        writer.finish()
    found = FileReader.open(store, "f").statistics([0, 7])
    assert keeps_statistics(version) is (found is not None) is (version is LanceFileVersion.V0_1)
    if found is not None:
        assert found.row_starts.tolist() == [0, 2, 3]
        known = found.columns[0]
        assert (known.least.to_pylist(), known.greatest.to_pylist()) == ([1, 3], [2, 3])
        assert (known.may_be_null.tolist(), known.may_be_valid.tolist()) == ([False, False], [True, True])
        assert set(found.columns) == {0}


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_check_columns_with_a_column_missing_from_the_file_raises_corrupt_data(version: str) -> None:
    store = MemoryStore()
    config = WriteConfig(version=LanceFileVersion(version))
    with open_writer(store.create("f"), schema_from_arrow(ROWS.schema), config) as writer:
        writer.write_batch(ROWS)
        writer.finish()
    reader = FileReader.open(store, "f")
    reader.check_columns({0: 0, 1: 1})
    with pytest.raises(CorruptDataError, match=r"lists (field id|column index) 2"):
        reader.check_columns({0: 0, 2: 2})
