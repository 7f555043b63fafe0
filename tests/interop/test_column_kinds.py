"""Struct and binary columns that pylance stores in special encodings are read or refused, never returned as null."""

import lance
import pyarrow as pa
import pytest

import lance_core

STRUCTS = pa.array([{"a": i, "b": -i} for i in range(50)], pa.struct([("a", pa.int32()), ("b", pa.int32())]))


def _structs(metadata: dict[str, str]) -> pa.Table:
    return pa.table([STRUCTS], schema=pa.schema([pa.field("s", STRUCTS.type, metadata=metadata)]))


@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed", "Packed"])
@pytest.mark.parametrize("value", ["true", "TRUE", "True", "1", "yes", "on", "y", "false", "", "t"])
def test_packed_structs_are_read(uri: str, key: str, value: str) -> None:
    lance.write_dataset(_structs({key: value}), uri, data_storage_version="2.2")
    ours = lance_core.dataset(uri)
    field = ours.lance_schema.field("s")
    assert ours.get_fragments()[0].metadata.files[0].fields == [leaf.id for leaf in field.leaves()]
    assert ours.to_table()["s"].to_pylist() == STRUCTS.to_pylist()
    assert ours.take([7], columns=["s"])["s"].to_pylist() == [{"a": 7, "b": -7}]


@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_packed_structs_are_written(uri: str, key: str, value: str) -> None:
    fields = [pa.field(name, pa.int32(), nullable=False) for name in ("a", "b")]
    rows = _structs({key: value}).cast(pa.schema([pa.field("s", pa.struct(fields), metadata={key: value})]))
    lance_core.write_dataset(rows, uri)
    assert lance.dataset(uri).to_table()["s"].to_pylist() == STRUCTS.to_pylist()
    [file] = lance_core.dataset(uri).get_fragments()[0].metadata.files
    assert len(file.fields) == (1 if value == "true" else 2)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_any_value_of_the_blob_metadata_key_declares_a_blob_column(uri: str, version: str, value: str) -> None:
    fields = [pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": value}), pa.field("i", pa.int64())]
    rows = pa.table([[b"xx", None, b""], [1, 2, 3]], schema=pa.schema(fields))
    lance.write_dataset(rows, uri, data_storage_version=version)
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    ours.validate()
    assert ours.to_table(columns=["i"])["i"].to_pylist() == [1, 2, 3]
    for columns in (None, ["b"], ["i", "b"], *([["b.kind"]] if version == "2.2" else [])):
        assert ours.to_table(columns=columns).equals(theirs.to_table(columns=columns))
        if columns != ["b.kind"]:
            assert ours.take([2, 0], columns=columns).equals(theirs.take([2, 0], columns=columns))


def test_rows_without_the_blob_column_can_be_appended(uri: str) -> None:
    fields = [pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), pa.field("i", pa.int64())]
    lance.write_dataset(pa.table([[b"x"], [1]], schema=pa.schema(fields)), uri, data_storage_version="2.2")
    lance_core.write_dataset(pa.table({"i": [2]}), uri, mode="append")
    assert lance_core.dataset(uri).to_table(columns=["i"])["i"].to_pylist() == [1, 2]
    assert lance.dataset(uri).to_table(columns=["i"])["i"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "name", ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]
)
def test_reserved_column_names_are_refused_by_lance_core_and_pylance(uri: str, name: str) -> None:
    rows = pa.table({name: [1]})
    with pytest.raises(OSError, match="reserved"):
        lance.write_dataset(rows, uri)
    with pytest.raises(OSError, match="reserved"):
        lance_core.write_dataset(rows, uri)
