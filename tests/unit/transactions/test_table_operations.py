"""CreateIndex, UpdateBases, Clone, UpdateMemWalState: their records, and how they change a manifest."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, LanceError, NotSupportedError, SchemaMismatchError
from lance_core.proto import pb_table
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.operation import NewTable, Operation
from lance_core.transactions.operations.update import Update
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_mem_wal_state import UpdateMemWalState
from lance_core.transactions.transaction import Transaction
from tests.support.manifests import column_file, coverage, index, on, part, sealed, section, table, with_files

A, B = index("a", (0,), {0, 1}), index("b", (1,), {0, 1}, "Bitmap")


def _of(source: Manifest, naming: ManifestNaming) -> NewTable:
    """Return a clone operation with the given manifest naming scheme."""
    return NewTable(naming=naming, stable_row_ids=False, source=source)


def _base(path: str, **values: object) -> pb_table.BasePath:
    return pb_table.BasePath(path=path, **values)


def _absorbed(generation: int, shard: bytes = b"s") -> pb_table.CompactedSsTable:
    return pb_table.CompactedSsTable(shard_id={"uuid": shard * 16}, generation=generation)


@pytest.mark.parametrize(
    "operation",
    [
        CreateIndex(new_indices=(A,), removed_indices=(B,)),
        UpdateBases(new_bases=(_base("/x", name="n", is_dataset_root=True), _base("/y", id=3))),
        Clone(is_shallow=True, ref_version=7, ref_path="/x"),
        Clone(is_shallow=False, ref_version=7, ref_path="/x", ref_name="", branch_name="a/b"),
        UpdateMemWalState(absorbed_tables=(_absorbed(3),)),
    ],
)
def test_table_transactions_survive_a_round_trip(operation: Operation) -> None:
    transaction = Transaction(read_version=3, operation=operation)
    assert Transaction.parse(transaction.serialize(), "t") == transaction


# ── CreateIndex ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_indices_are_added_and_dropped() -> None:
    current = table(part(0), indices=(A,))
    assert coverage(sealed(CreateIndex(new_indices=(B,)).apply(on(current))).index_section) == {
        "a": [0, 1],
        "b": [0, 1],
    }
    dropped = sealed(CreateIndex(new_indices=(), removed_indices=(A,)).apply(on(current)))
    assert dropped.index_section is None
    assert not dropped.message.HasField("index_section")


def test_index_on_a_dropped_field_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="'x' covers field id 8, which does not exist in version 3"):
        CreateIndex(new_indices=(index("x", (8,), {0}),)).apply(on(table(part(0))))


@pytest.mark.parametrize(
    ("new", "kind", "match"),
    [
        (index("", (0,), {0}), InvalidInputError, "no name"),
        (index("x", (0,), {0}, base_id=3), InvalidInputError, "base path 3"),
        (pb_table.IndexMetadata(name="x", uuid={"uuid": b"short"}), InvalidInputError, "must have 16 bytes, found 5"),
        (
            pb_table.IndexMetadata(name="x", uuid={"uuid": b"x" * 16}, fragment_bitmap=b"\x00"),
            CorruptDataError,
            "'x'",
        ),
    ],
)
def test_malformed_index_entries_are_refused(new: pb_table.IndexMetadata, kind: type[LanceError], match: str) -> None:
    with pytest.raises(kind, match=match):
        CreateIndex(new_indices=(new,)).apply(on(table(part(0))))


def test_fragments_that_changed_during_an_index_build_are_removed_from_the_index() -> None:
    before = table(part(0), part(1))
    anew = with_files(part(1), column_file("f1.lance", 0, -2), column_file("new", 1))
    after = table(part(0), anew)
    operation = CreateIndex(new_indices=(A, B)).on_top_of(before, after)
    assert coverage(section(*operation.new_indices)) == {"a": [0, 1], "b": [0]}
    assert CreateIndex(new_indices=(A, B)).on_top_of(before, before).new_indices == (A, B)


# ── UpdateBases ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_base_paths_get_the_next_ids() -> None:
    first = sealed(UpdateBases(new_bases=(_base("/x", name="x"), _base("/y", name="y"))).apply(on(table(part(0)))))
    assert [base.id for base in first.message.base_paths] == [1, 2]
    assert first.message.reader_feature_flags & first.message.writer_feature_flags & 16
    second = sealed(UpdateBases(new_bases=(_base("/z", id=9), _base("/w", name="w"))).apply(on(first)))
    assert [base.id for base in second.message.base_paths] == [1, 2, 9, 10]


def test_base_path_with_the_id_of_an_existing_base_path_replaces_it() -> None:
    current = table(part(0), base_paths=[{"id": 4, "path": "/x", "name": "n"}, {"id": 5, "path": "/y"}])
    moved = sealed(UpdateBases(new_bases=(_base("/z", name="n", id=4), _base("/w", name="w"))).apply(on(current)))
    assert [(base.id, base.path) for base in moved.message.base_paths] == [(4, "/z"), (5, "/y"), (6, "/w")]
    with pytest.raises(InvalidInputError, match="given twice"):
        UpdateBases(new_bases=(_base("/z", name="n", id=4), _base("/w", name="w", id=4))).apply(on(current))


@pytest.mark.parametrize(
    "base",
    [_base("/x", name="z"), _base("/z", name="n"), _base("/y", name="z", id=4), _base("/z"), _base("", name="z")],
)
def test_duplicate_base_paths_are_refused(base: pb_table.BasePath) -> None:
    current = table(part(0), base_paths=[{"id": 4, "path": "/x", "name": "n"}, {"id": 5, "path": "/y"}])
    with pytest.raises(InvalidInputError):
        UpdateBases(new_bases=(base,)).apply(on(current))


# ── Clone ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_clone_starts_with_the_version_number_of_its_source() -> None:
    file = column_file("f", 0, 1)
    file.base_id = 5
    source = table(
        part(0, deleted=1),
        with_files(part(1), file),
        indices=(A, index("x", (0,), {0}, base_id=5)),
        base_paths=[{"id": 5, "path": "/old"}],
        branch="b",
        config={"k": "v"},
    )
    operation = Clone(is_shallow=True, ref_version=3, ref_path="/src", ref_name="b")
    result = sealed(operation.apply(on(operation.starting_point(_of(source, ManifestNaming.V1)))))
    assert (result.version, result.naming) == (3, ManifestNaming.V1)
    assert not result.message.HasField("branch")
    assert [(base.id, base.path, base.name, base.is_dataset_root) for base in result.message.base_paths] == [
        (5, "/old", "", False),
        (6, "/src", "b", True),
    ]
    ours, older = result.message.fragments
    assert (ours.files[0].base_id, ours.deletion_file.base_id, older.files[0].base_id) == (6, 6, 5)
    assert [each.base_id for each in pb_table.IndexSection.FromString(result.index_section).indices] == [6, 5]
    assert dict(result.message.config) == {"k": "v"}
    assert source.version == 3


def test_first_base_path_of_a_clone_has_id_0() -> None:
    operation = Clone(is_shallow=True, ref_version=3, ref_path="/src", branch_name="dev")
    result = sealed(operation.apply(on(operation.starting_point(_of(table(part(0)), ManifestNaming.V2)))))
    assert result.message.fragments[0].files[0].HasField("base_id")
    assert (result.message.base_paths[0].id, result.message.branch) == (0, "dev")


def test_deep_clones_are_not_committed() -> None:
    operation = Clone(is_shallow=False, ref_version=3, ref_path="/src")
    with pytest.raises(NotSupportedError, match="copied first"):
        operation.apply(on(operation.starting_point(_of(table(part(0)), ManifestNaming.V2))))


# ── UpdateMemWalState ────────────────────────────────────────────────────────────────────────────────────────────────


def _log(*absorbed: pb_table.CompactedSsTable) -> pb_table.IndexMetadata:
    entry = index("__lance_mem_wal", (), None, "MemWal")
    # Field 2 represents fields that are not defined here.
    entry.index_details.value = (
        b"\x10\x01" + pb_table.MemWalIndexDetails(compacted_sstables=absorbed).SerializeToString()
    )
    return entry


def _generations(data: bytes | None) -> dict[bytes, int]:
    (entry,) = (each for each in pb_table.IndexSection.FromString(data).indices if each.name == "__lance_mem_wal")
    details = pb_table.MemWalIndexDetails.FromString(entry.index_details.value)
    assert b"\x10\x01" in entry.index_details.value
    return {each.shard_id.uuid[:1]: each.generation for each in details.compacted_sstables}


@pytest.mark.parametrize("kind", [UpdateMemWalState, Update])
def test_newest_write_ahead_log_generation_of_each_shard_is_kept(kind: type[UpdateMemWalState]) -> None:
    current = table(part(0), indices=(_log(_absorbed(5, b"s"), _absorbed(5, b"t")), A))
    operation = kind(absorbed_tables=(_absorbed(7, b"s"), _absorbed(2, b"t"), _absorbed(1, b"u")))
    result = sealed(operation.apply(on(current)))
    assert _generations(result.index_section) == {b"s": 7, b"t": 5, b"u": 1}
    last = pb_table.IndexSection.FromString(result.index_section).indices[-1]
    assert (last.name, last.dataset_version) == ("__lance_mem_wal", 4)
    assert last.uuid != _log().uuid


def test_absorbed_tables_are_refused_if_the_table_has_no_write_ahead_log() -> None:
    with pytest.raises(InvalidInputError, match="no write-ahead log"):
        UpdateMemWalState(absorbed_tables=(_absorbed(1),)).apply(on(table(part(0))))
    assert sealed(UpdateMemWalState(absorbed_tables=()).apply(on(table(part(0))))).index_section is None
    damaged = _log()
    damaged.index_details.value = b"\xff"
    with pytest.raises(CorruptDataError, match="__lance_mem_wal"):
        UpdateMemWalState(absorbed_tables=(_absorbed(1),)).apply(on(table(part(0), indices=(damaged,))))
