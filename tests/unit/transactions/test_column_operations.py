"""Merge, Project, Update, DataReplacement, DataOverlay: their records, and how they change a manifest."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_core.errors import InvalidInputError, LanceError, SchemaMismatchError, UnsupportedFeatureFlagError
from lance_core.proto import pb_rowids, pb_table, pb_transaction
from lance_core.schema.field import Field, Schema
from lance_core.table.data_file import DataFile
from lance_core.table.feature_flags import FeatureFlag
from lance_core.table.fragment import Fragment
from lance_core.table.overlay_files import OVERLAYS_VARIABLE
from lance_core.table.row_id_segments import encode_segment
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement, Replacement
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.operation import Operation
from lance_core.transactions.operations.parts import OverlayGroup
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.update import Update, UpdateMode
from lance_core.transactions.public_transaction import LanceOperation
from lance_core.transactions.transaction import Transaction
from tests.support.manifests import (
    column_file,
    coverage,
    created,
    deletion,
    index,
    on,
    part,
    row_ids,
    sealed,
    stable_table,
    table,
    updated,
    with_files,
)
from tests.support.records import SCHEMA, data_file, fragment

Pb = pb_transaction.Transaction


def _schema(*fields: Field) -> Schema:
    return replace(SCHEMA, fields=(*SCHEMA.fields, *fields))


C = Field(id=2, name="c", logical_type="int32")
REQUIRED = replace(C, nullable=False)
INDICES = (index("a", (0,), {0, 1}), index("b", (1,), {0, 1}, "Bitmap"))


def _file(path: str, *field_ids: int, **changes: object) -> DataFile:
    return data_file(path, field_ids=field_ids, column_indices=tuple(range(len(field_ids))), **changes)


def _replacing(fragment_id: int, file: DataFile) -> DataReplacement:
    return DataReplacement(replacements=(Replacement(fragment_id=fragment_id, new_file=file),))


def _columns(fragment_id: int = 0, **values: object) -> Update:
    """Return a fragment whose field 1 is stored in a new file."""
    anew = with_files(part(fragment_id), column_file(f"f{fragment_id}.lance", 0, -2), column_file("new", 1))
    return Update(**{"updated_fragments": (anew,), "fields_modified": (1,), "mode": UpdateMode.COLUMNS, **values})


def _moved(num_rows: int, *ids: int) -> Fragment:
    message = fragment(num_rows).message
    segment = encode_segment(np.array(ids, np.uint64))
    message.inline_row_ids = pb_rowids.RowIdSequence(segments=[segment]).SerializeToString()
    return Fragment(message)


OVERLAY = pb_table.DataOverlayFile(data_file=column_file("o", 1), shared_offset_bitmap=BitMap([1]).serialize())


@pytest.mark.parametrize(
    "operation",
    [
        Merge(fragments=(part(0), part(1)), schema=SCHEMA.with_metadata({"k": b"v"}), preserves_nullability=True),
        Project(schema=SCHEMA.project(["b"])),
        _columns(updated_offsets={0: BitMap([1]).serialize()}),
        Update(
            removed_fragment_ids=(4,),
            updated_fragments=(part(1, deleted=2),),
            new_fragments=(_moved(2, 5, 6),),
            fields_for_preserving=(1,),
            inserted_rows=Pb.KeyExistenceFilter(field_ids=[0], exact={"key_hashes": [1, 2]}),
            absorbed_tables=(pb_table.CompactedSsTable(shard_id={"uuid": b"x" * 16}, generation=3),),
        ),
        Update(),
        _replacing(3, _file("n", 1, base_id=0)),
        DataOverlay(groups=(OverlayGroup(fragment_id=1, overlays=(OVERLAY, OVERLAY)),)),
    ],
)
def test_column_transactions_survive_a_round_trip(operation: Operation) -> None:
    transaction = Transaction(read_version=3, operation=operation)
    assert Transaction.parse(transaction.serialize(), "t") == transaction


def test_updated_offsets_of_early_releases_become_bitmaps() -> None:
    message = Pb.Update(updated_fragment_offsets={7: Pb.UInt32List(values=[1, 5])})
    assert list(BitMap.deserialize(Update.from_proto(message).updated_offsets[7])) == [1, 5]


# ── Merge ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _widened(fragment_id: int) -> Fragment:
    return with_files(part(fragment_id), column_file(f"f{fragment_id}.lance", 0, 1), column_file("c", 2))


def test_merge_sets_fragments_and_schema() -> None:
    current = table(part(0), part(1, deleted=3), indices=INDICES)
    wide = Fragment(_widened(1).message).with_deletion(deletion(3))
    operation = Merge(fragments=(_widened(0), wide), schema=_schema(C).with_metadata({"k": b"v"}))
    result = sealed(operation.apply(on(current)))
    assert [list(file.fields) for file in result.message.fragments[1].files] == [[0, 1], [2]]
    assert result.schema.names == ["a", "b", "c"]
    assert dict(result.message.schema_metadata) == {"k": b"v"}
    assert result.index_section == current.index_section


def test_merge_of_a_column_of_nulls_needs_no_file() -> None:
    current = table(part(0))
    result = sealed(Merge(fragments=(part(0),), schema=_schema(C), preserves_nullability=True).apply(on(current)))
    assert result.message.fragments[0] == current.message.fragments[0]


def test_a_merge_keeps_row_ids_and_counts_rewritten_fragments_as_updated() -> None:
    current = stable_table(10, 10)
    # The fragments are assembled without the row ids of the table.
    result = sealed(Merge(fragments=(_widened(0), part(1)), schema=_schema(C)).apply(on(current)))
    assert [row_ids(each)[0] for each in result.fragments] == [0, 10]
    assert (updated(result.fragments[0]), updated(result.fragments[1])) == ([4] * 10, [2] * 10)
    assert created(result.fragments[0]) == [1] * 10


def test_fragments_with_a_column_rewritten_by_a_merge_are_removed_from_its_indices() -> None:
    current = table(part(0), part(1), indices=INDICES)
    anew = with_files(part(0), column_file("f0.lance", 0, -2), column_file("new", 1))
    result = sealed(Merge(fragments=(anew, part(1)), schema=SCHEMA).apply(on(current)))
    assert coverage(result.index_section) == {"a": [0, 1], "b": [1]}


def test_a_merge_may_add_fragments() -> None:
    current = table(part(0), part(4))
    result = sealed(Merge(fragments=(part(0), part(4), part(0, path="x"), part(9)), schema=SCHEMA).apply(on(current)))
    assert [each.id for each in result.fragments] == [0, 4, 5, 9]
    assert result.message.max_fragment_id == 9


def test_merge_with_a_missing_fragment_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="fragment 1 is missing; it lists 1 of 2"):
        Merge(fragments=(part(0),), schema=SCHEMA).apply(on(table(part(0), part(1))))


@pytest.mark.parametrize(
    ("operation", "kind", "match"),
    [
        (
            Merge(fragments=(part(0, 9), part(1)), schema=SCHEMA),
            InvalidInputError,
            "10 rows in version 3, but the operation records 9",
        ),
        (Merge(fragments=(part(0, deleted=1), part(1)), schema=SCHEMA), InvalidInputError, "deletion file of fragment"),
        (Merge(fragments=(part(0), part(1), part(1)), schema=SCHEMA), InvalidInputError, "fragment 1 twice"),
        (
            Merge(fragments=(part(0), part(1), part(0, path="x"), part(0, path="y")), schema=SCHEMA),
            None,
            "",
        ),
        (
            Merge(fragments=(part(0), part(1), part(0)), schema=SCHEMA),
            InvalidInputError,
            "fragment 0 twice, or lists it after",
        ),
        (
            Merge(fragments=(part(0, path="x"), part(0), part(1)), schema=SCHEMA),
            InvalidInputError,
            "0 twice, or lists it after",
        ),
        (
            Merge(fragments=(part(0), part(7, path="x"), part(1)), schema=SCHEMA),
            InvalidInputError,
            "existing fragment 1 after a new fragment .id 7.",
        ),
        (
            Merge(fragments=(part(0), part(1)), schema=_schema(REQUIRED), preserves_nullability=True),
            InvalidInputError,
            "'c' .id 2. is new and non-nullable",
        ),
        (Merge(fragments=(part(0), part(1)), schema=_schema(REQUIRED)), SchemaMismatchError, "does not store field"),
        (
            Merge(
                fragments=(part(0), part(1)),
                schema=replace(SCHEMA, fields=(replace(SCHEMA.fields[0], logical_type="string"),)),
            ),
            SchemaMismatchError,
            "from type 'int64' to type 'string'",
        ),
        (
            Merge(fragments=(with_files(part(0), column_file("f0.lance", 0)), part(1)), schema=SCHEMA),
            SchemaMismatchError,
            "would lose the values of field 1",
        ),
        (
            Merge(
                fragments=(
                    with_files(part(0), column_file("f0.lance", 0, 1), column_file("c", 1)),
                    part(1),
                ),
                schema=SCHEMA,
            ),
            InvalidInputError,
            "field 1 is stored in two data files",
        ),
        (Merge(fragments=(part(0), part(1)), schema=_schema(replace(C, id=1))), InvalidInputError, "occurs twice"),
        (Merge(fragments=(part(0), part(1)), schema=_schema(replace(C, id=-1))), InvalidInputError, "schema has no id"),
    ],
)
def test_merges_that_would_break_the_table_are_refused(
    operation: Merge, kind: type[LanceError] | None, match: str
) -> None:
    current = table(part(0), part(1))
    if kind is None:
        assert len(sealed(operation.apply(on(current))).fragments) == 4
        return
    with pytest.raises(kind, match=match):
        operation.apply(on(current))


@pytest.mark.parametrize("recorded", [1, 2, 10])
@pytest.mark.parametrize("claimed", [0, 1, 2, 9, 11])
@pytest.mark.parametrize("arm", ["merge", "update"])
def test_row_count_that_differs_from_the_recorded_count_is_refused(arm: str, recorded: int, claimed: int) -> None:
    claim = Fragment(_columns().updated_fragments[0].message)
    claim.message.physical_rows = claimed
    operation = Merge(fragments=(claim,), schema=SCHEMA) if arm == "merge" else _columns(updated_fragments=(claim,))
    if claimed == recorded:
        assert sealed(operation.apply(on(table(part(0, recorded))))).fragments[0].physical_rows == recorded
        return
    with pytest.raises(InvalidInputError, match=rf"{recorded} rows? in version 3, but the operation records {claimed}"):
        operation.apply(on(table(part(0, recorded))))


@pytest.mark.parametrize("arm", ["merge", "update"])
def test_unrecorded_row_count_is_taken_from_the_operation(arm: str) -> None:
    anew = _columns().updated_fragments
    operation = Merge(fragments=anew, schema=SCHEMA) if arm == "merge" else _columns()
    assert sealed(operation.apply(on(table(part(0, 0))))).fragments[0].physical_rows == 10


def test_column_type_may_change_only_when_every_value_is_rewritten() -> None:
    schema = replace(SCHEMA, fields=(SCHEMA.fields[0], replace(SCHEMA.fields[1], logical_type="int32")))
    anew = [with_files(part(n), column_file(f"f{n}.lance", 0, -2), column_file(f"n{n}", 1)) for n in (0, 1)]
    sealed(Merge(fragments=tuple(anew), schema=schema).apply(on(table(part(0), part(1)))))
    with pytest.raises(SchemaMismatchError):
        Merge(fragments=(anew[0], part(1)), schema=schema).apply(on(table(part(0), part(1))))


def test_field_ids_below_the_counter_are_not_reused() -> None:
    current = table(part(0), max_allocated_field_id=6)
    with pytest.raises(InvalidInputError, match="start at 7"):
        Merge(fragments=(part(0),), schema=_schema(C)).apply(on(current))
    result = sealed(Merge(fragments=(part(0),), schema=_schema(replace(C, id=7))).apply(on(current)))
    assert result.message.max_allocated_field_id == 7


# ── Project ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_projection_drops_files_and_indices_of_dropped_fields() -> None:
    split = with_files(part(0), column_file("one", 0), column_file("two", 1))
    current = table(split, part(1), indices=INDICES, schema_metadata={"k": b"v"})
    result = sealed(Project(schema=SCHEMA.project(["b"])).apply(on(current)))
    assert [[file.path for file in each.files] for each in result.message.fragments] == [["two"], ["f1.lance"]]
    assert coverage(result.index_section) == {"b": [0, 1]}
    assert result.schema.names == ["b"]


def test_projection_keeps_the_last_file_of_a_fragment() -> None:
    only = with_files(part(0), column_file("one", 0))
    result = sealed(Project(schema=SCHEMA.project(["b"])).apply(on(table(only))))
    assert len(result.message.fragments[0].files) == 1


@pytest.mark.parametrize(
    ("operation", "kind", "match"),
    [
        (Project(schema=_schema(C)), SchemaMismatchError, "has no field 2"),
        (
            Project(schema=replace(SCHEMA, fields=(replace(SCHEMA.fields[0], logical_type="string"),))),
            SchemaMismatchError,
            "of type 'int64'",
        ),
        (
            Project(
                schema=replace(SCHEMA, fields=(replace(SCHEMA.fields[0], nullable=False),)), preserves_nullability=True
            ),
            InvalidInputError,
            "becomes non-nullable",
        ),
    ],
)
def test_invalid_project_operation_is_refused(operation: Project, kind: type[LanceError], match: str) -> None:
    with pytest.raises(kind, match=match):
        operation.apply(on(table(part(0))))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ([("b", pa.int32())], "field 0 ('a' of type 'int64') cannot become 'b' of type 'int32'"),
        ([("b", pa.int64())], "field 'b' has id 1 in the table, but id 0 in the projection"),
        ([("a", pa.int64()), ("x", pa.int64()), ("y", pa.int64())], "version 3 has no field 2 ('y')"),
    ],
)
def test_projection_to_an_arrow_schema_that_needs_field_ids_is_refused(
    columns: list[tuple[str, pa.DataType]], problem: str
) -> None:
    operation = LanceOperation.Project(pa.schema(columns)).to_record()
    with pytest.raises(SchemaMismatchError) as raised:
        operation.apply(on(table(part(0))))
    assert str(raised.value).startswith(problem)
    assert "its fields were numbered from 0" in str(raised.value)
    assert "`dataset.lance_schema.project(…)`" in str(raised.value)


def test_projection_to_an_arrow_schema_renames_fields_in_their_order() -> None:
    renamed = LanceOperation.Project(pa.schema([("x", pa.int64()), ("b", pa.string())])).to_record()
    result = sealed(renamed.apply(on(table(part(0)))))
    assert [(each.name, each.id) for each in result.schema.fields] == [("x", 0), ("b", 1)]


def test_projection_may_rename_and_reorder_fields() -> None:
    a, b = SCHEMA.fields
    result = sealed(Project(schema=replace(SCHEMA, fields=(replace(b, name="x"), a))).apply(on(table(part(0)))))
    assert [(each.name, each.id) for each in result.schema.fields] == [("x", 1), ("a", 0)]


# ── Update ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_update_of_rows_deletes_rows_and_adds_fragments() -> None:
    current = table(part(0), part(1), part(2), indices=INDICES)
    operation = Update(
        removed_fragment_ids=(2,), updated_fragments=(part(0, deleted=3),), new_fragments=(fragment(4), fragment(9))
    )
    result = sealed(operation.apply(on(current)))
    assert [(each.id, each.num_live_rows) for each in result.fragments] == [(0, 7), (1, 10), (3, 4), (4, 9)]
    assert result.index_section == current.index_section
    assert result.message.reader_feature_flags == 1


def test_updated_fragment_0_is_kept_and_a_new_fragment_gets_the_next_id() -> None:
    result = sealed(
        Update(updated_fragments=(part(0, deleted=1),), new_fragments=(fragment(1),)).apply(on(table(part(0))))
    )
    assert [(each.id, each.num_live_rows) for each in result.fragments] == [(0, 9), (1, 1)]


def test_moved_rows_keep_their_ids_and_creation_versions() -> None:
    indices = (index("a", (0,), {0, 1}), index("b", (1,), {0, 1}, "Bitmap"), index("part", (1,), {1}, "Bitmap"))
    current = stable_table(10, 10, indices=indices)
    operation = Update(
        updated_fragments=(part(0, deleted=1), part(1, deleted=2)),
        new_fragments=(_moved(3, 15, 3, 11), _moved(3, 16)),
        fields_for_preserving=(0,),
    )
    result = sealed(operation.apply(on(current)))
    pure, mixed = result.fragments[2:]
    assert (row_ids(pure), created(pure), updated(pure)) == ([15, 3, 11], [2, 1, 2], [4, 4, 4])
    assert (row_ids(mixed), created(mixed), updated(mixed)) == ([16, 20, 21], [2, 4, 4], [4, 4, 4])
    assert result.message.next_row_id == 22
    # Only the fragment of moved rows is added, and only if all source fragments are covered.
    assert coverage(result.index_section) == {"a": [0, 1], "b": [0, 1, 2], "part": [1]}


def test_new_ids_are_assigned_again_at_each_commit_attempt() -> None:
    operation = Update(updated_fragments=(part(0, deleted=1),), new_fragments=(_moved(2, 3),))
    first, second = (sealed(operation.apply(on(stable_table(*counts)))) for counts in ((10,), (10, 5)))
    assert (row_ids(first.fragments[-1]), row_ids(second.fragments[-1])) == ([3, 10], [3, 15])
    assert (first.fragments[-1].id, second.fragments[-1].id) == (1, 2)


def test_fragments_with_a_rewritten_column_are_removed_from_its_indices() -> None:
    current = table(part(0), part(1), indices=INDICES)
    result = sealed(_columns().apply(on(current)))
    assert coverage(result.index_section) == {"a": [0, 1], "b": [1]}
    assert [list(file.fields) for file in result.message.fragments[0].files] == [[0, -2], [1]]


def test_data_file_whose_last_column_moved_is_dropped() -> None:
    split = with_files(part(0), column_file("one", 0), column_file("two", 1))
    anew = with_files(part(0), column_file("one", 0), column_file("two", -2), column_file("new", 1))
    result = sealed(_columns(updated_fragments=(anew,)).apply(on(table(split))))
    assert [file.path for file in result.message.fragments[0].files] == ["one", "new"]


def test_rows_that_changed_in_place_are_counted_as_updated() -> None:
    current = stable_table(5)
    anew = with_files(part(0, 5), column_file("f0.lance", 0, -2), column_file("new", 1))
    with_offsets = _columns(updated_fragments=(anew,), updated_offsets={0: BitMap([2]).serialize()})
    result = sealed(with_offsets.apply(on(current))).fragments[0]
    assert (row_ids(result), updated(result), created(result)) == ([0, 1, 2, 3, 4], [1, 1, 4, 1, 1], [1] * 5)
    without = sealed(_columns(updated_fragments=(anew,)).apply(on(current))).fragments[0]
    assert updated(without) == [1] * 5


@pytest.mark.parametrize(
    ("operation", "kind", "match"),
    [
        (Update(removed_fragment_ids=(7,)), InvalidInputError, "fragment 7, which is not in version 3"),
        (_columns(7), InvalidInputError, "fragment 7, which is not in version 3"),
        (
            Update(removed_fragment_ids=(0,), updated_fragments=(part(0, deleted=1),)),
            InvalidInputError,
            "lists a fragment twice",
        ),
        (Update(updated_fragments=(part(0),)), InvalidInputError, "must have deleted rows, because"),
        (_columns(fields_modified=(8,)), SchemaMismatchError, "has no field 8"),
        (
            _columns(updated_fragments=(part(0, 9),)),
            InvalidInputError,
            "10 rows in version 3, but the operation records 9",
        ),
        (
            _columns(updated_fragments=(with_files(part(0), column_file("f0.lance", 0)),)),
            SchemaMismatchError,
            "would lose the values of field 1",
        ),
        (_columns(1), InvalidInputError, "rows that are deleted in version 3 would reappear"),
        (Update(new_fragments=(_moved(1, 3),)), InvalidInputError, "has row ids"),
    ],
)
def test_updates_that_contradict_the_table_are_refused(operation: Update, kind: type[LanceError], match: str) -> None:
    with pytest.raises(kind, match=match):
        operation.apply(on(table(part(0), part(1, deleted=2))))


def test_update_with_unassigned_row_ids_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="ids below 10"):
        Update(new_fragments=(_moved(1, 10),)).apply(on(stable_table(10)))
    with pytest.raises(InvalidInputError, match="not a valid Roaring bitmap"):
        _columns(updated_offsets={0: b"\x00"}).apply(on(stable_table(10)))


# ── DataReplacement ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_replacement_file_replaces_the_file_with_the_same_fields() -> None:
    split = with_files(part(0), column_file("one", 0), column_file("two", 1))
    current = table(split, part(1), indices=INDICES)
    result = sealed(_replacing(0, _file("new", 1, num_bytes=7)).apply(on(current)))
    files = result.message.fragments[0].files
    assert [(file.path, file.file_size_bytes) for file in files] == [("one", 100), ("new", 7)]
    assert coverage(result.index_section) == {"a": [0, 1], "b": [1]}


def test_rows_of_a_replaced_file_count_as_updated() -> None:
    result = sealed(_replacing(0, _file("new", 0, 1)).apply(on(stable_table(3, 3))))
    assert [(row_ids(each), updated(each), created(each)) for each in result.fragments] == [
        ([0, 1, 2], [4] * 3, [1] * 3),
        ([3, 4, 5], [2] * 3, [2] * 3),
    ]


def test_data_replacement_adds_a_file_for_a_column_without_a_file() -> None:
    result = sealed(_replacing(0, _file("new", 1)).apply(on(table(with_files(part(0), column_file("one", 0))))))
    assert [file.path for file in result.message.fragments[0].files] == ["one", "new"]


@pytest.mark.parametrize(
    ("operation", "kind", "match"),
    [
        (_replacing(9, _file("n", 1)), InvalidInputError, "fragment 9.*is not in version 3"),
        (_replacing(0, _file("n", 1, 8)), SchemaMismatchError, "neither the table nor fragment 0 has field 8"),
        (_replacing(0, _file("n", 8)), SchemaMismatchError, "contains no field of the table"),
        (
            DataReplacement(replacements=_replacing(0, _file("n", 0, 1)).replacements * 2),
            InvalidInputError,
            "lists a fragment twice",
        ),
        (
            DataReplacement(
                replacements=(
                    *_replacing(0, _file("n", 0, 1)).replacements,
                    *_replacing(1, _file("n", 1)).replacements,
                )
            ),
            InvalidInputError,
            "must contain the same fields",
        ),
        (_replacing(0, _file("n", 0, 1, base_id=4)), InvalidInputError, "base path 4"),
    ],
)
def test_replacement_files_that_match_no_field_are_refused(
    operation: DataReplacement, kind: type[LanceError], match: str
) -> None:
    with pytest.raises(kind, match=match):
        operation.apply(on(table(part(0), part(1))))


def test_files_without_column_indices_are_refused() -> None:
    for operation in (
        _replacing(0, data_file("n", column_indices=())),
        Merge(fragments=(with_files(part(0), data_file("f0.lance", column_indices=()).to_proto()),), schema=SCHEMA),
        Update(new_fragments=(fragment(1, column_indices=()),)),
    ):
        with pytest.raises(InvalidInputError, match="2 fields and 0 column indices"):
            operation.apply(on(table(part(0))))


# ── DataOverlay ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAYS_VARIABLE, "")


def _overlay(*offsets: int, field_ids: tuple[int, ...] = (1,), version: int = 0) -> pb_table.DataOverlayFile:
    return pb_table.DataOverlayFile(
        data_file=column_file("o", *field_ids),
        shared_offset_bitmap=BitMap(offsets).serialize(),
        committed_version=version,
    )


def _overlaid(fragment: Fragment, *overlays: pb_table.DataOverlayFile) -> Fragment:
    message = pb_table.DataFragment()
    message.CopyFrom(fragment.message)
    message.overlays.extend(overlays)
    return Fragment(message)


def test_overlays_are_committed_only_when_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = DataOverlay(groups=(OverlayGroup(fragment_id=0, overlays=(OVERLAY,)),))
    with pytest.raises(UnsupportedFeatureFlagError, match=r"64 \(DATA_OVERLAYS\) in version 4"):
        operation.apply(on(table(part(0))))
    with pytest.raises(InvalidInputError, match="fragment 0"):
        operation.apply(on(table(part(1))))
    assert sealed(DataOverlay(groups=()).apply(on(table(part(0))))).version == 4
    monkeypatch.setenv(OVERLAYS_VARIABLE, "0")
    assert sealed(operation.apply(on(table(part(0))))).message.reader_feature_flags == FeatureFlag.DATA_OVERLAYS


@pytest.mark.usefixtures("switched_on")
def test_overlays_are_appended_with_their_commit_version() -> None:
    groups = (
        OverlayGroup(fragment_id=0, overlays=(_overlay(1, version=77), _overlay(2))),
        OverlayGroup(fragment_id=1, overlays=()),
        OverlayGroup(fragment_id=0, overlays=(_overlay(3),)),
    )
    found = sealed(DataOverlay(groups=groups).apply(on(table(_overlaid(part(0), _overlay(9, version=2)), part(1)))))
    laid = [
        (list(BitMap.deserialize(each.shared_offset_bitmap)), each.committed_version)
        for each in found.message.fragments[0].overlays
    ]
    assert laid == [([9], 2), ([1], 4), ([2], 4), ([3], 4)]
    assert not found.message.fragments[1].overlays


@pytest.mark.usefixtures("switched_on")
@pytest.mark.parametrize(
    ("overlay", "error"),
    [
        (_overlay(10), InvalidInputError),
        (_overlay(1, field_ids=(9,)), SchemaMismatchError),
        (pb_table.DataOverlayFile(data_file=column_file("o", 1), shared_offset_bitmap=b"x"), InvalidInputError),
        (pb_table.DataOverlayFile(data_file=column_file("../o", 1)), InvalidInputError),
    ],
)
def test_overlays_that_cannot_be_read_are_refused(overlay: pb_table.DataOverlayFile, error: type[Exception]) -> None:
    with pytest.raises(error):
        DataOverlay(groups=(OverlayGroup(fragment_id=0, overlays=(overlay,)),)).apply(on(table(part(0))))


@pytest.mark.usefixtures("switched_on")
def test_overlays_of_a_rewritten_column_are_removed() -> None:
    old = _overlaid(part(0), _overlay(1, version=2), _overlay(2, field_ids=(0, 1), version=3))
    [found] = sealed(_columns().apply(on(table(old)))).message.fragments
    assert [list(each.data_file.fields) for each in found.overlays] == [[0, -2]]
    projected = Project(schema=SCHEMA.project(["b"])).apply(on(table(_overlaid(part(0), _overlay(1, field_ids=(0,))))))
    assert not sealed(projected).message.fragments[0].overlays
