"""ColumnTasks: columns whose values are computed by tasks in other processes, and that are added in one version.

::

    write     tasks write one data file for each fragment; after a conflict, only for changed fragments
    commit    Merge, which lists all fragments

Tasks and their results can be pickled, if the function that computes the values can be. The results describe files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.columns.add import AddedColumns
from lance_core.columns.batch_udf import BatchUDF
from lance_core.columns.column_files import ColumnFiles, new_files
from lance_core.columns.column_values import column_values
from lance_core.commit.commit import commit_change
from lance_core.commit.task_division import divided
from lance_core.errors import InvalidTypeError
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.options import CommitOptions, CommitProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.scan.table_view import Handle
    from lance_core.schema.field import Schema
    from lance_core.table.data_file import DataFile

__all__ = ["ColumnTask", "ColumnTasks", "WrittenColumns"]


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The files that a task has written.

    Attributes:
        files: maps the ``content_key`` of a fragment and the new columns to the file.
    """

    files: Mapping[tuple[str, Schema], DataFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTask:
    """One task: fragments for which files with the new columns are written.

    Attributes:
        read_version: the version on which the plan is based.
        fragment_ids: the fragments.
        transforms: maps the names of columns to SQL expressions, or a function that computes the columns of a batch.
        read_columns: the columns that a function receives; None for all.
        batch_size: maximum number of rows for which the values are computed at a time; None for the default.
    """

    read_version: int
    fragment_ids: tuple[int, ...]
    transforms: object
    read_columns: Sequence[str] | None = None
    batch_size: int | None = None

    def execute(self, dataset: Handle, *, file_token: str | None = None) -> WrittenColumns:
        """Write the files. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.
            file_token: 16 hexadecimal digits with which every file name ends, before the extension, to identify the
                files of a job.

        Raises:
            VersionNotFoundError: ``read_version`` has been removed.
            InvalidInputError: an expression cannot be evaluated for a row, or the function fails.
            SchemaMismatchError: the function returns columns that do not match its schema.
            StorageError: a storage operation failed; the written files were removed.
        """
        view = dataset.view if dataset.view.version == self.read_version else dataset.view.at(self.read_version)
        values = column_values(self.transforms, self.read_columns, batch_size=self.batch_size, of_all_fragments=False)
        added = AddedColumns.of(view, values)
        wanted = set(self.fragment_ids)
        with new_files(file_token) as files:
            for fragment in view.fragments:
                if fragment.id in wanted:
                    files.fragment(view, fragment, added.columns, added.schema, added.batches(view, fragment))
            return WrittenColumns(files.written())


class ColumnTasks:
    """Divides the computation of new columns into tasks.

    After a conflict, tasks can be planned for a later version; files that are still valid are reused.

    ::

        columns = ColumnTasks(dataset, {"total": "price * quantity"})
        tasks = columns.tasks(dataset, num_tasks)
        columns.add([task.execute(dataset) for task in tasks])
        columns.commit(dataset)

    Args:
        dataset: a handle to the version on which the first attempt is based.
        transforms: maps the names of columns to SQL expressions, or a function that computes the columns of a batch. If
            it is a function without a declared schema, it is called for a row to determine the columns.
        read_columns: the columns that a function receives; None for all.
        batch_size: maximum number of rows for which the values are computed at a time; None for the default.

    Raises:
        InvalidInputError: an expression is invalid.
        InvalidTypeError: ``transforms`` is neither a dict of SQL expressions, nor a function without a checkpoint.
        LanceError: as for ``LanceDataset.add_columns``.
    """

    def __init__(
        self,
        dataset: Handle,
        transforms: object,
        read_columns: Sequence[str] | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Determine the columns; nothing is written."""
        if not (isinstance(transforms, dict) or callable(transforms)):
            raise InvalidTypeError(
                "columns that are computed by tasks must be given as a dict of SQL expressions or a function, found "
                f"{type(transforms).__name__}",
                argument="transforms",
            )
        self._values = column_values(transforms, read_columns, batch_size=batch_size)
        schema = AddedColumns.of(dataset.view, self._values).values.schema(dataset.view)
        if not isinstance(transforms, dict):
            if isinstance(transforms, BatchUDF) and transforms.cache is not None:
                raise InvalidTypeError("a function with a checkpoint file cannot be executed by tasks")
            function = transforms.func if isinstance(transforms, BatchUDF) else transforms
            transforms = BatchUDF(function, schema)
        self._transforms = transforms
        self._read_columns = read_columns
        self._batch_size = batch_size
        self._files = ColumnFiles()

    def tasks(self, dataset: Handle, num_tasks: int = 1) -> list[ColumnTask]:
        """Return the tasks that write the files that do not exist yet; none if all exist.

        Args:
            dataset: a handle to the version to plan on.
            num_tasks: maximum number of tasks, at least 1; each has at least one fragment.
        """
        view = dataset.view
        require_writable(view.manifest.message)
        columns = AddedColumns.of(view, self._values).columns
        if not columns.fields:
            return []
        missing = [fragment.id for fragment in view.fragments if not self._files.is_known(fragment, columns)]
        return [
            ColumnTask(
                read_version=view.version,
                fragment_ids=tuple(part),
                transforms=self._transforms,
                read_columns=self._read_columns,
                batch_size=self._batch_size,
            )
            for part in divided(missing, num_tasks)
        ]

    def add(self, results: Iterable[WrittenColumns]) -> None:
        """Add the results of tasks."""
        for result in results:
            self._files.add(result.files)

    def commit(
        self,
        dataset: Handle,
        *,
        properties: Mapping[str, str] | None = None,
        transaction_uuid: str | None = None,
        progress: CommitProgress | None = None,
    ) -> tuple[str, ...]:
        """Commit the columns, and move the handle to the new version. No file is removed after a failure.

        Args:
            dataset: a handle to the version for which the files were written.
            properties: properties of the transaction.
            transaction_uuid: UUID of the transaction; a new one if None.
            progress: records the progress of the commit.

        Returns:
            The paths of the new files.

        Raises:
            RetryableCommitConflictError: another writer has added rows or columns, or changed rows; execute the tasks
                for the latest version.
            CommitOutcomeUnknownError: it could not be determined whether the version was created.
            LanceError: as for :meth:`lance_core.LanceDataset.commit`.
        """
        view = dataset.view
        operation = AddedColumns.of(view, self._values).operation(view, self._files)
        options = CommitOptions(is_first_try=transaction_uuid is None, progress=progress or CommitProgress())
        made = commit_change(view, operation, options, properties=properties, transaction_uuid=transaction_uuid)
        dataset.show(made)
        return tuple(file.path for file in self._files.written().values())
