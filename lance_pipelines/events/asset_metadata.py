"""The metadata that Dagster displays for a dataset's asset and for each of its events.

Keys that begin with ``dagster/`` are defined by Dagster and fill columns and panels of its web interface. Keys that
begin with ``lance/`` are defined by this project.

An event shows what a person reads (a one-line summary, the health card, a table of fragments) and the numbers that are
worth plotting over time. Everything else, such as digests, UUIDs, and counters that only explain one commit, is in the
single JSON entry ``lance/details``, which the web interface shows collapsed. :func:`folded` decides which is which;
:func:`event_value` finds a value in either place.
"""

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

import dagster as dg
import numpy as np
import pyarrow as pa

import lance_core
from lance_pipelines.ingest.declaration import (
    DatasetDeclaration,
    DatasetKey,
    WriteMode,
    key_parts,
    published_key,
    required_publishing,
    required_source,
)
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_report import WriteReport
from lance_pipelines.maintenance.content import content_digest
from lance_pipelines.maintenance.fragment_figures import FragmentFigures
from lance_pipelines.maintenance.health_card import HealthCard
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = [
    "CONTENT_KEY",
    "DETAILS_KEY",
    "PARTITION_KEY",
    "STORAGE_KIND",
    "STORAGE_KIND_KEY",
    "SUMMARY_KEY",
    "TAG_KEY",
    "URI_KEY",
    "VERSION_KEY",
    "asset_metadata",
    "dataset_metadata",
    "event_value",
    "folded",
    "fragment_table",
    "materialization_metadata",
    "published_metadata",
    "staged_metadata",
    "table_schema",
    "version_metadata",
]

URI_KEY: Final = "dagster/uri"

VERSION_KEY: Final = "lance/version"
"""Metadata key: the version that an event describes."""

SUMMARY_KEY: Final = "lance/summary"
"""Metadata key: what happened, in one line, for example ``append: +500 rows, v5``."""

DETAILS_KEY: Final = "lance/details"
"""Metadata key: a JSON object with the values that have no entry of their own; its keys omit the prefix ``lance/``."""

CONTENT_KEY: Final = "lance/content"
"""Key in the details: digest of the version's content; versions with equal digests have equal rows."""

PARTITION_KEY: Final = "partition_expr"
"""Metadata key of an asset: the column that assigns rows to partitions, or a mapping of dimensions to columns."""

TAG_KEY: Final = "lance/tag"
"""Metadata key of an asset definition: the tag by which the asset's dataset is read."""

STORAGE_KIND: Final = "lance"

STORAGE_KIND_KEY: Final = "dagster/storage_kind"

_PREFIX: Final = "lance/"

_SHOWN: Final = frozenset(
    {
        SUMMARY_KEY,
        VERSION_KEY,
        "lance/health",
        "lance/fragment_chart",
        "lance/fragment_table",
        # Of the version:
        "lance/versions",
        "lance/fragments",
        "lance/small_fragments",
        "lance/deletion_ratio",
        "lance/bytes_total",
        "lance/manifest_bytes",
        # Of what was done:
        "lance/rows_written",
        "lance/bytes_written",
        "lance/seconds",
    }
)
"""The entries that an event shows; the numbers among them appear under Plots."""

_SHOWN_UNLESS_ZERO: Final = frozenset(
    {
        "lance/rows_deleted",
        "lance/bytes_rewritten",
        "lance/bytes_reclaimed",
        "lance/versions_removed",
        "lance/rows_indexed",
        "lance/unindexed_rows",
        "lance/index_bytes_written",
        "lance/conflicts",
    }
)
"""Numbers that an event shows only if they are not 0; most operations leave most of them at 0."""

_FIRST: Final = (SUMMARY_KEY, "lance/health", VERSION_KEY)
_LAST: Final = ("dagster/column_schema", "lance/fragment_chart", "lance/fragment_table", DETAILS_KEY)
"""The entries at the beginning and at the end of the page; those at the end take up much space."""

_MAX_TABLE_ROWS: Final = 20
_MAX_COLUMNS: Final = 500
_MAX_TYPE_CHARACTERS: Final = 1000


