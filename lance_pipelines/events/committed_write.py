"""CommittedWrite: a staged write that was committed, and the metadata and tags of its materialization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import dagster as dg

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError, VersionNotFoundError
from lance_core.metadata import open_version_log
from lance_pipelines.events.asset_metadata import (
    VERSION_KEY,
    dataset_metadata,
    folded,
    materialization_metadata,
    version_metadata,
)
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.events.found_version import FoundVersion
from lance_pipelines.frames.frame_types import frame_type_of
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.partition_rows import Partition
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import (
    WRITE_ID_PROPERTY,
    WRITE_NUMBER_PROPERTY,
    WriteOutcome,
    commit_staged,
    transaction_properties,
)
from lance_pipelines.ingest.write_report import WriteReport, report_write
from lance_pipelines.progress import Report
from lance_pipelines.spark.leftovers import discard_files

__all__ = ["CommittedWrite", "commit_frame"]

_MAX_VERSIONS: Final = 100
"""How many of the latest versions are searched for the commit of an earlier attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedWrite:
    """A committed write.

    Attributes:
        report: statistics of the write and of the version that contains it.
        data_version: the data version of the asset after the write.
        statistics: metadata of the dataset and of the version.
    """

    report: WriteReport
    data_version: str
    statistics: Mapping[str, dg.MetadataValue]

    @classmethod
    def commit(
        cls, staged: StagedWrite, declaration: DatasetDeclaration, report_progress: Report = lambda progress: None
    ) -> Self:
        """Commit a staged write; see :func:`~lance_pipelines.ingest.write_commit.commit_staged` for the errors."""
        options = declaration.resolved_storage_options()
        discard = partial(discard_files, storage_options=options)
        outcome = commit_staged(staged, discard=discard, storage_options=options, report=report_progress)
        return cls.of(staged, outcome, declaration)

    @classmethod
    def of(cls, staged: StagedWrite, outcome: WriteOutcome, declaration: DatasetDeclaration) -> Self:
        """Describe the version that contains a write."""
        options = declaration.resolved_storage_options()
        return cls.of_report(report_write(staged, outcome, storage_options=options), declaration)

    @classmethod
    def of_report(cls, report: WriteReport, declaration: DatasetDeclaration) -> Self:
        """Describe the version that contains one or more writes, given their report."""
        options = declaration.resolved_storage_options()
        # A repeated commit may be outdated: downstream readers see the current content of the dataset.
        shown = report.version if report.committed and not report.repeated else None
        version = lance_core.dataset(report.uri, version=report.version, storage_options=options)
        return cls(
            report=report,
            data_version=data_version_at(report.uri, shown, storage_options=options),
            statistics=dataset_metadata(declaration.key, report.uri)
            | version_metadata(version, declaration.maintenance, declaration.column_descriptions),
        )

    def metadata(
        self, more: Mapping[str, float] | None = None, *, num_partitions: int = 0
    ) -> dict[str, dg.MetadataValue]:
        """Return the metadata of the materialization.

        Args:
            more: additional numbers, by metadata key.
            num_partitions: number of partitions of the run; 0 if it is not for partitions.
        """
        added = {key: dg.MetadataValue.float(value) for key, value in (more or {}).items()}
        written = materialization_metadata(self.report, is_one_partition=num_partitions == 1)
        return folded({**self.statistics, **added, **written})

    def tags(self) -> dict[str, str]:
        """Return the tags of the materialization."""
        tags = {VERSION_KEY: str(self.report.version)}
        if self.report.transaction_uuid is not None:
            tags["lance/txn"] = self.report.transaction_uuid
        return tags


def commit_frame(
    frame: object,
    declaration: DatasetDeclaration,
    *,
    run_id: str,
    step_key: str,
    partitions: Sequence[Partition] = (),
    number: int = 0,
    earlier_runs: Sequence[str] = (),
) -> CommittedWrite:
    """Write and commit the rows of a data frame; if partitions are given, all rows must belong to them.

    If an earlier attempt of the step has committed this write, its commit is kept, and nothing is written.

    Args:
        frame: the data frame.
        declaration: the dataset.
        run_id: id of the run.
        step_key: key of the step in that run.
        partitions: the partitions of the run; empty if it is not for partitions.
        number: number of writes to the dataset that this attempt of the step has made before.
        earlier_runs: ids of the runs in which the step was attempted before.

    Raises:
        InvalidInputError: there is no frame.
        NotSupportedError: frames of this type cannot be stored.
        LanceError: the rows do not fit the dataset, or could not be written or committed.
    """
    if frame is None:
        raise InvalidInputError(
            "expected a data frame, found None; if the asset stores its own data, declare the return type as None"
        )
    frame_type = frame_type_of(type(frame))
    if frame_type.stage is None:
        raise NotSupportedError(f"a {frame_type.label} can be loaded, but not stored")
    if earlier_runs:
        repeated = _find_repeated(declaration, frozenset(earlier_runs), step_key, number)
        if repeated is not None:
            return repeated
    staged = frame_type.stage(frame, declaration, run_id=run_id, step_key=step_key, partitions=partitions)
    return CommittedWrite.commit(replace(staged, number=number), declaration)


def _find_repeated(
    declaration: DatasetDeclaration, run_ids: frozenset[str], step_key: str, number: int
) -> CommittedWrite | None:
    """Return the commit that the same write of the same step made in one of the runs; None if there is none."""
    log = open_version_log(declaration.uri, declaration.resolved_storage_options())
    for name in reversed(log.newer_than(0)[-_MAX_VERSIONS:]):
        try:
            found = FoundVersion.read(log, name)
        except VersionNotFoundError:
            continue
        known = {} if found.transaction is None else found.transaction.properties
        for run_id in run_ids:
            own = transaction_properties(run_id=run_id, step_key=step_key, dataset=declaration.name)
            is_same = own.items() <= known.items() and int(known.get(WRITE_NUMBER_PROPERTY, 0)) == number
            if is_same and WRITE_ID_PROPERTY in known:
                return _repeated(found, run_id, step_key, declaration)
    return None


def _repeated(found: FoundVersion, run_id: str, step_key: str, declaration: DatasetDeclaration) -> CommittedWrite:
    """Describe the commit of an earlier attempt."""
    made_by = found.transaction
    assert made_by is not None  # noqa: S101  # its properties have been compared
    options = declaration.resolved_storage_options()
    dataset = lance_core.dataset(declaration.uri, version=found.version, storage_options=options)
    paths = {file.path for fragment in made_by.operation.added_fragments() for file in fragment.files}
    added = [
        fragment.metadata
        for fragment in dataset.get_fragments()
        if any(file.path in paths for file in fragment.metadata.files)
    ]
    num_rows = sum(fragment.physical_rows for fragment in added)
    staged = StagedWrite(
        write_id=made_by.properties[WRITE_ID_PROPERTY],
        file_token="",
        dataset=declaration.name,
        uri=declaration.uri,
        mode=declaration.mode,
        read_version=made_by.read_version,
        read_transaction=None,
        schema=dataset.schema,
        fragments=tuple(fragment.to_json() for fragment in added),
        rows_counted=num_rows,
        rows_written=num_rows,
        bytes_written=sum(file.file_size_bytes or 0 for fragment in added for file in fragment.files),
        run_id=run_id,
        step_key=step_key,
    )
    outcome = WriteOutcome(version=found.version, transaction_uuid=made_by.uuid, repeated=True)
    return CommittedWrite.of(staged, outcome, declaration)
