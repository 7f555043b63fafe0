"""Which old versions a cleanup by the policy would remove."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import cleanup
from lance_core.errors import CorruptDataError
from lance_pipelines.maintenance.old_versions import OldVersions
from lance_pipelines.maintenance.policy import CleanupPolicy

NOW = time.time() + 3600
DAY = 86_400


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset of ten versions, of which version v was created 10 - v days ago."""
    path = str(tmp_path / "events.lance")
    for value in range(10):
        lance_core.write_dataset(pa.table({"id": [value]}), path, mode="append" if value else "create")
    log = lance_core.dataset(path).log
    for name in log.newer_than(0):
        moment = NOW - (10 - name.version) * DAY
        os.utime(log.path(name), (moment, moment))
    return path


def old_versions(uri: str, **policy) -> OldVersions:
    log = lance_core.dataset(uri).log
    return OldVersions.of(log, log.newer_than(0), CleanupPolicy(**policy), now=NOW)


def test_recently_created_versions_are_kept_despite_a_short_retention_period(uri) -> None:
    log = lance_core.dataset(uri).log
    names = log.newer_than(0)
    for name, age in zip(names, range(9 * 60, -60, -60), strict=True):
        os.utime(log.path(name), (NOW - 60 - age, NOW - 60 - age))
    found = OldVersions.of(log, names, CleanupPolicy(retain_versions=1, older_than=timedelta(0)), now=NOW)
    assert (found.removable, found.too_recent) == ((), 9)
    later = OldVersions.of(log, names, CleanupPolicy(retain_versions=1, older_than=timedelta(0)), now=NOW + 150)
    assert later.removable == (1, 2, 3)
    told = CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0))
    assert OldVersions.of(log, names, told, now=NOW).removable == tuple(range(1, 10))


def test_version_is_removable_only_when_both_retention_settings_allow_it(uri) -> None:
    by_age = old_versions(uri, retain_versions=1, older_than=timedelta(days=6, hours=1))
    assert (by_age.removable, by_age.too_recent) == ((1, 2, 3), 6)
    by_number = old_versions(uri, retain_versions=8, older_than=timedelta(0))
    assert (by_number.removable, by_number.too_recent, by_number.next_at) == ((1, 2), 0, None)


def test_old_versions_report_when_the_next_version_becomes_eligible(uri) -> None:
    found = old_versions(uri, retain_versions=2, older_than=timedelta(days=5, hours=12))
    assert found.removable == (1, 2, 3, 4)
    assert found.next_at == pytest.approx(NOW + DAY / 2)


def test_no_versions_are_old_if_fewer_exist_than_must_be_kept(uri) -> None:
    found = old_versions(uri, retain_versions=10, older_than=timedelta(0))
    assert found == OldVersions(versions=10, removable=(), named=0, too_recent=0, next_at=None)


def test_old_versions_exclude_versions_used_by_tags_and_branches(uri) -> None:
    reference = lance.dataset(uri)
    reference.tags.create("gold", 2)
    reference.create_branch("try", 4)
    found = old_versions(uri, retain_versions=5, older_than=timedelta(0))
    assert (found.removable, found.named) == ((1, 3, 5), 2)


@pytest.mark.parametrize("retain_versions", [1, 3, 8, 10, 11])
def test_cleanup_removes_exactly_the_removable_old_versions(uri, retain_versions) -> None:
    """Otherwise, sensors would request runs that find nothing, or omit necessary runs."""
    reference = lance.dataset(uri)
    reference.tags.create("gold", 2)
    reference.create_branch("try", 4)
    found = old_versions(uri, retain_versions=retain_versions, older_than=timedelta(0))
    policy = cleanup.CleanupPolicy.of(retain_versions=retain_versions, error_if_tagged_old_versions=False)
    plan = cleanup.plan_cleanup(lance_core.dataset(uri), policy)
    assert found.removable == tuple(sorted(name.version for name in plan.removed_versions))


def test_tags_are_read_only_when_a_version_could_be_removed(uri) -> None:
    tags = Path(uri, "_refs", "tags")
    tags.mkdir(parents=True)
    (tags / "broken.json").write_text("{")
    assert old_versions(uri, retain_versions=10).removable == ()
    with pytest.raises(CorruptDataError, match=r"broken\.json"):
        old_versions(uri, retain_versions=5, older_than=timedelta(0))


def test_version_removed_concurrently_counts_as_old(uri) -> None:
    log = lance_core.dataset(uri).log
    names = log.newer_than(0)
    os.unlink(log.path(names[0]))
    found = OldVersions.of(log, names, CleanupPolicy(retain_versions=1, older_than=timedelta(days=8, hours=1)), now=NOW)
    assert found.removable == (1,)


def test_search_for_old_versions_reads_only_a_few_of_many_timestamps(uri, monkeypatch) -> None:
    log = lance_core.dataset(uri).log
    asked = []
    store_type = type(log.store)
    head = store_type.head
    monkeypatch.setattr(store_type, "head", lambda self, path: asked.append(path) or head(self, path))
    old_versions(uri, retain_versions=1, older_than=timedelta(days=5))
    assert len(asked) <= 5
