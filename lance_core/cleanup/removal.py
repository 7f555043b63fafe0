"""Executes a cleanup plan version by version: first the files of a version are removed, and then its manifest.

As long as the manifest of a version exists, the next cleanup knows that the version's files do not belong to a write in
progress. Therefore, an interrupted removal can be continued: only versions of the batch that was interrupted have lost
files, and they match the same policy again. For the same reason, the manifest of a version is kept if one of the
version's files could not be removed.

The transaction files of a batch are removed first, and then the guard checks again. Reading a version does not require
its transaction file, and a writer that restores a version checks for the version's transaction file after creating a
hold (:mod:`~lance_core.transactions.restoring`). So either the guard sees the hold, or the writer sees that the version
is being removed. If the transaction file of a version could not be removed, the whole version is kept.

Several threads remove files in batches. A batch takes at most about one second, unless one removal per thread takes
longer.
The guard checks again before each batch.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.ownership import held_directories, owner_of
from lance_core.cleanup.pacing import Pace, Stride
from lance_core.cleanup.policy import MAX_CONCURRENCY
from lance_core.cleanup.records import CleanupStats, FileKind
from lance_core.errors import LanceError, NotFoundError
from lance_core.table.paths import DATA_DIRECTORY, INDICES_DIRECTORY, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_core.cleanup.classification import ClassifiedPath
    from lance_core.cleanup.guard import Guard
    from lance_core.cleanup.policy import CleanupPolicy
    from lance_core.table.version_log import VersionLog

__all__ = ["Removal", "figures"]

_logger: Final = logging.getLogger(__name__)

_DEFAULT_THREADS: Final = 8
_COUNTERS: Final = {
    FileKind.MANIFEST: "old_versions",
    FileKind.DATA: "data_files_removed",
    FileKind.TRANSACTION: "transaction_files_removed",
    FileKind.INDEX: "index_files_removed",
    FileKind.DELETION: "deletion_files_removed",
    FileKind.RESIDUE: "residue_files_removed",
}
"""Maps each kind of file to its counter in the statistics. As in pylance, temporary manifests have none: only their
bytes are counted."""
_WITH_DIRECTORIES: Final = (DATA_DIRECTORY, INDICES_DIRECTORY)
"""Directories whose empty subdirectories are removed."""


def figures(files: Iterable[ClassifiedPath]) -> CleanupStats:
    """Return the statistics of a cleanup that removes the given files."""
    counts = dict.fromkeys(_COUNTERS.values(), 0)
    num_bytes = 0
    for file in files:
        num_bytes += file.num_bytes
        counter = None if file.kind is None else _COUNTERS.get(file.kind)
        if counter is not None:
            counts[counter] += 1
    return CleanupStats(bytes_removed=num_bytes, **counts)


class Removal:
    """Removes the planned files of one table.

    Args:
        log: the version log of the table.
        guard: determines which of the files must be kept after all.
        policy: the policy, which contains the rate limits.
    """

    def __init__(self, log: VersionLog, guard: Guard, policy: CleanupPolicy) -> None:
        """Initialize without removing anything."""
        self._log = log
        self._guard = guard
        self._pace = Pace(policy.delete_rate_limit)
        self._threads = min(policy.delete_concurrency or _DEFAULT_THREADS, MAX_CONCURRENCY)
        self._stride = Stride(policy.delete_rate_limit, self._threads)
        self._gone: list[ClassifiedPath] = []
        self._failed: list[ClassifiedPath] = []
        self._unannounced: set[int] = set()
        self._incomplete: set[int] = set()

    def run(
        self,
        removable: Sequence[ClassifiedPath],
        on_batch: Callable[[int, int], object] = lambda num_files, num_bytes: None,
    ) -> CleanupStats:
        """Remove files and manifests.

        Args:
            removable: the files to remove, in the order of the plan: each manifest follows all files of its version.
            on_batch: called after each batch with the number and the total size of the files processed so far.

        Raises:
            CorruptDataError: a new reference cannot be read; nothing more is removed.
            StorageError: new references cannot be determined, because a storage operation failed.
        """
        begin = num_bytes = 0
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cleanup") as executor:
            while begin < len(removable):
                batch = removable[begin : begin + self._stride.length]
                begin += len(batch)
                self._stride.pause()
                self._guard.look()
                self._remove_batch(executor, batch)
                num_bytes += sum(file.num_bytes for file in batch)
                on_batch(begin, num_bytes)
        if self._gone:
            # Also report references that appeared during the last batch.
            self._guard.look()
        return replace(
            figures(self._gone),
            failed_deletes=len(self._failed),
            spared_versions=len(self._guard.spared_versions),
            damaged_versions=len(self._guard.damaged_versions),
        )

    def _remove_batch(self, executor: ThreadPoolExecutor, batch: Sequence[ClassifiedPath]) -> None:
        self._stride.start()
        announcing = self._not_spared(file for file in batch if _announces(file))
        if self._remove(executor, announcing):
            self._guard.look()
        self._unannounced |= self._incomplete & {file.goes_with for file in announcing}
        files = self._not_spared(
            file
            for file in batch
            if file.kind is not FileKind.MANIFEST and not _announces(file) and file.goes_with not in self._unannounced
        )
        gone = self._remove(executor, files)
        for file in gone:
            self._guard.record_gone(file.path)
        self._remove_empty_directories(gone)
        manifests = [file for file in batch if file.kind is FileKind.MANIFEST and not self._must_stay(file)]
        are_known = list(executor.map(self._is_as_planned, manifests))
        manifests = [file for file, is_known in zip(manifests, are_known, strict=True) if is_known]
        for file in self._remove(executor, manifests):
            if file.goes_with is not None:
                self._guard.record_gone_version(file.goes_with)
        self._stride.finish(len(announcing) + len(files) + len(manifests))

    def _not_spared(self, files: Iterable[ClassifiedPath]) -> list[ClassifiedPath]:
        spared = self._guard.spared_owners
        directories = held_directories(spared)
        return [file for file in files if owner_of(file.path) not in spared and not file.path.startswith(directories)]

    def _is_as_planned(self, manifest: ClassifiedPath) -> bool:
        """Return whether the manifest is still the one that was listed: the branch may have been recreated since."""
        path = self._log.store.join(self._log.root, *manifest.path.split("/"))
        try:
            found = self._log.store.head(path)
        except NotFoundError:
            return True
        if found.num_bytes == manifest.num_bytes and _is_same_moment(found.modified_at, manifest.modified_at):
            return True
        if manifest.goes_with is not None:
            self._guard.spared_versions.add(manifest.goes_with)
        _logger.warning("%s is kept: it was replaced after the cleanup had listed it", path)
        return False

    def _must_stay(self, manifest: ClassifiedPath) -> bool:
        version = manifest.goes_with
        return version is None or version in self._incomplete or self._guard.keeps(version)

    def _remove(self, executor: ThreadPoolExecutor, files: list[ClassifiedPath]) -> list[ClassifiedPath]:
        """Remove files concurrently; return those that were removed."""
        outcomes = list(zip(files, executor.map(self._remove_one, files), strict=True))
        gone = [file for file, is_gone in outcomes if is_gone]
        failed = [file for file, is_gone in outcomes if not is_gone]
        self._gone += gone
        self._failed += failed
        self._incomplete.update(file.goes_with for file in failed if file.goes_with is not None)
        return gone

    def _remove_one(self, file: ClassifiedPath) -> bool:
        self._pace.wait()
        path = self._log.store.join(self._log.root, *file.path.split("/"))
        try:
            name = parse_manifest_name(file.path.rpartition("/")[2]) if file.kind is FileKind.MANIFEST else None
            if name is not None:
                # If the row of an external manifest store is still pending, it would recreate the manifest.
                self._log.protocol.recover(self._log, name)
            self._log.store.delete(path)
        except LanceError:
            # One failure must not stop the removal of all other files: it is counted, and the next cleanup tries again.
            return self._is_gone(path)
        return True

    def _is_gone(self, path: str) -> bool:
        """Return whether a file was removed although the removal reported a failure."""
        try:
            self._log.store.head(path)
        except NotFoundError:
            return True
        except LanceError:
            return False
        return False

    def _remove_empty_directories(self, gone: Iterable[ClassifiedPath]) -> None:
        """Remove the directories below ``data/`` and ``_indices/`` that have been emptied; inner ones first."""
        directories: set[str] = set()
        for file in gone:
            segments = file.path.split("/")[:-1]
            if segments[0] in _WITH_DIRECTORIES:
                directories.update("/".join(segments[:depth]) for depth in range(2, len(segments) + 1))
        for directory in sorted(directories, key=len, reverse=True):
            try:
                self._log.store.remove_empty_directory(self._log.store.join(self._log.root, *directory.split("/")))
            except LanceError:
                # A leftover directory is harmless.
                continue


def _announces(file: ClassifiedPath) -> bool:
    """Return whether removing this file signals to other writers that its version is about to be removed."""
    return file.kind is FileKind.TRANSACTION and file.goes_with is not None


def _is_same_moment(one: float, other: float) -> bool:
    """Return whether two times may be equal: S3 returns whole seconds for single objects, but fractions in listings."""
    return one == other or (abs(one - other) < 1 and (one.is_integer() or other.is_integer()))
