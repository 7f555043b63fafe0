"""References to versions: numbers, tags, and moments in time.

Branches are not followed.

Source: behaviour of pylance 14.0.2.
"""

from __future__ import annotations

import errno
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from lance_core.api.arguments import whole_number
from lance_core.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    InvalidRefError,
    InvalidTypeError,
    NotFoundError,
    NotSupportedError,
    RefNotFoundError,
    StorageError,
    VersionNotFoundError,
)
from lance_core.table.refs import MAIN_BRANCH, TagRecord, check_tag_name, tag_path

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["Reference", "read_manifest", "resolve_version", "to_moment"]

Reference: TypeAlias = "int | str | tuple[str | None, int | None] | None"
"""A number, the name of a tag, or (branch, number)."""


def read_manifest(log: VersionLog, reference: Reference) -> Manifest:
    """The manifest of the version that is meant; None for the latest.

    Raises:
        DatasetNotFoundError: there is no dataset.
        VersionNotFoundError: there is no such version.
        RefNotFoundError: there is no such tag.
        NotSupportedError: the reference is to a branch.
        InvalidTypeError: what is given cannot be a reference.
    """
    try:
        return _find_manifest(log, reference)
    except StorageError as error:
        if error.errno != errno.ENOTDIR:
            raise
        raise DatasetNotFoundError(
            f"there is no dataset at {log.root}: a part of this path is a file, not a directory", path=log.root
        ) from error


def _find_manifest(log: VersionLog, reference: Reference) -> Manifest:
    version = resolve_version(log, reference)
    if version is not None:
        try:
            return log.read_version(version)
        except VersionNotFoundError as error:
            if log.latest() is None:
                raise DatasetNotFoundError(f"there is no dataset at {log.root}", path=log.root) from error
            raise
    latest = log.latest()
    if latest is None:
        raise DatasetNotFoundError(f"there is no dataset at {log.root}", path=log.root)
    return log.read(latest)


def resolve_version(log: VersionLog, reference: Reference) -> int | None:
    """The version number of a reference; None stands for the latest.

    Args:
        log: the dataset's versions.
        reference: a number, the name of a tag, or (branch, number) where the branch is None or "main"; None for
            the latest.

    Raises:
        InvalidTypeError: none of these.
        RefNotFoundError: there is no such tag.
        NotSupportedError: the reference is to a branch.
    """
    if reference is None:
        return None
    if isinstance(reference, str):
        return _tagged_version(log, reference)
    if isinstance(reference, tuple):
        if len(reference) != 2:
            raise InvalidTypeError(f"version must be a number, a tag or (branch, number), found {reference!r}")
        branch, version = reference
        if branch not in (None, MAIN_BRANCH):
            raise NotSupportedError(f"branch {branch!r}: branches are not supported", branch=branch)
        return None if version is None else whole_number("version", version)
    return whole_number("version", reference)


def to_moment(asof: datetime | str) -> datetime:
    """A moment in local time without a zone, which is how versions show theirs.

    Raises:
        InvalidInputError: the text is no ISO date.
        InvalidTypeError: neither text nor a moment.
    """
    try:
        moment = datetime.fromisoformat(asof) if isinstance(asof, str) else asof
    except ValueError as error:
        raise InvalidInputError(f"asof {asof!r} is not an ISO date: {error}", argument="asof") from error
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"asof must be a datetime or an ISO date, found {asof!r}", argument="asof")
    return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)


def _tagged_version(log: VersionLog, tag: str) -> int:
    path = tag_path(log.store, log.root, tag)
    try:
        check_tag_name(tag)
        record = TagRecord.parse(log.store.get(path), path)
    except (NotFoundError, InvalidRefError) as error:
        raise RefNotFoundError(f"tag {tag!r} does not exist", tag=tag) from error
    if not record.is_on_main_line:
        raise NotSupportedError(
            f"tag {tag!r} is of branch {record.branch!r}: branches are not supported", branch=record.branch
        )
    return record.version
