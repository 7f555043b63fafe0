"""CommittedWrite: a staged write that was committed, and what its materialization says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import dagster as dg

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_pipelines.events.asset_metadata import VERSION_KEY, folded, materialization_metadata, version_metadata
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.frames.frame_types import frame_type_of
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.partition_rows import Partition
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import commit_staged
from lance_pipelines.ingest.write_plan import open_dataset
from lance_pipelines.ingest.write_report import WriteReport, report_write
from lance_pipelines.progress import Report
from lance_pipelines.spark.leftovers import discard_files

__all__ = ["CommittedWrite", "commit_frame"]

_MAX_TRANSACTIONS: Final = 100
"""How many of the latest transactions are searched for the commit of an earlier attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedWrite:
    """A committed write.

    Attributes:
        report: statistics of the write and of the version that contains it.
        data_version: the data version of the asset after the write.
        statistics: metadata of the version.
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
        report = report_write(staged, outcome, storage_options=options)
        # A repeated commit may be outdated: downstream readers see the current content of the dataset.
        shown = report.version if outcome.committed_now else None
        version = lance_core.dataset(report.uri, version=report.version, storage_options=options)
        return cls(
            report=report,
            data_version=data_version_at(report.uri, shown, storage_options=options),
            statistics=version_metadata(version, declaration.maintenance, declaration.column_descriptions),
        )

    def metadata(self, more: Mapping[str, float] | None = None) -> dict[str, dg.MetadataValue]:
        """Return the metadata of the materialization, with further numbers by their keys."""
        added = {key: dg.MetadataValue.float(value) for key, value in (more or {}).items()}
        return folded({**self.statistics, **added, **materialization_metadata(self.report)})

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
    is_retry: bool = False,
) -> CommittedWrite:
    """Write the rows of a data frame, which belong to these partitions if there are any, and commit them.

    In a retry, the commit of an earlier attempt of the step is kept, if there is one.

    Raises:
        InvalidInputError: there is no frame.
        NotSupportedError: frames of this type are not stored.
        LanceError: the rows do not fit the dataset, or could not be written or committed.
    """
    if frame is None:
        raise InvalidInputError(
            "expected a data frame, found None; annotate an asset that stores its own data '-> None'"
        )
    frame_type = frame_type_of(type(frame))
    if frame_type.stage is None:
        raise NotSupportedError(f"a {frame_type.label} can be loaded, but not stored")
    staged = frame_type.stage(frame, declaration, run_id=run_id, step_key=step_key, partitions=partitions)
    committed = CommittedWrite.commit(_repeated(staged, declaration) if is_retry else staged, declaration)
    if committed.report.repeated:
        discard_files(staged.uri, staged.file_token, storage_options=declaration.resolved_storage_options())
    return committed


def _repeated(staged: StagedWrite, declaration: DatasetDeclaration) -> StagedWrite:
    """Return the write as a repetition of what an earlier attempt of the step has committed, if it has."""
    dataset = open_dataset(staged.uri, declaration.resolved_storage_options())
    for transaction in [] if dataset is None else dataset.get_transactions(_MAX_TRANSACTIONS):
        known = {} if transaction is None else transaction.transaction_properties or {}
        write_id = known.get("lance_pipelines.write_id")
        is_this_step = (known.get("dagster.run_id"), known.get("dagster.step_key")) == (staged.run_id, staged.step_key)
        if transaction is not None and write_id is not None and is_this_step:
            return replace(staged, write_id=write_id, read_version=transaction.read_version)
    return staged
