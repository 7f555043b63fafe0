"""The conflict matrix, compared cell by cell with the specification."""

import pytest
from pyroaring import BitMap

from lance_core.errors import CorruptDataError, InternalError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.fragment import Fragment
from lance_core.transactions.clashes import CLASHES, may_share_keys
from lance_core.transactions.conflicts import MATRIX, TABLE, Verdict, judge, lines_of
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import UNKNOWN_ARM, CarriedOperation
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement, Replacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.operation import Operation
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.parts import OverlayGroup, RewriteGroup
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update import Update, UpdateMode
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.operations.update_mem_wal_state import UpdateMemWalState
from lance_core.transactions.registry import EXECUTABLE
from tests.support.records import SCHEMA, data_file

Pb = pb_transaction.Transaction

# The header and rows of the table in the specification: same fragment or key / different fragment or key.
COLUMNS = (
    "App | Del | DelFrag | Ovw | CIdx | Rew | Mrg+ | Mrg− | Rst | Rsv | UpdR | UpdC | Prj+ | Prj− | Cfg | SMd | FMd "
    "| TMd | DRep | DOvl | Bas | MWal | Cln"
)
ROWS = {
    "append": "· | · | · | X | · | · | · | R | X | · | · | · | · | R | · | · | · | · | · | · | · | X | ·",
    "delete": "· | R/· | R/· | X | · | R/· | R | R | X | · | R/· | R/· | · | · | · | · | · | · | R/· | · | · | X | ·",
    "delete whole": "· | R/· | R/· | X | · | R/· | R | R | X | · | R/· | R/· | · | · | · | · | · | · | R/· | · | · | X "
    "| ·",
    "overwrite": "· | · | · | R | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X | ·",
    "create index": "· | · | · | X | R/· | R/· | · | · | X | · | · | · | · | · | · | · | · | · | · | · | · | X | ·",
    "rewrite": "· | R/· | R/· | X | R/· | R/· | R | R | X | · | R/· | R/· | · | · | · | · | · | · | R/· | R/· | · | · "
    "| ·",
    "merge +": "R | R | R | X | · | R | R | R | X | · | R | R | X | X | · | R | R | · | R | R | · | X | ·",
    "merge −": "R | R | R | X | · | R | R | R | X | · | R | R | X | X | · | R | R | · | R | R | · | X | ·",
    "restore": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X | X | · | · | · | · | X | ·",
    "reserve": "· | · | · | X | · | · | · | · | X | · | · | · | · | · | · | · | · | · | · | · | · | · | ·",
    "update rows": "· | R/· | R/· | X | · | R/· | R | R | X | · | R/· | R/· | · | R | · | · | · | · | R/· | R/· | · | "
    "· | ·",
    "update columns": "· | R/· | R/· | X | · | R/· | R | R | X | · | R/· | R/· | R | R | · | · | · | · | R/· | R/· | · "
    "| · | ·",
    "project +": "· | · | · | X | · | · | R | R | X | · | · | · | R | R | · | · | · | · | · | · | · | X | ·",
    "project −": "R | · | · | X | · | · | R | R | X | · | R | R | R | R | · | · | · | · | R | R | · | X | ·",
    "config": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | X/· | · | · | · | · | · | · | · | ·",
    "schema metadata": "· | · | · | X | · | · | R | R | X | · | · | · | · | · | · | X | · | · | · | · | · | · | ·",
    "field metadata": "· | · | · | X | · | · | R | R | X | · | · | · | · | · | · | · | X/· | · | · | · | · | · | ·",
    "table metadata": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X/· | · | · | · | · | ·",
    "data replacement": "· | · | X/· | X | · | R/· | R | R | X | · | R/· | R/· | X | R | · | · | · | · | R/· | · | · "
    "| X | ·",
    # Only reading distinguishes rows moved by an update from rows covered by an overlay, so that this is a conflict.
    "data overlay": "· | · | R/· | X | · | R/· | R | R | X | · | R/· | · | · | R | · | · | · | · | · | · | · | X | ·",
    "update bases": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X/· | · | ·",
    "log": "X | X | X | X | · | · | X | X | X | · | · | · | X | X | · | · | · | · | X | X | · | X/· | X",
    "clone": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | ·",
}


def _fragment(fragment_id: int) -> Fragment:
    return Fragment.of([], physical_rows=10, fragment_id=fragment_id)


def _rewrite(fragment_id: int) -> Rewrite:
    return Rewrite(groups=(RewriteGroup(old_fragments=(_fragment(fragment_id),), new_fragments=()),))


