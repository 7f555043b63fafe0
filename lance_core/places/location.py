"""Resolves the URI or path of a dataset to the dataset's version log."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.uri import place_of, resolve
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
"""A callable that takes the number of the version to create and returns a context manager that serves as a lock."""


def uri_text(uri: str | Path) -> str:
    """Return a dataset URI or path as a string.

    Raises:
        InvalidTypeError: the argument is neither a string nor a path.
    """
    if not isinstance(uri, (str, Path)):
        raise InvalidTypeError(f"a dataset URI must be a str or a Path, found {type(uri).__name__}")
    return os.fspath(uri)


def open_log(uri: str, storage_options: Mapping[str, str] | None, commit_lock: CommitLock | None = None) -> VersionLog:
    """Return the version log of the dataset at a URI; nothing is read.

    Args:
        uri: location of the dataset.
        storage_options: credentials and settings of the store.
        commit_lock: a lock that each commit holds while it creates its version; if None, the store's own commit
            protocol is used.

    Raises:
        InvalidInputError: the URI is malformed, or a lock is given for a URI that specifies an external manifest store.
        InvalidTypeError: the lock is not callable.
        UnsupportedSchemeError: no store supports the URI's scheme.
        NotSupportedError: a package that the scheme requires is not installed.
    """
    store, root = resolve(uri, storage_options)
    place = replace(place_of(uri), query="")
    manifests = open_manifest_store(uri, storage_options)
    protocol: CommitProtocol | None = None if manifests is None else ExternalCommit(manifests)
    return locked(VersionLog(store, root, protocol, place), commit_lock)


def locked(log: VersionLog, commit_lock: CommitLock | None) -> VersionLog:
    """Return a version log that uses the lock for commits; if no lock is given, return the log unchanged."""
    if commit_lock is None:
        return log
    if isinstance(log.protocol, ExternalCommit):
        raise InvalidInputError(
            "commit_lock cannot be used with an external manifest store, because other writers would not use the lock"
        )
    return log.with_protocol(LockedCreate(commit_lock))
