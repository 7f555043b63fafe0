"""What operations report about themselves, and what they refuse when they are applied."""

from dataclasses import replace

import pytest
from pyroaring import BitMap

from lance_core import FragmentMetadata, LanceOperation
from lance_core.errors import (
    CorruptDataError,
    InternalError,
    InvalidInputError,
    InvalidSchemaError,
    InvalidTypeError,
    NotSupportedError,
    SchemaMismatchError,
)
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.fragment_conversion import shown_fragments
from lance_core.schema.field import Field, Schema
from lance_core.schema.keys import CLUSTERING_POSITION, PRIMARY_KEY
from lance_core.table.feature_flags import FeatureFlag
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.overlay_files import OVERLAYS_VARIABLE
from lance_core.table.paths import ManifestNaming
from lance_core.transactions import conflicts
from lance_core.transactions.clashes import overlay_on_changed_field
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement, Replacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.lineage import with_lineage_of
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.operation import NewTable
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.parts import OverlayGroup, RewriteGroup
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.schema_rules import check_field_types
from lance_core.transactions.operations.update import Update
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.public_transaction import Transaction, transaction_to_core
from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY, checked_properties
from lance_core.transactions.verdict import Verdict
from lance_core.versions import LanceFileVersion
from tests.support.manifests import (
    column_file,
    deletion,
    index,
    on,
    part,
    row_ids,
    sealed,
    section,
    stable_table,
    table,
    updated,
    with_files,
)
from tests.support.records import ARROW_SCHEMA, SCHEMA, append, data_file, fragment

C = Field(id=2, name="c", logical_type="int32")
WIDE = replace(SCHEMA, fields=(*SCHEMA.fields, C))
LEGACY = LanceFileVersion.V0_1


def in_version(current: Manifest, version: str) -> Manifest:
    """Return the table in another data file format."""
    current.message.data_format.version = version
    return current


def legacy_part(*field_ids: int) -> Fragment:
    """Return a fragment with one file in format 0.1."""
    file = data_file("old.lance", field_ids=field_ids, column_indices=(), file_version=LEGACY)
    return Fragment.of([file], physical_rows=10)


def widened(number: int, path: str = "c") -> Fragment:
    """Return a fragment with a second file that contains field 2."""
    return with_files(part(number), column_file(f"f{number}.lance", 0, 1), column_file(path, 2))


def replacing(fragment_id: int, *field_ids: int, **changes: object) -> DataReplacement:
    file = data_file("n", field_ids=field_ids, column_indices=tuple(range(len(field_ids))), **changes)
    return DataReplacement(replacements=(Replacement(fragment_id=fragment_id, new_file=file),))


# ── Defaults of most operations ──────────────────────────────────────────────────────────────────────────────────────


def test_operation_without_overrides_returns_the_defaults() -> None:
    current = table(part(0))
    operation = CarriedOperation()
    assert operation.touched_fragments() is None
    assert operation.removed_fragments() == frozenset()
    assert (operation.changed_fragments(), operation.changed_deletions(), operation.added_fragments()) == ((), (), ())
    assert (operation.added_files(current), operation.moved_fragments(), operation.laid_overlays()) == ((), (), ())
    assert (operation.rewritten_groups(), operation.rebuilt_indices(), operation.added_bases()) == ((), (), ())
    assert (operation.new_schema(), operation.restored_version, operation.cloned_version) == (None, None, None)
    assert operation.held_field_ids() == frozenset()
    assert operation.on_top_of(current, current) is operation


def test_merging_an_operation_that_deletes_no_rows_raises_internal_error() -> None:
    with pytest.raises(InternalError, match="'append' does not delete rows"):
        Append(fragments=()).with_hidden_rows((), ())


def test_operation_without_indices_refuses_rebuilt_indices() -> None:
    with pytest.raises(InternalError, match="'append' does not rebuild indices"):
        Append(fragments=()).with_rebuilt_indices(())


def test_public_operation_without_overrides_returns_the_defaults() -> None:
    operation = LanceOperation.Other("teleport")
    assert operation.unnumbered_schema() is None
    assert operation.with_schema(SCHEMA) is operation
    assert operation.appended_fragments() is None
    with pytest.raises(NotSupportedError, match="'teleport'"):
        operation.to_record()


def test_unknown_operation_is_parsed_and_never_written_or_applied() -> None:
    operation = CarriedOperation.from_proto(pb_transaction.Transaction.Append())
    assert operation == CarriedOperation()
    with pytest.raises(NotSupportedError):
        operation.to_proto()
    with pytest.raises(NotSupportedError):
        operation.apply(on(table()))


def test_public_append_lists_its_appended_fragments() -> None:
    fragments: list[FragmentMetadata] = shown_fragments([part(0), part(1)])
    assert LanceOperation.Append(fragments).appended_fragments() == fragments