def _set(key: str, value: str | None = "v", *, replace: bool = False) -> MapUpdate:
    return MapUpdate(entries={key: value}, replace=replace)


def _delete(*updated: int, whole: tuple[int, ...] = ()) -> Delete:
    return Delete(updated_fragments=tuple(map(_fragment, updated)), deleted_fragment_ids=whole)


def _index(*fragment_ids: int, name: str = "i", field_id: int = 0) -> CreateIndex:
    bitmap = BitMap(fragment_ids).serialize()
    return CreateIndex(new_indices=(pb_table.IndexMetadata(name=name, fragment_bitmap=bitmap, fields=[field_id]),))


def _update(*fragment_ids: int, **values: object) -> Update:
    return Update(updated_fragments=tuple(map(_fragment, fragment_ids)), new_fragments=(_fragment(0),), **values)


def _update_columns(*fragment_ids: int) -> Update:
    return Update(updated_fragments=tuple(map(_fragment, fragment_ids)), fields_modified=(1,), mode=UpdateMode.COLUMNS)


def _merge(*, promise: bool) -> Merge:
    return Merge(fragments=(_fragment(0),), schema=SCHEMA, preserves_nullability=promise)


def _project(*names: str, promise: bool) -> Project:
    return Project(schema=SCHEMA.project(names or ("a",)), preserves_nullability=promise)


def _replacement(fragment_id: int, field_id: int = 1) -> DataReplacement:
    file = data_file(field_ids=(field_id,), column_indices=(0,))
    return DataReplacement(replacements=(Replacement(fragment_id=fragment_id, new_file=file),))


def _overlay(fragment_id: int, field_id: int = 1) -> DataOverlay:
    file = data_file(field_ids=(field_id,), column_indices=(0,)).to_proto()
    return DataOverlay(
        groups=(OverlayGroup(fragment_id=fragment_id, overlays=(pb_table.DataOverlayFile(data_file=file),)),)
    )


def _bases(*paths: str) -> UpdateBases:
    return UpdateBases(new_bases=tuple(pb_table.BasePath(path=path, name=path) for path in paths))


def _log(shard: int, generation: int = 3) -> UpdateMemWalState:
    return UpdateMemWalState(absorbed_tables=(_absorbed(shard, generation),))


def _absorbed(shard: int, generation: int) -> pb_table.CompactedSsTable:
    return pb_table.CompactedSsTable(shard_id={"uuid": bytes([shard]) * 16}, generation=generation)


CLONE = Clone(is_shallow=True, ref_version=1, ref_path="/x")


OURS: dict[str, Operation] = {
    "append": Append(fragments=()),
    "delete": _delete(0),
    "delete whole": _delete(whole=(0,)),
    "overwrite": Overwrite(schema=SCHEMA, fragments=()),
    "rewrite": _rewrite(0),
    "restore": Restore(version=1),
    "reserve": ReserveFragments(num_fragments=1),
    "config": UpdateConfig(config=_set("k")),
    "schema metadata": UpdateConfig(schema_metadata=_set("k")),
    "field metadata": UpdateConfig(field_metadata={0: _set("k")}),
    "table metadata": UpdateConfig(table_metadata=_set("k")),
    "create index": _index(0, 1),
    "merge +": _merge(promise=True),
    "merge −": _merge(promise=False),
    "update rows": _update(0),
    "update columns": _update_columns(0),
    "project +": _project(promise=True),
    "project −": _project(promise=False),
    "data replacement": _replacement(0),
    "data overlay": _overlay(0),
    "update bases": _bases("/x"),
    "log": _log(1),
    "clone": CLONE,
}
THEIRS: dict[str, tuple[Operation, Operation]] = {
    # The same fragment, key, or field; a different one.
    "App": (Append(fragments=()),) * 2,
    "Del": (_delete(0), _delete(3)),
    "DelFrag": (_delete(whole=(0,)), _delete(whole=(3,))),
    "Ovw": (Overwrite(schema=SCHEMA, fragments=()),) * 2,
    "CIdx": (_index(0, 1), _index(3, name="j")),
    "Rew": (_rewrite(0), _rewrite(3)),
    "Mrg+": (_merge(promise=True),) * 2,
    "Mrg−": (_merge(promise=False),) * 2,
    "Rst": (Restore(version=1),) * 2,
    "Rsv": (ReserveFragments(num_fragments=1),) * 2,
    "UpdR": (_update(0), _update(3)),
    "UpdC": (_update_columns(0), _update_columns(3)),
    "Prj+": (_project(promise=True),) * 2,
    "Prj−": (_project(promise=False),) * 2,
    "Cfg": (UpdateConfig(config=_set("k")), UpdateConfig(config=_set("j"))),
    "SMd": (UpdateConfig(schema_metadata=_set("k")), UpdateConfig(schema_metadata=_set("j"))),
    "FMd": (UpdateConfig(field_metadata={0: _set("j")}), UpdateConfig(field_metadata={1: _set("k")})),
    "TMd": (UpdateConfig(table_metadata=_set("k")), UpdateConfig(table_metadata=_set("j"))),
    "DRep": (_replacement(0), _replacement(3)),
    "DOvl": (_overlay(0), _overlay(3)),
    "Bas": (_bases("/x"), _bases("/y")),
    "MWal": (_log(1), _log(2)),
    "Cln": (CLONE,) * 2,
}
VERDICTS = {"·": Verdict.COMPATIBLE, "R": Verdict.RETRYABLE, "X": Verdict.INCOMPATIBLE}
CELLS = [
    (ours, column, cell)
    for ours, row in ROWS.items()
    for column, cell in zip(COLUMNS.split(" | "), row.split(" | "), strict=True)
]


