"""The public module ``lance_core.metadata``."""

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceFileVersion, LanceOperation, metadata
from lance_core.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidTypeError,
    NotSupportedError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from lance_core.proto import pb_transaction

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def append_of(uri: str) -> lance_core.Transaction:
    fragments = lance_core.write_fragments(ROWS, uri, mode="append")
    return lance_core.Transaction(1, LanceOperation.Append(fragments))


def overwrite_without_rows() -> lance_core.Transaction:
    return lance_core.Transaction(0, LanceOperation.Overwrite(ROWS.schema, []))


@pytest.mark.parametrize("name", sorted({*metadata.__all__} - {"MAY_CHANGE_ROWS"}))
def test_every_class_and_function_of_the_metadata_module_is_documented(name: str) -> None:
    assert getattr(metadata, name).__doc__


def test_version_log_of_an_absent_table_has_no_version(uri) -> None:
    log = metadata.open_version_log(uri)
    assert log.latest() is None
    assert log.read_latest() is None


def test_version_log_of_a_malformed_location_is_refused() -> None:
    with pytest.raises(InvalidTypeError):
        metadata.open_version_log(7)  # type: ignore[arg-type]


def test_version_log_reads_manifests_and_their_transactions(uri) -> None:
    lance_core.write_dataset(ROWS, uri)
    lance_core.dataset(uri).delete("id = 2")
    log = metadata.open_version_log(uri)
    assert [name.version for name in log.newer_than(0)] == [1, 2]
    manifest = log.read_latest()
    assert isinstance(manifest, metadata.Manifest)
    assert isinstance(manifest.fragments[0], metadata.Fragment)
    assert manifest.fragments[0].has_deletion_file
    assert manifest.fragments[0].num_deleted_rows == 1
    assert manifest.data_file_paths == frozenset(manifest.fragments[0].data_file_paths)
    assert log.manifest_info(log.newer_than(1)[0]).num_bytes == log.manifest_bytes(2)
    transaction = metadata.read_transaction(log, manifest)
    assert isinstance(transaction, metadata.TransactionRecord)
    assert transaction.operation_name == "delete"
    assert not transaction.only_reserves_ids
    assert transaction.rewritten_groups == ()


def test_every_format_operation_states_whether_it_may_change_rows() -> None:
    arms = pb_transaction.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert {arm.name for arm in arms} == set(metadata.MAY_CHANGE_ROWS)
    assert metadata.MAY_CHANGE_ROWS["delete"]
    assert not metadata.MAY_CHANGE_ROWS["rewrite"]


def test_store_of_a_location_contains_the_files_of_the_table(uri) -> None:
    lance_core.write_dataset(ROWS, uri)
    store, root = metadata.open_store(uri)
    assert isinstance(store.head(next(store.list(store.join(root, "data"))).path), metadata.ObjectInfo)


def test_named_versions_are_the_versions_of_tags_and_branches(uri) -> None:
    for mode in ("create", "append", "append", "append"):
        lance_core.write_dataset(ROWS, uri, mode=mode)
    dataset = lance_core.dataset(uri)
    assert metadata.named_versions(metadata.open_version_log(uri)) == frozenset()
    dataset.tags.create("first", 1)
    dataset.create_branch("side", 3)
    assert metadata.named_versions(metadata.open_version_log(uri)) == {1, 3}


def test_check_storable_without_a_version_checks_only_the_type() -> None:
    mapping = pa.schema({"m": pa.map_(pa.string(), pa.int32())})
    metadata.check_storable(mapping)
    metadata.check_storable(mapping, LanceFileVersion.V2_2)
    with pytest.raises(UnsupportedVersionError):
        metadata.check_storable(mapping, LanceFileVersion.V2_1)
    with pytest.raises(NotSupportedError):
        metadata.check_storable(pa.schema({"v": pa.month_day_nano_interval()}))


def test_stored_field_ids_depend_on_the_file_version(uri) -> None:
    rows = pa.table({"id": [1], "point": [{"x": 1, "y": 2}]})
    schema = lance_core.write_dataset(rows, uri).lance_schema
    assert metadata.stored_field_ids(schema, ["point", "id"], LanceFileVersion.V2_1) == [2, 3, 0]
    assert metadata.stored_field_ids(schema, ["id", "point"], LanceFileVersion.V2_0) == [0, 1, 2, 3]


