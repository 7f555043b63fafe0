"""Plans of index jobs from the manifest alone, declarations, and reports; no index is built."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import InvalidInputError
from lance_core.metadata import index_coverage
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.index_plan import IndexAction, IndexForecast, IndexOperation
from lance_pipelines.maintenance.index_report import IndexReport
from lance_pipelines.maintenance.policy import IndexPolicy, MaintenancePolicy

BUILD, OPTIMIZE = IndexOperation.BUILD, IndexOperation.OPTIMIZE
BTREE = IndexDeclaration(column="id", type=IndexType.BTREE)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three fragments of ten rows; row 0 is deleted."""
    for number in range(3):
        part = pa.table({"id": range(number * 10, number * 10 + 10), "name": ["x"] * 10})
        lance_core.write_dataset(part, tmp_path / "table", mode="append" if number else "create")
    lance_core.dataset(tmp_path / "table").delete("id = 0")
    return str(tmp_path / "table")


def record(uri: str, *fragment_ids: int, name: str = "id_idx", field: int = 0, kind: str = "lance.table.BTree") -> None:
    """Record a segment of an index; its files do not exist."""
    index = lance_core.Index(
        uuid=str(uuid.uuid4()),
        name=name,
        fields=[field],
        dataset_version=1,
        fragment_ids=fragment_ids,
        index_version=0,
        index_details=(f"/{kind}IndexDetails", b""),
    )
    version = lance_core.dataset(uri).version
    lance_core.LanceDataset.commit(uri, LanceOperation.CreateIndex([index], []), read_version=version)


def forecast(uri: str, operation: IndexOperation = OPTIMIZE, *declared: IndexDeclaration, **options) -> IndexForecast:
    return IndexForecast.of(lance_core.dataset(uri), declared, operation, **options)


def test_coverage_counts_live_rows_of_all_segments_of_an_index(uri) -> None:
    assert index_coverage(lance_core.dataset(uri)) == []
    record(uri, 0, 77)
    record(uri, 2)
    record(uri, 0, 1, 2, name="name_idx", field=1)
    first, second = index_coverage(lance_core.dataset(uri))
    assert (first.name, first.index_type, first.columns, len(first.uuids)) == ("id_idx", "BTree", ("id",), 2)
    assert (first.indexed_rows, first.unindexed_rows, first.unindexed_fragments) == (19, 10, (1,))
    assert (second.indexed_rows, second.unindexed_rows, second.unindexed_fragments) == (29, 0, ())


def test_index_without_recorded_fragments_counts_as_complete(uri, monkeypatch) -> None:
    record(uri, 0)
    monkeypatch.setattr("lance_core.public.index_coverage.read_fragment_bitmap", lambda index: None)
    (index,) = index_coverage(lance_core.dataset(uri))
    assert (index.is_known, index.unindexed_rows) == (False, 0)


def test_missing_declared_index_is_planned_by_both_jobs(uri) -> None:
    for operation in (BUILD, OPTIMIZE):
        (work,) = forecast(uri, operation, BTREE).works
        assert (work.name, work.action, work.indexed_rows, work.unindexed_rows) == ("id_idx", IndexAction.BUILD, 0, 29)


def test_incomplete_index_is_planned_by_optimize_indices_only(uri) -> None:
    record(uri, 0)
    assert not forecast(uri, BUILD, BTREE).has_work
    for declared in ((), (BTREE,)):
        (work,) = forecast(uri, OPTIMIZE, *declared).works
        assert (work.action, work.reason) == (IndexAction.UPDATE, "20 unindexed rows in 2 fragments")


def test_index_on_a_column_other_than_the_declared_one_is_replaced(uri) -> None:
    record(uri, 0, 1, 2, field=1)
    (work,) = forecast(uri, OPTIMIZE, BTREE).works
    assert work.action is IndexAction.REPLACE
    assert work.reason == "BTREE on id is declared, but the existing index is BTree on name"


def test_untrained_vector_index_waits_for_enough_rows(uri) -> None:
    record(uri, name="v_idx", kind="lance.index.pb.Vector")
    planned = forecast(uri)
    assert (planned.works, planned.waiting) == ((), ("v_idx is not trained yet: 29 rows < 256",))
    declared = IndexDeclaration(column="v", type=IndexType.IVF_FLAT, name="w_idx")
    assert forecast(uri, BUILD, declared).waiting == ("w_idx is not built yet: 29 rows < 256",)