def _without_rows(verdict: Verdict) -> Verdict:
    """Return the verdict if the rows of a delete are unknown."""
    return Verdict.RETRYABLE if verdict is Verdict.MERGEABLE else verdict


@pytest.mark.parametrize(("ours", "column", "cell"), CELLS)
def test_conflict_matrix_matches_the_specification(ours: str, column: str, cell: str) -> None:
    same, other = (_without_rows(judge(OURS[ours], theirs)) for theirs in THEIRS[column])
    expected_same, _, expected_other = cell.partition("/")
    assert same is VERDICTS[expected_same]
    assert other is VERDICTS[expected_other or expected_same]


@pytest.mark.parametrize("ours", list(OURS))
def test_unknown_operation_conflicts_with_every_operation(ours: str) -> None:
    assert judge(OURS[ours], CarriedOperation()) is Verdict.RETRYABLE


def test_conflict_matrix_has_a_row_for_every_operation() -> None:
    split = {
        "merge": ("merge+", "merge-"),
        "project": ("project+", "project-"),
        "update": ("update.rows", "update.columns"),
        "update_config": tuple(
            f"update_config.{part}" for part in ("config", "table_metadata", "schema_metadata", "field_metadata")
        ),
    }
    executable = {line for arm in EXECUTABLE for line in split.get(arm, (arm,))}
    assert MATRIX.keys() == executable | {UNKNOWN_ARM}
    for row in MATRIX.values():
        assert row.keys() == executable
    for operation in (*OURS.values(), *(theirs for pair in THEIRS.values() for theirs in pair)):
        assert set(lines_of(operation)) <= executable
    # No operation is missing from the rows of the specification.
    assert {line for ours in ROWS for line in lines_of(OURS[ours])} == executable


def test_every_entry_of_the_conflict_matrix_is_defined() -> None:
    letters = {cell for row in MATRIX.values() for cell in row.values()}
    assert letters == {".", "R", "X", *CLASHES}


def test_conflict_matrix_is_at_most_120_characters_wide() -> None:
    lines = TABLE.strip().splitlines()
    assert len(lines) == len(MATRIX) + 1
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (_delete(0), Verdict.MERGEABLE),
        (THEIRS["UpdR"][0], Verdict.MERGEABLE),
        (_delete(3), Verdict.COMPATIBLE),
        (_rewrite(0), Verdict.RETRYABLE),
        (THEIRS["DRep"][0], Verdict.RETRYABLE),
    ],
)
def test_only_deletes_and_updates_can_be_merged_with_a_delete(theirs: Operation, expected: Verdict) -> None:
    assert judge(_delete(0), theirs) is expected
    assert judge(_rewrite(0), theirs) is _without_rows(expected)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (_set("k"), _set("k"), Verdict.INCOMPATIBLE),
        (_set("k"), _set("k", None), Verdict.INCOMPATIBLE),
        (_set("k", None), _set("k"), Verdict.INCOMPATIBLE),
        (_set("k", None), _set("k", None), Verdict.COMPATIBLE),
        (_set("k"), _set("z", replace=True), Verdict.COMPATIBLE),
        (_set("z", replace=True), _set("k"), Verdict.COMPATIBLE),
        (_set("z", replace=True), _set("z", replace=True), Verdict.INCOMPATIBLE),
    ],
)
def test_config_updates_of_the_same_key_conflict(ours: MapUpdate, theirs: MapUpdate, expected: Verdict) -> None:
    assert judge(UpdateConfig(config=ours), UpdateConfig(config=theirs)) is expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (_set("k", None), _set("k", None), Verdict.INCOMPATIBLE),
        (_set("k"), _set("j"), Verdict.COMPATIBLE),
        (_set("k"), _set("z", replace=True), Verdict.INCOMPATIBLE),
        (_set("z", replace=True), _set("k"), Verdict.INCOMPATIBLE),
    ],
)
def test_table_metadata_updates_conflict_by_key_and_on_replacement(
    ours: MapUpdate, theirs: MapUpdate, expected: Verdict
) -> None:
    assert judge(UpdateConfig(table_metadata=ours), UpdateConfig(table_metadata=theirs)) is expected


