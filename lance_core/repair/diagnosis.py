"""Diagnosis: what crashed writers left, by the names and ages of files and by the rows of a manifest store.

Of manifests only the newest of each line is read, to look for what old releases left, and those that say whether
another branch needs one that has no record; a table that cannot be opened is looked at like any other, with all its
branches. Whoever is writing leaves the same traces for a moment: only
what is old enough is ripe.

Source: the crash table of the format's reference; what pylance 14.0.2 leaves forever.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.inventory import list_files
from lance_core.errors import DatasetNotFoundError, InvalidRefError, LanceError
from lance_core.refs.branch_uses import refuse_when_used
from lance_core.repair.contents import content_findings
from lance_core.repair.findings import Ailment, Finding
from lance_core.repair.unrecorded import unrecorded_branches
from lance_core.table.branches import branch_names, branch_root, check_branch_name, list_branches
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.paths import (
    BRANCHES_DIRECTORY,
    DELETIONS_DIRECTORY,
    TAGS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
    ManifestNaming,
    is_detached_manifest_name,
    is_staged_manifest_name,
    parse_manifest_name,
)
from lance_core.table.ref_files import is_unfinished_ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.cleanup.inventory import StoredFile
    from lance_core.table.version_log import VersionLog

__all__ = ["DEFAULT_MIN_AGE", "diagnose"]

DEFAULT_MIN_AGE: Final = timedelta(days=7)
"""As old as an orphan must be for a cleanup."""

_TEMPORARY: Final = ".tmp"
_WITH_TEMPORARIES: Final = (VERSIONS_DIRECTORY, TRANSACTIONS_DIRECTORY, DELETIONS_DIRECTORY)
_WITH_REFS: Final = (TAGS_DIRECTORY, BRANCHES_DIRECTORY)


def diagnose(log: VersionLog, *, min_age: timedelta = DEFAULT_MIN_AGE, now: float | None = None) -> list[Finding]:
    """What crashed writers left.

    Args:
        log: the versions of the main line of a table.
        min_age: what is younger is told, and not ripe: it may belong to a writer at work.
        now: seconds since the epoch; None for the clock's.

    Raises:
        DatasetNotFoundError: there is no table: neither a manifest nor a row of the manifest store.
        StorageError: a storage operation failed.
    """
    files = list_files(log)
    _require_table(log, files)
    ages = _Ages(time.time() if now is None else now, min_age.total_seconds())
    recorded = branch_names(log.store, log.root)
    findings = [*_Line("", log, files, ages).findings(), *_unrecorded(log, files, recorded, ages)]
    for branch in filter(_is_name, recorded):
        line = log.at(branch_root(log.store, log.root, branch))
        findings += _Line(branch, line, list_files(line), ages).findings()
    return sorted(findings, key=lambda each: (each.branch, each.ailment, each.place))


def _require_table(log: VersionLog, files: Sequence[StoredFile]) -> None:
    prefix = f"{VERSIONS_DIRECTORY}/"
    names = [file.path.removeprefix(prefix) for file in files if file.path.startswith(prefix)]
    if any(parse_manifest_name(name) is not None or is_detached_manifest_name(name) for name in names):
        return
    if isinstance(log.protocol, ExternalCommit) and log.protocol.knows(log):
        return
    raise DatasetNotFoundError(
        f"there is no dataset at {log.root}: no manifest was found below {VERSIONS_DIRECTORY}/", path=log.root
    )


class _Ages:
    """What is old enough."""

    def __init__(self, now: float, min_seconds: float) -> None:
        self._now = now
        self._min_seconds = min_seconds

    def found(
        self, ailment: Ailment, branch: str, place: str, traces: Sequence[StoredFile], reason: str = ""
    ) -> Finding:
        """What the files tell; as young as the youngest of them, and not ripe if there is a reason."""
        age = max(0.0, self._now - max(file.modified_at for file in traces))
        is_ripe = not reason and age >= self._min_seconds
        return Finding(ailment, branch, place, age, is_ripe, reason, tuple(traces))


class _Line:
    """One look at the files of the main line or of a branch."""

    def __init__(self, branch: str, log: VersionLog, files: Sequence[StoredFile], ages: _Ages) -> None:
        self._branch = branch
        self._log = log
        self._files = files
        self._ages = ages
        self._external = log.protocol if isinstance(log.protocol, ExternalCommit) else None

    def findings(self) -> Iterator[Finding]:
        """All of them."""
        for file in self._files:
            directory, _, name = file.path.rpartition("/")
            is_temporary = directory in _WITH_TEMPORARIES and name.startswith(_TEMPORARY)
            if is_temporary or (directory in _WITH_REFS and is_unfinished_ref(name)):
                yield self._found(Ailment.TEMPORARY_FILE, file)
            elif directory == VERSIONS_DIRECTORY and is_staged_manifest_name(name):
                yield from self._staged(file, name)
        yield from self._manifests()
        yield from self._rows()

    def _staged(self, file: StoredFile, name: str) -> Iterator[Finding]:
        if "#" in name:
            yield self._found(Ailment.STAGED_MANIFEST, file)
            return
        parsed = parse_manifest_name(f"{name.partition('.manifest-')[0]}.manifest")
        if parsed is not None and self._log.protocol.has_abandoned(self._log, parsed, file.path):
            yield self._found(Ailment.ABANDONED_MANIFEST, file)

    def _manifests(self) -> Iterator[Finding]:
        """Half a migration, a newest manifest that is empty, and what is wrong with the newest version."""
        named = [
            (parsed, file)
            for file in self._files
            if file.path.startswith(f"{VERSIONS_DIRECTORY}/")
            and (parsed := parse_manifest_name(file.path.partition("/")[2])) is not None
        ]
        if not named:
            return
        # Without an older one the versions would have a gap; a row of a manifest store may name it.
        external = "" if self._external is None else "a row of the manifest store may name it"
        if len({parsed.naming for parsed, _ in named}) > 1:
            old = sum(parsed.naming is ManifestNaming.V1 for parsed, _ in named)
            files = [file for _, file in named]
            yield self._ages.found(
                Ailment.MIXED_NAMES,
                self._branch,
                f"{old} of {len(named)} manifests",
                files,
                external or self._changing(files),
            )
        latest = max(parsed.version for parsed, _ in named)
        newest = next(parsed for parsed, _ in named if parsed.version == latest)
        yield from content_findings(self._log, self._branch, newest, {file.path for file in self._files})
        for parsed, file in named:
            if file.num_bytes == 0:
                newer = "" if parsed.version == latest else "newer versions follow it"
                yield self._found(Ailment.EMPTY_MANIFEST, file, external or newer)

    def _changing(self, files: Sequence[StoredFile]) -> str:
        """Why the names may be those of a migration at work; renames leave the age of a file as it was."""
        names = self._log.store.list_names(self._log.store.join(self._log.root, VERSIONS_DIRECTORY))
        found = {name for name in names if parse_manifest_name(name) is not None}
        same = found == {file.path.partition("/")[2] for file in files}
        return "" if same else "the names change: a migration is at work"

    def _rows(self) -> Iterator[Finding]:
        lost = None if self._external is None else self._external.lost_version(self._log)
        if lost is not None:
            # What was staged comes before its row: nobody is about to write it.
            yield Finding(Ailment.LOST_VERSION, self._branch, str(lost.version), None, is_ripe=True)

    def _found(self, ailment: Ailment, file: StoredFile, reason: str = "") -> Finding:
        return self._ages.found(ailment, self._branch, file.path, [file], reason)


def _unrecorded(
    log: VersionLog, files: Sequence[StoredFile], recorded: frozenset[str], ages: _Ages
) -> Iterator[Finding]:
    for branch, own in unrecorded_branches(files, recorded).items():
        yield ages.found(Ailment.UNRECORDED_BRANCH, "", branch, own, _why_used(log, branch))


def _why_used(log: VersionLog, branch: str) -> str:
    """Why a branch without a record must stay; also where it cannot be determined."""
    try:
        refuse_when_used(log, branch, list_branches(log.store, log.root))
    except LanceError as error:
        return str(error)
    return ""


def _is_name(branch: str) -> bool:
    try:
        check_branch_name(branch)
    except InvalidRefError:
        return False
    return True
