"""Finding versions by listing and by name."""

import time
from collections.abc import Iterator

import pytest

from lance_core.errors import CorruptDataError, VersionNotFoundError
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import ObjectStore
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming, manifest_name
from lance_core.table.version_log import VersionLog
from tests.support.counting_store import CountingStore


@pytest.fixture(params=["memory", "local"])
def log(request: pytest.FixtureRequest, tmp_path) -> VersionLog:
    store: ObjectStore = MemoryStore() if request.param == "memory" else LocalStore()
    return VersionLog(CountingStore(store), "table" if request.param == "memory" else str(tmp_path / "table"))


def _make(log: VersionLog, *versions: int, naming: ManifestNaming = ManifestNaming.V2) -> None:
    for version in versions:
        message = Manifest.empty().message
        message.version = version
        data = serialize_manifest_file(message, index_section=None, transaction=None)
        log.create(ManifestName(version, naming), data)


def _put(log: VersionLog, name: str, data: bytes = b"x") -> None:
    log.store.put(log.store.join(log.root, "_versions", name), data)


def test_absent_table_has_no_versions(log: VersionLog) -> None:
    assert log.latest() is None
    assert log.newer_than(0) == []


def test_latest_version_is_found_when_versions_change_during_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log = VersionLog(store, "table")
    _make(log, 1)
    listed = store.list_names

    def list_names(prefix: str) -> Iterator[str]:
        monkeypatch.setattr(store, "list_names", listed)
        _make(log, 2)
        store.delete(log.path(ManifestName(1, ManifestNaming.V2)))
        return iter(())

    monkeypatch.setattr(store, "list_names", list_names)
    assert log.latest() == ManifestName(2, ManifestNaming.V2)


@pytest.mark.parametrize("naming", list(ManifestNaming))
def test_versions_are_found_in_both_naming_schemes(log: VersionLog, naming: ManifestNaming) -> None:
    _make(log, *range(1, 13), naming=naming)
    assert log.latest() == ManifestName(12, naming)
    assert [name.version for name in log.newer_than(9)] == [10, 11, 12]
    assert [name.version for name in log.newer_than(0)] == list(range(1, 13))
    assert log.newer_than(12) == []
    assert log.read_version(7).version == 7
    assert log.read_version(7).naming is naming


def test_ten_thousand_versions_are_listed_without_reading_a_manifest() -> None:
    store = CountingStore(MemoryStore())
    log = VersionLog(store, "table")
    _make(log, 1)
    data = bytes(store.get(log.path(ManifestName(1, ManifestNaming.V2))))
    for version in range(2, 10_001):
        store.put(log.path(ManifestName(version, ManifestNaming.V2)), data)
    store.reset()
    assert [name.version for name in log.newer_than(0)] == list(range(1, 10_001))
    assert log.latest() == ManifestName(10_000, ManifestNaming.V2)
    assert [name.version for name in log.newer_than(9_990)] == list(range(9_991, 10_001))
    assert store.counts() == {"list_names": 3}
    assert store.num_bytes_read() == 0


def test_gaps_in_version_numbers_do_not_hide_later_versions(log: VersionLog) -> None:
    _make(log, 1, 2, 9, 10)
    assert log.latest() == ManifestName(10, ManifestNaming.V2)
    assert [name.version for name in log.newer_than(1)] == [2, 9, 10]


def test_version_log_ignores_other_files(log: VersionLog) -> None:
    _make(log, 1)
    for name in (
        f"{manifest_name(2)}#1",
        f"{manifest_name(3)}-uuid",
        "d9223372036854775809.manifest",
        ".tmpabc",
        "latest_version_hint.json",
    ):
        _put(log, name, b'{"version":99}')
    assert log.latest() == ManifestName(1, ManifestNaming.V2)


def test_version_hint_is_not_trusted(log: VersionLog) -> None:
    _make(log, 1, 2)
    for content in (b"", b"garbage", b'{"version":1}', b'{"version":77}'):
        _put(log, "latest_version_hint.json", content)
        assert log.latest() == ManifestName(2, ManifestNaming.V2)


def test_mixed_manifest_naming_schemes_are_refused(log: VersionLog) -> None:
    _make(log, 1, naming=ManifestNaming.V1)
    _make(log, 2, naming=ManifestNaming.V2)
    with pytest.raises(CorruptDataError, match="both naming schemes"):
        log.newer_than(0)


def test_an_explicit_version_is_opened_without_listing(log: VersionLog) -> None:
    _make(log, 1, 2, 3)
    log.store.reset()
    log.read_version(2)
    assert log.store.counts() == {"get": 1}
    with pytest.raises(VersionNotFoundError, match="no version 9"):
        log.read_version(9)
    for version in (0, -1, 2**63):
        with pytest.raises(VersionNotFoundError):
            log.read_version(version)


def test_lexically_ordered_store_is_listed_only_as_far_as_necessary() -> None:
    seen = []

    class Watched(MemoryStore):
        def list(self, prefix):
            for info in super().list(prefix):
                seen.append(info.path)
                yield info

    log = VersionLog(Watched(), "table")
    _make(log, *range(1, 101))
    assert log.latest() == ManifestName(100, ManifestNaming.V2)
    assert len(seen) == 1
    seen.clear()
    assert [name.version for name in log.newer_than(97)] == [98, 99, 100]
    assert len(seen) == 4


def test_absence_of_newer_versions_is_checked_again_if_listings_are_not_in_lexical_order(
    log: VersionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(log, 1, 2)
    listed = log.newer_than
    answers = [[], listed(1)]
    monkeypatch.setattr(log, "newer_than", lambda version: answers.pop(0))
    is_lexical = log.store.capabilities.lexical_listing
    assert log.surely_newer_than(1) == ([] if is_lexical else [ManifestName(2, ManifestNaming.V2)])


def test_hold_on_a_version_expires_after_an_hour(log: VersionLog) -> None:
    _make(log, 1, 2)
    for name in (".tmp_removal", ".tmp", "~"):
        log.store.put(log.store.join(log.root, "_versions", name), b"")
    before = set(log.store.list_names(log.store.join(log.root, "_versions")))
    with log.hold(1), log.hold(2**63 + 5), log.hold(1):
        assert log.held_versions(time.time()) == {1, 2**63 + 5}
        assert log.latest() == ManifestName(2, ManifestNaming.V2)
        assert log.held_versions(time.time() + 3700) == set()
    assert set(log.store.list_names(log.store.join(log.root, "_versions"))) == before
