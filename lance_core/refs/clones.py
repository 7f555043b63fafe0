"""Clones: independent tables that start from a version of another table.

A shallow clone contains no files and depends on its source; a deep clone contains copies of all files and has no
dependency.

Source: clones of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import AlreadyExistsError, NotSupportedError
from lance_core.refs.cloning import check_cloneable, clone_version
from lance_core.refs.file_copies import copy_files
from lance_core.scan.blob_references import field_with_references
from lance_core.table.base_paths import FileLocator
from lance_core.transactions.operations.clone import Clone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["deep_clone", "shallow_clone"]


def shallow_clone(
    target: VersionLog, source: Manifest, source_uri: str, storage_options: Mapping[str, str] | None
) -> Manifest:
    """Create a table that refers to the files of a version.

    Args:
        target: the versions of the new table; there must be none.
        source: the version.
        source_uri: its root, as manifests record it.
        storage_options: of the new table and of base paths.

    Raises:
        AlreadyExistsError: there is a dataset.
    """
    return clone_version(target, _clone(source, source_uri, is_shallow=True), source, storage_options)


def deep_clone(
    target: VersionLog,
    log: VersionLog,
    source: Manifest,
    source_uri: str,
    storage_options: Mapping[str, str] | None,
    source_options: Mapping[str, str] | None,
) -> Manifest:
    """Create a table that holds copies of all files of a version.

    Args:
        target: the versions of the new table; there must be none.
        log: the versions of the source.
        source: the version.
        source_uri: its root, as manifests record it.
        storage_options: of the new table.
        source_options: of the base paths of the source.

    Raises:
        AlreadyExistsError: there is a dataset.
        NotSupportedError: two files of different bases have the same name, values refer to files below a base path, or
            the version is detached or needs a feature that this library does not have.
        NotFoundError: a file is missing.
        StorageError: a storage operation failed; trying again replaces what has been copied.
    """
    check_cloneable(source)
    latest = target.latest()
    if latest is not None:
        raise AlreadyExistsError(f"a dataset exists at {target.root}, at version {latest.version}", path=target.root)
    locator = FileLocator(log.store, log.root, source.base_paths, source_options)
    field = field_with_references(source, locator) if source.base_paths else None
    if field is not None:
        raise NotSupportedError(
            f"version {source.version} has base paths, and values of blob column {field.name!r} refer to files "
            "there, which a deep clone does not copy",
            field=field.name,
        )
    target.require_commits()
    copy_files(source, locator, target)
    return clone_version(target, _clone(source, source_uri, is_shallow=False), source, storage_options)


def _clone(source: Manifest, source_uri: str, *, is_shallow: bool) -> Clone:
    return Clone(
        is_shallow=is_shallow,
        ref_name=source.message.branch or None,
        ref_version=source.version,
        ref_path=source_uri,
        is_copied=not is_shallow,
    )
