"""LanceDataset.commit: what is checked, and which exception is raised for each outcome."""

import dataclasses
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core import FragmentMetadata, LanceDataset, LanceOperation, Transaction
from lance_core.commit import commit as commit_module
from lance_core.errors import (
    DatasetNotFoundError,
    IncompatibleTransactionError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from lance_core.schema.field import Field, Schema
from lance_core.table.version_log import VersionLog
from tests.support.counting_store import CountingStore

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", "y", "z"]})


@pytest.fixture
def table(uri: str) -> str:
    lance_core.write_dataset(ROWS, uri)
    return uri


def _fragment(uri: str, rows: pa.Table = ROWS, mode: str = "append") -> FragmentMetadata:
    [fragment] = lance_core.write_fragments(rows, uri, mode=mode)
    return fragment


def _append(uri: str, *fragments: FragmentMetadata, read_version: int = 1, **arguments: object) -> LanceDataset:
    return LanceDataset.commit(uri, LanceOperation.Append(list(fragments)), read_version=read_version, **arguments)


def _changed(fragment: FragmentMetadata, **changes: object) -> FragmentMetadata:
    """Return a copy with a changed value in the fragment or in its only data file."""
    names = {field.name for field in dataclasses.fields(fragment)}
    own = {key: value for key, value in changes.items() if key in names}
    file = {key: value for key, value in changes.items() if key not in names}
    return dataclasses.replace(fragment, files=[dataclasses.replace(fragment.files[0], **file)], **own)


def test_fragments_of_several_writers_are_committed_as_one_version(table: str) -> None:
    fragments = [_fragment(table), _fragment(table)]
    made = _append(table, *fragments, commit_message="both")
    assert (made.version, made.count_rows()) == (2, 9)
    assert made.read_transaction(2).transaction_properties == {"__lance_commit_message": "both"}
    made.validate()


def test_commit_checks_its_files_once_despite_several_attempts(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, real_check, real_create = [], commit_module.check_storage, VersionLog.create

    def count_check(*arguments: object) -> None:
        checked.append(arguments[-1].version)
        real_check(*arguments)

    def lose_the_first_race(log: VersionLog, *arguments: object) -> object:
        monkeypatch.setattr(VersionLog, "create", real_create)
        lance_core.write_dataset(ROWS, table, mode="append")
        checked.clear()
        return real_create(log, *arguments)

    fragment = _fragment(table)
    monkeypatch.setattr(commit_module, "check_storage", count_check)
    monkeypatch.setattr(VersionLog, "create", lose_the_first_race)
    assert _append(table, fragment).version == 3
    assert checked == [], "the second attempt checks nothing again"


def test_overwrite_commit_creates_a_dataset(uri: str) -> None:
    fragment = _fragment(uri, mode="create")
    made = LanceDataset.commit(uri, LanceOperation.Overwrite(ROWS.schema, [fragment]))
    assert made.version == 1
    assert made.to_table().equals(ROWS)


@pytest.mark.parametrize("read_version", [0, 1])
def test_commit_of_an_append_without_a_dataset_raises_not_found(uri: str, read_version: int) -> None:
    fragment = _fragment(uri, mode="create")
    with pytest.raises(DatasetNotFoundError):
        _append(uri, fragment, read_version=read_version)


def test_overwrite_planned_on_a_version_of_a_missing_dataset_raises_not_found(uri: str) -> None:
    fragment = _fragment(uri, mode="create")
    with pytest.raises(DatasetNotFoundError):
        LanceDataset.commit(uri, LanceOperation.Overwrite(ROWS.schema, [fragment]), read_version=3)


def test_commit_with_invalid_arguments_is_refused(table: str) -> None:
    operation = LanceOperation.Append([_fragment(table)])
    with pytest.raises(ValueError, match="read_version is required"):
        LanceDataset.commit(table, operation)
    with pytest.raises(VersionNotFoundError):
        LanceDataset.commit(table, operation, read_version=9)
    with pytest.raises(InvalidInputError, match="read_version"):
        LanceDataset.commit(table, operation, read_version=-1)
    with pytest.raises(InvalidInputError, match="max_retries"):
        LanceDataset.commit(table, operation, read_version=1, max_retries=-1)
    with pytest.raises(InvalidInputError, match="commit_timeout"):
        LanceDataset.commit(table, operation, read_version=1, commit_timeout=timedelta(0))
    with pytest.raises(TypeError):
        LanceDataset.commit(table, "append", read_version=1)
    with pytest.raises(TypeError):
        LanceDataset.commit(3, operation, read_version=1)
    with pytest.raises(TypeError):
        LanceOperation.Append([1])
    with pytest.raises(TypeError):
        LanceOperation.Append(_fragment(table))
    with pytest.raises(InvalidInputError, match="commit_message"):
        LanceDataset.commit(table, Transaction(1, operation), commit_message="x")
    with pytest.raises(InvalidInputError, match="malformed transaction UUID"):
        LanceDataset.commit(table, Transaction(1, operation, uuid="mine"))
    with pytest.raises(NotSupportedError, match="detached"):
        LanceDataset.commit(table, LanceOperation.Overwrite(ROWS.schema, []), detached=True)
    with pytest.raises(NotSupportedError, match="delete"):
        LanceDataset.commit(table, LanceOperation.Other("delete"), read_version=1)
    assert lance_core.dataset(table).latest_version == 1


def test_committing_a_transaction_twice_creates_one_version(table: str) -> None:
    transaction = Transaction(1, LanceOperation.Append([_fragment(table)]), transaction_properties={"k": "v"})
    first = LanceDataset.commit(table, transaction)
    lance_core.write_dataset(ROWS, table, mode="append")
    again = LanceDataset.commit(table, transaction)
    assert (first.version, again.version) == (2, 2)
    assert lance_core.dataset(table).count_rows() == 9
    assert again.read_transaction(2) == transaction


def test_repeated_commit_succeeds_after_its_files_were_removed(table: str, store: CountingStore) -> None:
    fragment = _fragment(table)
    transaction = Transaction(1, LanceOperation.Append([fragment]))
    LanceDataset.commit(table, transaction)
    store.delete(f"table/data/{fragment.files[0].path}")
    assert LanceDataset.commit(table, transaction).version == 2


def test_commit_conflicts_raise_incompatible_or_retryable_errors(table: str) -> None:
    fragment = _fragment(table)
    lance_core.write_dataset(ROWS, table, mode="overwrite")
    with pytest.raises(IncompatibleTransactionError, match=r"version 2: .* 'overwrite'"):
        _append(table, fragment)
    operation = LanceOperation.Overwrite(ROWS.schema, [_fragment(table, mode="overwrite")])
    with pytest.raises(RetryableCommitConflictError, match="plan the change again, based on that version"):
        LanceDataset.commit(table, operation, read_version=1)
    assert LanceDataset.commit(table, operation, read_version=2).version == 3


# ── Checks before anything is written ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"file_size_bytes": 7}, "bytes, but the fragment records 7"),
        ({"physical_rows": 4}, "3 rows, but the fragment records 4"),
        ({"physical_rows": 0}, "0 rows"),
        ({"file_minor_version": 1}, r" 2\.1"),
        ({"fields": []}, "0 fields and 2 column indices"),
        ({"fields": [], "column_indices": []}, "no field of the table"),
        ({"column_indices": []}, "2 fields and 0 column indices"),
        ({"column_indices": [0, 5]}, "column index 5"),
        ({"fields": [0, 0]}, "twice"),
        ({"fields": [0, 9]}, r"field ids \[9\]"),
        ({"fields": [1, 0]}, "field 1 is 'a'"),
        ({"base_id": 3}, "base path 3"),
        (
            {"deletion_file": lance_core.DeletionFile(1, 2, "array", 1)},
            "deletion file",
        ),
        ({"row_id_meta": {"Inline": [1]}}, "row ids"),
    ],
)
@pytest.mark.parametrize("operation", ["append", "overwrite"])
def test_commit_of_fragments_that_contradict_their_files_is_refused(
    table: str, store: CountingStore, changes: dict[str, object], words: str, operation: str
) -> None:
    fragment = _changed(_fragment(table), **changes)
    store.reset()
    wrong = {
        "append": LanceOperation.Append([fragment]),
        "overwrite": LanceOperation.Overwrite(ROWS.schema, [fragment]),
    }
    with pytest.raises(InvalidInputError, match=words):
        LanceDataset.commit(table, wrong[operation], read_version=1)
    assert not {call.method for call in store.calls} & {"put", "put_if_absent", "delete"}
    assert lance_core.dataset(table).version == 1


