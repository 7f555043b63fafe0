"""CopyTask: a part of the files of a version, copied to another location by another process.

The files keep their names, so that repeated attempts at a task, even concurrent ones, write the same bytes to the same
files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.places.location import open_log
from lance_core.public.arguments import whole_number
from lance_core.refs.clones import check_deep_cloneable, commit_deep_clone, copy_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.scan.table_view import Handle

__all__ = ["CopyTask", "commit_copy", "plan_copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """One task of a copy.

    Attributes:
        read_version: the version to copy.
        target: location of the copy.
        part: the index of the part of the files, starting from 0.
        num_parts: the number of parts.
        storage_options: credentials and settings of the store of the copy; not shown by ``repr``.
    """

    read_version: int
    target: str
    part: int
    num_parts: int
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def execute(self, dataset: Handle) -> int:
        """Copy the files, and return their total size in bytes. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.

        Raises:
            NotFoundError: a file is missing.
            StorageError: a storage operation failed.
        """
        view = dataset.view if dataset.view.version == self.read_version else dataset.view.at(self.read_version)
        return copy_files(view, open_log(self.target, self.storage_options), self.part, self.num_parts)


def plan_copy(
    dataset: Handle, target: str, *, num_tasks: int = 1, storage_options: Mapping[str, str] | None = None
) -> list[CopyTask]:
    """Plan a copy of the version of a handle, with all of its files, as an independent table.

    Args:
        dataset: a handle to the version to copy.
        target: location of the copy; no dataset may exist there.
        num_tasks: number of tasks, at least 1.
        storage_options: credentials and settings of the store of the copy.

    Raises:
        InvalidInputError: ``num_tasks`` is less than 1.
        LanceError: as for ``LanceDataset.deep_clone``.
    """
    if whole_number("num_tasks", num_tasks) < 1:
        raise InvalidInputError(f"num_tasks must be at least 1, found {num_tasks}", argument="num_tasks")
    view = dataset.view
    check_deep_cloneable(view, open_log(target, storage_options))
    return [
        CopyTask(
            read_version=view.version, target=target, part=part, num_parts=num_tasks, storage_options=storage_options
        )
        for part in range(num_tasks)
    ]


def commit_copy(dataset: Handle, target: str, *, storage_options: Mapping[str, str] | None = None) -> int:
    """Create the version of a copy after all of its tasks have been executed; return the version number.

    Args:
        dataset: a handle to the version that was copied.
        target: location of the copy.
        storage_options: credentials and settings of the store of the copy.

    Raises:
        AlreadyExistsError: a dataset exists at the location.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    return commit_deep_clone(dataset.view, open_log(target, storage_options), storage_options).version
