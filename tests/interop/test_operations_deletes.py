"""Deletion files and merged deletes, when each implementation commits after the other."""

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation as Theirs
from pyroaring import BitMap

import lance_core
from lance_core import LanceOperation as Ours
from lance_core.commit.commit import commit
from lance_core.errors import InvalidInputError, NotFoundError, RetryableCommitConflictError
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.transaction import Transaction
from tests.support.deletes import deleted_rows, planned_delete

Rows = dict[int, BitMap]


def _create(uri: str, num_rows: int = 40, rows_per_fragment: int = 10, **options: object) -> None:
    rows = pa.table({"a": pa.array(range(num_rows), pa.int64()), "s": [f"v{row}" for row in range(num_rows)]})
    lance.write_dataset(rows, uri, max_rows_per_file=rows_per_fragment, **options)


def _plan(uri: str, rows: Rows, version: int = 1) -> Transaction:
    return planned_delete(lance_core.dataset(uri).log, version, rows, predicate="ours")


def _commit(uri: str, transaction: Transaction, rows: Rows | None) -> None:
    commit(lance_core.dataset(uri).log, transaction, CommitOptions(affected_rows=rows))


def _left(uri: str) -> list[int]:
    """Return the values of column a, which must be equal in both libraries after validation."""
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    assert ours.version == theirs.version
    ours.validate()
    theirs.validate()
    rows = ours.to_table()
    assert rows.equals(theirs.to_table())
    assert ours.count_rows() == theirs.count_rows() == rows.num_rows
    return rows["a"].to_pylist()


def _without(*gone: int, num_rows: int = 40) -> list[int]:
    return [row for row in range(num_rows) if row not in gone]


def test_a_stale_delete_by_lance_core_is_merged_with_a_pylance_delete(uri: str) -> None:
    _create(uri)
    rows = {0: BitMap([3]), 1: BitMap([1])}
    stale = _plan(uri, rows)
    lance.dataset(uri).delete("a in (5, 6, 25)")
    _commit(uri, stale, rows)
    assert _left(uri) == _without(3, 5, 6, 11, 25)
    recorded = lance.dataset(uri).read_transaction(3)
    assert (recorded.read_version, recorded.uuid) == (2, stale.uuid)
    assert [(each.id, each.deletion_file.file_type) for each in recorded.operation.updated_fragments] == [
        (0, "bitmap"),
        (1, "array"),
    ]


def test_a_stale_delete_by_pylance_is_merged_with_a_lance_core_delete(uri: str) -> None:
    _create(uri)
    stale = lance.dataset(uri)
    rows = {0: BitMap([3]), 1: BitMap([1])}
    _commit(uri, _plan(uri, rows), rows)
    stale.delete("a in (5, 6, 25)")
    assert _left(uri) == _without(3, 5, 6, 11, 25)
    assert lance_core.dataset(uri).read_transaction(3).read_version == 2