def test_update_of_several_maps_gets_the_most_severe_conflict_verdict() -> None:
    ours = UpdateConfig(config=_set("k"), schema_metadata=_set("k"))
    assert judge(ours, _merge(promise=False)) is Verdict.RETRYABLE
    assert judge(ours, UpdateConfig(config=_set("k"), table_metadata=_set("k"))) is Verdict.INCOMPATIBLE
    assert judge(ours, UpdateConfig(config=_set("j"), table_metadata=_set("k"))) is Verdict.COMPATIBLE
    assert judge(UpdateConfig(), OURS["overwrite"]) is Verdict.COMPATIBLE


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (Pb.UpdateConfig(config_updates={"update_entries": [{"key": "k", "value": "v"}]}), Verdict.INCOMPATIBLE),
        (Pb.UpdateConfig(config_updates={"update_entries": [{"key": "k"}]}), Verdict.INCOMPATIBLE),
        (Pb.UpdateConfig(upsert_values={"k": "v"}), Verdict.INCOMPATIBLE),
        (Pb.UpdateConfig(delete_keys=["k"]), Verdict.INCOMPATIBLE),
        (Pb.UpdateConfig(config_updates={"update_entries": [{"key": "other", "value": "v"}]}), Verdict.COMPATIBLE),
        (Pb.UpdateConfig(table_metadata_updates={"update_entries": [{"key": "k"}]}), Verdict.COMPATIBLE),
    ],
)
def test_overwrite_that_sets_config_conflicts_with_updates_of_that_key(
    update: Pb.UpdateConfig, expected: Verdict
) -> None:
    overwrite = Overwrite(schema=SCHEMA, fragments=(), config_upserts={"k": "v"})
    config = UpdateConfig.from_proto(update)
    assert judge(overwrite, config) is expected
    assert judge(config, overwrite) is expected


def test_index_without_a_fragment_bitmap_conflicts_with_any_rewrite() -> None:
    theirs = CreateIndex(new_indices=(pb_table.IndexMetadata(name="i"),))
    assert judge(_rewrite(0), theirs) is Verdict.RETRYABLE
    damaged = CreateIndex(new_indices=(pb_table.IndexMetadata(name="i", fragment_bitmap=b"\x00"),))
    with pytest.raises(CorruptDataError, match="'i'"):
        judge(_rewrite(0), damaged)


