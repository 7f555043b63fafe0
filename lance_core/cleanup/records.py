"""The results of a cleanup: statistics of the removed files, and the explanation of what would be removed.

Source: names and fields of pylance 14.0.2. ``residue_files_removed``, ``spared_versions``, ``damaged_versions`` and
most warnings are additions of this library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "FileKind",
]


class FileKind(StrEnum):
    """The kind of a removable file; the values are the reference's, except residue, which it does not remove."""

    TEMPORARY_MANIFEST = "temporary_manifest"
    TRANSACTION = "transaction"
    DATA = "data"
    INDEX = "index"
    DELETION = "deletion"
    MANIFEST = "manifest"
    RESIDUE = "residue"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupStats:
    """Statistics of a cleanup.

    Attributes:
        bytes_removed: bytes of all removed files.
        old_versions: manifests removed.
        data_files_removed: data files, their blobs, and leftovers of both from crashed writers.
        transaction_files_removed: transaction files.
        index_files_removed: index files.
        deletion_files_removed: deletion files.
        failed_deletes: files that could not be removed. Their versions do not count as removed; the next cleanup tries
            again.
        residue_files_removed: leftovers of crashed writers: ``_versions/{manifest}#{n}``,
            ``_transactions/.tmp…``, ``_deletions/.tmp…``.
        spared_versions: versions that are kept, with all their files, because they got a tag or a branch after the
            plan.
        damaged_versions: versions that got a tag or a branch, or were committed, after some of their files had been
            removed; their other files are kept. An error in the log names each.
    """

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0
    residue_files_removed: int = 0
    spared_versions: int = 0
    damaged_versions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupCandidateFile:
    """A file that would be removed.

    Attributes:
        path: in the store.
        kind: what it is.
        unverified: whether it is removed only because of its age (or ``delete_unverified``): no version has referred to
            it.
        size_bytes: its size.
    """

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReferencedBranch:
    """A branch that was created from a version that the policy selects, or that no longer exists.

    Attributes:
        name: of the branch.
        referenced_version: the version of the main branch from which it was created, directly or through other
            branches.
        cleanup_candidate: whether it would be cleaned up too; never.
    """

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupExplanation:
    """What a cleanup would do.

    Attributes:
        read_version: the version of the handle.
        stats: statistics of everything that would be removed.
        candidate_files: the files, in the order of their removal, when they were requested.
        candidate_files_truncated: whether there are more than were requested.
        candidate_file_limit: how many were requested.
        referenced_branches: branches that were examined.
        warnings: messages about unrecognized files and leftovers of crashed writers.
    """

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]