def test_merged_deletes_have_the_same_files_and_records_as_in_pylance(tmp_path: Path) -> None:
    """The same two deletes, the second of them stale, give equal files, records, and names in two copies."""
    uris = [str(tmp_path / name) for name in ("theirs", "ours")]
    for uri in uris:
        _create(uri)
    stale = lance.dataset(uris[0])
    lance.dataset(uris[0]).delete("a in (5, 6)")
    stale.delete("a = 3")
    planned = _plan(uris[1], {0: BitMap([3])})
    lance.dataset(uris[1]).delete("a in (5, 6)")
    _commit(uris[1], planned, {0: BitMap([3])})
    seen = []
    for uri in uris:
        dataset = lance_core.dataset(uri)
        deletion = dataset.manifest.fragments[0].deletion_file
        path = dataset.locator.deletion_file(0, deletion).path
        recorded = dataset.read_transaction(3)
        seen.append(
            (
                deletion.file_type,
                deletion.read_version,
                deletion.num_deleted_rows,
                Path(path).read_bytes(),
                recorded.read_version,
                recorded.operation.deleted_fragment_ids,
                sorted(info.name[:1] for info in (Path(uri) / "_transactions").iterdir()),
                len(list((Path(uri) / "_deletions").iterdir())),
            )
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_deletes_of_the_same_row_are_not_merged(uri: str, first: str) -> None:
    _create(uri)
    planned = _plan(uri, {0: BitMap([3, 4])})
    stale = lance.dataset(uri)
    if first == "theirs":
        stale.delete("a in (4, 5)")
        with pytest.raises(RetryableCommitConflictError, match="both changes delete row 4 of fragment 0"):
            _commit(uri, planned, {0: BitMap([3, 4])})
        assert _left(uri) == _without(4, 5)
    else:
        _commit(uri, planned, {0: BitMap([3, 4])})
        # The reference plans its delete again.
        stale.delete("a in (4, 5)")
        assert _left(uri) == _without(3, 4, 5)


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_merged_deletes_that_leave_no_row_drop_the_fragment(uri: str, first: str) -> None:
    _create(uri)
    rows = {0: BitMap(range(5)), 1: BitMap([0])}
    planned = _plan(uri, rows)
    stale = lance.dataset(uri)
    if first == "theirs":
        stale.delete("a >= 5 and a < 10")
        _commit(uri, planned, rows)
    else:
        _commit(uri, planned, rows)
        stale.delete("a >= 5 and a < 10")
    assert _left(uri) == list(range(11, 40))
    recorded = lance.dataset(uri).read_transaction(3)
    assert (recorded.read_version, recorded.operation.deleted_fragment_ids) == (2, [0])
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [1, 2, 3]
    assert lance_core.dataset(uri).manifest.message.max_fragment_id == 3


def test_a_stale_delete_is_merged_with_an_update_of_other_rows(uri: str) -> None:
    _create(uri)
    planned = _plan(uri, {0: BitMap([3])})
    lance.dataset(uri).update({"s": "'new'"}, where="a in (5, 15)")
    _commit(uri, planned, {0: BitMap([3])})
    assert sorted(_left(uri)) == _without(3)
    rows = dict(zip(*lance.dataset(uri).to_table().to_pydict().values(), strict=True))
    assert (rows[5], rows[15], rows[4]) == ("new", "new", "v4")


def test_a_delete_of_a_concurrently_updated_row_conflicts(uri: str) -> None:
    _create(uri)
    planned = _plan(uri, {0: BitMap([5])})
    lance.dataset(uri).update({"s": "'new'"}, where="a = 5")
    with pytest.raises(RetryableCommitConflictError, match="both changes delete row 5"):
        _commit(uri, planned, {0: BitMap([5])})
    assert sorted(_left(uri)) == list(range(40))


def test_a_delete_conflicts_with_a_concurrent_column_rewrite(uri: str) -> None:
    _create(uri)
    planned = _plan(uri, {0: BitMap([5])})
    dataset = lance.dataset(uri)
    change = pa.table({"a": pa.array([7], pa.int64()), "s": ["changed"]})
    updated, fields = dataset.get_fragment(0).update_columns(change, left_on="a", right_on="a")
    operation = Theirs.Update(updated_fragments=[updated], fields_modified=fields, update_mode="rewrite_columns")
    lance.LanceDataset.commit(uri, operation, read_version=1)
    with pytest.raises(RetryableCommitConflictError, match="changed the data files of fragment 0"):
        _commit(uri, planned, {0: BitMap([5])})


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_many_stale_deletes_by_lance_core_and_pylance_are_merged(uri: str, stable: bool) -> None:
    _create(uri, enable_stable_row_ids=stable)
    plans = [(row, {row // 10: BitMap([row % 10])}) for row in range(0, 40, 4)]
    planned = [(_plan(uri, rows), rows) for _, rows in plans]
    handles = [lance.dataset(uri, version=1) for _ in range(0, 40, 4)]
    for number, (transaction, rows) in enumerate(planned):
        _commit(uri, transaction, rows)
        stale = handles[number]
        stale.checkout_latest()
        stale.delete(f"a = {4 * number + 1}")
    assert _left(uri) == [row for row in range(40) if row % 4 > 1]


@pytest.mark.parametrize(("num_deleted", "file_type"), [(4999, "arrow"), (5000, "bin")])
def test_deletion_files_become_bitmaps_at_the_same_row_count_as_in_pylance(
    tmp_path: Path, num_deleted: int, file_type: str
) -> None:
    uris = [str(tmp_path / name) for name in ("theirs", "ours")]
    for uri in uris:
        _create(uri, 20_000, 20_000)
    lance.dataset(uris[0]).delete(f"a % 3 = 0 and a < {3 * num_deleted}")
    rows = {0: BitMap(range(0, 3 * num_deleted, 3))}
    _commit(uris[1], _plan(uris[1], rows), rows)
    files = []
    for uri in uris:
        (file,) = (Path(uri) / "_deletions").iterdir()
        assert file.suffix == f".{file_type}"
        dataset = lance_core.dataset(uri)
        assert deleted_rows(dataset.log, dataset.manifest) == rows
        assert _left(uri) == [row for row in range(20_000) if row % 3 or row >= 3 * num_deleted]
        files.append(file.read_bytes())
    if file_type == "bin":
        assert files[0] == files[1]
    else:
        # The reference writes the rows in the order of its hash table.
        values = [pa.ipc.open_file(pa.py_buffer(data)).read_all().column(0).to_pylist() for data in files]
        assert sorted(values[0]) == values[1]


def test_pylance_deletes_rows_of_fragments_with_either_kind_of_deletion_file(uri: str) -> None:
    _create(uri, 30_000, 15_000)
    rows = {0: BitMap(range(10)), 1: BitMap(range(6000))}
    _commit(uri, _plan(uri, rows), rows)
    lance.dataset(uri).delete("a in (100, 29999)")
    assert _left(uri) == [*range(10, 100), *range(101, 15_000), *range(21_000, 29_999)]
    kinds = [each.deletion_file.file_type.value for each in lance_core.dataset(uri).manifest.fragments]
    assert kinds == ["arrow", "bin"]


def _written_by_theirs(uri: str) -> lance_core.FragmentMetadata:
    rows = lance.dataset(uri).to_table()
    return lance_core.FragmentMetadata.from_json(json.dumps(lance.fragment.LanceFragment.create(uri, rows).to_json()))


def test_the_deletion_file_flag_is_cleared_when_the_last_deletion_file_is_rewritten(uri: str) -> None:
    _create(uri)
    lance.dataset(uri).delete("a in (3, 15)")
    before = lance_core.dataset(uri)
    assert before.manifest.message.reader_feature_flags == 1
    fragments = before.get_fragments()
    reserved = lance_core.LanceDataset.commit(uri, Ours.ReserveFragments(1), read_version=2)
    new = _written_by_theirs(uri)
    new.id = reserved.manifest.message.max_fragment_id
    group = Ours.RewriteGroup([each.metadata for each in fragments], [new])
    made = lance_core.LanceDataset.commit(uri, Ours.Rewrite([group], []), read_version=2)
    assert (made.manifest.message.reader_feature_flags, made.manifest.message.writer_feature_flags) == (0, 0)
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [4]
    assert _left(uri) == _without(3, 15)


def test_a_rewrite_that_would_lose_or_bring_back_rows_is_refused(uri: str) -> None:
    _create(uri)
    whole = lance_core.dataset(uri).get_fragments()[0].metadata
    lance.dataset(uri).delete("a = 3")
    hidden = lance_core.dataset(uri).get_fragments()[0].metadata
    new = _written_by_theirs(uri)
    for old, match in ((hidden, "9 live rows, but the new fragments have 39"), (whole, "in version 2 differ from")):
        operation = Ours.Rewrite([Ours.RewriteGroup([old], [new])], [])
        with pytest.raises(InvalidInputError, match=match):
            lance_core.LanceDataset.commit(uri, operation, read_version=2)
    assert _left(uri) == _without(3)


def test_a_deletion_file_is_verified_before_the_commit(uri: str) -> None:
    _create(uri)
    lance.dataset(uri).delete("a in (3, 4)")
    dataset = lance_core.dataset(uri)

    def attempt(rows: Rows, spoil: Callable[[lance_core.FragmentMetadata], None] = lambda metadata: None) -> None:
        # Planned on version 1, which has no deleted rows, but recorded as planned on version 2.
        metadata = fragment_from_record(planned_delete(dataset.log, 1, rows).operation.updated_fragments[0])
        spoil(metadata)
        lance_core.LanceDataset.commit(uri, Ours.Delete([metadata], [], "x"), read_version=2)

    with pytest.raises(InvalidInputError, match="row at offset 4 is deleted in version 2, but not in the new record"):
        attempt({0: BitMap([3, 5])})
    with pytest.raises(NotFoundError):
        attempt({0: BitMap([3, 4, 5])}, lambda metadata: setattr(metadata.deletion_file, "id", 1))
    attempt({0: BitMap([3, 4, 5])})
    assert _left(uri) == _without(3, 4, 5)


def test_deletes_of_single_fragments_by_pylance_are_committed_together(uri: str) -> None:
    """In a distributed delete, workers return fragments, which one process commits."""
    _create(uri)
    updated, emptied = [], []
    for fragment in lance.dataset(uri).get_fragments():
        metadata = fragment.delete("a < 13")
        if metadata is None:
            emptied.append(fragment.fragment_id)
        elif metadata.num_deletions:
            updated.append(lance_core.FragmentMetadata.from_json(json.dumps(metadata.to_json())))
    made = lance_core.LanceDataset.commit(uri, Ours.Delete(updated, emptied, "a < 13"), read_version=1)
    assert (made.version, emptied, [each.id for each in updated]) == (2, [0], [1])
    assert _left(uri) == list(range(13, 40))


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_pylance_indices_return_correct_rows_after_a_delete_by_lance_core(uri: str, kind: str, stable: bool) -> None:
    _create(uri, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("a", kind)
    rows = {0: BitMap([3]), 2: BitMap(range(10))}
    _commit(uri, _plan(uri, rows, version=2), rows)
    for value in range(40):
        expected = [] if value == 3 or 20 <= value < 30 else [value]
        assert lance.dataset(uri).to_table(filter=f"a = {value}")["a"].to_pylist() == expected
    lance.dataset(uri).validate()


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_pylance_indices_return_correct_rows_after_a_rewrite_by_lance_core(uri: str, kind: str) -> None:
    _create(uri)
    lance.dataset(uri).create_scalar_index("a", kind)
    lance.dataset(uri).delete("a in (3, 15)")
    fragments = lance_core.dataset(uri).get_fragments()
    group = Ours.RewriteGroup([each.metadata for each in fragments], [_written_by_theirs(uri)])
    lance_core.LanceDataset.commit(uri, Ours.Rewrite([group], []), read_version=3)
    for _ in range(2):
        for value in (0, 3, 14, 15, 39):
            expected = [] if value in (3, 15) else [value]
            assert lance.dataset(uri).to_table(filter=f"a = {value}")["a"].to_pylist() == expected
        # The same after the reference has updated its index.
        lance.dataset(uri).optimize.optimize_indices()
    assert _left(uri) == _without(3, 15)
