"""The leases of a process are renewed while they are held, and released together."""

import logging
import threading
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import AccessDeniedError, StorageError
from lance_core.metadata import VersionLease
from lance_pipelines.reads.held_leases import HeldLeases
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    lance_core.write_dataset(pa.table({"a": [1]}), uri)
    return lance_core.write_dataset(pa.table({"a": [2]}), uri, mode="append")


def _fail(store: CountingStore, method: str, error: Exception) -> None:
    def fault(call: Call) -> None:
        if call.method == method:
            raise error

    store.fault = fault


def test_version_is_leased_once_and_its_lease_is_released_at_the_end(dataset: lance_core.LanceDataset) -> None:
    held = HeldLeases(timedelta(hours=1))
    for version in (1, 2, 2):
        held.take(dataset.checkout_version(version), "a test")
    assert sorted(tag["version"] for tag in dataset.tags.list().values()) == [1, 2]
    held.release()
    assert dataset.tags.list() == {}


def test_leases_can_be_taken_again_after_they_were_released(dataset: lance_core.LanceDataset) -> None:
    held = HeldLeases(timedelta(hours=1))
    for _ in range(2):
        held.take(dataset, "a test")
        assert len(dataset.tags.list()) == 1
        held.release()
    assert dataset.tags.list() == {}


def test_lease_duration_of_zero_takes_no_lease(dataset: lance_core.LanceDataset) -> None:
    held = HeldLeases(timedelta(0))
    held.take(dataset, "a test")
    assert dataset.tags.list() == {}
    held.release()


def test_dataset_at_a_read_only_location_is_read_without_a_lease(
    dataset: lance_core.LanceDataset, store: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    _fail(store, "put_if_absent", AccessDeniedError("read-only bucket"))
    held = HeldLeases(timedelta(hours=1))
    with caplog.at_level(logging.WARNING):
        held.take(dataset, "a test")
    assert "version 2 is read without a lease" in caplog.text
    store.fault = lambda call: None
    assert dataset.tags.list() == {}


def test_held_leases_are_renewed_by_a_thread(dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = threading.Event()
    monkeypatch.setattr(VersionLease, "renew", lambda lease: renewed.set())
    held = HeldLeases(timedelta(milliseconds=30))
    held.take(dataset, "a test")
    assert renewed.wait(60)
    held.release()
    assert not [thread for thread in threading.enumerate() if thread.name == "lance-leases"]


def test_renewal_that_fails_is_logged_and_tried_again(
    dataset: lance_core.LanceDataset, store: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    held = HeldLeases(timedelta(hours=1))
    held.take(dataset, "a test")
    (before,) = dataset.tags.list().values()
    _fail(store, "put", StorageError("no connection"))
    with caplog.at_level(logging.WARNING):
        held.renew()
    assert "the lease of version 2 could not be renewed: no connection" in caplog.text
    store.fault = lambda call: None
    held.renew()
    (after,) = dataset.tags.list().values()
    assert after["metadata"] != before["metadata"]
    held.release()


def test_lease_that_cannot_be_released_is_left_to_expire(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    held = HeldLeases(timedelta(hours=1))
    held.take(dataset, "a test")
    _fail(store, "delete", StorageError("no connection"))
    held.release()
    store.fault = lambda call: None
    assert len(dataset.tags.list()) == 1
