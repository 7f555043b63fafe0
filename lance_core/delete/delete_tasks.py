"""DeleteTasks: divides the search for the rows to delete among tasks for other processes.

::

    search    tasks find the rows, and write the deletion files; after a conflict, only in changed fragments
    commit    the delete, alone or together with the fragments that replace the rows

Tasks and their results can be pickled. The results contain the positions of rows, never values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.commit.task_division import divided
from lance_core.delete.delete import write_deletions
from lance_core.delete.plan import DeletePlanner
from lance_core.public.fragment_conversion import fragment_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.delete.plan import FragmentDelete
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.scan.table_view import Handle
    from lance_core.table.fragment import Fragment

__all__ = ["DeleteSearch", "DeleteTasks", "FoundRows"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What a task has found and written.

    Attributes:
        deletes: the changes to each fragment.
        changed: the fragments with the deletion files that the task has written.
    """

    deletes: tuple[FragmentDelete, ...]
    changed: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSearch:
    """One task of a delete.

    Attributes:
        read_version: the version on which the plan is based.
        fragments: the fragments to search.
        predicate: the rows to delete, as SQL text or an Arrow expression.
        writes: whether deletion files are written.
    """

    read_version: int
    fragments: tuple[Fragment, ...]
    predicate: object
    writes: bool = True

    def execute(self, dataset: Handle) -> FoundRows:
        """Search the fragments, and write the deletion files. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.

        Raises:
            VersionNotFoundError: ``read_version`` has been removed.
            InvalidInputError: the predicate cannot be evaluated for a row.
            StorageError: a storage operation failed.
        """
        view = dataset.view if dataset.view.version == self.read_version else dataset.view.at(self.read_version)
        planner = DeletePlanner(self.predicate)
        plan = planner.plan(view, self.fragments)
        changed = write_deletions(view.log, plan) if self.writes else ()
        # Fragments without such rows are results, too.
        deletes = tuple(planner.found(fragment) for fragment in self.fragments)
        return FoundRows(deletes, changed)


class DeleteTasks:
    """Divides the searches of one delete, on several versions of a table, into tasks.

    ::

        tasks = DeleteTasks("price < 0")
        searches = tasks.searches(dataset, num_tasks)
        tasks.add([search.execute(dataset) for search in searches])
        commit_delete(dataset, tasks)

    Args:
        predicate: the rows to delete, as SQL text or an Arrow expression.

    Attributes:
        planner: the planner, which records what has been found.
    """

    def __init__(self, predicate: object) -> None:
        """Initialize without reading anything."""
        self.planner = DeletePlanner(predicate)
        self._changed: dict[int, Fragment] = {}

    def searches(
        self, dataset: Handle, num_tasks: int = 1, new_fragments: Iterable[FragmentMetadata] = ()
    ) -> list[DeleteSearch]:
        """Return the tasks for the fragments that have not been searched yet; none if there are no such fragments.

        Args:
            dataset: a handle to the version to plan on.
            num_tasks: maximum number of tasks for the fragments of the version; the same limit applies separately to
                ``new_fragments``. At least 1.
            new_fragments: fragments that a replacement is about to add, and whose rows must match the predicate.

        Raises:
            InvalidInputError: the predicate is invalid.
            NotSupportedError: a part of the predicate is not supported.
        """
        view, predicate = dataset.view, self.planner.predicate
        known = divided(self.planner.unsearched(view, view.fragments), num_tasks)
        new = divided(self.planner.unsearched(view, fragment_records(tuple(new_fragments))), num_tasks)
        return [
            DeleteSearch(read_version=view.version, fragments=tuple(part), predicate=predicate, writes=writes)
            for parts, writes in ((known, True), (new, False))
            for part in parts
        ]

    def add(self, results: Iterable[FoundRows]) -> None:
        """Add the results of tasks of :meth:`searches`."""
        for found in results:
            self.planner.add(found.deletes)
            self._changed |= {fragment.id: fragment for fragment in found.changed}

    def num_rows(self, dataset: Handle) -> int:
        """Return the number of rows to delete from the version of a handle; what has not been searched is searched now.

        Raises:
            InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
            NotSupportedError: a part of the predicate is not supported.
        """
        view = dataset.view
        return self.planner.plan(view, view.fragments).rows_deleted

    def take_changed(self) -> dict[int, Fragment]:
        """Return the fragments with the deletion files that tasks have written, keyed by id, for one commit only.

        A commit that fails removes these files.
        """
        changed, self._changed = self._changed, {}
        return changed
