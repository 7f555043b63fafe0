"""Writes to a table that requires a feature unknown to this library are refused before any file is read.

Source: ``writer_feature_flags`` of ``lance.table.Manifest``.
"""

import shutil
from pathlib import Path

import pytest

import lance_core
from lance_core.errors import NotSupportedError, UnsupportedFeatureFlagError
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from tests.support.power_loss import recorded_changes
from tests.support.store_operations import OLD, OPERATIONS, beside

pytestmark = pytest.mark.usefixtures("overlays")

UNKNOWN = 1 << 40
NO_VERSIONS_BEFORE = ("create", "append, first")
MAKES_NO_VERSION = ("branch delete", "tag create", "tag update", "tag metadata", "tag delete", "migrate")


def _set_flag(uri: str) -> None:
    for path in Path(uri).rglob("*.manifest"):
        parsed = parse_manifest_file(path.read_bytes(), str(path))
        parsed.message.writer_feature_flags |= UNKNOWN
        path.write_bytes(serialize_manifest_file(parsed.message, index_section=parsed.index_section, transaction=None))


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in (*NO_VERSIONS_BEFORE, *MAKES_NO_VERSION)])
def test_operation_on_a_table_with_an_unknown_writer_flag_reads_no_data_file_and_writes_nothing(
    name: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    OPERATIONS[name].prepare(uri, {})
    _set_flag(uri)
    # A scan would fail in another way.
    shutil.rmtree(Path(uri) / "data")
    with recorded_changes(tmp_path) as changes, pytest.raises(UnsupportedFeatureFlagError, match=str(UNKNOWN)):
        OPERATIONS[name].act(uri, {})
    assert changes == []


def test_deep_clone_of_a_detached_version_copies_no_file(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_core.write_dataset(OLD, uri)
    operation = lance_core.LanceOperation.Append(lance_core.write_fragments(OLD, dataset))
    detached = lance_core.LanceDataset.commit(dataset, operation, read_version=1, detached=True)
    with recorded_changes(tmp_path) as changes, pytest.raises(NotSupportedError, match="detached"):
        detached.deep_clone(beside(uri, "-clone"), None)
    assert changes == []