def test_given_index_names_restrict_the_plan_and_unknown_names_are_refused(uri) -> None:
    record(uri, 0)
    record(uri, 0, name="name_idx", field=1)
    assert [work.name for work in forecast(uri, names=["name_idx"]).works] == ["name_idx"]
    with pytest.raises(InvalidInputError, match="unknown index 'x'; the indices are: id_idx, name_idx"):
        forecast(uri, names=["x"])
    with pytest.raises(InvalidInputError, match="unknown index 'name_idx'; the declared indices are: id_idx"):
        forecast(uri, BUILD, BTREE, names=["name_idx"])


def test_digest_of_an_index_plan_changes_only_with_a_new_version(uri) -> None:
    reviewed = forecast(uri, OPTIMIZE, BTREE)
    forecast(uri, OPTIMIZE, BTREE).require(reviewed.digest)
    forecast(uri, OPTIMIZE, BTREE).require(None)
    lance_core.dataset(uri).delete("id = 1")
    with pytest.raises(
        InvalidInputError, match=r"or the run's options have changed since the dry run\. Start another dry run"
    ):
        forecast(uri, OPTIMIZE, BTREE).require(reviewed.digest)


def test_dry_run_table_shows_each_index_and_its_unindexed_rows(uri) -> None:
    record(uri, 0, name="name_idx", field=1)
    planned = forecast(uri, OPTIMIZE, BTREE, problem="the package pylance is not installed")
    assert planned.table().splitlines() == [
        f"optimize_indices {uri} version 5: 2 indices will be changed (id_idx, name_idx)",
        "                   before   after   change",
        "──────────────────────────────────────────",
        "rows                   29      29",
        "rows in name_idx        9      29      +20",
        "rows in id_idx          0      29      +29",
        "build id_idx: BTREE on id is declared, but not built",
        "update name_idx: 20 unindexed rows in 2 fragments",
        "This plan cannot be executed here: the package pylance is not installed",
        f"Plan digest: {planned.digest}",
        "Dry run: nothing was changed.",
    ]


def test_index_report_states_that_nothing_was_left_to_do() -> None:
    report = IndexReport(uri="/x", op="build_index", read_version=1, version=2)
    assert not report.has_changed
    assert report.summary() == "/x version 2: nothing left to do; other writers changed the indices in the meantime"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"column": "", "type": "BTREE"}, "the column of an index must be one column name, found ''"),
        ({"column": ["a", "b"], "type": "BTREE"}, "the column of an index must be one column name"),
        ({"column": "a", "type": "TREE"}, "unknown type 'TREE'; expected one of BTREE, BITMAP"),
        ({"column": "a", "type": "BTREE", "parameters": {"x": 1}}, "BTREE has no parameter 'x'; it has no parameters"),
        ({"column": "a", "type": "IVF_PQ"}, "IVF_PQ requires the parameter 'num_sub_vectors'"),
        ({"column": "a", "type": "IVF_FLAT", "parameters": {"metrics": "dot"}}, "expected one of max_iters, metric, "),
        ({"column": "a", "type": "BTREE", "min_rows": 0}, "min_rows must be at least 1, found 0"),
    ],
)
def test_invalid_declaration_of_an_index_is_refused(values, message) -> None:
    with pytest.raises(InvalidInputError, match=message.replace("[", r"\[")):
        IndexDeclaration(**values)


def test_declared_indices_need_different_names() -> None:
    with pytest.raises(InvalidInputError, match="dataset events: two indices have the name 'id_idx'"):
        DatasetDeclaration(key="events", uri="/x", indices=[BTREE, IndexDeclaration(column="id", type="bitmap")])
    with pytest.raises(InvalidInputError, match="indices must be a sequence of IndexDeclaration"):
        DatasetDeclaration(key="events", uri="/x", indices=["id"])


def test_upkeep_digest_depends_on_the_policy_and_the_indices() -> None:
    policy = MaintenancePolicy(indices=IndexPolicy(min_unindexed_rows=5))
    digests = {
        DatasetDeclaration(key="events", uri="/x", **values).upkeep_digest()
        for values in ({}, {"indices": [BTREE]}, {"maintenance": policy}, {"maintenance": policy, "indices": [BTREE]})
    }
    assert len(digests) == 4
    assert DatasetDeclaration(key="events", uri="/x").upkeep_digest() == MaintenancePolicy().digest()


def test_index_policy_needs_positive_thresholds() -> None:
    with pytest.raises(InvalidInputError, match="indices: min_unindexed_rows must be at least 1, found 0"):
        IndexPolicy(min_unindexed_rows=0)
