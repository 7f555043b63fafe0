"""Replacing rows: versions, files, and conflicts. All datasets are in memory."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.delete import plan
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    TooMuchWriteContentionError,
)
from lance_core.metadata import commit_replacement
from lance_core.update import replace
from tests.support.counting_store import CountingStore

UUID = "11111111-2222-4333-8444-555555555555"


def _rows(**days: list[int]) -> pa.Table:
    """Return rows by day: ``_rows(d1=[10, 11])`` has two rows of day 1."""
    pairs = [(int(day[1:]), value) for day, values in days.items() for value in values]
    return pa.table({"day": pa.array([each[0] for each in pairs], pa.int64()), "v": [each[1] for each in pairs]})


NO_DAY = pa.table({"day": pa.nulls(1, pa.int64()), "v": [1]})
ROWS = _rows(d1=[10, 11], d2=[20, 21], d3=[30])


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of five rows of three days in two fragments: [1, 1, 2] and [2, 3]."""
    return lance_core.write_dataset(ROWS, uri, max_rows_per_file=3)


def _values(dataset: lance_core.LanceDataset) -> list[int]:
    return sorted(dataset.to_table(columns=["v"])["v"].to_pylist())


def _files(store: CountingStore) -> set[str]:
    return {info.path for folder in ("data", "_deletions") for info in store.inner.list(f"table/{folder}")}


def test_replacement_deletes_matching_rows_and_adds_new_ones_in_one_version(
    dataset: lance_core.LanceDataset, uri: str
) -> None:
    answer = dataset.replace_rows("day = 2", _rows(d2=[200, 201, 202]), max_rows_per_file=2)
    assert answer == {"num_deleted_rows": 2, "num_inserted_rows": 3}
    assert dataset.version == 2
    assert _values(dataset) == _values(lance_core.dataset(uri)) == [10, 11, 30, 200, 201, 202]
    assert [each.num_deletions for each in dataset.get_fragments()] == [1, 1, 0, 0]
    assert _values(dataset.checkout_version(1)) == [10, 11, 20, 21, 30]
    dataset.validate()


def test_replacement_is_an_update_that_moves_no_rows(dataset: lance_core.LanceDataset) -> None:
    dataset.replace_rows("day >= 2", _rows(d2=[5]), transaction_properties={"why": "test"})
    transaction = dataset.read_transaction(2)
    operation = transaction.operation
    assert transaction.transaction_properties == {"why": "test"}
    assert isinstance(operation, lance_core.LanceOperation.Update)
    assert (operation.removed_fragment_ids, [each.id for each in operation.updated_fragments]) == ([1], [0])
    assert (operation.update_mode, operation.fields_modified) == ("rewrite_rows", [])


def test_replacement_accepts_expressions_and_rows_of_every_supported_type(dataset: lance_core.LanceDataset) -> None:
    dataset.replace_rows(pc.field("day") == 3, {"day": [3], "v": [33]})
    dataset.replace_rows("day = 4", [{"day": 4, "v": 44}])
    dataset.replace_rows("day = 1", [], schema=ROWS.schema)
    assert _values(dataset) == [20, 21, 33, 44]


def test_rows_for_which_the_predicate_is_null_are_kept(uri: str) -> None:
    dataset = lance_core.write_dataset(pa.table({"day": [1, None], "v": [1, 2]}), uri)
    dataset.replace_rows("day = 1", _rows(d1=[3]))
    assert _values(dataset) == [2, 3]
    dataset.replace_rows("day is null", pa.table({"day": pa.nulls(1, pa.int64()), "v": [4]}))
    assert _values(dataset) == [3, 4]


@pytest.mark.parametrize(
    ("predicate", "rows", "error", "text"),
    [
        ("day = 2", _rows(d2=[1], d3=[2, 3]), InvalidInputError, "found 1 matching row among 3 new rows"),
        ("day = 2", NO_DAY, InvalidInputError, "found 0 matching rows among 1 new row"),
        ("dax = 2", _rows(d2=[1]), InvalidInputError, "dax"),
        ("day = ", _rows(d2=[1]), InvalidInputError, "predicate|filter|expression"),
        ("day = 2", pa.table({"day": [2], "w": [1]}), SchemaMismatchError, "'w'"),
        ("day = 2", pa.table({"day": ["2"], "v": [1]}), SchemaMismatchError, "'day'"),
    ],
)
def test_refused_replacements_change_nothing_and_leave_no_files(
    dataset: lance_core.LanceDataset,
    store: CountingStore,
    predicate: str,
    rows: pa.Table,
    error: type[LanceError],
    text: str,
) -> None:
    before = _files(store)
    with pytest.raises(error, match=text):
        dataset.replace_rows(predicate, rows)
    assert dataset.latest_version == 1
    assert _files(store) == before