# ── Transactions of users ────────────────────────────────────────────────────────────────────────────────────────────


def test_transaction_without_a_valid_operation_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="'str'"):
        transaction_to_core(Transaction(1, "append"))  # type: ignore[arg-type]


def test_transaction_whose_operation_has_a_value_of_the_wrong_type_is_refused() -> None:
    operation = LanceOperation.Append([])
    operation.fragments = 7  # type: ignore[assignment]
    with pytest.raises(InvalidTypeError, match="Append has the wrong type"):
        transaction_to_core(Transaction(1, operation))


def test_transaction_properties_must_map_text_to_text() -> None:
    with pytest.raises(InvalidTypeError, match="transaction_properties must map strings to strings"):
        checked_properties(["a"])  # type: ignore[arg-type]
    assert checked_properties({"k": "v"}, "why") == {"k": "v", COMMIT_MESSAGE_KEY: "why"}
    assert checked_properties(None) == {}


# ── The conflict matrix ──────────────────────────────────────────────────────────────────────────────────────────────


def test_conflict_table_with_unexpected_columns_is_refused() -> None:
    with pytest.raises(InternalError, match="header of the conflict table"):
        conflicts._parse("committed one two\nappend . .\n")


def test_overlay_conflict_rule_ignores_other_operations() -> None:
    assert overlay_on_changed_field(Append(fragments=()), Append(fragments=())) is Verdict.COMPATIBLE


# ── New fragments ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_fragments_that_share_a_data_file_are_refused() -> None:
    operation = append(fragment(path="same.lance"), fragment(path="same.lance"), read_version=3).operation
    with pytest.raises(InvalidInputError, match="shares a data file with another new fragment"):
        operation.apply(on(table(part(0))))


def test_row_lineage_stored_in_separate_files_is_taken_from_the_table() -> None:
    old, new = pb_table.DataFragment(id=1, clustering_id=5), pb_table.DataFragment(id=1, inline_row_ids=b"x")
    old.column_row_ids.SetInParent()
    kept = with_lineage_of(old, new)
    assert kept.HasField("column_row_ids")
    assert not kept.HasField("inline_row_ids")
    assert kept.clustering_id == old.clustering_id


# ── Clone ────────────────────────────────────────────────────────────────────────────────────────────────────────────

COPY = Clone(is_shallow=False, ref_version=3, ref_path="/source", branch_name="b", is_copied=True)


def test_clone_reports_the_location_and_version_of_its_source() -> None:
    assert COPY.cloned_version == ("/source", 3)


def test_clone_of_a_version_that_was_not_read_is_refused() -> None:
    with pytest.raises(InternalError, match="version 3 must be read"):
        COPY.starting_point(NewTable(naming=ManifestNaming.V2, stable_row_ids=False))


def test_deep_clone_refers_to_files_of_its_own_root() -> None:
    hidden = deletion(2)
    hidden.base_id = 1
    base_file = column_file("a.lance", 0, 1)
    base_file.base_id = 1
    message = with_files(part(0), base_file).with_deletion(hidden).message
    overlay = pb_table.DataOverlayFile(data_file=column_file("o.lance", 1))
    overlay.data_file.base_id = 1
    message.overlays.append(overlay)
    indices = (index("i", (0,), {0}, base_id=1),)
    source = table(Fragment(message), part(1), indices=indices, base_paths=[pb_table.BasePath(id=1, path="/other")])
    copy = sealed(COPY.apply(on(source)))
    first, second = copy.message.fragments
    assert not first.files[0].HasField("base_id")
    assert not first.deletion_file.HasField("base_id")
    assert not first.overlays[0].data_file.HasField("base_id")
    assert second == source.message.fragments[1]
    assert list(copy.message.base_paths) == []
    assert copy.message.branch == "b"
    (copied,) = pb_table.IndexSection.FromString(copy.index_section).indices
    assert not copied.HasField("base_id")
    assert source.index_section == section(*indices)


def test_deep_clone_of_a_table_without_indices_has_no_indices() -> None:
    assert sealed(COPY.apply(on(table(part(0))))).index_section is None


# ── Data overlays and replacements ───────────────────────────────────────────────────────────────────────────────────


def test_overlaid_rows_of_a_table_with_stable_row_ids_count_as_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OVERLAYS_VARIABLE, "1")
    overlay = pb_table.DataOverlayFile(data_file=column_file("o", 1), shared_offset_bitmap=BitMap([1]).serialize())
    operation = DataOverlay(groups=(OverlayGroup(fragment_id=0, overlays=(overlay,)),))
    assert operation.laid_overlays() == operation.groups
    result = sealed(operation.apply(on(stable_table(3))))
    assert updated(result.fragments[0]) == [1, 4, 1]