def test_commit_of_a_fragment_with_a_missing_file_raises_not_found(table: str, store: CountingStore) -> None:
    fragment = _fragment(table)
    store.delete(f"table/data/{fragment.files[0].path}")
    with pytest.raises(NotFoundError, match=fragment.files[0].path):
        _append(table, fragment)


def test_commit_of_a_fragment_with_an_unknown_file_size_succeeds(table: str) -> None:
    made = _append(table, _changed(_fragment(table), file_size_bytes=None))
    assert made.to_table().num_rows == 6


def test_commit_of_fragments_without_a_required_field_is_refused(uri: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    lance_core.write_dataset(ROWS.cast(schema), uri)
    fragment = _changed(_fragment(uri), fields=[-2, 1])
    with pytest.raises(SchemaMismatchError, match="lacks field 'a'"):
        _append(uri, fragment)


def test_overwrite_whose_field_ids_belong_to_other_columns_is_refused(table: str) -> None:
    # Written for the schema (a, b): field 0 is "a". In the schema (b, a) it would be "b".
    fragment = _fragment(table, mode="overwrite")
    swapped = pa.schema([ROWS.schema.field("b"), ROWS.schema.field("a")])
    with pytest.raises(SchemaMismatchError, match="field 0 is 'a'"):
        LanceDataset.commit(table, LanceOperation.Overwrite(swapped, [fragment]), read_version=1)
    with_ids = lance_core.dataset(table).lance_schema.project(["b", "a"])
    made = LanceDataset.commit(table, LanceOperation.Overwrite(with_ids, [fragment]), read_version=1)
    assert made.to_table().equals(ROWS.select(["b", "a"]))


def test_commit_of_a_fragment_that_is_already_in_the_table_is_refused(table: str) -> None:
    fragment = _fragment(table)
    _append(table, fragment)
    with pytest.raises(InvalidInputError, match="is already part of version 2"):
        _append(table, fragment, read_version=2)
    with pytest.raises(InvalidInputError, match="is already part of version 2"):
        _append(table, fragment, read_version=1)


def test_overwrite_of_an_existing_table_with_initial_bases_is_refused(table: str) -> None:
    operation = LanceOperation.Overwrite(ROWS.schema, [], initial_bases=[object()])
    with pytest.raises(InvalidTypeError, match="DatasetBasePath"):
        LanceDataset.commit(table, operation)
    operation = LanceOperation.Overwrite(ROWS.schema, [], initial_bases=[lance_core.DatasetBasePath("/a")])
    with pytest.raises(InvalidInputError, match="initial_bases"):
        LanceDataset.commit(table, operation)


@pytest.mark.parametrize("name", ["_rowid", "a.b"])
def test_overwrite_with_reserved_column_names_is_refused(uri: str, name: str) -> None:
    schema = Schema(fields=(Field(id=0, name=name, logical_type="int64"),))
    for new_schema in (schema, pa.schema([(name, pa.int64())])):
        with pytest.raises(InvalidInputError, match=f"top-level column '{name}'"):
            LanceDataset.commit(uri, LanceOperation.Overwrite(new_schema, []))
