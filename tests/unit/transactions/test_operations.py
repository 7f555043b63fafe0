"""Delete, Rewrite, ReserveFragments, UpdateConfig, Restore: their records, and how they change a manifest."""

import pytest

from lance_core.errors import (
    InvalidInputError,
    InvalidSchemaError,
    NotSupportedError,
    SchemaMismatchError,
    UnsupportedFeatureFlagError,
)
from lance_core.proto import pb_table, pb_transaction
from lance_core.schema.convert import fields_to_proto
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.operation import Operation
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.transaction import Transaction
from tests.support.manifests import deletion, on, sealed
from tests.support.records import SCHEMA, data_file

Pb = pb_transaction.Transaction


def _part(fragment_id: int, num_rows: int = 10, deleted: int = 0) -> Fragment:
    fragment = Fragment.of([data_file()], physical_rows=num_rows, fragment_id=fragment_id)
    return fragment.with_deletion(deletion(deleted)) if deleted else fragment


def _table(*fragments: Fragment, index_names: tuple[str, ...] = (), **values: object) -> Manifest:
    message = pb_table.Manifest(
        version=3,
        data_format={"file_format": "lance", "version": "2.2"},
        fields=fields_to_proto(SCHEMA),
        fragments=[fragment.message for fragment in fragments],
        **values,
    )
    section = pb_table.IndexSection(indices=[{"name": name} for name in index_names]).SerializeToString()
    return Manifest(message=message, naming=ManifestNaming.V2, index_section=section if index_names else None)


def _group(old: tuple[Fragment, ...], new: tuple[Fragment, ...]) -> Rewrite:
    return Rewrite(groups=(RewriteGroup(old_fragments=old, new_fragments=new),))


_INDEX = Pb.Rewrite.RewrittenIndex(new_index_version=3)


@pytest.mark.parametrize(
    "operation",
    [
        Delete(
            updated_fragments=(_part(1, deleted=2), _part(3, deleted=1)), deleted_fragment_ids=(0, 7), predicate="x"
        ),
        Delete(updated_fragments=(), deleted_fragment_ids=()),
        Rewrite(
            groups=(
                RewriteGroup(old_fragments=(_part(1),), new_fragments=(_part(4), _part(0))),
                RewriteGroup(old_fragments=(_part(2),), new_fragments=()),
            ),
            rewritten_indices=(_INDEX,),
        ),
        ReserveFragments(num_fragments=5),
        Restore(version=9),
        UpdateConfig(),
        UpdateConfig(
            config=MapUpdate(entries={"a": "1", "b": None, "c": ""}),
            table_metadata=MapUpdate(entries={}, replace=True),
            schema_metadata=MapUpdate(entries={"ü": "ß"}),
            field_metadata={0: MapUpdate(entries={"x": None}), 7: MapUpdate(entries={"y": "z"}, replace=True)},
        ),
    ],
)
def test_delete_rewrite_and_config_transactions_survive_a_round_trip(operation: Operation) -> None:
    transaction = Transaction(read_version=3, operation=operation)
    assert Transaction.parse(transaction.serialize(), "t") == transaction


def test_rewrite_committed_by_a_release_without_groups_becomes_one_group() -> None:
    message = Pb.Rewrite(old_fragments=[_part(1).message], new_fragments=[_part(4).message])
    assert Rewrite.from_proto(message) == _group(
        (Fragment(message.old_fragments[0]),), (Fragment(message.new_fragments[0]),)
    )


def test_config_updates_of_early_releases_become_map_updates() -> None:
    message = Pb.UpdateConfig(
        upsert_values={"a": "1"},
        delete_keys=["b"],
        schema_metadata={"c": "2"},
        field_metadata={1: Pb.UpdateConfig.FieldMetadataUpdate(metadata={"d": "3"})},
    )
    assert UpdateConfig.from_proto(message) == UpdateConfig(
        config=MapUpdate(entries={"a": "1", "b": None}),
        schema_metadata=MapUpdate(entries={"c": "2"}, replace=True),
        field_metadata={1: MapUpdate(entries={"d": "3"}, replace=True)},
    )


def test_delete_operation_uses_only_the_deletion_files_of_its_fragments() -> None:
    current = _table(_part(0), _part(1), _part(2), index_names=("i",))
    stale = _part(1, deleted=4)
    made = sealed(Delete(updated_fragments=(stale,), deleted_fragment_ids=(2,)).apply(on(current)))
    assert [(each.id, each.num_live_rows) for each in made.fragments] == [(0, 10), (1, 6)]
    # The files of the fragment are those of the table, not those of the record.
    assert made.message.fragments[1].files == current.message.fragments[1].files
    assert made.index_section == current.index_section
    assert (made.message.max_fragment_id, made.message.reader_feature_flags) == (2, 1)


