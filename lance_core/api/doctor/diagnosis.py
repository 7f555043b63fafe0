"""Diagnosis: what killed writers left, by the names and ages of files and by the rows of a manifest store.

No manifest is read, so a table that cannot be opened is looked at like any other. Whoever is writing leaves the same
traces for a moment: only what is old enough is ripe.

Source: the crash table of the format's reference; what pylance 14.0.2 leaves for ever.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from lance_core.api.cleanup.inventory import list_files
from lance_core.api.doctor.findings import Ailment, Finding
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    BRANCH_ROOTS_DIRECTORY,
    BRANCHES_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    TAGS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
    ManifestNaming,
    is_staged_manifest_name,
    parse_manifest_name,
)
from lance_core.table.ref_files import REF_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.api.cleanup.inventory import StoredFile
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_MIN_AGE", "diagnose"]

DEFAULT_MIN_AGE: Final = timedelta(days=7)
"""As old as an orphan must be for a cleanup."""

_TEMPORARY: Final = ".tmp"
_WITH_TEMPORARIES: Final = (
    VERSIONS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    DELETIONS_DIRECTORY,
    TAGS_DIRECTORY,
    BRANCHES_DIRECTORY,
)
_BELOW_A_ROOT: Final = (
    VERSIONS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    BLOBS_DIRECTORY,
)


def diagnose(log: VersionLog, *, min_age: timedelta = DEFAULT_MIN_AGE, now: float | None = None) -> list[Finding]:
    """What killed writers left.

    Args:
        log: the versions of the main line of a table.
        min_age: what is younger is told, and not ripe: it may belong to a writer at work.
        now: seconds since the epoch; None for the clock's.

    Raises:
        StorageError: the outside world failed.
    """
    examination = _Examination(log, list_files(log), time.time() if now is None else now, min_age.total_seconds())
    return sorted(examination.findings(), key=lambda each: (each.ailment, each.place))


class _Examination:
    """One look at the files of a table."""

    def __init__(self, log: VersionLog, files: Sequence[StoredFile], now: float, min_seconds: float) -> None:
        self._log = log
        self._files = files
        self._now = now
        self._min_seconds = min_seconds
        self._external = log.protocol if isinstance(log.protocol, ExternalCommit) else None

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        for file in self._files:
            directory, _, name = file.path.rpartition("/")
            if directory in _WITH_TEMPORARIES and (name.startswith(_TEMPORARY) or _is_staged_ref(directory, name)):
                yield self._found(Ailment.TEMPORARY_FILE, file.path, file.modified_at)
            elif directory == VERSIONS_DIRECTORY and is_staged_manifest_name(name):
                yield from self._staged(file, name)
        yield from self._manifests()
        yield from self._branches()
        yield from self._rows()

    def _staged(self, file: StoredFile, name: str) -> Iterator[Finding]:
        if "#" in name:
            yield self._found(Ailment.STAGED_MANIFEST, file.path, file.modified_at)
            return
        parsed = parse_manifest_name(f"{name.partition('.manifest-')[0]}.manifest")
        if parsed is not None and self._log.protocol.has_abandoned(self._log, parsed, file.path):
            yield self._found(Ailment.ABANDONED_MANIFEST, file.path, file.modified_at)

    def _manifests(self) -> Iterator[Finding]:
        """Half a migration, and a newest manifest that is empty."""
        named = [
            (parsed, file)
            for file in self._files
            if file.path.startswith(f"{VERSIONS_DIRECTORY}/")
            and (parsed := parse_manifest_name(file.path.partition("/")[2])) is not None
        ]
        if not named:
            return
        if len({parsed.naming for parsed, _ in named}) > 1:
            written_at = max(file.modified_at for _, file in named)
            old = sum(parsed.naming is ManifestNaming.V1 for parsed, _ in named)
            yield self._found(
                Ailment.MIXED_NAMES, f"{old} of {len(named)} manifests", written_at, safe=self._external is None
            )
        latest = max(parsed.version for parsed, _ in named)
        for parsed, file in named:
            if file.num_bytes == 0:
                # Without an older one the versions would have a gap; a row of a manifest store may name it.
                safe = parsed.version == latest and self._external is None
                yield self._found(Ailment.EMPTY_MANIFEST, file.path, file.modified_at, safe=safe)

    def _branches(self) -> Iterator[Finding]:
        recorded = {
            unquote(file.path.rpartition("/")[2].removesuffix(REF_SUFFIX))
            for file in self._files
            if file.path.startswith(f"{BRANCHES_DIRECTORY}/") and file.path.endswith(REF_SUFFIX)
        }
        written: dict[str, float] = {}
        for file in self._files:
            branch = _branch_of(file.path)
            if branch is not None and branch not in recorded:
                written[branch] = max(file.modified_at, written.get(branch, 0.0))
        for branch, written_at in written.items():
            yield self._found(Ailment.UNRECORDED_BRANCH, branch, written_at)

    def _rows(self) -> Iterator[Finding]:
        lost = None if self._external is None else self._external.lost_version(self._log)
        if lost is not None:
            # What was staged comes before its row: nobody is about to write it.
            yield Finding(Ailment.LOST_VERSION, str(lost.version), None, is_ripe=True)

    def _found(self, ailment: Ailment, place: str, written_at: float, *, safe: bool = True) -> Finding:
        age = max(0.0, self._now - written_at)
        return Finding(ailment, place, age, is_ripe=safe and age >= self._min_seconds)


def _is_staged_ref(directory: str, name: str) -> bool:
    return directory in (TAGS_DIRECTORY, BRANCHES_DIRECTORY) and f"{REF_SUFFIX}#" in name


def _branch_of(path: str) -> str | None:
    """The branch that a file belongs to, by its path below the main root."""
    segments = path.split("/")
    if segments[0] != BRANCH_ROOTS_DIRECTORY:
        return None
    # The innermost root: below "tree/a" may lie "tree/a/b".
    depth = max((number for number, each in enumerate(segments) if each in _BELOW_A_ROOT and number > 1), default=0)
    return "/".join(segments[1:depth]) or None
