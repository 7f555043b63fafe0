"""References to versions: numbers, tags, versions of branches, and points in time.

A number refers to a version of the branch that the handle is on. A tag, or a pair (branch, number), can refer to a
version of any branch. In this package, *line* means the main branch or another branch.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

import errno
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidRefError,
    InvalidTypeError,
    NotFoundError,
    RefNotFoundError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.public.arguments import whole_number
from lance_core.table.lines import line_of, main_line
from lance_core.table.paths import ManifestName
from lance_core.table.tags import TagRecord, check_tag_name, tag_path

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = [
    "Reference",
    "locate",
    "open_version",
    "read_manifest",
    "to_moment",
]

Reference: TypeAlias = "int | str | tuple[str | None, int | None] | None"
"""A version number, the name of a tag, or a pair (branch, number)."""

_PAIR = 2


def read_manifest(log: VersionLog, reference: Reference) -> Manifest:
    """Return the manifest of the version that a reference denotes. Raises the same errors as :func:`open_version`."""
    return open_version(log, reference)[1]


def open_version(log: VersionLog, reference: Reference, *, branch: str = "") -> tuple[VersionLog, Manifest]:
    """Return the line and the manifest of the version that a reference denotes.

    Args:
        log: the version log of one line.
        reference: a version number on that line, the name of a tag, or a pair (branch, number); if None, the latest
            version.
        branch: name of that line, as recorded in its manifests; empty if it is the main branch or unknown.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
        VersionNotFoundError: the version does not exist.
        RefNotFoundError: the tag or branch does not exist.
        InvalidTypeError: the argument is not a valid reference.
    """
    try:
        line, version = locate(log, reference, branch=branch)
        return line, _find_manifest(line, version, is_other_line=line.root != log.root)
    except StorageError as error:
        if error.errno != errno.ENOTDIR:
            raise
        raise DatasetNotFoundError(
            f"no dataset exists at {log.uri}: part of this path is a file, not a directory", path=log.root
        ) from error


def locate(log: VersionLog, reference: Reference, *, branch: str = "") -> tuple[VersionLog, int | None]:
    """Return the line and the version number that a reference denotes; see :func:`open_version`.

    The version number is None for the latest version. Whether the version exists is not checked.

    Raises:
        InvalidTypeError: the argument is not a valid reference.
        RefNotFoundError: the tag does not exist, or the branch name is invalid.
    """
    if reference is None:
        return log, None
    if isinstance(reference, str):
        return _tagged(log, reference, branch)
    if isinstance(reference, tuple):
        if len(reference) != _PAIR:
            raise InvalidTypeError(
                f"version must be a number, the name of a tag, or a tuple (branch, number), found {reference!r}"
            )
        name, version = reference
        return line_of(main_line(log, branch), name), None if version is None else whole_number("version", version)
    return log, whole_number("version", reference)


def to_moment(asof: datetime | str) -> datetime:
    """Convert a time to local time without a time zone, which is the form of version timestamps.

    Raises:
        InvalidInputError: the string is not an ISO 8601 date or time.
        InvalidTypeError: the argument is neither a string nor a ``datetime``.
    """
    try:
        moment = datetime.fromisoformat(asof) if isinstance(asof, str) else asof
    except ValueError as error:
        raise InvalidInputError(f"asof {asof!r} is not an ISO 8601 date or time: {error}", argument="asof") from error
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"asof must be a datetime or an ISO 8601 string, found {asof!r}", argument="asof")
    try:
        return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
    except (OverflowError, ValueError):
        # In local time, it is before the first or after the last moment that can be represented.
        return datetime.min if moment.year == datetime.min.year else datetime.max


def _find_manifest(log: VersionLog, version: int | None, *, is_other_line: bool) -> Manifest:
    if version is not None:
        try:
            manifest = log.read_version(version)
        except VersionNotFoundError:
            if log.latest() is not None:
                raise
        else:
            log.adopt(ManifestName(version, manifest.naming))
            return manifest
    else:
        latest = log.read_latest()
        if latest is not None:
            return latest
    if is_other_line:
        raise RefNotFoundError(f"no branch exists at {log.uri}", path=log.root)
    raise DatasetNotFoundError(f"no dataset exists at {log.uri}", path=log.root)


def _tagged(log: VersionLog, tag: str, branch: str) -> tuple[VersionLog, int]:
    try:
        check_tag_name(tag)
        try:
            record = _read_tag(main_line(log, branch), tag)
        except NotFoundError:
            # If a branch was opened by the URI of its root, its name is not known yet.
            branch = branch or _branch_at(log)
            if not branch:
                raise
            record = _read_tag(main_line(log, branch), tag)
    except (NotFoundError, InvalidRefError) as error:
        raise RefNotFoundError(f"tag {tag!r} does not exist", tag=tag) from error
    return line_of(main_line(log, branch), record.branch), record.version


def _read_tag(main: VersionLog, tag: str) -> TagRecord:
    path = tag_path(main.store, main.root, tag)
    return TagRecord.parse(main.store.get(path), path)


def _branch_at(log: VersionLog) -> str:
    latest = log.read_latest()
    return "" if latest is None else latest.message.branch
