"""The Dagster events of a commit.

==================================  =======================  ============================================
Commit                              Event                    Dagster's reaction
==================================  =======================  ============================================
changes rows or columns             ``AssetMaterialization`` downstream assets are stale, conditions fire
changes neither (maintenance, an    ``AssetObservation``     none; metadata and plots show it
index, configuration)
==================================  =======================  ============================================

A maintenance commit must never be reported as a materialization, not even with an unchanged data version: freshness
would restart, and ``AutomationCondition.eager()`` fires on every materialization. Both events contain the data version,
the operation, and the statistics of the version, which the web interface plots over time.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import dagster as dg

import lance_core
from lance_core.errors import NotSupportedError, VersionNotFoundError
from lance_pipelines.events.asset_metadata import (
    SUMMARY_KEY,
    VERSION_KEY,
    dataset_metadata,
    folded,
    version_metadata,
)
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.ingest.declaration import DatasetKey, key_parts
from lance_pipelines.maintenance.policy import MaintenancePolicy

__all__ = [
    "DATASET_TAG",
    "DATA_VERSION_TAG",
    "EXTERNAL_WRITER",
    "OPERATION_TAG",
    "WRITER_TAG",
    "dataset_materialization",
    "dataset_observation",
]

DATA_VERSION_TAG: Final = "dagster/data_version"
DATASET_TAG: Final = "lance/dataset"
OPERATION_TAG: Final = "lance/op"
WRITER_TAG: Final = "lance/writer"

EXTERNAL_WRITER: Final = "external"
"""Value of the tag ``lance/writer`` for commits that were not made by a run of this instance."""


def dataset_materialization(
    *,
    dataset: DatasetKey,
    uri: str,
    op: str,
    report_metadata: Mapping[str, int | float | str],
    version: int,
    data_version: str | None = None,
    writer: str | None = None,
    policy: MaintenancePolicy | None = None,
    storage_options: dict[str, str] | None = None,
    column_descriptions: Mapping[str, str] = MappingProxyType({}),
) -> dg.AssetMaterialization:
    """Return the event for a commit that changed rows; :func:`dataset_observation` describes the arguments."""
    statistics = _statistics(uri, version, policy or MaintenancePolicy(), storage_options, column_descriptions)
    summary, report_metadata = _described(report_metadata, _summary(op, version, writer))
    return dg.AssetMaterialization(
        asset_key=dg.AssetKey(key_parts(dataset)),
        description=summary,
        metadata=_metadata(dataset, uri, version, report_metadata, statistics),
        tags=_tags(uri, op, version, data_version, writer, storage_options),
    )


def dataset_observation(
    *,
    dataset: DatasetKey,
    uri: str,
    op: str,
    report_metadata: Mapping[str, int | float | str],
    version: int,
    data_version: str | None = None,
    writer: str | None = None,
    policy: MaintenancePolicy | None = None,
    storage_options: dict[str, str] | None = None,
    column_descriptions: Mapping[str, str] = MappingProxyType({}),
) -> dg.AssetObservation:
    """Return the event for a commit that changed no row, or for a cleanup that removed files.

    Args:
        dataset: the dataset's asset key.
        uri: the dataset's location.
        op: what was done, for example ``compact``; for a commit by another program, the operation in its transaction.
        report_metadata: metadata about the operation; a key without ``/`` gets the prefix ``lance/``. The value of
            ``lance/summary`` becomes the description of the event.
        version: the version after the operation.
        data_version: the data version; if None, it is determined from the history. For a cleanup, pass the data version
            that was determined before old versions were removed, because the history may no longer include it.
        writer: value of the tag ``lance/writer``; None if the run that reports the event made the commit.
        policy: determines which fragments count as small; if None, the default policy.
        storage_options: credentials and settings of the dataset's store.
        column_descriptions: descriptions of columns, by name.
    """
    statistics = _statistics(uri, version, policy or MaintenancePolicy(), storage_options, column_descriptions)
    summary, report_metadata = _described(report_metadata, f"{_summary(op, version, writer)}, no rows changed")
    return dg.AssetObservation(
        asset_key=dg.AssetKey(key_parts(dataset)),
        description=summary,
        metadata=_metadata(dataset, uri, version, report_metadata, statistics),
        tags=_tags(uri, op, version, data_version, writer, storage_options),
    )


def _described(
    report_metadata: Mapping[str, int | float | str], otherwise: str
) -> tuple[str, dict[str, int | float | str]]:
    """Return the description of an event, and the metadata without the description, which would be shown twice."""
    others = {key: value for key, value in report_metadata.items() if key != SUMMARY_KEY}
    return str(report_metadata.get(SUMMARY_KEY) or otherwise), others


def _summary(op: str, version: int, writer: str | None) -> str:
    """Return the summary of a commit whose report has none."""
    if writer is None:
        return f"{op}: v{version}"
    by = "another program" if writer == EXTERNAL_WRITER else "a run that did not report it"
    return f"{op} by {by}: v{version}"


def _metadata(
    dataset: DatasetKey,
    uri: str,
    version: int,
    report_metadata: Mapping[str, int | float | str],
    statistics: Mapping[str, dg.MetadataValue],
) -> dict[str, dg.MetadataValue]:
    reported = {key if "/" in key else f"lance/{key}": _value(value) for key, value in report_metadata.items()}
    return folded(
        dataset_metadata(dataset, uri) | dict(statistics) | {VERSION_KEY: dg.MetadataValue.int(version)} | reported
    )


def _statistics(
    uri: str,
    version: int,
    policy: MaintenancePolicy,
    storage_options: dict[str, str] | None,
    column_descriptions: Mapping[str, str],
) -> dict[str, dg.MetadataValue]:
    try:
        dataset = lance_core.dataset(uri, version=version, storage_options=storage_options)
        return version_metadata(dataset, policy, column_descriptions)
    except (VersionNotFoundError, NotSupportedError):
        # Removed in the meantime, or written by a newer release. The commit still happened, so its event must not fail.
        return {}


def _tags(
    uri: str,
    op: str,
    version: int,
    data_version: str | None,
    writer: str | None,
    storage_options: dict[str, str] | None,
) -> dict[str, str]:
    tags = {OPERATION_TAG: op} if writer is None else {OPERATION_TAG: op, WRITER_TAG: writer}
    if data_version is None:
        try:
            data_version = data_version_at(uri, version, storage_options=storage_options)
        except VersionNotFoundError:
            return tags
    return tags | {DATA_VERSION_TAG: data_version}


def _value(value: int | float | str) -> dg.MetadataValue:
    if isinstance(value, bool):
        return dg.MetadataValue.bool(value)
    if isinstance(value, int):
        return dg.MetadataValue.int(value)
    return dg.MetadataValue.float(value) if isinstance(value, float) else dg.MetadataValue.text(value)
