"""The table of families: every version has one, and all that it names works on a file of its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.file.describe import describe_file
from lance_core.file.families import FORMATS, open_writer
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

ROWS = pa.record_batch({"a": pa.array([1, 2, 3]), "b": pa.array(["x", None, "z"])})


def test_formats_readable_versions_each_belong_to_one() -> None:
    versions = [version for family in FORMATS for version in family.versions]
    assert sorted(versions) == [version for version in LanceFileVersion if version.is_readable]


@pytest.mark.parametrize(
    "version", [version for family in FORMATS for version in family.versions], ids=lambda version: version.value
)
def test_formats_file_of_every_version_is_written_read_and_described(version: LanceFileVersion) -> None:
    store = MemoryStore()
    with open_writer(store.create("f"), schema_from_arrow(ROWS.schema), WriteConfig(version=version)) as writer:
        writer.write_batch(ROWS)
        assert writer.num_rows == 3
        assert dict(writer.dictionaries) == {}
        writer.finish()
    reader = FileReader.open(store, "f")
    assert reader.version is version
    assert pa.Table.from_batches(reader.read_batches(reader.schema.fields)).to_pylist()[2] == {"a": 3, "b": "z"}
    assert describe_file(reader).startswith(f"data file {version.value}, 3 rows")
