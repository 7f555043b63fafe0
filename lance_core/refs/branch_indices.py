"""Moves indices from the branch on which they were built to the branch from which that branch was created.

A branch has its own versions and index files, but shares all data files with its origin. Therefore, another program can
build indices on a branch without writing to the origin, and these indices are also valid for the origin's version::

    origin     version r ───────────────────────────────► CreateIndex, read version r
                  │ branch                                    ▲ the entries that the branch added and removed
                  ▼                                           │
    branch     version r ──► other program builds indices ──► files are copied to the origin's _indices/

The files are copied first. Until the commit, no version refers to the copies, and a cleanup protects them like the
files of any write in progress.

Source: branches and indices of pylance 14.0.2; moving indices is specific to this library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.public.index_records import index_from_proto
from lance_core.refs.clones import copy_index_directory
from lance_core.table.index_rules import decode_index_section
from lance_core.transactions.operations.create_index import PublicCreateIndex

if TYPE_CHECKING:
    from lance_core.public.index_records import Index
    from lance_core.scan.table_view import Handle

__all__ = ["BranchIndices", "branch_indices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchIndices:
    """The difference between the indices of a branch and those of the version from which it was created.

    Attributes:
        origin: a handle to the version from which the branch was created.
        branch: a handle to the branch.
        new: the segments that were built on the branch.
        removed: the segments of the origin that the branch no longer has.
    """

    origin: Handle
    branch: Handle
    new: tuple[Index, ...]
    removed: tuple[Index, ...]

    @property
    def operation(self) -> PublicCreateIndex:
        """The operation that makes the same changes to the origin; its read version is that of ``origin``."""
        return PublicCreateIndex(new_indices=list(self.new), removed_indices=list(self.removed))

    def copy_files(self) -> int:
        """Copy the files of the new segments to the origin, and return their total size in bytes. Idempotent.

        Raises:
            NotFoundError: a file is missing.
            StorageError: a storage operation failed.
        """
        locator, log = self.branch.view.locator, self.origin.view.log
        return sum(copy_index_directory(locator.index_directory(index.uuid, None), log) for index in self.new)


def branch_indices(origin: Handle, branch: Handle) -> BranchIndices:
    """Return the indices that were built on a branch since it was created.

    Args:
        origin: a handle to the version from which the branch was created.
        branch: a handle to the latest version of the branch.

    Raises:
        InvalidInputError: the rows of the branch have changed, so its indices are not valid for the origin.
        CorruptDataError: an index section is damaged.
    """
    before, after = origin.view.manifest, branch.view.manifest
    if [fragment.id for fragment in before.fragments] != [fragment.id for fragment in after.fragments]:
        raise InvalidInputError(
            f"the fragments of branch {after.message.branch!r} differ from those of version {before.version}, from "
            "which it was created, so the indices of the branch cannot be moved"
        )
    old = decode_index_section(before.index_section)
    new = decode_index_section(after.index_section)
    old_ids, new_ids = ({index.uuid.uuid for index in indices} for indices in (old, new))
    return BranchIndices(
        origin=origin,
        branch=branch,
        new=tuple(index_from_proto(index) for index in new if index.uuid.uuid not in old_ids),
        removed=tuple(index_from_proto(index) for index in old if index.uuid.uuid not in new_ids),
    )
