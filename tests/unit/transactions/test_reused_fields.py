"""Appended rows whose field ids belong to other columns by the time the rows are committed."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import RetryableCommitConflictError
from lance_core.transactions.basis import ReusedFields
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.delete import Delete

ROWS = pa.table({"k": [9], "v": [5]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table whose column v is in separate files, so that its field id is free after the column is dropped."""
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"k": [0, 1, 2]}), uri)
    lance.dataset(uri).add_columns({"v": "k + 1"})
    return uri


def _field_ids(uri: str) -> dict[str, int]:
    return {field.name: field.id for field in lance_core.dataset(uri).lance_schema.fields}


@pytest.mark.parametrize("dtype", [pa.string(), pa.int64()], ids=["other type", "same type"])
def test_values_of_a_dropped_column_do_not_appear_in_a_new_column(uri: str, dtype: pa.DataType) -> None:
    stale = lance_core.dataset(uri)
    before = _field_ids(uri)
    lance.dataset(uri).drop_columns(["v"])
    lance.dataset(uri).add_columns(pa.field("z", dtype))
    assert _field_ids(uri)["z"] == before["v"]
    with pytest.raises(RetryableCommitConflictError, match="field id 1, used by the new rows or indices"):
        lance_core.write_dataset(ROWS, stale, mode="append")
    for reader in (lance, lance_core):
        dataset = reader.dataset(uri)
        dataset.validate()
        assert (dataset.version, dataset.to_table().to_pydict()) == (4, {"k": [0, 1, 2], "z": [None] * 3})


def test_appends_with_a_dropped_or_renamed_column_are_committed(uri: str) -> None:
    stale = lance_core.dataset(uri)
    lance.dataset(uri).alter_columns({"path": "v", "name": "w"})
    lance_core.write_dataset(ROWS, stale, mode="append")
    assert lance.dataset(uri).to_table()["w"].to_pylist() == [1, 2, 3, 5]
    lance.dataset(uri).drop_columns(["w"])
    lance_core.write_dataset(ROWS, stale, mode="append")
    lance.dataset(uri).add_columns(pa.field("z", pa.string()))
    for reader in (lance, lance_core):
        table = reader.dataset(uri).to_table()
        assert (table["k"].to_pylist(), table["z"].to_pylist()) == ([0, 1, 2, 9, 9], [None] * 5)


def test_reused_field_ids_are_detected_only_for_appended_fragments(uri: str) -> None:
    versions = [lance_core.dataset(uri, version=version).manifest for version in (1, 2)]
    fragment = versions[1].fragments[0]
    watch = ReusedFields(Append(fragments=(fragment,)))
    assert [watch.find(manifest) for manifest in (versions[1], versions[0], versions[1])] == [None, None, 1]
    others = ReusedFields(Delete(updated_fragments=(fragment,), deleted_fragment_ids=(), predicate=""))
    assert [others.find(manifest) for manifest in (versions[1], versions[0], versions[1])] == [None] * 3
