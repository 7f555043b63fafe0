"""Indices built or defined before a change are kept, and never return old values."""

import glob
import json
import os
import shutil
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import RetryableCommitConflictError, VersionNotFoundError
from lance_core.places.location import open_log
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.manifest_file import serialize_manifest_file

LIBRARIES = pytest.mark.parametrize("library", [lance, lance_core])
I64 = pa.int64()


def _take_back(uri: str, library: ModuleType) -> Any:
    """Return the index that the latest version adds, after undoing its commit but keeping its files."""
    latest = library.dataset(uri)
    index = latest.read_transaction(latest.version).operation.new_indices[0]
    Path(min(glob.glob(f"{uri}/_versions/*.manifest"))).unlink()
    return index


def _commit_index(library: ModuleType, uri: str, index: Any, read_version: int) -> None:
    library.LanceDataset.commit(uri, library.LanceOperation.CreateIndex([index], []), read_version=read_version)


@LIBRARIES
def test_an_index_whose_version_was_cleaned_up_is_refused(tmp_path: Path, library: ModuleType) -> None:
    uri = str(tmp_path / "t")
    numbers = pa.array(range(20), I64)
    lance.write_dataset(pa.table({"a": numbers, "b": numbers}), uri, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("a", "BTREE", name="ai")
    index = _take_back(uri, library)
    fragment, fields = (
        lance.dataset(uri)
        .get_fragments()[0]
        .update_columns(
            pa.table({"b": pa.array([3], I64), "a": pa.array([777], I64)}),
            left_on="b",
            right_on="b",
        )
    )
    change = lance.LanceOperation.Update(
        updated_fragments=[fragment], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(uri, change, read_version=1)
    lance.write_dataset(pa.table({"a": pa.array([50], I64), "b": pa.array([50], I64)}), uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(versions=[1], older_than=timedelta(0))
    with pytest.raises((VersionNotFoundError, ValueError, OSError), match=r"no longer has version 1|not found"):
        _commit_index(library, uri, index, 1)
    _commit_index(library, uri, index, 2)
    assert lance.dataset(uri).version == 4


def test_a_committed_index_is_found_after_its_read_version_was_removed(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": pa.array([1, 2], I64)}), uri)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    index = _take_back(uri, lance_core)
    transaction = lance_core.Transaction(1, LanceOperation.CreateIndex([index], []))
    lance_core.LanceDataset.commit(uri, transaction)
    lance.dataset(uri).cleanup_old_versions(versions=[1], older_than=timedelta(0))
    assert lance_core.LanceDataset.commit(uri, transaction).version == 2


def test_an_index_does_not_return_stale_values_after_a_concurrent_merge(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": pa.array(range(6), I64)}), uri, max_rows_per_file=3)
    lance.dataset(uri).add_columns(pa.field("n", I64))
    lance.dataset(uri).create_scalar_index("n", "BTREE")
    side = str(tmp_path / "side")
    written = lance_core.write_dataset(pa.table({"n": pa.array([5, 6, 7], I64)}), side)
    (file,) = written.get_fragments()[0].metadata.files
    shutil.copy(f"{side}/data/{file.path}", f"{uri}/data/{file.path}")
    file.fields = [1]
    dataset = lance_core.dataset(uri)
    first, second = (fragment.metadata for fragment in dataset.get_fragments())
    first.files = [*first.files, file]
    merge = LanceOperation.Merge([first, second], dataset.lance_schema, True)
    lance_core.LanceDataset.commit(uri, merge, read_version=dataset.version)
    after = lance.dataset(uri)
    assert sorted(after.list_indices()[0]["fragment_ids"]) == [1]
    assert after.to_table(filter="n = 5").to_pylist() == [{"a": 0, "n": 5}]
    assert after.count_rows("n is null") == 3


def test_an_index_on_a_dropped_column_does_not_apply_to_a_new_column_with_the_same_field_id(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": pa.array(range(6), I64)}), uri, max_rows_per_file=3)
    lance.dataset(uri).add_columns({"c": "a * 10"})
    lance.dataset(uri).create_scalar_index("c", "BTREE")
    index = _take_back(uri, lance_core)
    lance.dataset(uri).drop_columns(["c"])
    lance.dataset(uri).add_columns({"d": "a + 1000"})
    assert [field.id() for field in lance.dataset(uri).lance_schema.fields()] == [0, 1] == [0, *index.fields]
    with pytest.raises(RetryableCommitConflictError, match="field id 1, used by the new rows or indices"):
        _commit_index(lance_core, uri, index, 2)
    assert lance.dataset(uri).to_table(filter="d = 1003").to_pylist() == [{"a": 3, "d": 1003}]


def _vectors(num_rows: int) -> pa.Array:
    values = np.random.default_rng(0).random(num_rows * 8, np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(values), 8)


def _projected(library: ModuleType, uri: str) -> None:
    dataset = library.dataset(uri)
    library.LanceDataset.commit(
        uri, library.LanceOperation.Project(dataset.lance_schema, True), read_version=dataset.version
    )


def _merged(library: ModuleType, uri: str) -> None:
    dataset = library.dataset(uri)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    library.LanceDataset.commit(
        uri, library.LanceOperation.Merge(fragments, dataset.lance_schema, True), read_version=dataset.version
    )


@LIBRARIES
@pytest.mark.parametrize("change", [_projected, _merged])
def test_changes_do_not_remove_an_untrained_vector_index(tmp_path: Path, library: ModuleType, change: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array(range(20), I64), "v": _vectors(20)}), uri)
    # There are too few rows for training, so that only its parameters exist.
    lance.dataset(uri).create_index("v", "IVF_PQ", name="pq", num_partitions=1, num_sub_vectors=2)
    change(library, uri)
    assert [(each["name"], list(each["fragment_ids"])) for each in lance.dataset(uri).list_indices()] == [("pq", [])]


def test_pylance_can_fill_an_empty_vector_index_after_changes_by_lance_core(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array(range(20), I64), "v": _vectors(20)}), uri)
    lance.dataset(uri).create_index("v", "IVF_PQ", name="pq", num_partitions=1, num_sub_vectors=2)
    _projected(lance_core, uri)
    lance_core.dataset(uri).delete("id = 3")
    lance_core.write_dataset(pa.table({"id": pa.array(range(600), I64), "v": _vectors(600)}), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    (index,) = lance.dataset(uri).list_indices()
    assert (index["type"], sorted(index["fragment_ids"])) == ("IVF_PQ", [0, 1])


def test_updating_the_only_indexed_fragment_does_not_remove_its_vector_index(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": pa.array(range(20), I64), "v": _vectors(20)}), uri)
    lance.dataset(uri).create_index("v", "IVF_FLAT", name="flat", num_partitions=1)
    found = []
    for library in (lance, lance_core):
        twin = f"{uri}-{library.__name__}"
        shutil.copytree(uri, twin)
        rows = pa.table({"id": pa.array([1], I64), "v": _vectors(1)})
        fragment, fields = lance.dataset(twin).get_fragments()[0].update_columns(rows, left_on="id", right_on="id")
        ours = fragment if library is lance else lance_core.FragmentMetadata.from_json(json.dumps(fragment.to_json()))
        change = library.LanceOperation.Update(
            updated_fragments=[ours], fields_modified=fields, update_mode="rewrite_columns"
        )
        library.LanceDataset.commit(twin, change, read_version=2)
        found.append([(each["name"], list(each["fragment_ids"])) for each in lance.dataset(twin).list_indices()])
    assert found == [[("flat", [])]] * 2


@LIBRARIES
def test_a_clone_operation_is_accepted_only_as_the_first_version(tmp_path: Path, library: ModuleType) -> None:
    uri, other = str(tmp_path / "t"), str(tmp_path / "other")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    lance.write_dataset(pa.table({"z": ["q"]}), other)
    before = set(os.listdir(f"{uri}/_transactions"))
    clone = library.LanceOperation.Clone(True, None, 1, other, None)
    with pytest.raises(OSError, match=r"exists|Clone operation should not"):
        library.LanceDataset.commit(uri, clone, read_version=1)
    assert lance.dataset(uri).to_table().to_pydict() == {"a": [1, 2, 3]}
    if library is lance_core:
        assert set(os.listdir(f"{uri}/_transactions")) == before


@pytest.mark.parametrize("milliseconds", [2**53, 2**63, 2**64 - 1])
def test_an_index_with_an_impossible_creation_time_is_listed(tmp_path: Path, milliseconds: int) -> None:
    """The reference panics on some of these times."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    log = open_log(uri, None)
    name = log.latest()
    assert name is not None
    manifest = log.read(name)
    section = pb_table.IndexSection.FromString(manifest.index_section or b"")
    transaction = pb_transaction.Transaction.FromString(manifest.transaction or b"")
    for index in (*section.indices, *transaction.create_index.new_indices):
        index.created_at = milliseconds
    data = serialize_manifest_file(
        manifest.message,
        index_section=section.SerializeToString(),
        transaction=transaction.SerializeToString(),
        dictionaries={},
    )
    Path(log.path(name)).write_bytes(data)
    dataset = lance_core.dataset(uri)
    assert [each["name"] for each in dataset.list_indices()] == ["a_idx"]
    assert len(dataset.describe_indices()) == 1
    assert dataset.read_transaction(2).operation.new_indices[0].created_at is None
    assert len(dataset.get_transactions()) == 2
    dataset.delete("a = 1")
    assert lance_core.dataset(uri).to_table()["a"].to_pylist() == [2, 3]
