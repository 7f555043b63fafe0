"""Tags: names for versions of any branch. A tagged version is never cleaned up.

Names, arguments, and errors are the same as in pylance: if several writers create a tag, exactly one succeeds; if
several writers move a tag, the last one wins. After setting a tag, this library, unlike pylance, also checks that the
version and the branch of the tag still exist, because a concurrent cleanup or deletion that started before the tag was
written may have removed them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

from lance_core.errors import (
    InvalidTypeError,
    NotFoundError,
    RefAlreadyExistsError,
    RefConflictError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.io.object_store import PutOutcome
from lance_core.places.references import locate
from lance_core.public.arguments import order_sign
from lance_core.refs.branch_removal import require_same_branch
from lance_core.table.branches import branch_at
from lance_core.table.lines import line_of, main_line, read_record
from lance_core.table.ref_creation import create_ref, known_to_exist
from lance_core.table.tags import TagRecord, check_tag_name, list_tags, tag_path

if TYPE_CHECKING:
    import builtins

    from lance_core.places.references import Reference
    from lance_core.table.branches import BranchRecord
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["Tag", "Tags"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tag(TypedDict):
    """One tag.

    Attributes:
        branch: the branch of the version; None means the main branch.
        version: the version number.
        created_at: creation time; None if it is not recorded.
        updated_at: time when the tag was last set or moved.
        manifest_size: size of the version's manifest in bytes when the tag was set.
        metadata: metadata set by the user.
    """

    branch: str | None
    version: int
    created_at: datetime | None
    updated_at: datetime | None
    manifest_size: int
    metadata: dict[str, str]


class Tags:
    """The tags of a dataset.

    Args:
        log: the version log of the branch, possibly the main branch, to which version numbers refer.
        manifest: the manifest of the version to use if a reference is None.
    """

    def __init__(self, log: VersionLog, manifest: Manifest) -> None:
        """Initialize without reading anything."""
        self._line = log
        self._branch = manifest.message.branch
        self._manifest = manifest
        self._log = main_line(log, self._branch)

    def list(self) -> dict[str, Tag]:
        """Return all tags, keyed by name.

        Raises:
            CorruptDataError: a file in ``_refs/tags`` is not a tag record.
        """
        return {name: _tag(record) for name, record in list_tags(self._log.store, self._log.root).items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Tag]]:
        """Return all tags ordered by version, then by name.

        Args:
            order: "asc" or "desc"; None means "desc".

        Raises:
            InvalidInputError: the order is unknown.
            InvalidTypeError: the order is not a string.
            CorruptDataError: a file in ``_refs/tags`` is not a tag record.
        """
        sign = order_sign(order)
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["version"], item[0]))

    def get_version(self, tag: str) -> int:
        """Return the version number of a tag.

        Raises:
            InvalidRefError: the name is invalid.
            RefNotFoundError: the tag does not exist.
        """
        return self._read(tag).version

    def create(self, tag: str, reference: Reference = None) -> None:
        """Create a tag for a version.

        Args:
            tag: the name of the tag, which consists of ASCII letters, digits, '.', '-', and '_'.
            reference: a version number on the branch of this handle, the name of another tag, or a tuple (branch,
                number). If None, the version of this handle. In a tuple, None or "main" as the branch means the main
                branch, and None as the number means the latest version.

        Raises:
            InvalidRefError: the tag name is invalid.
            RefAlreadyExistsError: a tag with this name already exists; use :meth:`update` to move it.
            VersionNotFoundError: the version does not exist, or a cleanup removed it before the tag was set; in the
                latter case, the tag is removed again.
            RefConflictError: the branch of the version is being deleted; the tag is removed again.
            RefNotFoundError: the tag or branch does not exist.
            CommitOutcomeUnknownError: it could not be determined whether the tag was created, or whether it is valid.
        """
        self._create(tag, reference, {})

    def _create(self, tag: str, reference: Reference, metadata: Mapping[str, str]) -> None:
        """Create a tag with metadata; see :meth:`create`."""
        check_tag_name(tag)
        now = time.time_ns()
        branch, version, size = self._target(reference)
        source = self._source(branch)
        record = TagRecord(
            branch=branch, version=version, manifest_size=size, created_at_ns=now, updated_at_ns=now, metadata=metadata
        )
        if create_ref(self._log.store, self._path(tag), record.to_json(), self._log.create_file) is PutOutcome.EXISTS:
            raise RefAlreadyExistsError(f"tag {tag!r} already exists", tag=tag)
        with known_to_exist(f"tag {tag!r}"):
            self._confirm(tag, record, source, before=None)

    def update(self, tag: str, reference: Reference = None) -> None:
        """Move a tag to another version. For ``reference``, see :meth:`create`.

        Raises:
            InvalidRefError: the tag name is invalid.
            RefNotFoundError: the tag does not exist, or ``reference`` refers to a tag or branch that does not exist.
            VersionNotFoundError: the version does not exist, or a cleanup removed it before the tag was moved; in the
                latter case, the tag is moved back.
            RefConflictError: the branch of the version is being deleted; the tag is moved back.
        """
        record = self._read(tag)
        branch, version, size = self._target(reference)
        source = self._source(branch)
        moved = replace(record, branch=branch, version=version, manifest_size=size, updated_at_ns=time.time_ns())
        self._log.store.put(self._path(tag), moved.to_json())
        with known_to_exist(f"a new record of tag {tag!r}"):
            self._confirm(tag, moved, source, before=record)

    def delete(self, tag: str) -> None:
        """Remove a tag. The tagged version is not removed, but a later cleanup may remove it.

        Raises:
            InvalidRefError: the name is invalid.
            RefNotFoundError: the tag does not exist.
        """
        check_tag_name(tag)
        path = self._path(tag)
        try:
            # Checked first, because the store ignores missing objects. An unreadable tag can be removed.
            self._log.store.head(path)
        except NotFoundError as error:
            raise RefNotFoundError(f"tag {tag!r} does not exist", tag=tag) from error
        self._log.store.delete(path)

    def replace_metadata(self, tag: str, metadata: Mapping[str, str]) -> None:
        """Replace all metadata of a tag; the tag's version and ``updated_at`` do not change.

        Raises:
            InvalidRefError: the tag name is invalid.
            RefNotFoundError: the tag does not exist.
            InvalidTypeError: the metadata is not a mapping, or a key or value is not a string.
        """
        texts = _texts(metadata)
        self._log.store.put(self._path(tag), replace(self._read(tag), metadata=texts).to_json())

    def _read(self, tag: str) -> TagRecord:
        check_tag_name(tag)
        path = self._path(tag)
        try:
            return TagRecord.parse(self._log.store.get(path), path)
        except NotFoundError as error:
            raise RefNotFoundError(f"tag {tag!r} does not exist", tag=tag) from error

    def _confirm(self, tag: str, record: TagRecord, source: BranchRecord | None, *, before: TagRecord | None) -> None:
        """Withdraw a tag if a concurrent cleanup or branch deletion has removed its version, or may still remove it."""
        try:
            if source is not None:
                require_same_branch(self._log, source)
            line_of(self._log, record.branch).manifest_bytes(record.version)
        except (VersionNotFoundError, RefConflictError):
            with suppress(RefNotFoundError):
                # If another writer has moved the tag in the meantime, keep its value.
                if self._read(tag) == record:
                    self._put_back(tag, before)
            raise

    def _put_back(self, tag: str, before: TagRecord | None) -> None:
        if before is None:
            self._log.store.delete(self._path(tag))
        else:
            self._log.store.put(self._path(tag), before.to_json())

    def _path(self, tag: str) -> str:
        return tag_path(self._log.store, self._log.root, tag)

    def _source(self, branch: str | None) -> BranchRecord | None:
        """Return the record of the branch of a version; None for the main branch."""
        return None if branch is None else read_record(self._log, branch)

    def _target(self, reference: Reference) -> tuple[str | None, int, int]:
        """Return the branch, number, and manifest size of the version to which a reference refers, which must exist."""
        if reference is None:
            line, version = self._line, self._manifest.version
        else:
            line, named = locate(self._line, reference, branch=self._branch)
            version = _latest_version(line) if named is None else named
        return branch_at(line.store, self._log.root, line.root) or None, version, line.manifest_bytes(version)


def _latest_version(log: VersionLog) -> int:
    latest = log.latest()
    if latest is None:
        raise VersionNotFoundError(f"{log.uri} has no versions")
    return latest.version


def _texts(metadata: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise InvalidTypeError(f"tag metadata must be a mapping, found {metadata!r}", argument="metadata")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidTypeError(f"keys and values of tag metadata must be strings, found {key!r}: {value!r}")
    return dict(metadata)


def _tag(record: TagRecord) -> Tag:
    return Tag(
        branch=record.branch,
        version=record.version,
        created_at=_moment(record.created_at_ns),
        updated_at=_moment(record.updated_at_ns),
        manifest_size=record.manifest_size,
        metadata=dict(record.metadata),
    )


def _moment(nanoseconds: int | None) -> datetime | None:
    return None if nanoseconds is None else _EPOCH + timedelta(microseconds=nanoseconds // 1000)
