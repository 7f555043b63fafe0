"""TableChange: the Spark jobs that prepare one change of a table, its attempts to commit, and its files.

Every attempt of a task writes files with new names, which end in the change's file token. Only files that successful
attempts have returned are committed::

    a job fails                     no task is still running; all files with the token are removed
    the commit fails for certain    all files with the token are removed
    the outcome is unknown          nothing is removed
    the commit succeeds             files with the token to which the new version does not refer are removed, if there
                                    may be any

Files that cannot be removed, or that a killed driver has written, are left to a later cleanup.
"""

from __future__ import annotations

import logging
import secrets
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import lance_core
from lance_core.errors import InternalError, LanceError
from lance_core.metadata import Attempts, CommitProgress, RetryPolicy
from lance_pipelines.spark.leftovers import discard_files, discard_until_quiet
from lance_pipelines.spark.tasks import default_parallelism, run_tasks
from lance_pipelines.spark.writer import write_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RETRIES", "TableChange", "execute_on", "opened"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

RETRIES: Final = 10
"""Default maximum number of times that a change is planned again after conflicts with other writers."""

_RETRY_TIMEOUT: Final = timedelta(days=1)
"""Time limit for all attempts, too long to matter: the duration of an attempt depends on the amount of data."""

_logger: Final = logging.getLogger(__name__)


def opened(
    dataset: lance_core.LanceDataset | str | Path, storage_options: Mapping[str, str] | None
) -> lance_core.LanceDataset:
    """Return a handle to a dataset, which may be given by its location."""
    if isinstance(dataset, lance_core.LanceDataset):
        return dataset
    return lance_core.dataset(dataset, storage_options=None if storage_options is None else dict(storage_options))


class TableChange:
    """One change of a table; a context manager that removes the files of a change that was not committed.

    ::

        with TableChange(session, dataset, "upsert") as change:
            for attempt in change.attempts():
                with attempt:
                    results = change.run(partial(...), tasks)
                    return commit(dataset, results, progress=change.progress())

    Args:
        session: a running Spark session.
        dataset: a handle to the version on which the first attempt is based. The handle is moved by later attempts, and
            to the new version.
        name: what changes the table, for messages ("upsert").
        retries: how often the change is planned again after a conflict with another writer.
        is_idempotent: whether committing the change twice has the effect of committing it once, later. Such a change is
            also planned again if it is unknown whether newer versions were built on the version that it created.

    Attributes:
        file_token: 16 hexadecimal digits with which the name of every new data file ends.
    """

    def __init__(
        self,
        session: SparkSession,
        dataset: lance_core.LanceDataset,
        name: str,
        *,
        retries: int = RETRIES,
        is_idempotent: bool = False,
    ) -> None:
        """Initialize without reading or writing anything."""
        self._attempts = Attempts(dataset, name, RetryPolicy(retries, _RETRY_TIMEOUT), is_idempotent=is_idempotent)
        self.file_token = secrets.token_hex(8)
        self._session = session
        self._dataset = dataset
        self._name = name
        self._progress: list[CommitProgress] = []
        self._has_leftovers = False

    def __enter__(self) -> Self:
        """Return the change."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After a failure, remove the files, unless a version may refer to them."""
        if error is None or any(each.needs_files for each in self._progress):
            return
        discard_until_quiet(self._dataset.uri, self.file_token, error, storage_options=self._dataset.storage_options)

    @property
    def num_attempts(self) -> int:
        """The number of attempts so far."""
        return self._attempts.number

    @property
    def may_be_committed(self) -> bool:
        """Whether the outcome of an earlier attempt is unknown."""
        return self._attempts.may_be_committed

    def attempts(self) -> Iterator[Attempts]:
        """Yield the context manager of each attempt; conflicts are suppressed, except in the last attempt."""
        while True:
            yield self._attempts

    def progress(self) -> CommitProgress:
        """Return the record of the progress of a new commit."""
        self._progress.append(CommitProgress())
        return self._progress[-1]

    def parallelism(self) -> int:
        """Return the number of tasks that the cluster executes at a time, as far as Spark reports it."""
        return default_parallelism(self._session)

    def run(
        self, execute: Callable[[lance_core.LanceDataset, _Task], _Result], tasks: Sequence[_Task]
    ) -> tuple[_Result, ...]:
        """Execute tasks in parallel, each with a handle to the version of this attempt.

        Args:
            execute: executes one task. The function and the tasks must be picklable.
            tasks: the tasks.

        Raises:
            LanceError: a task has failed in every attempt.
        """
        bound = partial(execute_on, execute, self._dataset.uri, self._dataset.version, self._dataset.storage_options)
        done = run_tasks(self._session, bound, tasks, f"cannot execute the {self._name} of {self._dataset.uri}")
        self._has_leftovers |= done.lost_attempts
        return done.results

    def write(
        self,
        frame: DataFrame,
        target: pa.Schema,
        *,
        mode: str,
        max_rows_per_file: int,
        max_bytes_per_file: int,
        data_storage_version: str | None = None,
        target_bases: Sequence[str] | None = None,
    ) -> list[lance_core.FragmentMetadata]:
        """Write the rows of a frame as fragments; arguments and errors as for :func:`write_frame`.

        Raises:
            InternalError: the number of rows that were written differs from that of the frame.
        """
        written = write_frame(
            frame,
            dataset_uri=self._dataset.uri,
            mode=mode,
            target=target,
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            file_token=self.file_token,
            data_storage_version=data_storage_version,
            storage_options=self._dataset.storage_options,
            target_bases=target_bases,
        )
        if written.rows_written != written.rows_counted:
            raise InternalError(
                f"{self._dataset.uri}: number of rows passed to the tasks: {written.rows_counted}; written: "
                f"{written.rows_written}",
                expected=written.rows_counted,
                found=written.rows_written,
            )
        return [lance_core.FragmentMetadata.from_json(document) for document in written.fragments]

    def leave_only(self, fragments: Iterable[lance_core.FragmentMetadata], *, if_certain: bool = False) -> None:
        """After the commit, remove the files of the change that were not committed. A failure is only logged.

        Args:
            fragments: the fragments that were committed.
            if_certain: whether there certainly are such files; if not, they are looked for only if attempts were lost.
        """
        if not if_certain and not self._has_leftovers:
            return
        keep = [file.path for fragment in fragments for file in fragment.files]
        try:
            discard_files(self._dataset.uri, self.file_token, keep=keep, storage_options=self._dataset.storage_options)
        except LanceError as error:
            _logger.warning(
                "%s: could not remove unneeded data files matching '*%s.lance': %s",
                self._dataset.uri,
                self.file_token,
                error,
            )


def execute_on(
    execute: Callable[[lance_core.LanceDataset, _Task], _Result],
    uri: str,
    version: int,
    storage_options: dict[str, str] | None,
    task: _Task,
) -> _Result:
    """Execute a task with a handle to a version of a dataset; runs in a worker."""
    return execute(lance_core.dataset(uri, version=version, storage_options=storage_options), task)
