"""The health of a table version, computed from its manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

import lance_core
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy, MaintenancePolicy

ROWS = 10


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset of five fragments of ten rows."""
    path = str(tmp_path / "events.lance")
    for part in range(5):
        table = pa.table({"id": range(part * ROWS, (part + 1) * ROWS)})
        lance_core.write_dataset(table, path, mode="append" if part else "create")
    return path


def health(uri: str, policy: MaintenancePolicy | None = None) -> TableHealth:
    return TableHealth.of(lance_core.dataset(uri), policy or MaintenancePolicy())


def with_target(rows: int, **more) -> MaintenancePolicy:
    return MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=rows, **more))


def test_health_of_a_fresh_table_counts_versions_fragments_and_bytes(uri) -> None:
    found = health(uri)
    files = list(Path(uri, "data").iterdir())
    assert found == TableHealth(
        version=5,
        versions=5,
        fragments=5,
        small_fragments=5,
        mergeable_fragments=5,
        rows=50,
        deleted_rows=0,
        worn_fragments=0,
        worn_rows=0,
        data_files=5,
        deletion_files=0,
        bytes_total=sum(file.stat().st_size for file in files),
        manifest_bytes=found.manifest_bytes,
    )
    assert 0 < found.manifest_bytes < max(file.stat().st_size for file in Path(uri, "_versions").iterdir())


def test_health_counts_deleted_rows_from_the_manifest(uri) -> None:
    lance.dataset(uri).delete("id < 12")
    found = health(uri)
    assert (found.fragments, found.rows, found.deleted_rows, found.deletion_files) == (4, 38, 2, 1)
    assert found.deletion_ratio == pytest.approx(2 / 40)
    assert (found.worn_fragments, found.worn_rows) == (1, 2)


@pytest.mark.parametrize(("fraction", "worn"), [(0.1, 2), (0.2, 1), (0.3, 0), (0.0, 2)])
def test_fragment_needs_rewriting_only_above_the_deleted_fraction(uri, fraction, worn) -> None:
    lance.dataset(uri).delete("id IN (1, 2, 3, 11, 12)")
    policy = MaintenancePolicy(deletion=DeletionPolicy(max_deleted_fraction=fraction))
    assert health(uri, policy).worn_fragments == worn


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.3, 0.7])
def test_pylance_selects_the_same_fragments_for_materializing_deletions(tmp_path, fraction) -> None:
    """The fraction equals the threshold, where single and double precision may differ."""
    uri = str(tmp_path / "t.lance")
    for part in range(2):
        lance_core.write_dataset(pa.table({"id": range(part * 100, part * 100 + 100)}), uri, mode="append")
    at = round(fraction * 100)
    lance.dataset(uri).delete(f"id < {at} OR (id >= 100 AND id <= {100 + at})")
    plan = Compaction.plan(
        lance.dataset(uri), {"target_rows_per_fragment": 1, "materialize_deletions_threshold": fraction}
    )
    policy = MaintenancePolicy(deletion=DeletionPolicy(max_deleted_fraction=fraction))
    assert health(uri, policy).worn_fragments == sum(len(task.fragments) for task in plan.tasks) == 1


def test_fragment_counts_as_small_only_below_both_targets(uri) -> None:
    assert health(uri, with_target(ROWS)).small_fragments == 0
    assert health(uri, with_target(ROWS + 1)).small_fragments == 5
    size = next(Path(uri, "data").iterdir()).stat().st_size
    assert health(uri, with_target(ROWS + 1, target_bytes_per_fragment=size)).small_fragments == 0
    assert health(uri, with_target(ROWS + 1, target_bytes_per_fragment=None)).small_fragments == 5


def test_health_counts_only_neighboring_small_fragments_as_mergeable(tmp_path) -> None:
    uri = str(tmp_path / "t.lance")
    for num_rows in (1, 50, 2, 2, 2, 50, 1):
        lance_core.write_dataset(pa.table({"id": range(num_rows)}), uri, mode="append")
    found = health(uri, with_target(50))
    assert (found.small_fragments, found.mergeable_fragments) == (5, 3)


def test_health_with_an_unrecorded_file_size_has_unknown_total_bytes(uri) -> None:
    dataset = lance_core.dataset(uri)
    dataset.manifest.message.fragments[2].files[0].file_size_bytes = 0
    assert TableHealth.of(dataset, MaintenancePolicy()).bytes_total is None


def test_health_reads_only_the_manifest(uri) -> None:
    lance.dataset(uri).delete("id = 1")
    before = health(uri)
    for name in ("data", "_deletions", "_transactions"):
        for file in Path(uri, name).iterdir():
            file.unlink()
    assert health(uri) == before


def test_health_does_not_list_known_versions_again(uri) -> None:
    dataset = lance_core.dataset(uri)
    assert TableHealth.of(dataset, MaintenancePolicy(), versions=99) == replace(health(uri), versions=99)
