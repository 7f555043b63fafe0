"""OldVersions: a fast way to determine which versions a cleanup policy removes.

The plan of a cleanup lists everything below the table's root and reads every manifest that is kept. That is too
expensive for a check that runs every few minutes. Therefore, this module lists only the names of the manifests and
takes the age of a version from the modification time of its manifest. A binary search requests only a few of these
times.

The timestamp of a version is taken before its manifest is written, so a version is at least as old as its manifest.
Therefore, the plan of the cleanup includes every version found here.

Tags and branches are read only when a version could be removed.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.errors import NotFoundError
from lance_core.metadata import named_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.metadata import ManifestName, VersionLog
    from lance_pipelines.maintenance.policy import CleanupPolicy

__all__ = ["OldVersions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldVersions:
    """The effect of a cleanup policy on the existing versions.

    Attributes:
        versions: number of versions.
        removable: numbers of the versions that may be removed, in ascending order.
        named: number of versions that are kept only because a tag or branch needs them.
        too_recent: number of versions that are kept only because they are newer than the retention period.
        next_at: time at which the oldest of the ``too_recent`` versions becomes removable, in seconds since the epoch;
            None if there are none.
    """

    versions: int
    removable: tuple[int, ...]
    named: int
    too_recent: int
    next_at: float | None

    @classmethod
    def of(cls, log: VersionLog, names: Sequence[ManifestName], policy: CleanupPolicy, *, now: float) -> Self:
        """Determine the effect of a policy.

        Args:
            log: the table's versions.
            names: the names of all versions, in ascending order.
            policy: determines how many versions are kept, and for how long.
            now: the current time, in seconds since the epoch.

        Raises:
            CorruptDataError: the file of a tag or a branch is malformed.
            StorageError: a storage operation failed.
        """
        beyond = names[: -policy.retain_versions]
        age = policy.retention.total_seconds()
        num_old = len(beyond)
        if age:
            num_old = bisect.bisect_left(beyond, now - age, key=lambda name: _modified_at(log, name))
        old = [name.version for name in beyond[:num_old]]
        named = named_versions(log) if old else frozenset()
        removable = tuple(version for version in old if version not in named)
        recent = beyond[num_old:]
        return cls(
            versions=len(names),
            removable=removable,
            named=len(old) - len(removable),
            too_recent=len(recent),
            next_at=_modified_at(log, recent[0]) + age if recent else None,
        )


def _modified_at(log: VersionLog, name: ManifestName) -> float:
    try:
        return log.manifest_info(name).modified_at
    except NotFoundError:
        # Removed by another cleanup since it was listed.
        return 0.0
