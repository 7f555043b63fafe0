"""Updates rows: sets columns to new values in the rows that match a condition, in one version.

::

    plan      the fragments to search, as tasks that can be sent to other processes
    execute   find the matching rows, read all their columns, compute the new values, and write them to new fragments
    commit    Update: the old rows are deleted, the new fragments added; merged with concurrent deletes of other rows

Rows are streamed: at any time, a few decoded pages and the pages being written are in memory. If another writer has
changed the same rows, the update is planned again on the latest version. A crash before the commit leaves the table
unchanged; a later cleanup removes the new files. After a failure or an interrupt, the files are removed immediately,
unless a version may refer to them. An update that matches no rows also creates a version.

Source: ``update`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

import numpy as np

from lance_core.commit.replanning import Replanning
from lance_core.delete.plan import planned_predicate
from lance_core.errors import InvalidInputError
from lance_core.file.read_config import ReadConfig
from lance_core.file.write_config import WriteConfig
from lance_core.public.arguments import whole_number
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.loaded_blobs import with_loaded_blobs
from lance_core.scan.matching import RowCut, find_rows, gathered, read_found
from lance_core.scan.row_columns import with_row_columns
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.field import Schema
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.options import CommitOptions, CommitProgress
from lance_core.update.new_values import NewValues
from lance_core.update.row_changes import (
    NewRows,
    RowChanges,
    RowPositions,
    commit_row_changes,
    removed_unless_committed,
)
from lance_core.versions import LanceFileVersion
from lance_core.write.target import Mode, version_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.commit.replanning import RetryPolicy
    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.table_view import Handle, TableView

    _Numbers: TypeAlias = npt.NDArray[np.uint64]

__all__ = ["UpdatePlan", "UpdateResult", "UpdateTask", "Updated", "commit_update", "plan_update", "update_rows"]

_ROW_FIELDS: Final = with_row_columns(Schema(fields=()), offsets=False).fields[:2]
"""The row id and the address, which are read together with the columns."""

_READ: Final = ReadConfig(batch_rows=64 * 1024)
"""Reads large batches, because evaluating expressions has a fixed cost per batch."""


class UpdateResult(TypedDict):
    """What ``LanceDataset.update`` returns.

    Attributes:
        num_rows_updated: the number of rows that matched the condition.
    """

    num_rows_updated: int


@dataclass(frozen=True, slots=True)
class Updated:
    """The result of an update.

    Attributes:
        view: the version that the update created.
        rows_updated: the number of rows that matched the condition.
        attempts: the number of times that the update was planned.
    """

    view: TableView
    rows_updated: int
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTask:
    """One task of an update: fragments whose matching rows are rewritten.

    Attributes:
        read_version: the version on which the plan is based.
        fragment_ids: the fragments.
        updates: maps the names of columns to SQL expressions.
        where: the condition, as SQL text or an Arrow expression; None for all rows.
        data_storage_version: the format of the new files; None for that of the table.
    """

    read_version: int
    fragment_ids: tuple[int, ...]
    updates: Mapping[str, str]
    where: object = None
    data_storage_version: str | None = None

    def execute(self, dataset: Handle, *, file_token: str | None = None) -> RowChanges:
        """Write the matching rows with their new values to new fragments. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.
            file_token: 16 hexadecimal digits with which every new file name ends, before the extension, to identify the
                files of a job.

        Raises:
            VersionNotFoundError: ``read_version`` has been removed.
            InvalidInputError: an update or the condition is invalid, or cannot be evaluated for a row.
            SchemaMismatchError: a new value cannot be computed, or does not fit its column.
            NotSupportedError: the table, or a part of an expression, is not supported.
            StorageError: a storage operation failed; the written files were removed.
        """
        return self.run(dataset.view, file_token=file_token)

    def run(self, view: TableView, *, file_token: str | None = None) -> RowChanges:
        """Execute the task like :meth:`execute`, but with a view of any version instead of a dataset."""
        source = view if view.version == self.read_version else view.at(self.read_version)
        require_writable(source.manifest.message)
        values = NewValues.plan(source.schema, self.updates)
        predicate = planned_predicate(source.schema, "true" if self.where is None else self.where)
        asked = None if self.data_storage_version is None else LanceFileVersion.parse(self.data_storage_version)
        version = version_for(source.manifest, Mode.APPEND, asked)
        rows = NewRows(source, WriteConfig(version=version.require_writable(), file_token=file_token))
        positions = RowPositions()
        try:
            for batch, row_ids, addresses in _matching_rows(source, self.fragment_ids, predicate):
                positions.add(addresses)
                rows.move(values.apply(batch), row_ids)
            return RowChanges(
                read_version=source.version,
                found=positions.found,
                new_fragments=rows.finish(),
                field_ids=values.field_ids,
                num_moved=rows.num_moved,
            )
        except BaseException:
            rows.abort()
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """The planned work of an update.

    Attributes:
        read_version: the version on which the plan is based.
        tasks: the tasks, which are independent of each other; at least one.
    """

    read_version: int
    tasks: list[UpdateTask]


def plan_update(
    dataset: Handle,
    updates: Mapping[str, str],
    where: object = None,
    *,
    num_tasks: int = 1,
    data_storage_version: str | None = None,
) -> UpdatePlan:
    """Plan an update whose tasks are executed in other processes, and whose results are committed together.

    Args:
        dataset: a handle to the version to update.
        updates: maps the names of columns to SQL expressions.
        where: the condition, as SQL text or an Arrow expression; None for all rows.
        num_tasks: maximum number of tasks; each has at least one fragment, and writes files of its own.
        data_storage_version: the format of the new files; None for that of the table.

    Raises:
        InvalidInputError: an update or the condition is invalid.
        NotSupportedError: a part of an expression is not supported.
    """
    view = dataset.view
    if whole_number("num_tasks", num_tasks) < 1:
        raise InvalidInputError(f"num_tasks must be at least 1, found {num_tasks}", argument="num_tasks")
    NewValues.plan(view.schema, updates)
    planned_predicate(view.schema, "true" if where is None else where)
    ids = np.array([fragment.id for fragment in view.fragments], np.int64)
    parts = np.array_split(ids, max(1, min(num_tasks, len(ids))))
    return UpdatePlan(
        read_version=view.version,
        tasks=[_task(view, part.tolist(), updates, where, data_storage_version) for part in parts],
    )


def commit_update(
    dataset: Handle,
    results: Sequence[RowChanges],
    properties: Mapping[str, str] | None = None,
    *,
    transaction_uuid: str | None = None,
    progress: CommitProgress | None = None,
) -> Updated:
    """Commit the results of all tasks of a plan as one version, and move the handle to it.

    Args:
        dataset: a handle to any version of the dataset.
        results: the results, at least one. Their files are kept if the commit fails.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        progress: records the progress of the commit.

    Raises:
        InvalidInputError: the results do not all belong to the same plan.
        RetryableCommitConflictError: another writer has changed the same rows; plan the update again.
        LanceError: as for :meth:`lance_core.LanceDataset.commit`.
    """
    changes = RowChanges.merged(results)
    view = dataset.view if dataset.view.version == changes.read_version else dataset.view.at(changes.read_version)
    options = CommitOptions(is_first_try=transaction_uuid is None, progress=progress or CommitProgress())
    made = commit_row_changes(view, changes, options, properties=properties, transaction_uuid=transaction_uuid)
    dataset.show(made)
    return Updated(made, changes.num_moved)


def update_rows(
    view: TableView,
    updates: Mapping[str, str],
    where: object,
    policy: RetryPolicy,
    data_storage_version: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Updated:
    """Update the rows that match a condition.

    Args:
        view: the version to base the first attempt on.
        updates: maps the names of columns to SQL expressions.
        where: the condition, as SQL text or an Arrow expression; None for all rows.
        policy: the limits on retries after a conflict.
        data_storage_version: the format of the new files; None for that of the table.
        properties: properties of the transaction.

    Raises:
        InvalidInputError: an update or the condition is invalid, or cannot be evaluated for a row.
        SchemaMismatchError: a new value cannot be computed, or does not fit its column.
        NotSupportedError: the table, or a part of an expression, is not supported.
        IncompatibleTransactionError: the table was replaced in the meantime.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    policy.check()
    view.log.require_commits()
    attempts = Replanning(view, "update", policy)
    while True:
        with attempts as latest:
            ids = [fragment.id for fragment in latest.fragments]
            changes = _task(latest, ids, updates, where, data_storage_version).run(latest)
            with removed_unless_committed(latest, changes) as options:
                made = commit_row_changes(latest, changes, options, properties=properties)
            return Updated(made, changes.num_moved, attempts.number)


