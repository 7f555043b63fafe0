"""Tables that store row ids and row versions in hidden columns of data files are read and changed by both libraries."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.optimize import RewriteResult as TheirResult
from pyroaring import BitMap

import lance_core
from lance_core.errors import CorruptDataError
from lance_core.optimize import Compaction
from lance_core.table.manifest import Manifest
from tests.support.matrix_operations import to_ours
from tests.support.row_lineage import SPILL, assert_same_lineage, make, rows, update_by_ours

SPILLED = 2048


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with all ids and versions of fragment 0 in its data file, and some of fragment 1 in a separate file."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=True).update_config(SPILL)
    lance.write_dataset(rows(20, 30), uri, mode="append")
    lance.dataset(uri).delete("a in (2, 21)")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).update({"s": "'moved'"}, where="a in (3, 5, 22)")
    assert hidden_fields(uri) == [{-3, -4, -5}, {-3, -4}]
    return uri


def hidden_fields(uri: str) -> list[set[int]]:
    """Return the hidden columns of each fragment."""
    fragments = lance_core.dataset(uri).manifest.message.fragments
    return [{each for file in fragment.files for each in file.fields if each < 0} for fragment in fragments]


def is_flagged(uri: str) -> bool:
    """Return whether both flag words record spilled lineage."""
    message = lance_core.dataset(uri).manifest.message
    words = (message.reader_feature_flags & SPILLED, message.writer_feature_flags & SPILLED)
    assert words[0] == words[1]
    return bool(words[0])


def test_spilled_row_ids_and_versions_equal_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make(uri, stable=True, spill=True)
    assert is_flagged(uri)
    lineage = assert_same_lineage(uri, every_version=True)
    assert lineage[15][0] == 15
    assert len({each[0] for each in lineage.values()}) == len(lineage) == 83


def test_deletes_keep_spilled_row_ids_and_versions(uri: str) -> None:
    before = assert_same_lineage(uri)
    lance_core.dataset(uri).delete("a in (3, 4, 29)")
    after = assert_same_lineage(uri)
    assert after == {number: row for number, row in before.items() if number not in (3, 4, 29)}
    assert is_flagged(uri)
    lance_core.dataset(uri).delete("_rowid >= 22 and _row_last_updated_at_version > 2")
    assert assert_same_lineage(uri).keys() == {number for number in after if number < 22}


def test_updates_keep_spilled_row_ids_and_set_new_versions(uri: str) -> None:
    before = assert_same_lineage(uri)
    update_by_ours(uri, 5, 7, 29, fresh=2)
    version = lance.dataset(uri).version
    after = assert_same_lineage(uri)
    for number, (row_id, created, updated) in before.items():
        assert after[number] == (row_id, created, version if number in (5, 7, 29) else updated)
    assert [after[1000], after[1001]] == [(30, version, version), (31, version, version)]
    assert hidden_fields(uri) == [{-3, -4, -5}, {-3, -4}, set()]
    assert is_flagged(uri)
    lance.dataset(uri).update({"s": "'theirs'"}, where="a in (7, 8, 1000)")
    final = assert_same_lineage(uri)
    assert final[7][:2] == before[7][:2]
    assert final[1000][:2] == (30, version)


@pytest.mark.parametrize("commits_with", ["ours", "theirs"])
def test_compactions_keep_spilled_row_ids_and_versions(uri: str, commits_with: str) -> None:
    lance.dataset(uri).delete("a in (5, 9)")
    before = assert_same_lineage(uri)
    dataset, theirs = lance_core.dataset(uri), lance.dataset(uri)
    [task] = Compaction.plan(dataset, {"target_rows_per_fragment": 100}).tasks
    result = task.execute(dataset)
    if commits_with == "ours":
        Compaction.commit(dataset, [result])
    else:
        lance.optimize.Compaction.commit(theirs, [TheirResult.from_json(result.json())])
    assert assert_same_lineage(uri) == before
    assert hidden_fields(uri) == [set()]
    assert not is_flagged(uri)


def test_pylance_compactions_after_lance_core_changes_keep_spilled_row_ids(uri: str) -> None:
    update_by_ours(uri, 7, 29)
    lance_core.dataset(uri).delete("a in (1, 11, 22)")
    lance_core.write_dataset(rows(30, 35), uri, mode="append")
    before = assert_same_lineage(uri)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    assert assert_same_lineage(uri) == before
    assert hidden_fields(uri) == [{-3, -4, -5}]


def test_a_pylance_compaction_committed_by_lance_core_keeps_spilled_row_ids(uri: str) -> None:
    """Fragments with hidden columns set the flag, even in a table without the flag."""
    before = assert_same_lineage(uri)
    dataset = lance.dataset(uri)
    [task] = lance.optimize.Compaction.plan(dataset, {"target_rows_per_fragment": 100}).tasks
    result = lance_core.optimize.RewriteResult.from_json(task.execute(dataset).json())
    Compaction.commit(lance_core.dataset(uri), [result])
    assert assert_same_lineage(uri) == before
    assert hidden_fields(uri) == [{-3, -4, -5}]
    assert is_flagged(uri)


def test_the_delta_of_spilled_row_ids_equals_that_of_pylance(uri: str) -> None:
    update_by_ours(uri, 8, 28)
    lance_core.dataset(uri).delete("a in (4, 22)")
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    for begin in range(1, ours.version):
        mine, yours = ours.delta(begin), theirs.delta(begin)
        assert mine.get_inserted_rows().read_all().equals(yours.get_inserted_rows().read_all())
        assert mine.get_updated_rows().read_all().equals(yours.get_updated_rows().read_all())
        assert mine.get_deleted_row_ids().read_all().equals(yours.get_deleted_row_ids().read_all())


def test_a_new_column_keeps_spilled_row_ids_and_versions(uri: str) -> None:
    """Users receive and return the fragments, with hidden columns in the form of the reference."""
    before = assert_same_lineage(uri)
    dataset = lance_core.dataset(uri)
    fragments = []
    for fragment in dataset.get_fragments():
        name = f"{fragment.fragment_id}.lance"
        with lance_core.LanceFileWriter(str(Path(uri, "data", name)), pa.schema([("n", pa.int64())])) as writer:
            writer.write_batch(pa.table({"n": pa.array(range(fragment.physical_rows), pa.int64())}))
        fragments.append(fragment.metadata)
        fragments[-1].files.append(lance_core.DataFile(name, [dataset.max_field_id + 1], [0], 2, 2))
    operation = lance_core.LanceOperation.Merge(fragments, dataset.schema.append(pa.field("n", pa.int64())))
    lance_core.LanceDataset.commit(uri, operation, read_version=dataset.version)
    assert {number: row[:2] for number, row in assert_same_lineage(uri).items()} == {
        number: row[:2] for number, row in before.items()
    }
    assert hidden_fields(uri) == [{-3, -4, -5}, {-3, -4}]
    assert lance.dataset(uri).to_table().equals(lance_core.dataset(uri).to_table())
    lance.dataset(uri).drop_columns(["n"])
    assert_same_lineage(uri)


def test_a_merge_computed_by_pylance_keeps_spilled_row_ids(uri: str) -> None:
    """The new fragment contains the ids of moved rows in a hidden column."""
    merge = lance.dataset(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    transaction, _ = merge.execute_uncommitted(pa.concat_tables([rows(4, 9, "merged"), rows(75, 80, "merged")]))
    assert any(field < 0 for file in transaction.operation.new_fragments[0].files for field in file.fields)
    before = assert_same_lineage(uri)
    lance_core.LanceDataset.commit(uri, to_ours(transaction.operation), read_version=transaction.read_version)
    after = assert_same_lineage(uri)
    assert {number: row[:2] for number, row in after.items() if number < 75} == {
        number: row[:2] for number, row in before.items()
    }
    assert len(after) == len(before) + 5


@pytest.mark.parametrize("is_first", [False, True], ids=["last", "first"])
def test_a_rewritten_column_keeps_the_hidden_columns(uri: str, is_first: bool) -> None:
    dataset = lance_core.dataset(uri)
    fragment = dataset.get_fragments()[0].metadata
    field = dataset.lance_schema.field("s").id
    with lance_core.LanceFileWriter(f"{uri}/data/new.lance", pa.schema([("s", pa.string())])) as writer:
        writer.write_batch(pa.table({"s": ["n"] * fragment.physical_rows}))
    [old] = fragment.files
    old.fields = [-2 if each == field else each for each in old.fields]
    new = lance_core.DataFile("new.lance", [field], [0], 2, 2)
    fragment.files = [new, old] if is_first else [old, new]
    before = assert_same_lineage(uri)
    update = lance_core.LanceOperation.Update(
        removed_fragment_ids=[],
        updated_fragments=[fragment],
        new_fragments=[],
        fields_modified=[field],
        fields_for_preserving_frag_bitmap=[],
        update_mode="rewrite_columns",
        updated_fragment_offsets={fragment.id: BitMap([1, 2, 3]).serialize()},
    )
    made = lance_core.LanceDataset.commit(uri, update, read_version=dataset.version)
    after = assert_same_lineage(uri)
    changed = {number for number, row in after.items() if row != before[number]}
    assert {after[number][2] for number in changed} == {made.version}
    assert len(changed) <= 3


def test_restoring_a_version_restores_its_spilled_row_ids(uri: str) -> None:
    spilled = lance.dataset(uri).version
    lance_core.write_dataset(rows(100, 110), uri, mode="overwrite")
    assert not is_flagged(uri)
    assert {each[0] for each in assert_same_lineage(uri).values()} == set(range(30, 40))
    lance_core.dataset(uri, version=spilled).restore()
    assert is_flagged(uri)
    assert_same_lineage(uri)
    lance_core.write_dataset(rows(200, 210), uri, mode="append")
    assert min(each[0] for number, each in assert_same_lineage(uri).items() if number >= 200) == 40


def test_rows_are_found_by_spilled_row_id(uri: str) -> None:
    ours = lance_core.dataset(uri)
    assert ours._take_rows([22, 5, 29, 2, 5], ["a", "_rowid"]).to_pydict() == {
        "a": [22, 5, 29, 5],
        "_rowid": [22, 5, 29, 5],
    }


def _changed(uri: str, change: object) -> lance_core.LanceDataset:
    """Return the table with a changed manifest."""
    dataset = lance_core.dataset(uri)
    message = type(dataset.manifest.message)()
    message.CopyFrom(dataset.manifest.message)
    change(message)
    manifest = Manifest(message=message, naming=dataset.manifest.naming)
    return lance_core.LanceDataset.from_manifest(uri, dataset.log, manifest, None)


def test_missing_or_duplicate_hidden_columns_raise_corrupt_data(uri: str) -> None:
    def without(message: object) -> None:
        del message.fragments[1].files[1]

    def twice(message: object) -> None:
        message.fragments[1].files.add().CopyFrom(message.fragments[1].files[1])

    for change, count in ((without, 0), (twice, 2)):
        dataset = _changed(uri, change)
        with pytest.raises(CorruptDataError, match=rf"hidden column '_rowid' \(id -3\), found {count}"):
            dataset.to_table(columns=["_rowid"])
        with pytest.raises(CorruptDataError, match=f"expected one data file .*, found {count}"):
            dataset._take_rows([5])
        assert dataset.to_table(columns=["a"]).num_rows == 28
