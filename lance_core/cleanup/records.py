"""The results of a cleanup: statistics of the removed files, and the explanation of what would be removed.

Source: names and fields in pylance 14.0.2. ``residue_files_removed``, ``spared_versions``, ``damaged_versions``, and
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
    """The kind of a removable file. The values are those of pylance, except for ``residue``.

    Residue consists of files that crashed writers left behind and that pylance does not remove.
    """

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
        bytes_removed: total size of all removed files, in bytes.
        old_versions: number of removed manifests.
        data_files_removed: number of removed data files and blob files, including temporary files of crashed writers.
        transaction_files_removed: number of removed transaction files.
        index_files_removed: number of removed index files.
        deletion_files_removed: number of removed deletion files.
        failed_deletes: number of files that could not be removed. The versions of these files do not count as
            removed; the next cleanup tries to remove the files again.
        residue_files_removed: number of removed leftovers of crashed writers: ``_versions/{manifest}#{n}``,
            ``_transactions/.tmp…``, ``_deletions/.tmp…``.
        spared_versions: number of versions that were kept, with all their files, because after the plan was made, a tag
            or a branch was created for them, or another writer began to restore them.
        damaged_versions: number of versions that are still needed, but have lost files, because the version itself, or
            a tag or branch that refers to it, was created after its files had been removed. The other files of these
            versions are kept. For each such version, an error is logged.
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
        path: path of the file in the store.
        kind: the kind of file.
        unverified: whether no version has ever referred to the file. Such a file is removed because of its age, or
            because ``delete_unverified`` is set.
        size_bytes: size of the file in bytes.
    """

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReferencedBranch:
    """A branch created from a version that the policy selects or that no longer exists.

    Attributes:
        name: name of the branch.
        referenced_version: the version of the main branch from which the branch was created, directly or through other
            branches.
        cleanup_candidate: whether the branch would also be cleaned up; always False.
    """

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupExplanation:
    """A description of what a cleanup would do.

    Attributes:
        read_version: the number of the version that the caller's handle has checked out.
        stats: statistics of everything that would be removed.
        candidate_files: the files that would be removed, in the order of removal; empty if no list was requested.
        candidate_files_truncated: whether there are more files than the list may contain.
        candidate_file_limit: maximum number of files in the list.
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