def test_data_replacement_lists_the_files_that_it_adds() -> None:
    (changed,) = replacing(1, 1).added_files(table(part(0), part(1)))
    assert (changed.id, [file.path for file in changed.files]) == (1, ["n"])


def test_replacement_file_may_be_in_another_base() -> None:
    current = table(part(0), base_paths=[pb_table.BasePath(id=4, path="/other")])
    (changed,) = sealed(replacing(0, 0, 1, base_id=4).apply(on(current))).fragments
    assert [(file.path, file.base_id) for file in changed.files] == [("n", 4)]


def test_replacement_file_with_fields_that_are_partly_stored_elsewhere_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="has exactly the fields"):
        replacing(0, 1, 2).apply(on(table(part(0), schema=WIDE)))


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def declaring(key: str, value: str) -> UpdateConfig:
    return UpdateConfig(field_metadata={0: MapUpdate(entries={key: value})})


def test_clustering_key_can_be_declared_only_once() -> None:
    declared = sealed(declaring(CLUSTERING_POSITION, "1").apply(on(table(part(0)))))
    assert declared.message.fields[0].unenforced_clustering_key_position == 1
    with pytest.raises(InvalidSchemaError, match="clustering key is already declared"):
        declaring(CLUSTERING_POSITION, "2").apply(on(declared))


def test_primary_key_is_declared_on_a_required_column() -> None:
    required = replace(SCHEMA, fields=(replace(SCHEMA.fields[0], nullable=False), SCHEMA.fields[1]))
    declared = sealed(declaring(PRIMARY_KEY, "true").apply(on(table(part(0), schema=required))))
    assert declared.message.fields[0].unenforced_primary_key


@pytest.mark.parametrize(("key", "value"), [(PRIMARY_KEY, "no"), (CLUSTERING_POSITION, "first")])
def test_metadata_entry_that_declares_no_key_is_refused(key: str, value: str) -> None:
    with pytest.raises(InvalidSchemaError, match="would have no columns"):
        declaring(key, value).apply(on(table(part(0))))


# ── Merge and Project ────────────────────────────────────────────────────────────────────────────────────────────────


def test_merge_lists_its_changed_fragments_and_added_files() -> None:
    operation = Merge(fragments=(widened(0, "c0"), part(1)), schema=WIDE)
    assert operation.touched_fragments() == {0, 1}
    assert operation.new_schema() == WIDE
    added = operation.added_files(table(part(0), part(1)))
    assert [(each.id, [file.path for file in each.files]) for each in added if each.files] == [(0, ["c0"])]


def test_public_merge_accepts_an_arrow_schema_without_field_ids() -> None:
    with pytest.deprecated_call():
        operation = LanceOperation.Merge(shown_fragments([part(0)]), ARROW_SCHEMA)
    assert operation.unnumbered_schema() == ARROW_SCHEMA
    numbered = operation.with_schema(SCHEMA)
    assert numbered.schema == SCHEMA
    assert numbered.unnumbered_schema() is None


def test_project_reports_its_schema() -> None:
    assert Project(schema=SCHEMA).new_schema() == SCHEMA


def merged(schema: Schema, *fragments: Fragment, current: Manifest | None = None) -> Manifest:
    return sealed(Merge(fragments=fragments, schema=schema).apply(on(current or table(part(0)))))


def test_merge_that_gives_an_id_to_another_column_is_refused() -> None:
    a, b = SCHEMA.fields
    swapped = replace(SCHEMA, fields=(replace(a, name="b"), replace(b, name="a")))
    with pytest.raises(SchemaMismatchError, match="cannot become 'b'"):
        merged(swapped, part(0))


def test_merge_that_makes_an_unchanged_column_required_is_refused() -> None:
    a, b = SCHEMA.fields
    with pytest.raises(SchemaMismatchError, match="from nullable to not nullable only if"):
        merged(replace(SCHEMA, fields=(a, replace(b, nullable=False))), part(0))


def test_merge_that_stores_a_column_under_a_new_id_needs_its_values() -> None:
    a, b = SCHEMA.fields
    renewed = replace(SCHEMA, fields=(a, replace(b, id=2)))
    assert merged(renewed, widened(0)).schema.field_ids() == [0, 2]
    with pytest.raises(SchemaMismatchError, match="stores no values"):
        merged(renewed, part(0))


def test_merge_that_adds_a_dictionary_column_in_format_0_1_is_refused() -> None:
    dictionary = Field(id=2, name="d", logical_type="dict:string:int32:false")
    wide = replace(SCHEMA, fields=(*SCHEMA.fields, dictionary))
    current = in_version(table(), "0.1")
    with pytest.raises(NotSupportedError, match="adding a dictionary column"):
        merged(wide, current=current)


def test_new_field_may_have_any_type() -> None:
    check_field_types(SCHEMA, WIDE)