def test_check_compatible_refuses_columns_of_a_different_type(uri) -> None:
    schema = lance_core.write_dataset(ROWS, uri).lance_schema
    metadata.check_compatible(schema, ROWS.schema)
    with pytest.raises(SchemaMismatchError):
        metadata.check_compatible(schema, pa.schema({"id": pa.string(), "name": pa.string()}))


def test_commit_transaction_creates_a_table_once(uri) -> None:
    made = metadata.commit_transaction(
        uri, overwrite_without_rows(), create_only=True, data_storage_version=LanceFileVersion.V2_1
    )
    assert made == 1
    assert lance_core.dataset(uri).data_storage_version == "2.1"
    with pytest.raises(AlreadyExistsError):
        metadata.commit_transaction(uri, overwrite_without_rows(), create_only=True)


def test_commit_transaction_called_twice_creates_one_version(uri) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    transaction = append_of(uri)
    assert metadata.commit_transaction(dataset, transaction) == 2
    assert metadata.commit_transaction(dataset, transaction) == 2
    assert lance_core.dataset(uri).count_rows() == 6


def test_delete_rows_records_properties_and_counts(uri) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    deleted = metadata.delete_rows(dataset, "id > 1", properties={"reason": "test"})
    assert isinstance(deleted, metadata.CommittedDelete)
    assert (deleted.version, deleted.plan.rows_deleted, deleted.attempts) == (2, 2, 1)
    assert lance_core.dataset(uri).read_transaction(2).transaction_properties["reason"] == "test"


def test_delete_rows_without_matches_creates_no_version_when_requested(uri) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    assert metadata.delete_rows(dataset, "id > 9", only_if_found=True).version == 1
    assert metadata.delete_rows(dataset, "id > 9").version == 2


def test_planned_delete_and_cleanup_change_nothing(uri) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    assert metadata.plan_delete(dataset, "id = 1").rows_deleted == 1
    plan = metadata.plan_cleanup(dataset, metadata.CleanupPolicy.of(retain_versions=1))
    assert isinstance(plan, metadata.CleanupPlan)
    assert plan.removable == []
    assert lance_core.dataset(uri).version == 1


@pytest.mark.parametrize("filter", [None, "id % 3 = 0", "true", "false", "name IS NULL"])
@pytest.mark.parametrize("bounds", [(0, 0), (0, 4), (3, 11), (11, 1000), (500, 600)])
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
@pytest.mark.sampled(12)
def test_scan_of_a_row_range_returns_the_matching_rows_of_the_range(uri, filter, bounds, version) -> None:
    rows = pa.table({"id": pa.array(range(40), pa.int64()), "name": [None, "a"] * 20})
    lance_core.write_dataset(rows, uri, max_rows_per_file=30, max_rows_per_group=8, data_storage_version=version)
    dataset = lance_core.dataset(uri)
    dataset.delete("id IN (0, 5, 6, 20)")
    live = dataset.get_fragments()[0].scanner(filter=filter).to_table()
    whole = dataset.get_fragments()[0].scanner().to_table()["id"].to_pylist()[slice(*bounds)]
    expected = [row for row in live.to_pylist() if row["id"] in whole]
    scanner = metadata.scan_row_range(dataset, 0, *bounds, filter=filter)
    assert scanner.to_table().to_pylist() == expected
    assert scanner.count_rows() == len(expected)
    columns = metadata.scan_row_range(dataset, 0, *bounds, columns=["name"], filter=filter, batch_size=3)
    assert columns.to_table()["name"].to_pylist() == [row["name"] for row in expected]


def test_scan_of_an_invalid_row_range_is_refused(uri) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    with pytest.raises(InvalidInputError, match="fragment 7 does not exist"):
        metadata.scan_row_range(dataset, 7, 0, 1)
    with pytest.raises(InvalidInputError, match=r"invalid row range \[2, 1\); expected 0 <= start <= stop"):
        metadata.scan_row_range(dataset, 0, 2, 1)
