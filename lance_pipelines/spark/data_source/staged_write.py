"""What the writers of batches and of streams share: planning a write, its messages, and the removal of its files.

Spark repeats tasks and may run two attempts of a task at once. Every attempt writes files under new names, which end in
the *file token* of the write. Spark passes the message of one attempt of each task to ``commit``, and only the files in
these messages are committed.

If ``commit`` raises an error, Spark calls ``abort`` with all of the messages. At this point, the commit may have
succeeded even though its outcome is unknown, so ``abort`` deletes nothing. If a task failed, one of the messages is
None: ``commit`` was never called, no version refers to any file of the write, and ``abort`` deletes them all.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import lance_core
from lance_core.errors import (
    CommitConflictError,
    InternalError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
)
from lance_core.metadata import DEFAULT_VERSION, check_storable
from lance_pipelines.spark.leftovers import discard_files, discard_lost_attempts, discard_until_quiet
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.writer import AttemptReport, WriteSettings, write_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lance_core import FragmentMetadata, LanceDataset
    from lance_pipelines.spark.data_source.location import Location

__all__ = ["WritePlan", "is_certain_failure"]

_MAX_ROWS: Final = 1024 * 1024
_MAX_BYTES: Final = 2 * 1024**3

_logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A write whose tasks can start. It is sent to the workers and to the process that commits.

    Attributes:
        location: the table.
        settings: the parameters of the tasks.
        read_version: the version that the write is based on; 0 if the table did not exist.
    """

    location: Location
    settings: WriteSettings
    read_version: int

    @classmethod
    def of(
        cls,
        location: Location,
        schema: StructType,
        options: Mapping[str, Any],
        existing: LanceDataset | None,
        *,
        overwrite: bool,
    ) -> Self:
        """Plan a write; nothing is written.

        Args:
            location: the table.
            schema: the schema of the DataFrame.
            options: the parsed options.
            existing: the latest version; None if the table does not exist.
            overwrite: whether the rows replace those of the table.

        Raises:
            InvalidInputError: an option contradicts the table, or the schema is invalid.
            NotSupportedError: the type of a column is not supported.
            SchemaMismatchError: the DataFrame does not fit the table.
        """
        keeps_schema = existing is not None and not overwrite
        _check_kept(location, options, existing, keeps_version=keeps_schema)
        target = plan_target_schema(
            schema, options.get("vectorColumns", {}), existing.schema if existing is not None and keeps_schema else None
        )
        version = options.get("dataStorageVersion")
        if not keeps_schema:
            kept = (
                DEFAULT_VERSION
                if existing is None
                else lance_core.LanceFileVersion.parse(existing.data_storage_version)
            )
            check_storable(target, kept if version is None else lance_core.LanceFileVersion.parse(version))
        settings = WriteSettings(
            dataset_uri=location.uri,
            mode="append" if keeps_schema else "overwrite",
            target=target,
            max_rows_per_file=options.get("maxRowsPerFile", _MAX_ROWS),
            max_bytes_per_file=options.get("maxBytesPerFile", _MAX_BYTES),
            data_storage_version=None if keeps_schema else version,
            file_token=secrets.token_hex(8),
            storage_options=location.storage_options,
            target_bases=options.get("targetBases"),
        )
        return cls(location=location, settings=settings, read_version=0 if existing is None else existing.version)

    def write(self, batches: Iterable[pa.RecordBatch]) -> AttemptReport | None:
        """Write the rows of one partition; return None if the partition is empty. Runs in a worker."""
        return write_partition(self.settings, batches)

    def fragments(self, reports: Sequence[AttemptReport]) -> list[FragmentMetadata]:
        """Return the fragments of the attempts whose messages Spark has passed to ``commit``.

        Raises:
            InternalError: the files do not contain as many rows as the tasks received.
        """
        ordered = sorted(reports, key=lambda report: report.partition_id)
        fragments = [
            lance_core.FragmentMetadata.from_json(fragment) for report in ordered for fragment in report.fragments
        ]
        received, stored = sum(report.num_rows for report in ordered), sum(each.physical_rows for each in fragments)
        if received != stored:
            raise InternalError(
                f"{self.location.uri}: number of rows received by the tasks: {received}; written: {stored}"
            )
        return fragments

    def discard(self) -> None:
        """Delete the files of the write, none of which is committed. A failure is logged."""
        try:
            discard_files(self.location.uri, self.settings.file_token, storage_options=self.settings.storage_options)
        except LanceError as error:
            _logger.warning(
                "%s: cannot remove the files of the write (*%s.lance): %s",
                self.location.uri,
                self.settings.file_token,
                error,
            )

    def discard_losers(self, reports: Sequence[AttemptReport]) -> None:
        """After a commit, delete the files of the other attempts if any task did not succeed at its first attempt."""
        if any(report.attempt_number for report in reports):
            fragments = [fragment for report in reports for fragment in report.fragments]
            discard_lost_attempts(
                self.location.uri,
                self.settings.file_token,
                fragments,
                storage_options=self.settings.storage_options,
            )

    def abort(self, messages: Sequence[object]) -> None:
        """Delete the files of a write, unless it may have been committed."""
        if all(message is not None for message in messages):
            return
        failure = RuntimeError()
        discard_until_quiet(
            self.location.uri, self.settings.file_token, failure, storage_options=self.settings.storage_options
        )
        for note in getattr(failure, "__notes__", ()):
            _logger.warning("%s", note)


def is_certain_failure(error: LanceError) -> bool:
    """Return whether an error of a commit means that no version refers to the new files, now or later."""
    return isinstance(error, CommitConflictError | InvalidInputError | NotFoundError | NotSupportedError)


def _check_kept(
    location: Location, options: Mapping[str, Any], existing: LanceDataset | None, *, keeps_version: bool
) -> None:
    """Reject options that contradict the table, or that require an existing one."""
    if existing is None:
        if "targetBases" in options:
            raise InvalidInputError(
                f"option 'targetBases' requires an existing table, but {location.uri} does not exist",
                option="targetBases",
            )
        return
    wanted = options.get("dataStorageVersion")
    if (
        keeps_version
        and wanted is not None
        and lance_core.LanceFileVersion.parse(wanted)
        != (lance_core.LanceFileVersion.parse(existing.data_storage_version))
    ):
        raise InvalidInputError(
            f"option 'dataStorageVersion' is {wanted}, but {existing.uri} has files of version "
            f"{existing.data_storage_version}",
            option="dataStorageVersion",
        )
    if "stableRowIds" in options and options["stableRowIds"] != existing.has_stable_row_ids:
        has = "has" if existing.has_stable_row_ids else "does not have"
        raise InvalidInputError(
            f"option 'stableRowIds' is {str(options['stableRowIds']).lower()}, but {existing.uri} {has} stable row ids",
            option="stableRowIds",
        )