# ── Overwrite and Restore ────────────────────────────────────────────────────────────────────────────────────────────


def test_overwrite_in_format_0_1_of_a_table_of_several_formats_is_refused() -> None:
    current = table(part(0))
    current.message.reader_feature_flags |= FeatureFlag.MIXED_FILE_VERSIONS
    current.message.writer_feature_flags |= FeatureFlag.MIXED_FILE_VERSIONS
    with pytest.raises(NotSupportedError, match="files of several formats"):
        Overwrite(schema=SCHEMA, fragments=(legacy_part(0, 1),)).apply(on(current))


def test_overwrite_in_format_0_1_cannot_get_other_field_ids() -> None:
    current = table(part(0), max_allocated_field_id=5)
    with pytest.raises(NotSupportedError, match="cannot get new field ids"):
        Overwrite(schema=SCHEMA, fragments=(legacy_part(0, 1),)).apply(on(current))


def carrying(*ids: int) -> Fragment:
    """Return a new fragment that contains row ids."""
    source = stable_table(max(ids) + 1).fragments[0]
    message = fragment(len(ids)).message
    message.inline_row_ids = source.message.inline_row_ids
    return Fragment(message)


def test_overwrite_keeps_the_row_ids_of_its_fragments() -> None:
    result = sealed(Overwrite(schema=SCHEMA, fragments=(carrying(0, 1, 2),)).apply(on(stable_table(3))))
    assert row_ids(result.fragments[0]) == [0, 1, 2]


def test_overwrite_with_a_row_id_in_two_fragments_is_refused() -> None:
    operation = Overwrite(schema=SCHEMA, fragments=(carrying(0, 1, 2), carrying(0, 1, 2)))
    with pytest.raises(InvalidInputError, match="have the same row id"):
        operation.apply(on(stable_table(3)))


def test_restore_of_a_version_that_was_not_read_is_refused() -> None:
    with pytest.raises(InternalError, match="version 1 must be read"):
        Restore(version=1).apply(on(table()))


def test_restore_of_a_version_without_a_field_id_counter_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="the table stopped reusing field ids"):
        Restore(version=1).apply(on(table(part(0), max_allocated_field_id=5), table(part(0))))


# ── Rewrite, Update, UpdateBases ─────────────────────────────────────────────────────────────────────────────────────


def rebuilt(old_id: bytes) -> pb_transaction.Transaction.Rewrite.RewrittenIndex:
    return pb_transaction.Transaction.Rewrite.RewrittenIndex(old_id={"uuid": old_id}, new_id={"uuid": b"n" * 16})


def test_rewrite_lists_its_groups_and_accepts_rebuilt_indices() -> None:
    groups = (RewriteGroup(old_fragments=(part(0),), new_fragments=(part(1),)),)
    operation = Rewrite(groups=groups)
    assert operation.rewritten_groups() == groups
    assert operation.added_fragments() == (part(1),)
    assert operation.with_rebuilt_indices((rebuilt(b"o" * 16),)).rebuilt_indices() == (rebuilt(b"o" * 16),)


def test_rewritten_index_without_a_uuid_raises_corrupt_data() -> None:
    groups = (RewriteGroup(old_fragments=(part(0),), new_fragments=(part(1),)),)
    with pytest.raises(CorruptDataError, match="rewritten index"):
        Rewrite(groups=groups, rewritten_indices=(rebuilt(b"short"),)).to_public()


def test_update_in_a_mode_of_a_newer_release_raises_corrupt_data() -> None:
    message = pb_transaction.Transaction.Update()
    message.update_mode = 7  # type: ignore[assignment]
    with pytest.raises(CorruptDataError, match=r"update mode .* found 7"):
        Update.from_proto(message)


def test_update_lists_its_added_and_moved_fragments_and_added_files() -> None:
    moved = carrying(0, 1)
    anew = with_files(part(0), column_file("f0.lance", 0, -2), column_file("new", 1))
    operation = Update(updated_fragments=(anew,), new_fragments=(moved,))
    assert operation.added_fragments() == operation.moved_fragments() == (moved,)
    assert Update(new_fragments=(fragment(),)).moved_fragments() == ()
    (changed,) = operation.added_files(table(part(0)))
    assert [file.path for file in changed.files] == ["new"]


def test_update_of_a_removed_fragment_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="fragment 7, which is not in version 3"):
        Update(updated_fragments=(part(7),)).apply(on(table(part(0))))


def test_update_of_base_paths_lists_the_base_paths_that_it_adds() -> None:
    base = pb_table.BasePath(path="/x")
    assert UpdateBases(new_bases=(base,)).added_bases() == (base,)


def test_delete_may_remove_entire_fragments() -> None:
    assert Delete(updated_fragments=(), deleted_fragment_ids=(4,), predicate="true").removed_fragments() == {4}