def asset_metadata(declaration: DatasetDeclaration) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the asset definition, which is known before any run."""
    metadata: dict[str, dg.MetadataValue] = dataset_metadata(declaration.key, declaration.uri) | {
        "lance/write_mode": dg.MetadataValue.text(declaration.mode.value),
        "lance/source": dg.MetadataValue.text(required_source(declaration).kind),
    }
    columns = declaration.partition_columns
    # An asset downstream can load single partitions if their keys are the values of the columns.
    if columns and not any(column.values for column in columns):
        by_dimension = {column.dimension or "": column.column for column in columns}
        one = by_dimension.get("")
        metadata[PARTITION_KEY] = dg.MetadataValue.text(one) if one else dg.MetadataValue.json(by_dimension)
    if declaration.column_lineage:
        metadata["dagster/column_lineage"] = dg.MetadataValue.column_lineage(_column_lineage(declaration))
    return metadata


def published_metadata(declaration: DatasetDeclaration) -> dict[str, dg.MetadataValue]:
    """Return the metadata of the definition of the asset that stands for the published version."""
    tag = required_publishing(declaration).tag
    return dataset_metadata(published_key(declaration), declaration.uri) | {TAG_KEY: dg.MetadataValue.text(tag)}


def _column_lineage(declaration: DatasetDeclaration) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {
            column: [dg.TableColumnDep(dg.AssetKey(key_parts(key)), source) for key, source in sources]
            for column, sources in declaration.column_lineage.items()
        }
    )


def dataset_metadata(dataset: DatasetKey, uri: str) -> dict[str, dg.MetadataValue]:
    """Return the metadata that identifies the dataset of an event: its asset key and its location."""
    return {
        URI_KEY: dg.MetadataValue.text(uri),
        "dagster/table_name": dg.MetadataValue.text("/".join(key_parts(dataset))),
        STORAGE_KIND_KEY: dg.MetadataValue.text(STORAGE_KIND),
    }


def version_metadata(
    dataset: lance_core.LanceDataset,
    policy: MaintenancePolicy,
    column_descriptions: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, dg.MetadataValue]:
    """Return the statistics of the handle's version. Data files are opened only if row counts are not recorded.

    Args:
        dataset: an open handle.
        policy: determines which fragments count as small, and what is healthy.
        column_descriptions: maps the names of columns to descriptions that replace the columns' own comments.
    """
    card = HealthCard.of(dataset, policy)
    health = card.health
    metadata: dict[str, dg.MetadataValue] = {
        "lance/health": dg.MetadataValue.md(card.markdown()),
        "lance/fragment_table": fragment_table(card.figures),
        "dagster/row_count": dg.MetadataValue.int(health.rows),
        "dagster/column_schema": dg.MetadataValue.table_schema(table_schema(dataset.schema, column_descriptions)),
        VERSION_KEY: dg.MetadataValue.int(health.version),
        "lance/versions": dg.MetadataValue.int(health.versions),
        "lance/fragments": dg.MetadataValue.int(health.fragments),
        "lance/small_fragments": dg.MetadataValue.int(health.small_fragments),
        "lance/data_files": dg.MetadataValue.int(health.data_files),
        "lance/deletion_files": dg.MetadataValue.int(health.deletion_files),
        "lance/deleted_rows": dg.MetadataValue.int(health.deleted_rows),
        "lance/deletion_ratio": dg.MetadataValue.float(round(health.deletion_ratio, 4)),
        "lance/manifest_bytes": dg.MetadataValue.int(health.manifest_bytes),
        "lance/data_storage_version": dg.MetadataValue.text(dataset.data_storage_version),
        CONTENT_KEY: dg.MetadataValue.text(content_digest(dataset.manifest)),
    }
    if health.bytes_total is not None:
        metadata["lance/bytes_total"] = dg.MetadataValue.int(health.bytes_total)
    if card.coverage:
        metadata["lance/unindexed_rows"] = dg.MetadataValue.int(sum(index.unindexed_rows for index in card.coverage))
    if health.fragments:
        metadata["lance/fragment_chart"] = dg.MetadataValue.md(card.fragments_markdown())
    return metadata


def materialization_metadata(report: WriteReport, *, is_one_partition: bool = False) -> dict[str, dg.MetadataValue]:
    """Return the metadata of one materialization besides :func:`version_metadata`: what this run added.

    Args:
        report: statistics of the write.
        is_one_partition: whether the run is for a single partition.
    """
    metadata: dict[str, dg.MetadataValue] = {
        SUMMARY_KEY: dg.MetadataValue.text(report.headline()),
        "dagster/row_count": dg.MetadataValue.int(report.rows_total),
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
    if report.versions_written > 1:
        metadata["lance/versions_written"] = dg.MetadataValue.int(report.versions_written)
    if is_one_partition and report.mode is WriteMode.OVERWRITE_PARTITION:
        # Otherwise, the number of rows of a partition is unknown without reading its column.
        metadata["dagster/partition_row_count"] = dg.MetadataValue.int(report.rows_written)
    if report.bytes_total is not None:
        metadata["lance/bytes_total"] = dg.MetadataValue.int(report.bytes_total)
    if report.transaction_uuid is not None:
        metadata["lance/transaction"] = dg.MetadataValue.text(report.transaction_uuid)
    return metadata


def folded(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, dg.MetadataValue]:
    """Return the metadata of an event as it is shown: entries that get no line of their own become details."""
    shown = {key: value for key, value in metadata.items() if _is_shown(key, value)}
    details = {key.removeprefix(_PREFIX): value.value for key, value in metadata.items() if key not in shown}
    if details:
        shown[DETAILS_KEY] = dg.MetadataValue.json(details)
    first = [key for key in _FIRST if key in shown]
    last = [key for key in _LAST if key in shown]
    middle = [key for key in shown if key not in (*_FIRST, *_LAST)]
    return {key: shown[key] for key in (*first, *middle, *last)}


def _is_shown(key: str, value: dg.MetadataValue) -> bool:
    return key in _SHOWN or (key in _SHOWN_UNLESS_ZERO and value.value != 0) or not key.startswith(_PREFIX)


def event_value(event: dg.AssetMaterialization | dg.AssetObservation, key: str) -> object:
    """Return a value of an event's metadata, or of its details; None if it is absent."""
    value = event.metadata.get(key)
    if value is not None:
        return value.value
    details = event.metadata.get(DETAILS_KEY)
    data = None if details is None else details.value
    return data.get(key.removeprefix(_PREFIX)) if isinstance(data, dict) else None


