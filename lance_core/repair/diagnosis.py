"""Diagnosis: finds problems based on the names and ages of files and the rows of a manifest store.

Only two kinds of manifests are read: the newest manifest of each branch, to find defects caused by old releases, and
manifests that reveal whether a branch without a record is needed by another branch. A table that cannot be opened is
examined like any other, with all its branches. Active writers briefly create the same kinds of files, so only problems
that are old enough can be repaired.

Source: the documentation of the format, which lists the leftovers of crashed writers; leftovers that pylance 14.0.2
never removes.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.inventory import list_files
from lance_core.errors import DatasetNotFoundError, LanceError
from lance_core.refs.branch_uses import refuse_when_used
from lance_core.repair.contents import content_problems
from lance_core.repair.problems import Problem, ProblemKind
from lance_core.repair.unrecorded import is_branch_name, unrecorded_branches
from lance_core.table.branches import branch_names, branch_root, list_branches
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
"""Default minimum age of problems to repair; the same as the age at which a cleanup removes orphaned files."""

_TEMPORARY: Final = ".tmp"
_WITH_TEMPORARIES: Final = (VERSIONS_DIRECTORY, TRANSACTIONS_DIRECTORY, DELETIONS_DIRECTORY)
_WITH_REFS: Final = (TAGS_DIRECTORY, BRANCHES_DIRECTORY)


def diagnose(log: VersionLog, *, min_age: timedelta = DEFAULT_MIN_AGE, now: float | None = None) -> list[Problem]:
    """Find the problems of a table. Changes nothing.

    Args:
        log: the version log of the table's main branch.
        min_age: newer problems are reported but cannot be repaired, because they may belong to an active writer.
        now: current time, in seconds since the epoch; if None, the system clock is used.

    Raises:
        DatasetNotFoundError: no table exists at this location: neither a manifest nor a row in a manifest store was
            found.
        StorageError: a storage operation failed.
    """
    files = list_files(log)
    _require_table(log, files)
    ages = _Ages(time.time() if now is None else now, min_age.total_seconds())
    recorded = branch_names(log.store, log.root)
    problems = [*_Line("", log, files, ages).problems(), *_unrecorded(log, files, recorded, ages)]
    for branch in filter(is_branch_name, recorded):
        line = log.at(branch_root(log.store, log.root, branch))
        problems += _Line(branch, line, list_files(line), ages).problems()
    return sorted(problems, key=lambda each: (each.branch, each.kind, each.place))


def _require_table(log: VersionLog, files: Sequence[StoredFile]) -> None:
    prefix = f"{VERSIONS_DIRECTORY}/"
    names = [file.path.removeprefix(prefix) for file in files if file.path.startswith(prefix)]
    if any(parse_manifest_name(name) is not None or is_detached_manifest_name(name) for name in names):
        return
    if isinstance(log.protocol, ExternalCommit) and log.protocol.knows(log):
        return
    raise DatasetNotFoundError(
        f"no dataset exists at {log.uri}: no manifests were found in {VERSIONS_DIRECTORY}/", path=log.root
    )


class _Ages:
    """Decides which problems are old enough to be repaired."""

    def __init__(self, now: float, min_seconds: float) -> None:
        self._now = now
        self._min_seconds = min_seconds

    def found(
        self, kind: ProblemKind, branch: str, place: str, traces: Sequence[StoredFile], reason: str = ""
    ) -> Problem:
        """Return a problem with the age of its newest file. If a reason is given, the problem cannot be repaired."""
        age = max(0.0, self._now - max(file.modified_at for file in traces))
        is_repairable = not reason and age >= self._min_seconds
        return Problem(kind, branch, place, age, is_repairable, reason, tuple(traces))


class _Line:
    """The files of one branch, which may be the main branch, as found by a single listing."""

    def __init__(self, branch: str, log: VersionLog, files: Sequence[StoredFile], ages: _Ages) -> None:
        self._branch = branch
        self._log = log
        self._files = files
        self._ages = ages
        self._external = log.protocol if isinstance(log.protocol, ExternalCommit) else None

    def problems(self) -> Iterator[Problem]:
        """Yield all problems of the branch."""
        for file in self._files:
            directory, _, name = file.path.rpartition("/")
            is_temporary = directory in _WITH_TEMPORARIES and name.startswith(_TEMPORARY)
            if is_temporary or (directory in _WITH_REFS and is_unfinished_ref(name)):
                yield self._found(ProblemKind.TEMPORARY_FILE, file)
            elif directory == VERSIONS_DIRECTORY and is_staged_manifest_name(name):
                yield from self._staged(file, name)
        yield from self._manifests()
        yield from self._rows()

    def _staged(self, file: StoredFile, name: str) -> Iterator[Problem]:
        if "#" in name:
            yield self._found(ProblemKind.STAGED_MANIFEST, file)
            return
        parsed = parse_manifest_name(f"{name.partition('.manifest-')[0]}.manifest")
        if parsed is not None and self._log.protocol.has_abandoned(self._log, parsed, file.path):
            yield self._found(ProblemKind.ABANDONED_MANIFEST, file)

    def _manifests(self) -> Iterator[Problem]:
        """Yield an interrupted migration, an empty newest manifest, and problems of the newest version."""
        named = [
            (parsed, file)
            for file in self._files
            if file.path.startswith(f"{VERSIONS_DIRECTORY}/")
            and (parsed := parse_manifest_name(file.path.partition("/")[2])) is not None
        ]
        if not named:
            return
        # Removing a version that is not the newest would leave a gap, and a manifest store may refer to the version.
        external = "" if self._external is None else "the external manifest store may refer to an affected manifest"
        if len({parsed.naming for parsed, _ in named}) > 1:
            old = sum(parsed.naming is ManifestNaming.V1 for parsed, _ in named)
            files = [file for _, file in named]
            yield self._ages.found(
                ProblemKind.MIXED_NAMES,
                self._branch,
                f"(manifests with V1 names: {old} of {len(named)})",
                files,
                external or self._changing(files),
            )
        latest = max(parsed.version for parsed, _ in named)
        newest = next(parsed for parsed, _ in named if parsed.version == latest)
        yield from content_problems(self._log, self._branch, newest, {file.path for file in self._files})
        for parsed, file in named:
            if file.num_bytes == 0:
                newer = "" if parsed.version == latest else "newer versions exist"
                yield self._found(ProblemKind.EMPTY_MANIFEST, file, external or newer)

    def _changing(self, files: Sequence[StoredFile]) -> str:
        """Return a reason not to repair if files are being renamed, which their ages do not reveal; "" otherwise."""
        names = self._log.store.list_names(self._log.store.join(self._log.root, VERSIONS_DIRECTORY))
        found = {name for name in names if parse_manifest_name(name) is not None}
        same = found == {file.path.partition("/")[2] for file in files}
        return "" if same else "file names are changing, which means that a migration is in progress"

    def _rows(self) -> Iterator[Problem]:
        lost = None if self._external is None else self._external.lost_version(self._log)
        if lost is not None:
            # The staged object is written before its row, so no active writer will write it.
            yield Problem(ProblemKind.LOST_VERSION, self._branch, str(lost.version), None, is_repairable=True)

    def _found(self, kind: ProblemKind, file: StoredFile, reason: str = "") -> Problem:
        return self._ages.found(kind, self._branch, file.path, [file], reason)


def _unrecorded(
    log: VersionLog, files: Sequence[StoredFile], recorded: frozenset[str], ages: _Ages
) -> Iterator[Problem]:
    for branch, own in unrecorded_branches(files, recorded).items():
        yield ages.found(ProblemKind.UNRECORDED_BRANCH, "", branch, own, _why_used(log, branch))


def _why_used(log: VersionLog, branch: str) -> str:
    """Return why a branch without a record must be kept: it is used, or its uses are unknown; "" if it is unused."""
    try:
        refuse_when_used(log, branch, list_branches(log.store, log.root))
    except LanceError as error:
        return str(error)
    return ""
