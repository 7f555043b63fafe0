"""From what users pass as a dataset's place to its versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.uri import resolve
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.commit_protocols.locked import LockedCreate
from lance_core.table.manifest_stores.opening import open_manifest_store
from lance_core.table.version_log import VersionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from lance_core.table.commit_protocols.api import CommitProtocol

__all__ = ["CommitLock", "locked", "open_log", "uri_text"]


CommitLock: TypeAlias = "Callable[[int], AbstractContextManager[object]]"
"""Takes the version to create, and returns a context manager that only one process may enter at a time."""


def uri_text(uri: str | Path) -> str:
    """Return the URI as a string.

    Raises:
        InvalidTypeError: neither a string nor a path.
    """
    if not isinstance(uri, (str, Path)):
        raise InvalidTypeError(f"a dataset URI must be a str or a Path, got {type(uri)}")
    return os.fspath(uri)


def open_log(uri: str, storage_options: Mapping[str, str] | None, commit_lock: CommitLock | None = None) -> VersionLog:
    """Return the versions below a URI; nothing is read yet.

    Args:
        uri: where the dataset is.
        storage_options: credentials and settings of the store.
        commit_lock: held by each commit while it makes its version; None for the store's own way.

    Raises:
        InvalidInputError: the URI is malformed, or names an external manifest store although there is a lock.
        InvalidTypeError: the lock cannot be called.
        UnsupportedSchemeError: no store for its scheme.
        NotSupportedError: a package that the scheme needs is not installed.
    """
    store, root = resolve(uri, storage_options)
    manifests = open_manifest_store(uri, storage_options)
    protocol: CommitProtocol | None = None if manifests is None else ExternalCommit(manifests)
    return locked(VersionLog(store, root, protocol), commit_lock)


def locked(log: VersionLog, commit_lock: CommitLock | None) -> VersionLog:
    """Return the same versions, made under a lock if there is one."""
    if commit_lock is None:
        return log
    if isinstance(log.protocol, ExternalCommit):
        raise InvalidInputError(
            "commit_lock cannot be used with an external manifest store: other writers would not use the lock"
        )
    return VersionLog(log.store, log.root, LockedCreate(commit_lock))