def fragment_table(figures: FragmentFigures) -> dg.TableMetadataValue:
    """Return a table of the fragments in the order of the manifest; only the largest, if there are more than 20."""
    places = np.arange(len(figures))
    if len(places) > _MAX_TABLE_ROWS:
        places = np.sort(np.argsort(-figures.num_bytes, kind="stable")[:_MAX_TABLE_ROWS])
    names = ("fragment", "rows", "deleted", "bytes", "files")
    columns = (
        figures.ids[places].tolist(),
        (figures.rows - figures.deleted_rows)[places].tolist(),
        figures.deleted_rows[places].tolist(),
        figures.num_bytes[places].tolist(),
        figures.num_files[places].tolist(),
    )
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)],
        schema=dg.TableSchema([dg.TableColumn(name, "int") for name in names]),
    )


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


def table_schema(schema: pa.Schema, descriptions: Mapping[str, str] = MappingProxyType({})) -> dg.TableSchema:
    """Return the columns with their Arrow types, nullability, and descriptions, or comments if they have none.

    Every event contains this table, so only the first columns of a wide schema are listed, and long types are
    truncated.
    """
    columns = [
        dg.TableColumn(
            name=column.name,
            type=_cut(str(column.type)),
            description=descriptions.get(column.name) or _comment(column),
            constraints=dg.TableColumnConstraints(nullable=column.nullable),
        )
        for column in islice(schema, _MAX_COLUMNS)
    ]
    num_left_out = len(schema) - len(columns)
    left_out = dg.TableConstraints(other=[amount(num_left_out, "more column")]) if num_left_out else None
    return dg.TableSchema(columns=columns, constraints=left_out)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TYPE_CHARACTERS else f"{text[:_MAX_TYPE_CHARACTERS]}…"


def _comment(column: pa.Field) -> str | None:
    return (column.metadata or {}).get(b"comment", b"").decode("utf-8", "replace") or None