@pytest.mark.parametrize(
    ("operation", "match"),
    [
        (Delete(updated_fragments=(_part(9, deleted=1),), deleted_fragment_ids=()), "fragment 9 is not in version 3"),
        (Delete(updated_fragments=(), deleted_fragment_ids=(9,)), "fragment 9 is not in version 3"),
        (Delete(updated_fragments=(_part(0),), deleted_fragment_ids=()), "has no deletion file"),
        (Delete(updated_fragments=(_part(0, deleted=11),), deleted_fragment_ids=()), "records 11 deleted rows"),
        (
            Delete(updated_fragments=(_part(0, 9, deleted=1),), deleted_fragment_ids=()),
            "10 rows in version 3, but the operation records 9",
        ),
        (Delete(updated_fragments=(_part(0, deleted=1),), deleted_fragment_ids=(0,)), "lists a fragment twice"),
        (Delete(updated_fragments=(), deleted_fragment_ids=(0, 0)), "lists a fragment twice"),
        (ReserveFragments(num_fragments=0), "at least 1"),
        (ReserveFragments(num_fragments=2**32), "32 bits"),
        (_group((_part(9),), ()), "cannot rewrite fragment 9: it is not in version 3"),
        (_group((_part(0), _part(0)), ()), "fragment 0 is rewritten twice"),
        (_group((_part(0, deleted=1),), (_part(0, 9),)), "in version 3 differ from those that were read"),
        (_group((_part(1),), (_part(0),)), "in version 3 differ from those that were read"),
        (_group((_part(0),), (_part(0, 9),)), "the old fragments have 10 live rows, but the new fragments have 9"),
        (_group((_part(0),), ()), "the old fragments have 10 live rows, but the new fragments have 0"),
        (_group((_part(0),), (_part(1),)), "must be unused"),
        (_group((_part(0),), (_part(0, 12, deleted=2),)), "has a deletion file"),
    ],
)
def test_operations_that_contradict_the_table_are_refused(operation: Operation, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        operation.apply(on(_table(_part(0), _part(1, deleted=2))))


def test_a_rewrite_replaces_fragments_and_keeps_indices() -> None:
    old = (_part(0), _part(1, deleted=2))
    current = _table(*old, _part(2), index_names=("i", "j"), max_fragment_id=5)
    made = sealed(_group(old, (_part(5, 10), _part(0, 8))).apply(on(current)))
    assert [(each.id, each.physical_rows) for each in made.fragments] == [(2, 10), (5, 10), (6, 8)]
    assert made.index_section == current.index_section
    assert (made.message.max_fragment_id, made.message.reader_feature_flags) == (6, 0)


def test_rewrite_of_only_deleted_rows_produces_no_fragment() -> None:
    gone = _part(0, deleted=10)
    made = sealed(_group((gone,), ()).apply(on(_table(gone, _part(1)))))
    assert ([each.id for each in made.fragments], made.message.reader_feature_flags) == ([1], 0)


def test_rewritten_fragment_without_live_rows_may_already_have_been_removed() -> None:
    gone, kept = _part(0, deleted=10), _part(1)
    made = sealed(_group((gone, kept), (_part(0, 10),)).apply(on(_table(kept))))
    assert [each.id for each in made.fragments] == [2]


def test_rewrite_row_counts_are_not_checked_with_unrecorded_deletions() -> None:
    old = _part(0).with_deletion(pb_table.DeletionFile(id=3))
    assert [each.physical_rows for each in sealed(_group((old,), (_part(0, 7),)).apply(on(_table(old)))).fragments] == [
        7
    ]


def test_rewrite_in_a_table_with_deferred_index_remapping_is_refused() -> None:
    operation = _group((_part(0),), (_part(0),))
    with pytest.raises(NotSupportedError, match="__lance_frag_reuse"):
        operation.apply(on(_table(_part(0), index_names=("i", "__lance_frag_reuse"))))


def test_rewritten_rows_keep_their_stable_row_ids() -> None:
    current = _table(_part(0), reader_feature_flags=2, writer_feature_flags=2, next_row_id=10)
    with pytest.raises(InvalidInputError, match="has no row ids"):
        _group((_part(0),), (_part(0),)).apply(on(current))
    new = _part(0)
    new.message.inline_row_ids = b"ids"
    made = sealed(_group((_part(0),), (new,)).apply(on(current)))
    assert (made.message.fragments[0].inline_row_ids, made.message.next_row_id) == (b"ids", 10)
    with pytest.raises(InvalidInputError, match="has row ids"):
        _group((_part(0),), (new,)).apply(on(_table(_part(0))))


def test_rewritten_files_without_columns_of_the_table_are_refused() -> None:
    foreign = Fragment.of([data_file(field_ids=(7, 8))], physical_rows=10)
    with pytest.raises(SchemaMismatchError, match="contains no field of the table"):
        _group((_part(0),), (foreign,)).apply(on(_table(_part(0))))


def test_config_update_changes_only_config_and_metadata() -> None:
    current = _table(
        _part(0),
        index_names=("i",),
        config={"a": "1", "b": "2"},
        table_metadata={"a": "1"},
        schema_metadata={"a": b"\xff", "b": b"2"},
    )
    current.message.fields[1].metadata["old"] = b"\xfe"
    made = sealed(
        UpdateConfig(
            config=MapUpdate(entries={"a": None, "nope": None, "c": "3"}),
            table_metadata=MapUpdate(entries={"z": "9", "y": None}, replace=True),
            schema_metadata=MapUpdate(entries={"b": "ü"}),
            field_metadata={1: MapUpdate(entries={"new": "n"})},
        ).apply(on(current))
    )
    assert dict(made.message.config) == {"b": "2", "c": "3"}
    assert dict(made.message.table_metadata) == {"z": "9"}
    assert dict(made.message.schema_metadata) == {"a": b"\xff", "b": "ü".encode()}
    assert dict(made.message.fields[1].metadata) == {"old": b"\xfe", "new": b"n"}
    assert dict(made.message.fields[0].metadata) == {}
    assert (made.message.fragments, made.index_section) == (current.message.fragments, current.index_section)
    assert made.message.writer_feature_flags == 8
    emptied = sealed(UpdateConfig(config=MapUpdate(entries={}, replace=True)).apply(on(made)))
    assert (dict(emptied.message.config), emptied.message.writer_feature_flags) == ({}, 0)


def test_metadata_updates_of_unknown_fields_and_keys_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no field with id 9"):
        UpdateConfig(field_metadata={9: MapUpdate(entries={})}).apply(on(_table()))
    current = _table()
    current.message.fields[0].metadata["lance-schema:unenforced-primary-key"] = b"true"
    for field_id, update in (
        (0, MapUpdate(entries={}, replace=True)),
        (0, MapUpdate(entries={"lance-schema:unenforced-primary-key": None})),
        (1, MapUpdate(entries={"lance-schema:unenforced-primary-key:position": "1"})),
    ):
        with pytest.raises(InvalidSchemaError, match="primary key is already declared"):
            UpdateConfig(field_metadata={field_id: update}).apply(on(current))
    UpdateConfig(field_metadata={0: MapUpdate(entries={"other": "1"})}).apply(on(current))


def test_restore_uses_the_old_content_and_keeps_the_counters() -> None:
    source = _table(_part(0), _part(1, deleted=2), index_names=("i",), config={"old": "1"}, max_fragment_id=1)
    current = _table(_part(7), config={"new": "1"}, max_fragment_id=8)
    current.message.version = 6
    made = sealed(Restore(version=3).apply(on(current, source)))
    assert (made.version, [each.id for each in made.fragments]) == (7, [0, 1])
    assert (dict(made.message.config), made.index_section) == ({"old": "1"}, source.index_section)
    assert (made.message.max_fragment_id, made.message.reader_feature_flags) == (8, 1)


@pytest.mark.parametrize(
    "operation",
    [
        Delete(updated_fragments=(), deleted_fragment_ids=()),
        ReserveFragments(num_fragments=1),
        UpdateConfig(),
        Rewrite(groups=()),
    ],
)
def test_operations_on_tables_with_unknown_writer_flags_are_refused(operation: Operation) -> None:
    with pytest.raises(UnsupportedFeatureFlagError):
        operation.apply(on(_table(writer_feature_flags=1 << 20)))


@pytest.mark.parametrize("flags", [(1 << 20, 0), (0, 1 << 20)])
def test_restore_of_or_over_a_version_with_unknown_features_is_refused(flags: tuple[int, int]) -> None:
    current, source = (_table(writer_feature_flags=each) for each in flags)
    with pytest.raises(UnsupportedFeatureFlagError):
        Restore(version=3).apply(on(current, source))
