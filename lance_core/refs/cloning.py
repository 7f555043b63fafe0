"""Cloning: creates the first version of a root from a version of another root.

A shallow clone refers to the files of its source and depends on them: cleanups of the source do not take the clone into
account, and may therefore break it. A branch is a shallow clone that is recorded in the source, so cleanups take it
into account. A deep clone has its own copies of the files.

Source: clones and branches of pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lance_core.commit.commit import commit
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    NotSupportedError,
    VersionNotFoundError,
)
from lance_core.table.feature_flags import require_writable
from lance_core.table.paths import ManifestName, is_detached_version
from lance_core.table.ref_creation import known_to_exist
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.transaction import Transaction, read_transaction, withdraw_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.clone import Clone

__all__ = ["check_cloneable", "clone_version"]


def check_cloneable(source: Manifest) -> None:
    """Check, before anything is written, that a version can be cloned.

    Raises:
        NotSupportedError: the version is detached.
        UnsupportedFeatureFlagError: the version needs a feature that this library does not support.
    """
    if is_detached_version(source.version):
        raise NotSupportedError(f"version {source.version} is detached and cannot be cloned", version=source.version)
    require_writable(source.message)


def clone_version(
    target: VersionLog, clone: Clone, source: Manifest, storage_options: Mapping[str, str] | None
) -> Manifest:
    """Create the first version of a root.

    Args:
        target: version log of the new root, which must be empty.
        clone: the clone operation.
        source: the manifest of the version to clone.
        storage_options: credentials and settings of the stores.

    Raises:
        AlreadyExistsError: there is already a version, or another writer is creating one.
        NotSupportedError: the source is a detached version.
        UnsupportedFeatureFlagError: the source needs a feature that this library does not support.
        CommitOutcomeUnknownError: it could not be determined whether the version was created, or whether it is valid.
        StorageError: a storage operation failed.
    """
    check_cloneable(source)
    target.require_commits()
    options = CommitOptions(create_only=True, storage_options=storage_options, checks_files=False)
    transaction = Transaction(read_version=clone.ref_version, operation=clone)
    manifest = commit(target, transaction, options, known=source)
    # Clones of different versions create manifests with different names: if two writers see each other's, both give up.
    with known_to_exist(f"version {manifest.version} of {target.uri}"):
        rival = _find_rival(target, manifest)
    if rival is not None:
        withdraw_version(target, ManifestName(manifest.version, manifest.naming), transaction)
        raise AlreadyExistsError(
            f"cannot create a dataset at {target.uri}: another writer created version {rival.version}", path=target.root
        )
    return manifest


def _find_rival(target: VersionLog, made: Manifest) -> ManifestName | None:
    """Return a version that another writer created in the new root at the same time; None if no other writer did.

    Raises:
        CommitOutcomeUnknownError: this cannot be determined, because versions were removed in the meantime.
    """
    # A directory listing may miss a file that was created while it ran, and a rival that gives up removes its version.
    following = ManifestName(made.version + 1, made.naming)
    while True:
        names = target.newer_than(0)
        older = [name for name in names if name.version < made.version]
        newer = [name for name in names if name.version > made.version]
        if older or not newer:
            return next(iter(older), None)
        for name in dict.fromkeys((following, newer[0])):
            with suppress(VersionNotFoundError):
                theirs = read_transaction(target, target.read(name))
                if theirs is not None and theirs.operation.is_first_of_its_root:
                    return name
                if name == following:
                    return None
                reason = f"version {following.version}, the first version after the clone, was removed"
                raise CommitOutcomeUnknownError(
                    f"{target.uri}: cannot determine whether another writer created the same dataset: {reason}",
                    path=target.root,
                    version=following.version,
                )
