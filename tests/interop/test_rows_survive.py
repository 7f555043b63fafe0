"""Rows keep their ids and versions in operations by either implementation, including edge cases of the format."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import lance.fragment
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, LanceError
from lance_core.proto import pb_rowids
from lance_core.table.manifest import Manifest
from tests.support.row_lineage import SPILL, assert_same_lineage, rows, update_by_ours

Step = Callable[[str, object], None]


def _update(*numbers: int) -> Step:
    def step(uri: str, library: object) -> None:
        if library is lance_core:
            update_by_ours(uri, *numbers)
        else:
            lance.dataset(uri).update({"s": "'theirs'"}, where=f"a in ({', '.join(map(str, numbers))})")

    return step


def _delete(predicate: str) -> Step:
    return lambda uri, library: library.dataset(uri).delete(predicate)


def _append(start: int, stop: int) -> Step:
    return lambda uri, library: library.write_dataset(rows(start, stop), uri, mode="append")


def _compact(**options: object) -> Step:
    return lambda uri, library: library.dataset(uri).optimize.compact_files(**options)


def _overwrite(uri: str, library: object) -> None:
    library.write_dataset(rows(500, 520), uri, mode="overwrite", max_rows_per_file=7)


def _restore(uri: str, library: object) -> None:
    dataset = library.dataset(uri)
    library.dataset(uri, version=dataset.version - 1).restore()


STEPS: list[Step] = [
    _update(3, 5, 12),
    _delete("a in (4, 12, 27)"),
    _append(40, 48),
    _update(5, 15, 41),
    _compact(target_rows_per_fragment=100),
    _delete("a % 10 = 6"),
    _update(0, 47, 3),
    _append(48, 60),
    _compact(target_rows_per_fragment=20),
    _overwrite,
    _restore,
    _update(*range(30, 36)),
    _append(60, 61),
    _compact(target_rows_per_fragment=1000),
]


@pytest.mark.parametrize("spill", [False, True], ids=["inline", "spilled"])
@pytest.mark.parametrize("turns", ["ours", "in turns", "in turns, theirs first"])
@pytest.mark.sampled(2)
def test_changes_by_lance_core_and_pylance_leave_the_same_row_ids_and_versions(
    tmp_path: Path, spill: bool, turns: str
) -> None:
    """The reference changes one table alone and another in turn with this library, with equal ids and versions."""
    reference, mixed = str(tmp_path / "reference"), str(tmp_path / "mixed")
    dataset = lance.write_dataset(rows(0, 40), reference, max_rows_per_file=10, enable_stable_row_ids=True)
    if spill:
        dataset.update_config(SPILL)
    shutil.copytree(reference, mixed)
    for number, step in enumerate(STEPS):
        ours = turns == "ours" or number % 2 == (turns == "in turns, theirs first")
        step(reference, lance)
        step(mixed, lance_core if ours else lance)
        found = assert_same_lineage(mixed)
        expected = lance.dataset(reference).to_table(
            columns=["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        )
        lineage = {row["a"]: tuple(row.values())[1:] for row in expected.to_pylist()}
        assert {number: row[0] for number, row in found.items()} == {number: row[0] for number, row in lineage.items()}
        if lance.dataset(mixed).version == lance.dataset(reference).version:
            assert found == lineage


def test_bits_of_a_row_id_bitmap_start_with_the_lowest_bit(tmp_path: Path) -> None:
    """Ids of the updated rows 5, 15, and 16: the range 5..17 with bits 0, 10, and 11 set."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 100), uri, enable_stable_row_ids=True)
    update_by_ours(uri, 5, 15, 16)
    moved = lance_core.dataset(uri).manifest.message.fragments[1]
    assert moved.inline_row_ids == bytes.fromhex("0a0a1a08080510111a02010c")
    assert lance.dataset(uri).to_table(columns=["a", "_rowid"]).slice(97).to_pydict() == {
        "a": [5, 15, 16],
        "_rowid": [5, 15, 16],
    }
    assert_same_lineage(uri)


