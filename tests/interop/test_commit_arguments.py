"""Commit arguments of the wrong type are refused with typed errors before anything is written."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import InvalidInputError, InvalidTypeError

LIBRARIES = pytest.mark.parametrize("library", [lance, lance_core])
SURROGATE = "\ud800"


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    return uri


def _files(uri: str) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(uri) for name in names}


def _delete(library: ModuleType, uri: str, properties: Any) -> None:
    library.dataset(uri).delete("a = 1", transaction_properties=properties)


def _append(library: ModuleType, uri: str, properties: Any) -> None:
    library.write_dataset(pa.table({"a": [9]}), uri, mode="append", transaction_properties=properties)


def _commit(library: ModuleType, uri: str, properties: Any) -> None:
    operation = library.LanceOperation.Delete([], [0], "true")
    library.LanceDataset.commit(uri, library.Transaction(1, operation, transaction_properties=properties))


@pytest.mark.parametrize("properties", [{"a": 1}, {1: "a"}, {"a": None}, {"a": SURROGATE}, [1], "ab", 5], ids=repr)
@pytest.mark.parametrize("change", [_delete, _append, _commit])
def test_transaction_properties_that_are_not_strings_are_refused(
    uri: str, change: Callable[[ModuleType, str, Any], None], properties: object
) -> None:
    before = _files(uri)
    with pytest.raises(InvalidInputError, match="transaction_properties"):
        change(lance_core, uri, properties)
    assert _files(uri) == before


@pytest.mark.parametrize("message", [5, b"x", SURROGATE], ids=repr)
def test_commit_messages_that_are_not_strings_are_refused(uri: str, message: Any) -> None:
    before = _files(uri)
    with pytest.raises(InvalidInputError, match="message"):
        lance_core.write_dataset(pa.table({"a": [9]}), uri, mode="append", commit_message=message)
    with pytest.raises(InvalidInputError, match="message"):
        lance_core.LanceDataset.commit(
            uri, LanceOperation.Delete([], [0], "true"), read_version=1, commit_message=message
        )
    assert _files(uri) == before


CALLS: dict[str, Callable[[ModuleType, str], object]] = {
    "version of text": lambda library, uri: library.dataset(uri).read_transaction("1"),
    "version of float": lambda library, uri: library.dataset(uri).read_transaction(1.0),
    "no number of transactions": lambda library, uri: library.dataset(uri).get_transactions(None),
    "float of transactions": lambda library, uri: library.dataset(uri).get_transactions(1.0),
    "text of keys": lambda library, uri: library.dataset(uri).delete_config_keys("ab"),
    "no keys": lambda library, uri: library.dataset(uri).delete_config_keys(None),
    "number as key": lambda library, uri: library.dataset(uri).delete_config_keys(["a", 1]),
    "pairs of config": lambda library, uri: library.dataset(uri).update_config([("a", "b")]),
    "pairs of table metadata": lambda library, uri: library.dataset(uri).update_metadata([("a", "b")]),
    "pairs of schema metadata": lambda library, uri: library.dataset(uri).update_schema_metadata([("a", "b")]),
    "pairs of field metadata": lambda library, uri: library.dataset(uri).update_field_metadata({"a": [("k", "v")]}),
    "pairs of fields": lambda library, uri: library.dataset(uri).update_field_metadata([("a", {"k": "v"})]),
}


@LIBRARIES
@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_the_wrong_type_raise_type_errors_in_lance_core_and_pylance(
    uri: str, library: ModuleType, call: str
) -> None:
    before = _files(uri)
    with pytest.raises(TypeError if library is lance else InvalidTypeError):
        CALLS[call](library, uri)
    assert _files(uri) == before


@pytest.mark.parametrize(
    "operation",
    [
        LanceOperation.UpdateConfig(config_updates={"a": "b"}),  # type: ignore[arg-type]  # the mistake
        LanceOperation.Delete([], None, "x"),  # type: ignore[arg-type]  # the mistake
        LanceOperation.Restore("1"),  # type: ignore[arg-type]  # the mistake
    ],
    ids=["config", "delete", "restore"],
)
def test_operation_attributes_of_the_wrong_type_raise_invalid_type(
    uri: str, operation: LanceOperation.BaseOperation
) -> None:
    before = _files(uri)
    with pytest.raises(InvalidTypeError):
        lance_core.LanceDataset.commit(uri, operation, read_version=1)
    assert _files(uri) == before


def test_a_commit_timeout_that_is_not_a_timedelta_is_refused(uri: str) -> None:
    with pytest.raises(InvalidTypeError, match="commit_timeout must be a timedelta, found 5"):
        lance_core.LanceDataset.commit(
            uri,
            LanceOperation.Delete([], [0], "true"),
            read_version=1,
            commit_timeout=5,  # type: ignore[arg-type]  # the mistake
        )


@pytest.mark.parametrize("wanted", [0, 1, 2, 10**6])
def test_transactions_of_a_branch_and_of_a_detached_version_equal_those_of_pylance(uri: str, wanted: int) -> None:
    lance.write_dataset(pa.table({"a": [9]}), uri, mode="append")
    detached = lance.LanceDataset.commit(
        uri, lance.LanceOperation.Delete([], [0], "true"), read_version=2, detached=True
    )
    for version in (2, detached.version):
        theirs, ours = (
            library.dataset(uri, version=version).get_transactions(wanted) for library in (lance, lance_core)
        )
        assert [each.uuid for each in ours] == [each.uuid for each in theirs]
    with pytest.raises(InvalidInputError, match="recent_transactions must not be negative, found -1"):
        lance_core.dataset(uri).get_transactions(-1)


def test_a_fragment_appended_twice_is_refused(uri: str) -> None:
    fragments = lance_core.write_fragments(pa.table({"a": [9]}), uri)
    with pytest.raises(InvalidInputError, match="would be duplicated"):
        lance_core.LanceDataset.commit(uri, LanceOperation.Append(fragments * 2), read_version=1)
    transaction = lance_core.Transaction(1, LanceOperation.Append(fragments))
    with pytest.raises(InvalidInputError, match="would be duplicated"):
        lance_core.LanceDataset.commit_batch(uri, [transaction, transaction])
    lance_core.LanceDataset.commit_batch(uri, [transaction])
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 9]


@pytest.mark.parametrize("picked", [slice(None), slice(1, 2), slice(None, None, -1)], ids=["all", "one", "reversed"])
def test_an_overwrite_may_keep_fragments_and_their_row_ids(tmp_path: Path, picked: slice) -> None:
    found = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(pa.table({"a": [1, 2, 3, 4]}), uri, max_rows_per_file=2, enable_stable_row_ids=True)
        lance.write_dataset(pa.table({"a": [5]}), uri, mode="append")
        dataset = library.dataset(uri)
        fragments = [fragment.metadata for fragment in dataset.get_fragments()][picked]
        library.LanceDataset.commit(uri, library.LanceOperation.Overwrite(dataset.schema, fragments), read_version=2)
        lance.dataset(uri).validate()
        lance_core.dataset(uri).validate()
        columns = ["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        found.append(lance.dataset(uri).scanner(columns=columns).to_table())
        assert lance_core.dataset(uri).manifest.message.next_row_id == 5
    assert found[0] == found[1]


def test_an_overwrite_with_duplicate_row_ids_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "stable")
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, enable_stable_row_ids=True)
    dataset = lance_core.dataset(uri)
    (first,) = (fragment.metadata for fragment in dataset.get_fragments())
    (second,) = lance_core.write_fragments(pa.table({"a": [3, 4]}), uri)
    second.row_id_meta = first.row_id_meta
    with pytest.raises(InvalidInputError, match="have the same row id"):
        lance_core.LanceDataset.commit(uri, LanceOperation.Overwrite(dataset.schema, [first, second]), read_version=1)


@LIBRARIES
def test_conflict_error_states_whether_the_operation_can_be_retried(library: ModuleType, uri: str) -> None:
    operation = library.LanceOperation.Project(library.dataset(uri).lance_schema)
    library.LanceDataset.commit(uri, operation, read_version=1)
    with pytest.raises(OSError, match="conflict") as conflict:
        library.LanceDataset.commit(uri, operation, read_version=1)
    assert conflict.value.retryable
    fragments = [fragment.metadata for fragment in library.dataset(uri).get_fragments()]
    library.write_dataset(pa.table({"z": [1.0]}), uri, mode="overwrite")
    with pytest.raises(OSError, match=r"conflict|incompatible") as incompatible:
        library.LanceDataset.commit(uri, library.LanceOperation.Append(fragments), read_version=2)
    assert not incompatible.value.retryable
