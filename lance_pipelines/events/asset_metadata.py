"""The metadata that Dagster displays for a dataset's asset and for each of its events.

Keys that begin with ``dagster/`` are defined by Dagster and fill columns and panels of its web interface. Keys that
begin with ``lance/`` are defined by this project; counts are stored as numbers, so that the web interface can plot
them.
"""

from typing import Final

import dagster as dg
import pyarrow as pa

import lance_core
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_report import WriteReport
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = [
    "CONTENT_KEY",
    "STORAGE_KIND",
    "URI_KEY",
    "VERSION_KEY",
    "asset_metadata",
    "dataset_metadata",
    "materialization_metadata",
    "staged_metadata",
    "table_schema",
    "version_metadata",
]

URI_KEY: Final = "dagster/uri"

VERSION_KEY: Final = "lance/version"
"""Metadata key: the version that an event describes."""

CONTENT_KEY: Final = "lance/content"
"""Metadata key: digest of the version's content; versions with equal digests have equal rows."""

STORAGE_KIND: Final = "lance"


def asset_metadata(declaration: DatasetDeclaration) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the asset definition, which is known before any run."""
    return {
        URI_KEY: dg.MetadataValue.text(declaration.uri),
        "dagster/table_name": dg.MetadataValue.text(declaration.name),
        "dagster/storage_kind": dg.MetadataValue.text(STORAGE_KIND),
        "lance/write_mode": dg.MetadataValue.text(declaration.mode.value),
        "lance/source_format": dg.MetadataValue.text(declaration.source.format.value),
    }


def dataset_metadata(dataset: str, uri: str) -> dict[str, dg.MetadataValue]:
    """Return the metadata that identifies the dataset of an event: its name and its location."""
    return {
        URI_KEY: dg.MetadataValue.text(uri),
        "dagster/table_name": dg.MetadataValue.text(dataset),
        "dagster/storage_kind": dg.MetadataValue.text(STORAGE_KIND),
    }


def version_metadata(dataset: lance_core.LanceDataset, policy: MaintenancePolicy) -> dict[str, dg.MetadataValue]:
    """Return the statistics of the handle's version. The versions are listed once; no data file is opened."""
    health = TableHealth.of(dataset, policy)
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/row_count": dg.MetadataValue.int(health.rows),
        "dagster/column_schema": dg.MetadataValue.table_schema(table_schema(dataset.schema)),
        VERSION_KEY: dg.MetadataValue.int(health.version),
        "lance/versions": dg.MetadataValue.int(health.versions),
        "lance/fragments": dg.MetadataValue.int(health.fragments),
        "lance/small_fragments": dg.MetadataValue.int(health.small_fragments),
        "lance/data_files": dg.MetadataValue.int(health.data_files),
        "lance/deletion_files": dg.MetadataValue.int(health.deletion_files),
        "lance/deleted_rows": dg.MetadataValue.int(health.deleted_rows),
        "lance/deletion_ratio": dg.MetadataValue.float(health.deletion_ratio),
        "lance/manifest_bytes": dg.MetadataValue.int(health.manifest_bytes),
        "lance/data_storage_version": dg.MetadataValue.text(dataset.data_storage_version),
        CONTENT_KEY: dg.MetadataValue.text(content_digest(dataset.manifest)),
    }
    if health.bytes_total is not None:
        metadata["lance/bytes_total"] = dg.MetadataValue.int(health.bytes_total)
    return metadata


def materialization_metadata(report: WriteReport) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one materialization: statistics of the new version, and of what this run added."""
    metadata: dict[str, dg.MetadataValue] = {
        "dagster/row_count": dg.MetadataValue.int(report.rows_total),
        "dagster/column_schema": dg.MetadataValue.table_schema(table_schema(report.schema)),
        URI_KEY: dg.MetadataValue.text(report.uri),
        "dagster/table_name": dg.MetadataValue.text(report.dataset),
        "dagster/storage_kind": dg.MetadataValue.text(STORAGE_KIND),
        VERSION_KEY: dg.MetadataValue.int(report.version),
        "lance/read_version": dg.MetadataValue.int(report.read_version),
        "lance/fragments": dg.MetadataValue.int(report.fragments_total),
        "lance/rows_written": dg.MetadataValue.int(report.rows_written),
        "lance/fragments_written": dg.MetadataValue.int(report.fragments_written),
        "lance/bytes_written": dg.MetadataValue.int(report.bytes_written),
        "lance/commit_attempts": dg.MetadataValue.int(report.attempts),
        "lance/committed_earlier": dg.MetadataValue.bool(report.repeated),
        "lance/write_mode": dg.MetadataValue.text(report.mode.value),
    }
    if report.bytes_total is not None:
        metadata["lance/bytes_total"] = dg.MetadataValue.int(report.bytes_total)
    if report.transaction_uuid is not None:
        metadata["lance/transaction"] = dg.MetadataValue.text(report.transaction_uuid)
    return metadata


def staged_metadata(staged: StagedWrite, num_tasks: int) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the write step's output."""
    return {
        "lance/rows_written": dg.MetadataValue.int(staged.rows_written),
        "lance/fragments_written": dg.MetadataValue.int(len(staged.fragments)),
        "lance/bytes_written": dg.MetadataValue.int(staged.bytes_written),
        "lance/read_version": dg.MetadataValue.int(staged.read_version),
        "lance/file_token": dg.MetadataValue.text(staged.file_token),
        "spark/tasks": dg.MetadataValue.int(num_tasks),
    }


def table_schema(schema: pa.Schema) -> dg.TableSchema:
    """Return the columns with their Arrow types, nullability and comments."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=str(column.type),
                description=(column.metadata or {}).get(b"comment", b"").decode("utf-8", "replace") or None,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in schema
        ]
    )
