"""Rebases a delete, or an update that moves rows, on top of other changes to the same fragments.

A deletion file lists every deleted row of its fragment, so the file of a delete is outdated as soon as another writer
deletes a row of the fragment. If the rows that *this* delete removes are known, it need not be planned again, unless
both writers delete the same row. An update deletes the rows that it moved from their old fragments, and is rebased in
the same way::

    the fragment was removed, or its data files changed    plan again
    one of our rows is already deleted                     plan again
    both writers together delete all rows of the fragment  remove the fragment
    otherwise                                              write a new deletion file for all these rows (a bitmap)

A fragment that this delete removes entirely has no deletion file to merge with; if other writers changed the fragment,
the delete is planned again. The merged delete counts as planned on the version with which it was merged. Files that it
no longer needs are left for a later cleanup; files that the rebase wrote and that were never committed are removed.

Source: rebase of deletes and updates by pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.io.removal import remove_objects
from lance_core.table.base_paths import FileLocator
from lance_core.table.deletion_file import write_deletion_file
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment_files import own_deletion_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyroaring import BitMap

    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation

__all__ = ["DeleteRebase", "NotMergeable"]


@dataclass(frozen=True, slots=True)
class NotMergeable:
    """Reports that a delete cannot be merged and must be planned again.

    Attributes:
        reason: the reason why the delete cannot be merged.
    """

    reason: str


class DeleteRebase:
    """Merges one delete or update with the commits of other writers, as often as needed.

    Args:
        log: the table's versions.
        affected_rows: the physical positions of the rows that the change itself deletes, by fragment id.
        storage_options: options for the stores of base paths.
    """

    def __init__(
        self, log: VersionLog, affected_rows: Mapping[int, BitMap], storage_options: Mapping[str, str] | None
    ) -> None:
        """Initialize without reading anything."""
        self._log = log
        self._affected_rows = affected_rows
        self._storage_options = storage_options
        self._written: list[str | None] = []

    def merge(self, operation: Operation, shared: Collection[int], current: Manifest) -> Operation | NotMergeable:
        """Rebase the change on top of a newer version.

        Args:
            operation: the delete or update.
            shared: the ids of the fragments in which other writers also deleted rows.
            current: the newer version.

        Raises:
            StorageError: a storage operation failed.
            CorruptDataError: a deletion file is damaged.
        """
        # Early releases did not record the number of rows of a fragment, so they were counted for the plan.
        rows = {fragment.id: fragment.physical_rows for fragment in operation.changed_fragments()}
        present = {
            fragment.id: fragment if fragment.physical_rows else fragment.with_physical_rows(rows.get(fragment.id, 0))
            for fragment in current.fragments
            if fragment.id in shared
        }
        unions: dict[int, BitMap] = {}
        for fragment_id in sorted(shared):
            union = self._union(operation, fragment_id, present.get(fragment_id), current)
            if isinstance(union, NotMergeable):
                return union
            unions[fragment_id] = union
        emptied = {
            fragment_id for fragment_id, union in unions.items() if len(union) >= present[fragment_id].physical_rows
        }
        updated = tuple(
            self._rewritten(fragment, unions, current.version)
            for fragment in operation.changed_fragments()
            if fragment.id not in emptied
        )
        return operation.with_hidden_rows(updated, emptied)

    def unsynced_files(self, operation: Operation) -> list[str]:
        """Return the deletion files of the change, which the commit must make durable."""
        changed = (fragment for fragment in operation.changed_fragments() if fragment.id in self._affected_rows)
        return [path for fragment in changed if (path := self._path(fragment)) is not None]

    def discard(self, kept: Manifest | None = None) -> None:
        """Remove the files written by this rebase, ignoring failures.

        Args:
            kept: a version whose files are not removed; None to remove all files that this rebase wrote.
        """
        needed = set() if kept is None else {self._path(fragment) for fragment in kept.fragments}
        remove_objects(self._log.store, [path for path in self._written if path is not None and path not in needed])

    def _union(
        self, operation: Operation, fragment_id: int, found: Fragment | None, current: Manifest
    ) -> BitMap | NotMergeable:
        """Return the union of our rows and theirs, if they are disjoint."""
        # Imported only when needed: most commits merge nothing.
        from pyroaring import BitMap

        planned = next((fragment for fragment in operation.changed_fragments() if fragment.id == fragment_id), None)
        ours = self._affected_rows.get(fragment_id)
        if planned is None:
            return NotMergeable(f"that version modified fragment {fragment_id}, which this change removes")
        if found is None:
            return NotMergeable(f"that version removed fragment {fragment_id}, in which this change deletes rows")
        if _columns(found) != _columns(planned):
            return NotMergeable(f"that version changed the data files of fragment {fragment_id}")
        if not ours:
            return NotMergeable(
                f"that version deleted rows of fragment {fragment_id}, "
                "and the rows that this change deletes are unknown"
            )
        locator = FileLocator(self._log.store, self._log.root, current.base_paths, self._storage_options)
        theirs = BitMap(read_deletion_offsets(found, locator), optimize=False)
        if not theirs.isdisjoint(ours):
            return NotMergeable(f"both changes delete row {(theirs & ours).min()} of fragment {fragment_id}")
        return theirs | ours

    def _rewritten(self, fragment: Fragment, unions: Mapping[int, BitMap], version: int) -> Fragment:
        union = unions.get(fragment.id)
        if union is None:
            return fragment
        message = write_deletion_file(
            self._log.store,
            self._log.root,
            fragment_id=fragment.id,
            read_version=version,
            offsets=union,
            as_bitmap=True,
            durable=False,
        )
        changed = fragment.with_deletion(message)
        self._written.append(self._path(changed))
        return changed

    def _path(self, fragment: Fragment) -> str | None:
        return own_deletion_path(self._log.store, self._log.root, fragment)


def _columns(fragment: Fragment) -> list[tuple[str, tuple[int, ...]]]:
    """Return the path and the field ids of each data file."""
    return [(file.path, tuple(file.fields)) for file in fragment.message.files]