@pytest.mark.parametrize("library", [lance, lance_core])
def test_a_compaction_uses_only_the_lengths_of_row_version_runs(tmp_path: Path, library: object) -> None:
    """A compaction keeps the row versions of rows from five versions, with deletes in two fragments."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 10), uri, enable_stable_row_ids=True)
    lance.write_dataset(rows(10, 20), uri, mode="append")
    lance.dataset(uri).update({"s": "'moved'"}, where="a in (2, 3, 14)")
    lance.write_dataset(rows(20, 25), uri, mode="append")
    lance.dataset(uri).delete("a in (0, 1, 7, 10, 18, 22)")
    before = assert_same_lineage(uri)
    library.dataset(uri).optimize.compact_files()
    assert len(lance_core.dataset(uri).get_fragments()) == 1
    assert assert_same_lineage(uri) == before
    assert {number: row[1] for number, row in before.items() if number in (2, 9, 14, 19, 24)} == {
        2: 1,
        9: 1,
        14: 2,
        19: 2,
        24: 4,
    }


def _deletion_files(uri: str) -> list[Path]:
    return sorted(Path(uri, "_deletions").iterdir())


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_deletion_files_have_a_fixed_schema_and_may_be_unsorted(tmp_path: Path, compression: str | None) -> None:
    """The reference writes rows in hash order, this library in ascending order; both read either, compressed or not."""
    uri, count = str(tmp_path / "t"), 300
    lance.write_dataset(rows(0, 1000), uri)
    lance.dataset(uri).delete(f"a < {count}")
    [path] = _deletion_files(uri)
    with pa.ipc.open_file(pa.memory_map(str(path))) as file:
        written = file.read_all()
    assert written.schema == pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    assert sorted(written["row_id"].to_pylist()) == list(range(count)) != written["row_id"].to_pylist()
    assert lance_core.dataset(uri).to_table().equals(lance.dataset(uri).to_table())

    shuffled = pa.table({"row_id": pa.array([*range(1, count, 2), *range(0, count, 2)], pa.uint32())}, written.schema)
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, shuffled.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(shuffled)
    path.write_bytes(buffer.getvalue())
    assert lance_core.dataset(uri).to_table().equals(lance.dataset(uri).to_table())
    lance_core.dataset(uri).validate()

    lance_core.dataset(uri).delete("a >= 990 or a = 500")
    [added] = set(_deletion_files(uri)) - {path}
    with pa.ipc.open_file(pa.memory_map(str(added))) as file:
        assert file.num_record_batches == 1
        assert file.schema == written.schema
        assert file.read_all()["row_id"].to_pylist() == [*range(count), 500, *range(990, 1000)]
    found = lance.dataset(uri).to_table(columns=["a"])
    assert found["a"].to_pylist() == [number for number in range(count, 990) if number != 500]


@pytest.mark.parametrize("stable", [False, True])
def test_a_new_column_also_has_values_for_deleted_rows(tmp_path: Path, stable: bool) -> None:
    """A file with values for live rows only is refused; from a file with values for all rows, live rows are read."""
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    dataset.delete("a in (0, 4, 9, 15)")
    before = assert_same_lineage(uri)

    def with_column(num_rows: list[int]) -> list[lance_core.FragmentMetadata]:
        changed = []
        for fragment, count in zip(lance_core.dataset(uri).get_fragments(), num_rows, strict=True):
            metadata, name = fragment.metadata, f"{fragment.fragment_id}-{count}.lance"
            with lance_core.LanceFileWriter(str(Path(uri, "data", name)), pa.schema([("n", pa.int64())])) as writer:
                first = fragment.fragment_id * 10
                writer.write_batch(pa.table({"n": pa.array(range(first, first + count), pa.int64())}))
            metadata.files.append(lance_core.DataFile(name, [5], [0], 2, 2))
            changed.append(metadata)
        return changed

    schema = rows(0, 1).schema.append(pa.field("n", pa.int64()))
    with pytest.raises(LanceError, match="rows"):
        lance_core.LanceDataset.commit(
            uri, lance_core.LanceOperation.Merge(with_column([7, 9]), schema), read_version=dataset.version
        )
    lance_core.LanceDataset.commit(
        uri, lance_core.LanceOperation.Merge(with_column([10, 10]), schema), read_version=dataset.version
    )
    for library in (lance, lance_core):
        found = library.dataset(uri).to_table(columns=["a", "n"])
        assert found["n"].to_pylist() == found["a"].to_pylist() == sorted(set(range(20)) - {0, 4, 9, 15})
    assert {number: row[0] for number, row in assert_same_lineage(uri).items()} == {
        number: row[0] for number, row in before.items()
    }


def _with_sequence(uri: str, **changes: bytes) -> lance_core.LanceDataset:
    """Return the table with other row id sequences of fragment 0 in its manifest."""
    dataset = lance_core.dataset(uri)
    message = type(dataset.manifest.message)()
    message.CopyFrom(dataset.manifest.message)
    for name, value in changes.items():
        setattr(message.fragments[0], name, value)
    manifest = Manifest(message=message, naming=dataset.manifest.naming)
    return lance_core.LanceDataset.from_manifest(uri, dataset.log, manifest, None)


def _ids(*segments: pb_rowids.U64Segment) -> bytes:
    return pb_rowids.RowIdSequence(segments=segments).SerializeToString()


def _range(start: int, stop: int) -> pb_rowids.U64Segment:
    return pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=start, end=stop))


def _runs(*stops: int) -> bytes:
    runs = [pb_rowids.RowDatasetVersionRun(span=_range(0, stop), version=3) for stop in stops]
    return pb_rowids.RowDatasetVersionSequence(runs=runs).SerializeToString()


@pytest.mark.parametrize(
    "changes",
    [
        {"inline_row_ids": b"\xff\xff"},
        {"inline_row_ids": b""},
        {"inline_row_ids": _ids(_range(0, 9))},
        {"inline_row_ids": _ids(_range(0, 11))},
        {"inline_row_ids": _ids(_range(0, 2**32))},
        {"inline_row_ids": _ids(_range(0, 2**63))},
        {"inline_row_ids": _ids(*[_range(0, 2**32)] * 1000)},
        {"inline_row_ids": _ids(pb_rowids.U64Segment())},
        {"inline_row_ids": bytes.fromhex("0a0a1a080805100f1a02010c")},
        {"inline_created_at_versions": _runs(9)},
        {"inline_created_at_versions": _runs(5, 2**32)},
        {"inline_created_at_versions": b"\x0a\xff"},
        {"inline_last_updated_at_versions": _runs(5, 4)},
        {"inline_last_updated_at_versions": _runs(2**63)},
    ],
    ids=str,
)
def test_hostile_row_id_sequences_are_refused(hostile: str, changes: dict[str, bytes]) -> None:
    """No sequence is expanded: a range of 2 ** 32 ids would need 32 GiB."""
    dataset = _with_sequence(hostile, **changes)
    columns = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    with pytest.raises(CorruptDataError, match="row lineage of fragment 0"):
        dataset.to_table(columns=columns)
    with pytest.raises(CorruptDataError, match="row lineage of fragment 0"):
        dataset.validate()
    if "inline_row_ids" in changes:
        with pytest.raises(CorruptDataError, match="row lineage of fragment 0"):
            dataset._take_rows([15])
    assert dataset.to_table(columns=["a"]).num_rows == 20


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("hostile") / "t")
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=10, enable_stable_row_ids=True)
    return uri


def test_a_row_id_shared_by_two_rows_raises_corrupt_data(hostile: str) -> None:
    dataset = _with_sequence(hostile, inline_row_ids=_ids(_range(0, 9), _range(13, 14)))
    with pytest.raises(CorruptDataError, match="row id 13 occurs in fragment 0 and in fragment 1"):
        dataset._take_rows([13])
    assert dataset._take_rows([12], ["a"]).to_pydict() == {"a": [12]}
    with pytest.raises(CorruptDataError, match="row id 13 of fragment 1 also belongs to another row"):
        dataset.validate()
    with pytest.raises(CorruptDataError, match="row id 99 is in use, but the next row id is 20"):
        _with_sequence(hostile, inline_row_ids=_ids(_range(0, 9), _range(99, 100))).validate()


def test_a_table_with_row_ids_in_only_some_fragments_is_refused(hostile: str) -> None:
    dataset = lance_core.dataset(hostile)
    message = type(dataset.manifest.message)()
    message.CopyFrom(dataset.manifest.message)
    message.fragments[1].ClearField("inline_row_ids")
    with pytest.raises(CorruptDataError, match="fragment 1 has no row ids"):
        lance_core.LanceDataset.from_manifest(
            hostile, dataset.log, Manifest(message=message, naming=dataset.manifest.naming), None
        )


def test_row_id_sequences_after_a_compaction_equal_those_of_pylance(tmp_path: Path) -> None:
    """Each segment keeps its own encoding, and the sequences have the same bytes."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100, enable_stable_row_ids=True)
    lance.dataset(uri).update({"s": "'moved'"}, where="a in (150, 7, 290)")
    lance.dataset(uri).delete("a % 2 = 0 and a < 100 or a in (130, 131, 290)")
    copy = str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=110)
    lance_core.dataset(copy).optimize.compact_files(target_rows_per_fragment=110)
    theirs, ours = (lance_core.dataset(each).manifest.message.fragments for each in (uri, copy))
    assert len(theirs) == len(ours) > 1
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.inline_row_ids == yours.inline_row_ids
    assert assert_same_lineage(uri) == assert_same_lineage(copy)
