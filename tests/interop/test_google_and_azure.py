"""Datasets on Google Cloud Storage and Azure, through gcsfs and adlfs, with small emulators of both."""

import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, NotFoundError, NotSupportedError
from lance_core.io.byte_range import ByteRange
from lance_core.io.object_store import PutOutcome
from lance_core.io.uri import resolve
from tests.support.cloud_emulators import ACCOUNT_KEY, Emulator, azure_storage, google_storage

ROWS = pa.table({"a": pa.array(range(100), pa.int64())})


@dataclass(frozen=True)
class Cloud:
    emulator: Emulator
    scheme: str
    options: dict[str, str]

    def uri(self) -> str:
        return f"{self.scheme}://container-{uuid.uuid4().hex[:8]}/some/table.lance"


@pytest.fixture(scope="module", params=["gs", "az"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    google = request.param == "gs"
    pytest.importorskip("gcsfs" if google else "adlfs", reason="the package is not installed")
    start: Callable[[], object] = google_storage if google else azure_storage
    with start() as emulator:
        yield Cloud(emulator, request.param, emulator.google_options if google else emulator.azure_options)


@pytest.mark.slow
def test_a_dataset_on_google_cloud_storage_or_azure_supports_every_operation(cloud: Cloud) -> None:
    uri, options = cloud.uri(), cloud.options
    lance_core.write_dataset(ROWS, uri, storage_options=options)
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append", storage_options=options)
    dataset = lance_core.dataset(uri, storage_options=options)
    dataset.delete("a < 50")
    dataset.tags.create("here", 2)
    assert lance_core.dataset(uri, "here", storage_options=options).count_rows() == 200
    dataset.optimize.compact_files()
    dataset = lance_core.dataset(uri, storage_options=options)
    assert [each["version"] for each in dataset.versions()] == list(range(1, dataset.version + 1))
    dataset.tags.delete("here")
    stats = dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert stats.old_versions == dataset.version - 1
    assert lance_core.dataset(uri, storage_options=options).count_rows() == 200
    dataset.validate()


def test_store_methods_behave_identically_on_google_cloud_storage_and_azure(cloud: Cloud) -> None:
    store, root = resolve(cloud.uri(), cloud.options)
    path = store.join(root, "x")
    with pytest.raises(NotFoundError):
        store.get(path)
    with pytest.raises(NotFoundError):
        store.head(path)
    store.delete(path)
    assert list(store.list(root)) == list(store.list_recursive(root)) == []
    assert store.put_if_absent(path, b"0123456789") is PutOutcome.CREATED
    assert store.put_if_absent(path, b"other") is PutOutcome.EXISTS
    assert store.head(path).num_bytes == 10
    ranges = [ByteRange(8, 10), ByteRange(0, 0), ByteRange(2, 4)]
    assert [bytes(part) for part in store.get_ranges(path, ranges)] == [b"89", b"", b"23"]
    assert [(bytes(tail), size) for tail, size in (store.get_tail(path, 3), store.get_tail(path, 99))] == [
        (b"789", 10),
        (b"0123456789", 10),
    ]
    for past in (ByteRange(5, 11), ByteRange(20, 22)):
        with pytest.raises(CorruptDataError):
            store.get_ranges(path, [past])
    with store.create(store.join(root, "deep/y")) as stream:
        stream.write(b"one")
        assert [info.path for info in store.list_recursive(root)] == [path]
        stream.write(b"two")
        stream.commit()
    with store.create(store.join(root, "z")) as stream:
        stream.write(b"never seen")
    assert [(info.path.removeprefix(root), info.num_bytes) for info in store.list_recursive(root)] == [
        ("/deep/y", 6),
        ("/x", 10),
    ]
    assert list(store.list_names(root)) == ["x"]
    assert abs(next(store.list(root)).modified_at - store.head(path).modified_at) < 2
    store.delete(path)
    assert list(store.list_names(root)) == []


def test_each_commit_to_google_cloud_storage_or_azure_is_conditional(cloud: Cloud) -> None:
    uri = cloud.uri()
    before = cloud.emulator.conditions
    lance_core.write_dataset(ROWS, uri, storage_options=cloud.options)
    # The probe and the version.
    assert cloud.emulator.conditions == before + 2
    lance_core.write_dataset(ROWS, uri, mode="append", storage_options=cloud.options)
    assert cloud.emulator.conditions == before + 3
    assert not [path for path in cloud.emulator.objects if "#" in path]


def test_a_service_that_ignores_conditional_requests_is_refused(cloud: Cloud) -> None:
    uri = cloud.uri()
    cloud.emulator.drops_conditions = True
    try:
        with pytest.raises(lance_core.UnsafeStoreError):
            lance_core.write_dataset(ROWS, uri, storage_options=cloud.options)
    finally:
        cloud.emulator.drops_conditions = False


def test_secrets_of_storage_options_are_not_shown(cloud: Cloud) -> None:
    store, root = resolve(cloud.uri(), cloud.options)
    shown = repr(store)
    with pytest.raises(NotFoundError) as raised:
        store.get(store.join(root, "nothing"))
    assert ACCOUNT_KEY not in f"{shown} {raised.value} {raised.value.context}"


@pytest.mark.parametrize(("scheme", "package"), [("gs", "gcsfs"), ("az", "adlfs"), ("abfss", "adlfs")])
def test_a_missing_package_for_a_cloud_store_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, scheme: str, package: str
) -> None:
    for name in ("gcsfs", "gcsfs.core", "adlfs"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotSupportedError, match=f"pip install {package}"):
        lance_core.dataset(f"{scheme}://container/table")


def test_malformed_storage_options_are_refused_without_being_shown() -> None:
    with pytest.raises(lance_core.InvalidInputError, match="JSON") as raised:
        lance_core.dataset("gs://b/t", storage_options={"google_service_account_key": "hidden {"})
    assert "hidden" not in f"{raised.value} {raised.value.__cause__}"


def test_a_full_azure_uri_resolves_to_container_and_path() -> None:
    _, root = resolve("abfss://container@account.dfs.core.windows.net/a/b", {"account_key": ACCOUNT_KEY})
    assert root == "container/a/b"