def test_invalid_predicate_of_a_replacement_is_reported_before_any_row_is_read(
    dataset: lance_core.LanceDataset,
) -> None:
    def rows() -> Any:
        raise AssertionError("rows were read")
        yield

    with pytest.raises(InvalidInputError, match="dax"):
        dataset.replace_rows("dax = 2", rows(), schema=ROWS.schema)


def test_replacement_also_replaces_rows_of_a_concurrent_replacement_that_match_its_predicate(
    dataset: lance_core.LanceDataset, uri: str
) -> None:
    lance_core.dataset(uri).replace_rows("day = 9", _rows(d9=[90, 91]))
    assert dataset.replace_rows("day = 9", _rows(d9=[99])) == {"num_deleted_rows": 2, "num_inserted_rows": 1}
    assert _values(dataset) == [10, 11, 20, 21, 30, 99]
    assert dataset.version == 3


RIVALS: dict[str, tuple[Callable[[lance_core.LanceDataset], object], list[int]]] = {
    "replacement of other rows in the same fragment": (
        lambda dataset: dataset.replace_rows("day = 1", _rows(d1=[1])),
        [1, 30, 200],
    ),
    "append of matching rows": (
        lambda dataset: lance_core.write_dataset(_rows(d2=[22], d4=[40]), dataset.uri, mode="append"),
        [10, 11, 30, 40, 200],
    ),
    "delete of another row in the same fragment": (lambda dataset: dataset.delete("v = 10"), [11, 30, 200]),
    "delete of the same row": (lambda dataset: dataset.delete("v = 20"), [10, 11, 30, 200]),
    "delete of everything": (lambda dataset: dataset.delete("true"), [200]),
    "compaction": (lambda dataset: dataset.optimize.compact_files(), [10, 11, 30, 200]),
    "another column": (lambda dataset: dataset.add_columns(pa.field("w", pa.int8())), [10, 11, 30, 200]),
    "config": (lambda dataset: dataset.update_config({"key": "value"}), [10, 11, 30, 200]),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_replacement_concurrent_with_another_change_has_the_result_of_both_in_succession(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore, rival: str
) -> None:
    act, expected = RIVALS[rival]
    act(lance_core.dataset(uri))
    dataset.replace_rows("day = 2", _rows(d2=[200]))
    assert _values(dataset) == expected
    dataset.validate()
    referenced = {file.path for each in dataset.get_fragments() for file in each.metadata.files}
    assert len([path for path in _files(store) if "/data/" in path]) >= len(referenced)


def test_replacement_that_is_planned_repeatedly_writes_new_rows_once_and_searches_each_fragment_once(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, rivals = [], 3
    search, commit = plan._search, replace.commit_plan

    def counted(fragments: Any, *arguments: Any) -> Any:
        searched.extend(fragment.files[0].path for fragment in fragments)
        return search(fragments, *arguments)

    def overtaken(*arguments: Any, **more: Any) -> Any:
        nonlocal rivals
        if rivals:
            rivals -= 1
            lance_core.write_dataset(_rows(d4=[40]), uri, mode="append")
        return commit(*arguments, **more)

    monkeypatch.setattr(plan, "_search", counted)
    monkeypatch.setattr(replace, "commit_plan", overtaken)
    dataset.replace_rows("day = 2", _rows(d2=[200]), retry_timeout=timedelta(minutes=5))
    # The new fragment, the two existing fragments, and those added by the other writers are searched once each.
    assert len(searched) == len(set(searched)) == 1 + 2 + 3
    data_files = [path for path in _files(store) if "/data/" in path]
    assert len(data_files) == sum(len(each.metadata.files) for each in dataset.get_fragments())
    assert dataset.version == 1 + 3 + 1


def test_concurrent_overwrite_invalidates_the_replacement(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    before = _files(store)
    with pytest.raises(IncompatibleTransactionError):
        dataset.replace_rows("day = 2", _rows(d2=[200]))
    assert _files(store) == before


def test_replace_rows_gives_up_after_too_many_conflicts_and_removes_its_files(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    lance_core.write_dataset(ROWS, uri, mode="append")
    before = _files(store)
    with pytest.raises(TooMuchWriteContentionError, match="replacement failed"):
        dataset.replace_rows("day = 2", _rows(d2=[200]), conflict_retries=0)
    assert _files(store) == before
    assert dataset.latest_version == 2


def test_replace_rows_with_a_column_of_a_changed_type_is_refused(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    other = lance_core.dataset(uri)
    kept = other.lance_schema.__class__(fields=other.lance_schema.fields[:1])
    other = lance_core.LanceDataset.commit(other, lance_core.LanceOperation.Project(kept), read_version=1)
    other.add_columns(pa.field("v", pa.string()))
    before = _files(store)
    with pytest.raises((SchemaMismatchError, InvalidInputError)):
        dataset.replace_rows("day = 2", _rows(d2=[200]))
    assert _files(store) == before


def test_a_table_with_stable_row_ids_gives_new_rows_new_ids(uri: str) -> None:
    dataset = lance_core.write_dataset(ROWS, uri, enable_stable_row_ids=True)
    dataset.replace_rows("day = 2", _rows(d2=[200, 201]))
    ids = dataset.scanner(with_row_id=True).to_table()
    assert dict(zip(ids["v"].to_pylist(), ids["_rowid"].to_pylist(), strict=True)) == {
        10: 0, 11: 1, 30: 4, 200: 5, 201: 6,
    }  # fmt: skip


def test_staged_fragments_replace_rows_once_per_transaction(dataset: lance_core.LanceDataset, uri: str) -> None:
    fragments = lance_core.write_fragments(_rows(d2=[200]), uri)
    unmoved = lance_core.dataset(uri)
    made = commit_replacement(dataset, "day = 2", fragments, transaction_uuid=UUID, properties={"a": "b"})
    assert dataset.version == 2
    again = commit_replacement(unmoved, "day = 2", fragments, transaction_uuid=UUID)
    assert (made.view.version, again.view.version, lance_core.dataset(uri).version) == (2, 2, 2)
    assert (made.rows_deleted, made.rows_added) == (2, 1)
    assert _values(lance_core.dataset(uri)) == [10, 11, 30, 200]
    assert lance_core.dataset(uri).read_transaction(2).uuid == UUID


def test_staged_fragments_are_kept_after_a_conflict_and_committed_on_the_latest_version(
    dataset: lance_core.LanceDataset, uri: str
) -> None:
    fragments = lance_core.write_fragments(_rows(d2=[200]), uri)
    lance_core.write_dataset(_rows(d2=[22]), uri, mode="append")
    with pytest.raises(RetryableCommitConflictError):
        commit_replacement(dataset, "day = 2", fragments, transaction_uuid=UUID)
    made = commit_replacement(lance_core.dataset(uri), "day = 2", fragments, transaction_uuid=UUID)
    assert made.rows_deleted == 3
    assert _values(lance_core.dataset(uri)) == [10, 11, 30, 200]


def test_staged_fragments_that_are_missing_or_do_not_match_are_refused(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    fragments = lance_core.write_fragments(_rows(d2=[200]), uri)
    with pytest.raises(InvalidInputError, match="found 0 matching rows among 1 new row"):
        commit_replacement(dataset, "day = 3", fragments, transaction_uuid=UUID)
    store.inner.delete(f"table/data/{fragments[0].files[0].path}")
    with pytest.raises(NotFoundError):
        commit_replacement(dataset, "day = 2", fragments, transaction_uuid=UUID)
    assert dataset.latest_version == 1


def test_replacement_in_a_table_with_unknown_writer_features_is_refused(uri: str) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    dataset.manifest.message.writer_feature_flags |= 1 << 40
    with pytest.raises(NotSupportedError):
        dataset.replace_rows("day = 2", _rows(d2=[200]))
