"""A lease protects its version from cleanup until it is released or expires."""

import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup
from lance_core.cleanup.reachability import KeepReason
from lance_core.errors import InvalidInputError, StorageError, VersionNotFoundError
from lance_core.metadata import lease_version, named_versions
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call

ALL = CleanupPolicy.of(timedelta(0), delete_concurrency=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of three versions, each with its own data file."""
    for number in range(3):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="overwrite")
    return lance_core.dataset(uri)


def _in(duration: timedelta) -> int:
    return time.time_ns() + int(duration.total_seconds() * 1e9)


def _lease(dataset: lance_core.LanceDataset, version: int, duration: timedelta = HOUR):
    return lease_version(dataset.checkout_version(version), holder="a test", duration=duration)


def _versions(dataset: lance_core.LanceDataset) -> list[int]:
    return [each["version"] for each in dataset.version_refs()]


def test_cleanup_keeps_a_leased_version_until_the_lease_is_released(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1)
    plan = plan_cleanup(dataset, ALL)
    assert plan.kept_versions == {1: KeepReason.LEASED, 3: KeepReason.CURRENT}
    plan.execute()
    assert _versions(dataset) == [1, 3]
    assert dataset.checkout_version(1).to_table().to_pydict() == {"a": [0]}
    lease.release()
    plan_cleanup(dataset, ALL).execute()
    assert _versions(dataset) == [3]


def test_cleanup_ignores_an_expired_lease_and_removes_its_file(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    lease = _lease(dataset, 1)
    assert plan_cleanup(dataset, ALL, now_ns=_in(timedelta(minutes=59))).kept_versions[1] is KeepReason.LEASED
    plan = plan_cleanup(dataset, ALL, now_ns=_in(timedelta(minutes=61)))
    assert list(plan.kept_versions) == [3]
    (file,) = [file for file in plan.removable if file.path.startswith("_refs")]
    assert (file.path, file.reason) == (f"_refs/tags/{lease.name}.json", "expired lease")
    stats = plan.execute()
    assert (stats.old_versions, stats.residue_files_removed, stats.spared_versions) == (2, 1, 0)
    assert dataset.tags.list() == {}


def test_lease_renewed_after_the_cleanup_was_planned_keeps_its_version(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1)
    plan = plan_cleanup(dataset, ALL, now_ns=_in(timedelta(minutes=61)))
    later = lease_version(dataset.checkout_version(1), holder="another", duration=3 * HOUR)
    stats = plan.execute()
    assert (stats.old_versions, stats.spared_versions) == (1, 1)
    assert _versions(dataset) == [1, 3]
    assert set(dataset.tags.list()) == {later.name}
    assert lease.name != later.name


def test_file_of_a_lease_renewed_after_the_plan_is_kept(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1, timedelta(microseconds=1))
    plan = plan_cleanup(dataset, ALL)
    assert [file.reason for file in plan.removable if file.path.startswith("_refs")] == ["expired lease"]
    lease._duration = HOUR
    lease.renew()
    plan.execute()
    assert set(dataset.tags.list()) == {lease.name}
    assert _versions(dataset) == [1, 3]


def test_renewing_a_lease_extends_its_expiration_time(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1)
    lease.expires_at = before = datetime.now(UTC) + timedelta(minutes=20)
    lease.renew()
    assert lease.expires_at > before
    assert plan_cleanup(dataset, ALL, now_ns=_in(timedelta(minutes=59))).kept_versions[1] is KeepReason.LEASED
    (tag,) = dataset.tags.list().values()
    assert tag["metadata"] == {
        "lance.lease.expires_at": lease.expires_at.isoformat(),
        "lance.lease.holder": "a test",
    }


def test_renewing_a_removed_lease_recreates_the_lease(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1)
    dataset.tags.delete(lease.name)
    lease.renew()
    assert set(dataset.tags.list()) == {lease.name}


@pytest.mark.parametrize("tag_is_left", [True, False])
def test_renewing_an_expired_lease_on_a_removed_version_fails(
    dataset: lance_core.LanceDataset, tag_is_left: bool
) -> None:
    lease = _lease(dataset, 1)
    plan_cleanup(dataset, ALL, now_ns=_in(2 * HOUR)).execute()
    if tag_is_left:
        dataset.tags.create(lease.name, 3)
    lease.expires_at = datetime.now(UTC)
    with pytest.raises(VersionNotFoundError, match="1"):
        lease.renew()


def test_lease_of_a_removed_version_cannot_be_taken(dataset: lance_core.LanceDataset) -> None:
    handle = dataset.checkout_version(1)
    plan_cleanup(dataset, ALL).execute()
    with pytest.raises(VersionNotFoundError):
        lease_version(handle, holder="a test", duration=HOUR)
    assert dataset.tags.list() == {}


def test_releasing_a_lease_twice_is_allowed(dataset: lance_core.LanceDataset) -> None:
    lease = _lease(dataset, 1)
    lease.release()
    lease.release()
    assert dataset.tags.list() == {}


def test_lease_that_cannot_be_renewed_keeps_its_expiration_time(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    lease = _lease(dataset, 1)
    before = lease.expires_at

    def fault(call: Call) -> None:
        if call.method == "put":
            raise StorageError("no connection")

    store.fault = fault
    with pytest.raises(StorageError, match="no connection"):
        lease.renew()
    assert lease.expires_at == before


def test_lease_that_would_expire_after_the_last_date_is_rejected(dataset: lance_core.LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="must expire before the year 10000"):
        lease_version(dataset, holder="a test", duration=timedelta.max)


@pytest.mark.parametrize("duration", [timedelta(0), timedelta(seconds=-1)])
def test_lease_without_a_positive_duration_is_rejected(dataset: lance_core.LanceDataset, duration: timedelta) -> None:
    with pytest.raises(InvalidInputError, match="duration of a lease must be positive"):
        lease_version(dataset, holder="a test", duration=duration)


def test_cleanup_that_refuses_old_tagged_versions_keeps_leased_versions(
    dataset: lance_core.LanceDataset,
) -> None:
    strict = CleanupPolicy.of(timedelta(0), error_if_tagged_old_versions=True)
    _lease(dataset, 1)
    assert plan_cleanup(dataset, strict).kept_versions[1] is KeepReason.LEASED


@pytest.mark.parametrize("expires_at", ["soon", "", "2026-01-01T00:00:00", "9" * 30])
def test_tag_with_an_unreadable_expiration_protects_its_version_forever(
    dataset: lance_core.LanceDataset, expires_at: str
) -> None:
    dataset.tags.create("lease.mine", 1)
    dataset.tags.replace_metadata("lease.mine", {"lance.lease.expires_at": expires_at})
    lenient = CleanupPolicy.of(timedelta(0), error_if_tagged_old_versions=False)
    assert plan_cleanup(dataset, lenient, now_ns=_in(1000 * HOUR)).kept_versions[1] is KeepReason.TAGGED


def test_ordinary_tag_with_lease_metadata_does_not_expire(dataset: lance_core.LanceDataset) -> None:
    dataset.tags.create("release", 1)
    dataset.tags.replace_metadata("release", {"lance.lease.expires_at": "2020-01-01T00:00:00+00:00"})
    lenient = CleanupPolicy.of(timedelta(0), error_if_tagged_old_versions=False)
    assert plan_cleanup(dataset, lenient).kept_versions[1] is KeepReason.TAGGED


def test_named_versions_include_leases_only_until_they_expire(dataset: lance_core.LanceDataset) -> None:
    _lease(dataset, 1)
    _lease(dataset, 2, timedelta(microseconds=1))
    assert named_versions(dataset.log) == {1}


def test_leased_branch_can_be_deleted_once_the_lease_has_expired(dataset: lance_core.LanceDataset) -> None:
    branch = dataset.create_branch("side", 1)
    _lease(branch, branch.version, timedelta(microseconds=1))
    dataset.branches.delete("side")
    assert dataset.branches.list() == {}
