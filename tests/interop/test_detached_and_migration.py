"""Detached versions, and tables with old manifest names, used by both implementations."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import lance
import pytest

import lance_core
from lance_core.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    InvalidCleanupError,
    NotSupportedError,
    VersionNotFoundError,
)
from tests.support.numbered_rows import numbered_rows

BOTH = pytest.mark.parametrize("maker", [lance, lance_core], ids=["pylance", "lance_core"])
EACH = (lance, lance_core)
WRITERS = {lance: lance.fragment.write_fragments, lance_core: lance_core.write_fragments}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 10), uri)
    lance.write_dataset(numbered_rows(10, 12), uri, mode="append")
    return uri


def _detached(uri: str, maker: ModuleType, read_version: int = 2, **arguments: object) -> object:
    fragments = WRITERS[maker](numbered_rows(50, 53), uri)
    operation = maker.LanceOperation.Append(fragments)
    return maker.LanceDataset.commit(uri, operation, read_version=read_version, detached=True, **arguments)


def _names(uri: str) -> list[str]:
    return sorted(path.name for path in (Path(uri) / "_versions").iterdir())


@BOTH
def test_a_detached_version_can_be_opened_only_by_its_number(uri: str, maker: ModuleType) -> None:
    before = _names(uri)
    made = _detached(uri, maker)
    assert made.version >= 2**63
    assert set(_names(uri)) - set(before) == {f"d{made.version}.manifest"}
    assert json.loads((Path(uri) / "_versions/latest_version_hint.json").read_text()) == {"version": 2}
    for reader in EACH:
        latest = reader.dataset(uri)
        assert (latest.version, latest.latest_version) == (2, 2)
        assert [each["version"] for each in latest.versions()] == [1, 2]
        for found in (reader.dataset(uri, version=made.version), latest.checkout_version(made.version)):
            assert (found.version, found.count_rows()) == (made.version, 15)
            found.validate()
            assert [fragment.fragment_id for fragment in found.get_fragments()] == [0, 1, 2]
            assert found.read_transaction(made.version).read_version == 2


@pytest.mark.parametrize(("maker", "writer"), [(lance, lance_core), (lance_core, lance), (lance_core, lance_core)])
def test_only_detached_commits_are_accepted_on_a_detached_version(
    uri: str, maker: ModuleType, writer: ModuleType
) -> None:
    first = _detached(uri, maker)
    second = _detached(uri, writer, first.version)
    for reader in EACH:
        assert reader.dataset(uri, version=second.version).count_rows() == 18
        assert reader.dataset(uri).count_rows() == 12
    with pytest.raises(OSError, match="detached"):
        writer.LanceDataset.commit(
            uri, writer.LanceOperation.Append(WRITERS[writer](numbered_rows(0, 1), uri)), read_version=first.version
        )
    handle = writer.dataset(uri, version=first.version)
    handle.restore()
    for reader in EACH:
        assert (reader.dataset(uri).version, reader.dataset(uri).count_rows()) == (3, 15)


def test_unsupported_changes_of_a_detached_version_are_refused(uri: str, tmp_path: Path) -> None:
    made = _detached(uri, lance_core)
    assert isinstance(made, lance_core.LanceDataset)
    assert pickle.loads(pickle.dumps(made)).version == made.version
    refused: list[Callable[[], object]] = [
        lambda: made.delete("x = 1"),
        lambda: made.update_config({"a": "b"}),
        lambda: lance_core.write_dataset(numbered_rows(0, 1), made, mode="append"),
        lambda: made.create_branch("b"),
        lambda: made.shallow_clone(str(tmp_path / "c"), made.version),
        lambda: _detached(str(tmp_path / "new"), lance_core, 0),
    ]
    for attempt in refused:
        with pytest.raises(NotSupportedError, match="detached"):
            attempt()
    # Seen from the detached version, every version of the lineage would look old.
    with pytest.raises(InvalidCleanupError, match="detached"):
        made.cleanup_old_versions(retain_versions=1)
    with pytest.raises(VersionNotFoundError):
        lance_core.dataset(uri, version=2**63 + 5)
    with pytest.raises(VersionNotFoundError):
        _detached(uri, lance_core, 9)
    assert lance_core.dataset(uri).version == 2


def test_a_cleanup_keeps_detached_manifests(uri: str) -> None:
    made = _detached(uri, lance_core)
    lance_core.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert f"d{made.version}.manifest" in _names(uri)


def test_a_detached_version_is_based_on_its_read_version(uri: str) -> None:
    """The reference always builds it on the latest version."""
    made = _detached(uri, lance_core, 1)
    for reader in EACH:
        assert reader.dataset(uri, version=made.version).count_rows() == 13


def _old(tmp_path: Path, maker: ModuleType = lance) -> str:
    uri = str(tmp_path / "old")
    for number in range(3):
        maker.write_dataset(numbered_rows(number, number + 1), uri, mode="append", enable_v2_manifest_paths=False)
    return uri


V1 = ["1.manifest", "2.manifest", "3.manifest"]
V2 = [f"{2**64 - 1 - version:020d}.manifest" for version in (3, 2, 1)]


def _manifests(uri: str) -> list[str]:
    return [name for name in _names(uri) if name.endswith(".manifest")]


@pytest.mark.parametrize(("maker", "other"), [(lance, lance_core), (lance_core, lance)], ids=["pylance", "lance_core"])
def test_a_table_with_old_manifest_names_is_changed_and_migrated(
    tmp_path: Path, maker: ModuleType, other: ModuleType
) -> None:
    uri = _old(tmp_path, maker)
    assert _manifests(uri) == V1
    other.write_dataset(numbered_rows(3, 4), uri, mode="append")
    assert _manifests(uri) == [*V1, "4.manifest"]
    contents = {version: (Path(uri) / "_versions" / f"{version}.manifest").read_bytes() for version in (1, 2, 3, 4)}
    handle = maker.dataset(uri)
    for _ in range(2):
        handle.migrate_manifest_paths_v2()
        assert [(Path(uri) / "_versions" / name).read_bytes() for name in _manifests(uri)] == [
            contents[version] for version in (4, 3, 2, 1)
        ]
    for number, writer in enumerate((maker, other), 5):
        assert writer.write_dataset(numbered_rows(number, number + 1), uri, mode="append").version == number
    for reader in EACH:
        assert reader.dataset(uri).count_rows() == 6
        assert reader.dataset(uri, version=2).count_rows() == 2
    assert len(_manifests(uri)) == 6


def test_dataset_handle_can_change_the_table_after_a_migration(tmp_path: Path) -> None:
    uri = _old(tmp_path)
    handle = lance_core.dataset(uri, version=2)
    handle.migrate_manifest_paths_v2()
    assert handle.version == 2
    handle.checkout_latest()
    handle.update_config({"a": "b"})
    assert _manifests(uri) == [f"{2**64 - 1 - 4:020d}.manifest", *V2]


@pytest.mark.parametrize("state", ["renamed", "copied"])
def test_an_interrupted_migration_is_finished_when_the_migration_is_repeated_by_uri(tmp_path: Path, state: str) -> None:
    uri = _old(tmp_path)
    directory = Path(uri) / "_versions"
    (directory / V2[2]).write_bytes((directory / "1.manifest").read_bytes())
    if state == "renamed":
        (directory / "1.manifest").unlink()
    for reader in EACH:
        with pytest.raises(ValueError, match="migrate_manifest_paths_v2"):
            reader.dataset(uri)
    lance_core.migrate_manifest_paths_v2(uri)
    lance_core.migrate_manifest_paths_v2(uri)
    assert _manifests(uri) == V2
    for reader in EACH:
        assert reader.dataset(uri).count_rows() == 3


def test_two_manifests_of_the_same_version_stop_a_migration(tmp_path: Path) -> None:
    uri = _old(tmp_path)
    directory = Path(uri) / "_versions"
    (directory / V2[1]).write_bytes(b"other")
    with pytest.raises(CorruptDataError, match="two different manifests"):
        lance_core.migrate_manifest_paths_v2(uri)
    assert (directory / "2.manifest").exists()
    assert (directory / V2[1]).read_bytes() == b"other"


def test_migrating_a_missing_dataset_raises_dataset_not_found(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        lance_core.migrate_manifest_paths_v2(tmp_path / "nothing")


@pytest.mark.parametrize("maker", [lance, lance_core], ids=["pylance", "lance_core"])
def test_tables_with_old_manifest_names_have_no_detached_versions(tmp_path: Path, maker: ModuleType) -> None:
    uri = _old(tmp_path)
    with pytest.raises(OSError, match=r"(?i)v1"):
        _detached(uri, maker)
    assert _manifests(uri) == V1
