"""Concurrent updates of one fragment by both libraries are merged if they change different rows."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment, RowIdSequence
from pyroaring import BitMap

import lance_core
from lance_core.commit.commit import commit
from lance_core.errors import RetryableCommitConflictError
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.public_transaction import transaction_to_core
from tests.support.matrix_operations import to_ours
from tests.support.twin_operations import rows


@pytest.fixture(params=["addresses", "stable"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    lance.write_dataset(rows(0, 20), path, max_rows_per_file=10, enable_stable_row_ids=request.param == "stable")
    return path


def _planned(uri: str, number: int) -> lance_core.Transaction:
    """Plan an update of one row on version 1."""
    dataset = lance.dataset(uri, version=1)
    new = LanceFragment.create(uri, pa.table({"a": pa.array([number], pa.int64()), "s": ["ours"]}))
    if dataset.has_stable_row_ids:
        new.row_id_meta = RowIdSequence([number]).to_inline_metadata()
    update = lance.LanceOperation.Update(
        updated_fragments=[dataset.get_fragment(number // 10).delete(f"a = {number}")],
        new_fragments=[new],
        fields_for_preserving_frag_bitmap=[1],
    )
    return lance_core.Transaction(1, to_ours(update))


def _commit(uri: str, transaction: lance_core.Transaction, number: int) -> None:
    options = CommitOptions(affected_rows={number // 10: BitMap([number % 10])})
    commit(lance_core.dataset(uri).log, transaction_to_core(transaction), options)


def _check_rows(uri: str, changed: dict[int, str]) -> None:
    dataset = lance.dataset(uri)
    dataset.validate()
    lance_core.dataset(uri).validate()
    table = dataset.to_table(with_row_id=True).sort_by("a")
    assert table["a"].to_pylist() == list(range(20))
    assert table["s"].to_pylist() == [changed.get(number, f"v{number}") for number in range(20)]
    if dataset.has_stable_row_ids:
        assert table["_rowid"].to_pylist() == list(range(20))
        columns = ["a", "_row_created_at_version", "_row_last_updated_at_version"]
        for row in dataset.to_table(columns=columns).to_pylist():
            assert row["_row_created_at_version"] == 1
            assert (row["_row_last_updated_at_version"] > 1) is (row["a"] in changed)


def test_an_update_by_lance_core_is_rebased_on_pylance_updates(uri: str) -> None:
    planned = _planned(uri, 3)
    lance.dataset(uri).update({"s": "'theirs'"}, where="a = 5")
    lance.dataset(uri).update({"s": "'theirs'"}, where="a = 6")
    _commit(uri, planned, 3)
    _check_rows(uri, {3: "ours", 5: "theirs", 6: "theirs"})
    fragment = lance_core.dataset(uri).get_fragment(0).metadata
    assert (fragment.deletion_file.file_type, fragment.num_deletions) == ("bitmap", 3)


def test_an_update_by_pylance_is_rebased_on_a_lance_core_update(uri: str) -> None:
    stale = lance.dataset(uri)
    _commit(uri, _planned(uri, 3), 3)
    stale.update({"s": "'theirs'"}, where="a = 5")
    assert lance.dataset(uri).version == 3
    _check_rows(uri, {3: "ours", 5: "theirs"})


def test_two_updates_of_the_same_row_conflict(uri: str) -> None:
    planned = _planned(uri, 3)
    lance.dataset(uri).update({"s": "'theirs'"}, where="a = 3")
    with pytest.raises(RetryableCommitConflictError, match="both changes delete row 3 of fragment 0"):
        _commit(uri, planned, 3)
    _check_rows(uri, {3: "theirs"})


def test_deletes_are_merged_with_updates_of_different_rows(uri: str) -> None:
    stale = lance_core.dataset(uri)
    lance.dataset(uri).update({"s": "'theirs'"}, where="a = 5")
    stale.delete("a = 3")
    assert lance.dataset(uri).to_table().sort_by("a")["a"].to_pylist() == [n for n in range(20) if n != 3]
    lance.dataset(uri).validate()


def test_a_fragment_emptied_by_two_writers_is_removed(uri: str) -> None:
    planned = _planned(uri, 3)
    lance.dataset(uri).delete("a < 10 and a != 3")
    _commit(uri, planned, 3)
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [1, 2]
    assert lance.dataset(uri).to_table(filter="a < 10").to_pylist() == [{"a": 3, "s": "ours"}]
    lance.dataset(uri).validate()
