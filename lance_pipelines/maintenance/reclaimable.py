"""Estimates the bytes that a cleanup would free, from a few manifests.

The exact number requires every manifest and a listing of all files; the plan of a cleanup (``cleanup_plan.py``)
computes it. An event or a card that is made after every commit must be cheap, so only a few of the removable versions
are read, evenly spread. A data file is counted if one of these versions uses it and the oldest kept version does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lance_core.errors import VersionNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.metadata import Manifest, ManifestName, VersionLog

__all__ = ["Reclaimable"]

_MAX_MANIFESTS: Final = 8

_MAX_FRAGMENTS: Final = 200_000
"""Maximum total number of fragments in the manifests that are read, assuming that each lists as many as the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimable:
    """An estimate of what a cleanup would free.

    Attributes:
        num_bytes: total size of the data files found; at least this much is reclaimable.
        versions_read: number of removable versions that were read.
        is_complete: whether every removable version was read.
    """

    num_bytes: int
    versions_read: int
    is_complete: bool

    @classmethod
    def estimate(
        cls, log: VersionLog, names: Sequence[ManifestName], removable: Sequence[int], *, fragments: int
    ) -> Self:
        """Read some removable versions, and the oldest version that is kept.

        Args:
            log: the table's versions.
            names: the names of all versions, in ascending order.
            removable: the numbers of the versions that may be removed, in ascending order.
            fragments: number of fragments of the latest version; the more there are, the fewer manifests are read.

        Raises:
            CorruptDataError: a manifest is damaged.
            StorageError: a storage operation failed.
        """
        going = set(removable)
        by_version = {name.version: name for name in names}
        kept = next(name for name in names if name.version not in going and name.version > removable[0])
        wanted = max(1, min(len(removable), _MAX_MANIFESTS, _MAX_FRAGMENTS // max(fragments, 1)))
        chosen = {removable[position] for position in np.linspace(0, len(removable) - 1, wanted).astype(int)}
        sizes: dict[str, int] = {}
        num_read = 0
        try:
            for version in sorted(chosen):
                sizes |= _file_sizes(log.read(by_version[version]))
                num_read += 1
            needed = _file_sizes(log.read(kept))
        except VersionNotFoundError:
            # Another cleanup is removing the versions right now.
            return cls(num_bytes=0, versions_read=num_read, is_complete=False)
        return cls(
            num_bytes=sum(size for path, size in sizes.items() if path not in needed),
            versions_read=num_read,
            is_complete=num_read == len(removable),
        )


def _file_sizes(manifest: Manifest) -> dict[str, int]:
    return {
        path: size
        for fragment in manifest.fragments
        for path, size in zip(fragment.data_file_paths, fragment.data_file_bytes, strict=True)
    }
