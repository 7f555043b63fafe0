"""Lists the versions of a dataset, and tells whether the latest version has changed since an earlier tick.

A version number alone is not enough: a dataset that was deleted and recreated starts at version 1 again. Therefore, the
size and the modification time of the manifest are compared, too; this takes one request.
"""

from dataclasses import dataclass
from typing import Self

from lance_core.errors import NotFoundError
from lance_core.metadata import ManifestName, VersionLog, open_version_log

__all__ = ["Latest", "stamp_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The versions of a dataset at one moment.

    Attributes:
        log: the dataset's versions.
        names: the names of all versions, in ascending order; never empty.
        stamp: size and modification time of the latest manifest.
    """

    log: VersionLog
    names: tuple[ManifestName, ...]
    stamp: str

    @classmethod
    def find(cls, uri: str, storage_options: dict[str, str] | None = None) -> Self | None:
        """List the versions; return None if the dataset does not exist.

        Raises:
            InvalidInputError: the URI is malformed, or its scheme is not supported.
            CorruptDataError: the manifests use two naming schemes.
            StorageError: a storage operation failed.
        """
        log = open_version_log(uri, storage_options)
        names = tuple(log.newer_than(0))
        if not names:
            return None
        stamp = stamp_of(log, names[-1])
        return None if stamp is None else cls(log=log, names=names, stamp=stamp)

    @property
    def version(self) -> int:
        """The number of the latest version."""
        return self.names[-1].version


def stamp_of(log: VersionLog, name: ManifestName) -> str | None:
    """Return the size and modification time of a manifest; None if it no longer exists."""
    try:
        info = log.manifest_info(name)
    except NotFoundError:
        return None
    return f"{info.num_bytes}@{info.modified_at:.6f}"
