"""The conflict table, cell by cell, against the specification's rows."""

import pytest
from pyroaring import BitMap

from lance_core.errors import CorruptDataError, InternalError
from lance_core.proto import pb_transaction
from lance_core.table.fragment import Fragment
from lance_core.transactions.conflicts import MATRIX, TABLE, Verdict, judge, lines_of
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import UNKNOWN_ARM, CarriedOperation
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite, RewriteGroup
from lance_core.transactions.operations.update_config import MapUpdate, UpdateConfig
from lance_core.transactions.registry import CARRIED, EXECUTABLE, Operation
from tests.support.records import SCHEMA

Pb = pb_transaction.Transaction

# The head and rows of the specification's table, as they stand there: same fragment or key / another one.
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
    "rewrite": "· | R/· | R/· | X | R/· | R/· | R | R | X | · | R/· | R/· | · | · | · | · | · | · | R/· | R/· | · | · "
    "| ·",
    "restore": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X | X | · | · | · | · | X | ·",
    "reserve": "· | · | · | X | · | · | · | · | X | · | · | · | · | · | · | · | · | · | · | · | · | · | ·",
    "config": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | X/· | · | · | · | · | · | · | · | ·",
    "schema metadata": "· | · | · | X | · | · | R | R | X | · | · | · | · | · | · | X | · | · | · | · | · | · | ·",
    "field metadata": "· | · | · | X | · | · | R | R | X | · | · | · | · | · | · | · | X/· | · | · | · | · | · | ·",
    "table metadata": "· | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | · | X/· | · | · | · | · | ·",
}


def _fragment(fragment_id: int) -> Fragment:
    return Fragment.of([], physical_rows=10, fragment_id=fragment_id)


def _rewrite(fragment_id: int) -> Rewrite:
    return Rewrite(groups=(RewriteGroup(old_fragments=(_fragment(fragment_id),), new_fragments=()),))


def _set(key: str, value: str | None = "v", *, replace: bool = False) -> MapUpdate:
    return MapUpdate(entries={key: value}, replace=replace)


def _delete(*updated: int, whole: tuple[int, ...] = ()) -> Delete:
    return Delete(updated_fragments=tuple(map(_fragment, updated)), deleted_fragment_ids=whole)


def _carried(arm: str, message: object) -> CarriedOperation:
    return CarriedOperation(arm=arm, message=message)


def _index(*fragment_ids: int) -> CarriedOperation:
    bitmap = BitMap(fragment_ids).serialize()
    return _carried("create_index", Pb.CreateIndex(new_indices=[{"name": "i", "fragment_bitmap": bitmap}]))


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
}
THEIRS: dict[str, tuple[Operation, Operation]] = {
    # The same fragment, key or field; another one.
    "App": (Append(fragments=()),) * 2,
    "Del": (_delete(0), _delete(3)),
    "DelFrag": (_delete(whole=(0,)), _delete(whole=(3,))),
    "Ovw": (Overwrite(schema=SCHEMA, fragments=()),) * 2,
    "CIdx": (_index(0, 1), _index(3)),
    "Rew": (_rewrite(0), _rewrite(3)),
    "Mrg+": (_carried("merge", Pb.Merge(preserves_nullability=True)),) * 2,
    "Mrg−": (_carried("merge", Pb.Merge()),) * 2,
    "Rst": (Restore(version=1),) * 2,
    "Rsv": (ReserveFragments(num_fragments=1),) * 2,
    "UpdR": (
        _carried("update", Pb.Update(updated_fragments=[{"id": 0}])),
        _carried("update", Pb.Update(updated_fragments=[{"id": 3}])),
    ),
    "UpdC": (
        _carried("update", Pb.Update(removed_fragment_ids=[0], update_mode=Pb.REWRITE_COLUMNS)),
        _carried("update", Pb.Update(removed_fragment_ids=[3], update_mode=Pb.REWRITE_COLUMNS)),
    ),
    "Prj+": (_carried("project", Pb.Project(preserves_nullability=True)),) * 2,
    "Prj−": (_carried("project", Pb.Project()),) * 2,
    "Cfg": (UpdateConfig(config=_set("k")), UpdateConfig(config=_set("j"))),
    "SMd": (UpdateConfig(schema_metadata=_set("k")), UpdateConfig(schema_metadata=_set("j"))),
    "FMd": (UpdateConfig(field_metadata={0: _set("j")}), UpdateConfig(field_metadata={1: _set("k")})),
    "TMd": (UpdateConfig(table_metadata=_set("k")), UpdateConfig(table_metadata=_set("j"))),
    "DRep": (
        _carried("data_replacement", Pb.DataReplacement(replacements=[{"fragment_id": 0}])),
        _carried("data_replacement", Pb.DataReplacement(replacements=[{"fragment_id": 3}])),
    ),
    "DOvl": (
        _carried("data_overlay", Pb.DataOverlay(groups=[{"fragment_id": 0}])),
        _carried("data_overlay", Pb.DataOverlay(groups=[{"fragment_id": 3}])),
    ),
    "Bas": (_carried("update_bases", Pb.UpdateBases()),) * 2,
    "MWal": (_carried("update_mem_wal_state", Pb.UpdateMemWalState()),) * 2,
    "Cln": (_carried("clone", Pb.Clone()),) * 2,
}
VERDICTS = {"·": Verdict.COMPATIBLE, "R": Verdict.RETRYABLE, "X": Verdict.INCOMPATIBLE}
CELLS = [
    (ours, column, cell)
    for ours, row in ROWS.items()
    for column, cell in zip(COLUMNS.split(" | "), row.split(" | "), strict=True)
]


