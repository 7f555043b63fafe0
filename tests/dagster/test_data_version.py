"""Data versions: which operations change them, and which data version a table version has."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.proto import pb_transaction
from lance_pipelines.events.data_version import CHANGES_ROWS, changes_rows, data_version_at


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "events.lance")
    for value in range(3):
        lance_core.write_dataset(pa.table({"id": [value]}), path, mode="append" if value else "create")
    return path


def short_uuid(uri: str, version: int) -> str:
    return lance_core.dataset(uri).read_transaction(version).uuid[:8]


def test_every_operation_of_the_format_is_classified() -> None:
    arms = pb_transaction.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert {arm.name for arm in arms} == set(CHANGES_ROWS)


def test_an_unknown_operation_counts_as_a_change() -> None:
    assert changes_rows(LanceOperation.Other("teleport"))


def test_operations_of_pylance_are_named_and_classified_as_in_the_format(uri) -> None:
    reference = lance.dataset(uri)
    reference.delete("id = 1")
    reference.optimize.compact_files()
    reference.update_config({"owner": "me"})
    reference.create_scalar_index("id", "BTREE")
    lance.dataset(uri, version=2).restore()
    dataset = lance_core.dataset(uri)
    operations = [dataset.read_transaction(version).operation for version in range(1, dataset.version + 1)]
    assert [(operation.arm, changes_rows(operation)) for operation in operations] == [
        ("overwrite", True),
        ("append", True),
        ("append", True),
        ("delete", True),
        ("reserve_fragments", False),
        ("rewrite", False),
        ("update_config", False),
        ("create_index", False),
        ("restore", True),
    ]


def test_a_change_of_schema_metadata_or_field_metadata_keeps_the_data_version(uri) -> None:
    before = data_version_at(uri, 3)
    lance.dataset(uri).update_schema_metadata({"owner": "me"})
    lance.dataset(uri).replace_field_metadata("id", {"unit": "m"})
    assert data_version_at(uri, None) == before


def test_a_restored_version_changes_the_data_version(uri) -> None:
    lance.dataset(uri, version=1).restore()
    assert data_version_at(uri, None) == f"4-{short_uuid(uri, 4)}"


def test_a_version_that_changed_rows_has_its_own_number_as_its_data_version(uri) -> None:
    assert data_version_at(uri, 2) == f"2-{short_uuid(uri, 2)}"


def test_maintenance_keeps_the_data_version(uri) -> None:
    """The reference compacts, creates an index, and changes the configuration."""
    before = data_version_at(uri, 3)
    reference = lance.dataset(uri)
    reference.optimize.compact_files()
    compacted = lance.dataset(uri).version
    assert compacted > 3
    assert data_version_at(uri, compacted) == before
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).update_config({"owner": "me"})
    assert data_version_at(uri, lance.dataset(uri).version) == before == f"3-{short_uuid(uri, 3)}"


def test_a_deletion_changes_the_data_version(uri) -> None:
    lance.dataset(uri).delete("id = 1")
    assert data_version_at(uri, 4) == f"4-{short_uuid(uri, 4)}"


def test_the_data_version_without_history_is_the_oldest_remaining_version(uri) -> None:
    lance.dataset(uri).update_config({"owner": "me"})
    for manifest in sorted(Path(uri, "_versions").glob("*.manifest"), reverse=True)[:3]:
        manifest.unlink()
    assert data_version_at(uri, 4) == "4-unknown"