def test_conflict_check_with_an_unknown_new_operation_raises_internal_error() -> None:
    with pytest.raises(InternalError, match="unknown"):
        judge(CarriedOperation(), OURS["append"])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        # The same index name conflicts on any field; the same field does not conflict.
        (_index(0), _index(3, field_id=1), Verdict.RETRYABLE),
        (_index(0), _index(0, name="j"), Verdict.COMPATIBLE),
        (CreateIndex(new_indices=()), _index(0), Verdict.COMPATIBLE),
        (_index(0), _replacement(0, 0), Verdict.RETRYABLE),
        (_index(0), _replacement(0, 1), Verdict.COMPATIBLE),
        (_replacement(0, 0), _index(3), Verdict.RETRYABLE),
        (_replacement(0, 0), _replacement(0, 1), Verdict.COMPATIBLE),
        (_replacement(0), _delete(0), Verdict.COMPATIBLE),
        (_replacement(0), Update(removed_fragment_ids=(0,)), Verdict.INCOMPATIBLE),
        (_replacement(0), Update(updated_fragments=(_fragment(0),)), Verdict.COMPATIBLE),
        (_replacement(0, 0), _update_columns(0), Verdict.COMPATIBLE),
        (_replacement(0, 1), _update_columns(0), Verdict.RETRYABLE),
        (_replacement(0, 0), _project("a", promise=True), Verdict.COMPATIBLE),
        (_update_columns(0), _project("a", "b", promise=True), Verdict.COMPATIBLE),
        (_update_columns(0), _overlay(0, 0), Verdict.COMPATIBLE),
        (Update(updated_fragments=(_fragment(0),)), _overlay(0), Verdict.COMPATIBLE),
        (_overlay(0), Update(removed_fragment_ids=(0,)), Verdict.RETRYABLE),
        (_log(1, 3), _log(1, 2), Verdict.RETRYABLE),
        (_log(1, 3), _log(1, 3), Verdict.INCOMPATIBLE),
        (_log(1, 3), _update(0, absorbed_tables=(_absorbed(1, 2),)), Verdict.RETRYABLE),
        (_update(0, absorbed_tables=(_absorbed(1, 2),)), _log(1, 3), Verdict.INCOMPATIBLE),
        (_log(1), _index(0, name="__lance_mem_wal"), Verdict.RETRYABLE),
    ],
)
def test_conflict_verdict_depends_on_the_contents_of_both_operations(
    ours: Operation, theirs: Operation, expected: Verdict
) -> None:
    assert judge(ours, theirs) is expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"path": "/x"}, {"path": "/x", "name": "n"}, Verdict.INCOMPATIBLE),
        ({"path": "/x", "name": "n"}, {"path": "/y", "name": "n"}, Verdict.INCOMPATIBLE),
        ({"path": "/x", "id": 4}, {"path": "/y", "id": 4}, Verdict.INCOMPATIBLE),
        ({"path": "/x"}, {"path": "/y"}, Verdict.COMPATIBLE),
    ],
)
def test_base_paths_conflict_by_id_name_and_path(
    ours: dict[str, object], theirs: dict[str, object], expected: Verdict
) -> None:
    mine, others = (UpdateBases(new_bases=(pb_table.BasePath(**values),)) for values in (ours, theirs))
    assert judge(mine, others) is expected


def _keys(*keys: int, field_ids: tuple[int, ...] = (0,)) -> Pb.KeyExistenceFilter:
    return Pb.KeyExistenceFilter(field_ids=field_ids, exact={"key_hashes": keys})


def _bloom(bitmap: bytes, **values: object) -> Pb.KeyExistenceFilter:
    settings = {"num_bits": 512, "number_of_items": 8, "probability": 0.5, **values}
    return Pb.KeyExistenceFilter(field_ids=[0], bloom={"bitmap": bitmap, **settings})


_BLOCK = bytes([1, 0, 0, 0]) * 8
_OTHER_BIT = bytes([1, 0, 0, 0]) * 7 + bytes([2, 0, 0, 0])
_NONE = bytes(32)


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"),
    [
        (_keys(1, 2), _keys(3), False),
        (_keys(1, 2), _keys(2), True),
        (_keys(1), _keys(3, field_ids=(1,)), True),
        (_keys(1), _bloom(_NONE * 2), True),
        (_bloom(_BLOCK + _NONE), _bloom(_BLOCK + _NONE), True),
        (_bloom(_BLOCK + _NONE), _bloom(_NONE + _BLOCK), False),
        # Seven of eight words are equal, but no key sets only those.
        (_bloom(_BLOCK + _NONE), _bloom(_OTHER_BIT + _NONE), False),
        (_bloom(_BLOCK + _NONE), _bloom(_NONE * 2, probability=0.1), True),
        (_bloom(_BLOCK + _NONE), _bloom(_NONE), True),
        (_bloom(b"\x01"), _bloom(b"\x02"), True),
        (Pb.KeyExistenceFilter(field_ids=[0]), Pb.KeyExistenceFilter(field_ids=[0]), True),
    ],
)
def test_key_filters_distinguish_merges_by_primary_key(
    ours: Pb.KeyExistenceFilter, theirs: Pb.KeyExistenceFilter, shared: bool
) -> None:
    assert may_share_keys(ours, theirs) is shared
    verdict = judge(_update(0, inserted_rows=ours), _update(3, inserted_rows=theirs))
    assert verdict is (Verdict.RETRYABLE if shared else Verdict.COMPATIBLE)


def test_merge_by_primary_key_conflicts_with_rows_of_unknown_keys() -> None:
    keyed = _update(0, inserted_rows=_keys(1))
    assert judge(keyed, OURS["append"]) is Verdict.RETRYABLE
    assert judge(keyed, _update(3)) is Verdict.RETRYABLE
    assert judge(keyed, _update_columns(3)) is Verdict.RETRYABLE
    assert judge(_update(3), keyed) is Verdict.COMPATIBLE
    assert judge(OURS["append"], keyed) is Verdict.COMPATIBLE