def _without_rows(verdict: Verdict) -> Verdict:
    """What is left of a verdict when the rows of a delete are not known."""
    return Verdict.RETRYABLE if verdict is Verdict.MERGEABLE else verdict


@pytest.mark.parametrize(("ours", "column", "cell"), CELLS)
def test_every_cell_of_the_specification(ours: str, column: str, cell: str) -> None:
    same, other = (_without_rows(judge(OURS[ours], theirs)) for theirs in THEIRS[column])
    expected_same, _, expected_other = cell.partition("/")
    assert same is VERDICTS[expected_same]
    assert other is VERDICTS[expected_other or expected_same]


@pytest.mark.parametrize("ours", list(OURS))
def test_what_is_not_understood_is_a_conflict(ours: str) -> None:
    assert judge(OURS[ours], CarriedOperation(arm=UNKNOWN_ARM)) is Verdict.RETRYABLE


def test_the_table_has_a_line_for_every_operation() -> None:
    split = {
        "merge": ("merge+", "merge-"),
        "project": ("project+", "project-"),
        "update_config": tuple(
            f"update_config.{part}" for part in ("config", "table_metadata", "schema_metadata", "field_metadata")
        ),
    }
    lines = {line for arm in {*EXECUTABLE, *CARRIED, UNKNOWN_ARM} for line in split.get(arm, (arm,))}
    assert MATRIX.keys() == lines
    executable = {line for arm in EXECUTABLE for line in split.get(arm, (arm,))}
    for row in MATRIX.values():
        assert row.keys() == executable
    for pair in THEIRS.values():
        for theirs in pair:
            assert set(lines_of(theirs)) <= lines


def test_the_table_prints_within_a_page() -> None:
    lines = TABLE.strip().splitlines()
    assert len(lines) == len(MATRIX) + 1
    assert max(map(len, lines)) <= 90


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
def test_config_updates_clash_by_key(ours: MapUpdate, theirs: MapUpdate, expected: Verdict) -> None:
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
def test_table_metadata_clashes_by_key_and_on_replacement(
    ours: MapUpdate, theirs: MapUpdate, expected: Verdict
) -> None:
    assert judge(UpdateConfig(table_metadata=ours), UpdateConfig(table_metadata=theirs)) is expected


def test_the_severest_verdict_of_an_update_of_several_maps_stands() -> None:
    ours = UpdateConfig(config=_set("k"), schema_metadata=_set("k"))
    assert judge(ours, _carried("merge", Pb.Merge())) is Verdict.RETRYABLE
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
def test_an_overwrite_that_sets_config_meets_updates_of_the_same_key(
    update: Pb.UpdateConfig, expected: Verdict
) -> None:
    overwrite = Overwrite(schema=SCHEMA, fragments=(), config_upserts={"k": "v"})
    config = UpdateConfig.from_proto(update)
    assert judge(overwrite, config) is expected
    assert judge(config, overwrite) is expected


def test_an_index_without_a_bitmap_may_cover_everything() -> None:
    theirs = _carried("create_index", Pb.CreateIndex(new_indices=[{"name": "i"}]))
    assert judge(_rewrite(0), theirs) is Verdict.RETRYABLE
    damaged = _carried("create_index", Pb.CreateIndex(new_indices=[{"name": "i", "fragment_bitmap": b"\x00"}]))
    with pytest.raises(CorruptDataError, match="'i'"):
        judge(_rewrite(0), damaged)


def test_operations_without_a_column_are_not_judged() -> None:
    with pytest.raises(InternalError, match="merge"):
        judge(THEIRS["Mrg+"][0], THEIRS["App"][0])
