"""Writes a frame as a version of a table: appends its rows, replaces all rows, or creates the table.

Every task writes the rows of one partition as fragments, in files that no version refers to until the driver commits.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lance_core
from lance_core import LanceFileVersion, LanceOperation
from lance_core.errors import AlreadyExistsError, DatasetNotFoundError, InternalError, InvalidInputError
from lance_core.metadata import CommitProgress, commit_transaction
from lance_pipelines.ingest.declaration import DECLARED_MAX_BYTES_PER_FILE, DECLARED_MAX_ROWS_PER_FILE
from lance_pipelines.spark.leftovers import discard_until_quiet
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.verbs.table_change import opened
from lance_pipelines.spark.writer import write_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

__all__ = ["Written", "write"]

_MODES: Final = ("append", "overwrite", "create")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of a write.

    Attributes:
        version: the version that the write created.
        num_rows: number of rows of the frame.
        num_bytes: total size of the new data files.
        num_fragments: number of new fragments.
    """

    version: int
    num_rows: int
    num_bytes: int
    num_fragments: int


def write(
    frame: DataFrame,
    dataset: lance_core.LanceDataset | str | Path,
    mode: str = "append",
    *,
    num_partitions: int | None = None,
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    vector_columns: Mapping[str, int] | None = None,
    data_storage_version: str | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: Sequence[str] | None = None,
    max_rows_per_file: int = DECLARED_MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = DECLARED_MAX_BYTES_PER_FILE,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Written:
    """Write a frame as one version.

    Args:
        frame: the rows.
        dataset: the table, or its location.
        mode: "append" adds the rows to an existing table, or creates it; "overwrite" replaces rows and columns;
            "create" fails if the table exists.
        num_partitions: number of tasks among which the rows are divided; None for the partitions of the frame, with
            small ones merged.
        partition_by: columns; rows with equal values in these columns are written by the same task.
        sort_by: columns by which each task sorts its rows.
        vector_columns: maps columns to the length of their lists, which are stored as fixed-size lists. For an append,
            the table determines the length.
        data_storage_version: format version of the new data files; None for that of the table, or the newest stable
            one.
        enable_stable_row_ids: whether a new table uses stable row ids.
        target_bases: names or paths of the bases to which each task writes its files in turn.
        max_rows_per_file: number of rows at which a task starts its next file.
        max_bytes_per_file: approximate number of bytes at which a task starts its next file.
        properties: properties of the transaction.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: an argument is invalid.
        SchemaMismatchError: the frame does not fit the table, or a list has another length.
        AlreadyExistsError: the mode is "create", and the table exists.
        NotSupportedError: a Spark type is not supported.
        IncompatibleTransactionError: another writer replaced the table in the meantime.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    if mode not in _MODES:
        raise InvalidInputError(f"mode must be one of {', '.join(_MODES)}, found {mode!r:.80}", argument="mode")
    existing = _existing(dataset, storage_options)
    if existing is not None and mode == "create":
        raise AlreadyExistsError(f"a dataset already exists at {existing.uri}; its version is {existing.version}")
    appends = existing is not None and mode == "append"
    target = plan_target_schema(
        frame.schema, vector_columns or {}, existing.schema if existing is not None and appends else None
    )
    if num_partitions is not None:
        frame = frame.repartition(num_partitions, *partition_by)
    elif partition_by:
        frame = frame.repartition(*partition_by)
    if sort_by:
        frame = frame.sortWithinPartitions(*sort_by)
    uri = str(dataset) if isinstance(dataset, (str, Path)) else dataset.uri
    options = (
        existing.storage_options if existing is not None else None if storage_options is None else dict(storage_options)
    )
    file_token = secrets.token_hex(8)
    progress = CommitProgress()
    try:
        written = write_frame(
            frame,
            dataset_uri=uri,
            mode="append" if appends else "overwrite",
            target=target,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            file_token=file_token,
            data_storage_version=data_storage_version,
            storage_options=options,
            target_bases=target_bases,
        )
        if written.rows_written != written.rows_counted:
            raise InternalError(
                f"{uri}: number of rows passed to the tasks: {written.rows_counted}; written: {written.rows_written}"
            )
        fragments = [lance_core.FragmentMetadata.from_json(document) for document in written.fragments]
        operation = LanceOperation.Append(fragments) if appends else LanceOperation.Overwrite(target, fragments)
        version = commit_transaction(
            uri if existing is None else existing,
            lance_core.Transaction(
                read_version=0 if existing is None else existing.version,
                operation=operation,
                transaction_properties=dict(properties or {}),
            ),
            create_only=existing is None and mode != "overwrite",
            data_storage_version=None if data_storage_version is None else LanceFileVersion.parse(data_storage_version),
            stable_row_ids=enable_stable_row_ids,
            storage_options=options,
            progress=progress,
        )
    except BaseException as error:
        if not progress.needs_files:
            discard_until_quiet(uri, file_token, error, storage_options=options)
        raise
    return Written(
        version=version, num_rows=written.rows_written, num_bytes=written.bytes_written, num_fragments=len(fragments)
    )


def _existing(
    dataset: lance_core.LanceDataset | str | Path, storage_options: Mapping[str, str] | None
) -> lance_core.LanceDataset | None:
    try:
        return opened(dataset, storage_options)
    except DatasetNotFoundError:
        return None