def _task(
    view: TableView, fragment_ids: Sequence[int], updates: Mapping[str, str], where: object, version: str | None
) -> UpdateTask:
    return UpdateTask(
        read_version=view.version,
        fragment_ids=tuple(fragment_ids),
        updates=updates,
        where=where,
        data_storage_version=version,
    )


def _matching_rows(
    view: TableView, fragment_ids: Sequence[int], predicate: Predicate
) -> Iterator[tuple[pa.RecordBatch, _Numbers, _Numbers]]:
    """Yield batches of all columns of the matching rows, with blob values, and the ids and addresses of the rows."""
    source = view.source(fragment_ids)
    fields = (*view.schema.fields, *_ROW_FIELDS)
    everything = Schema(fields=fields, metadata=view.schema.metadata)
    stored = stored_schema(everything)
    readers = joined_readers(map(source.reader, source.fragments), (*stored.fields, *predicate.wanted.fields))
    for reader in readers:
        for rows in gathered(find_rows(reader, predicate, _READ), RowCut(None, None)):
            for batch in with_loaded_blobs(read_found(reader, stored, everything, rows, _READ), reader, everything):
                row_ids, addresses = (np.asarray(column) for column in batch.columns[-2:])
                yield batch.select(range(batch.num_columns - 2)), row_ids, addresses
