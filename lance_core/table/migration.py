"""Migration of manifests from V1 names to V2 names.

Each manifest is copied to its new name unless a file with the new name exists. After that, the file with the old name
is removed. After an interrupted migration, every version therefore still has at least one name, and running the
migration again completes it. During the migration, the directory has both kinds of names, and the table cannot be
opened. No other operation may run at the same time.

Source: ``migrate_manifest_paths_v2`` of pylance 14.0.2, which renames the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import CorruptDataError, NotFoundError, NotSupportedError
from lance_core.io.object_store import PutOutcome
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.paths import VERSIONS_DIRECTORY, ManifestName, ManifestNaming, parse_manifest_name

if TYPE_CHECKING:
    from lance_core.table.version_log import VersionLog

__all__ = ["migrate_to_v2_names"]


def migrate_to_v2_names(log: VersionLog) -> int:
    """Rename every manifest to its V2 name.

    Args:
        log: the version log of the table; both kinds of names may occur.

    Returns:
        The number of manifests that had a V1 name.

    Raises:
        NotFoundError: the table has no manifests.
        NotSupportedError: an external manifest store records the names.
        CorruptDataError: a version has different manifests under the two names; the migration stopped at this version.
        StorageError: a storage operation failed; running the migration again continues it.
    """
    if isinstance(log.protocol, ExternalCommit):
        raise NotSupportedError(
            f"{log.uri}: manifest names are managed by the external manifest store and cannot be migrated"
        )
    directory = log.store.join(log.root, VERSIONS_DIRECTORY)
    names = [name for each in log.store.list_names(directory) if (name := parse_manifest_name(each)) is not None]
    if not names:
        raise NotFoundError(f"no dataset exists at {log.uri}", path=log.root)
    old = sorted((name for name in names if name.naming is ManifestNaming.V1), key=lambda name: name.version)
    for name in old:
        _migrate(log, name)
    return len(old)


def _migrate(log: VersionLog, old: ManifestName) -> None:
    source, target = log.path(old), log.path(ManifestName(old.version, ManifestNaming.V2))
    try:
        data = log.store.get(source)
    except NotFoundError:
        # Another migration has already moved this manifest.
        return
    if log.create_file(target, data) is PutOutcome.EXISTS and not log.store.get(target).equals(data):
        raise CorruptDataError(
            f"{log.uri}: version {old.version} has two different manifests, {source} and {target}", path=source
        )
    log.store.delete(source)
