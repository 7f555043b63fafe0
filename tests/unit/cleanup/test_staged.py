"""Manifests that were staged for an external manifest store and will never be published."""

from lance_core.cleanup.inventory import StoredFile
from lance_core.cleanup.plan import abandoned_manifests
from lance_core.io.memory_store import MemoryStore
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.manifest_stores.api import ManifestRow
from lance_core.table.paths import manifest_name
from lance_core.table.version_log import VersionLog

UUID = "0b9aa9c3-1f2b-4a2f-9c53-6b7a6c9a2d11"


class Rows:
    """A manifest store that only returns rows."""

    def __init__(self, *rows: ManifestRow) -> None:
        self.rows = {row.version: row for row in rows}

    def find(self, root: str, version: int) -> ManifestRow | None:
        return self.rows.get(version)


def _staged(version: int, uuid: str = UUID) -> str:
    return f"_versions/{manifest_name(version)}-{uuid}"


def _abandoned(log: VersionLog, *paths: str, age: float = 10) -> frozenset[str]:
    return abandoned_manifests(log, [StoredFile(path, 1, 100 - age) for path in paths], before=93)


def test_staged_manifests_without_a_database_row_are_abandoned() -> None:
    final = f"_versions/{manifest_name(3)}"
    rows = Rows(ManifestRow(2, _staged(2), 1), ManifestRow(3, final, 1))
    log = VersionLog(MemoryStore(), "t", ExternalCommit(rows))
    other = _staged(2, UUID.replace("0b", "1b"))
    assert _abandoned(log, _staged(2), other, _staged(3), _staged(4), final) == {other, _staged(3), _staged(4)}


def test_staged_manifest_is_abandoned_only_when_older_than_seven_days() -> None:
    log = VersionLog(MemoryStore(), "t", ExternalCommit(Rows()))
    assert _abandoned(log, _staged(4), age=7) == frozenset()
    assert _abandoned(log, _staged(4), age=7.1) == {_staged(4)}


def test_files_that_are_not_staged_manifests_are_never_abandoned() -> None:
    log = VersionLog(MemoryStore(), "t", ExternalCommit(Rows()))
    others = (f"_versions/{manifest_name(4)}#1", f"data/{manifest_name(4)}-{UUID}", f"_versions/d9.manifest-{UUID}")
    assert _abandoned(log, *others) == frozenset()


def test_staged_manifests_without_an_external_manifest_store_are_kept() -> None:
    assert _abandoned(VersionLog(MemoryStore(), "t"), _staged(4)) == frozenset()
