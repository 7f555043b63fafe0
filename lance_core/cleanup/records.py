"""What a cleanup tells: statistics of what it removed, and the explanation of what it would remove.

Source: names and fields of pylance 14.0.2. ``residue_files_removed``, ``spared_versions``, ``damaged_versions`` and
most warnings are ours.
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
    """What a removable file is; the values are the reference's, but for residue, which it does not remove."""

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
        data_files_removed: data files, their blobs, and what crashed writers left of such.
        transaction_files_removed: transaction files.
        index_files_removed: index files.
        deletion_files_removed: deletion files.
        failed_deletes: files that could not be removed. The version that such a file was to go with is not among the
            old versions; the next cleanup finds both.
        residue_files_removed: names that crashed writers left behind: ``_versions/{manifest}#{n}``,
            ``_transactions/.tmp…``, ``_deletions/.tmp…``.
        spared_versions: versions that were to go and stay, with all their files, because of a tag or a branch that
            came after the plan.
        damaged_versions: versions that got a tag or a branch, or were committed, when files that they name had gone
            already; what was still there of them stays. An error in the log names each.
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
        unverified: whether it goes only for its age (or ``delete_unverified``): no version refers to it, and none that
            is removed did.
        size_bytes: its size.
    """

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReferencedBranch:
    """A branch that was made from a version that the terms select, or that no longer exists.

    Attributes:
        name: of the branch.
        referenced_version: the version of the main branch that it, or the first branch on the way to it, was made from.
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
        referenced_branches: branches that were looked at.
        warnings: what is worth knowing besides: files that belong to no table, what crashed writers left.
    """

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]
