"""OldVersions: which versions a cleanup policy lets go, found cheaply.

The plan of a cleanup lists everything below the table's root and reads every manifest that stays. Looking every few
minutes must cost less. So here versions are told by the names of their manifests and aged by the times of those files,
of which a binary search asks for a few. A manifest is written after its version's time is taken, so a file that is
old enough stands for a version that is: what is found here the plan will find too.

Tags and branches are read only when a version could go.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.errors import NotFoundError
from lance_core.table.branches import list_branches
from lance_core.table.refs import list_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog
    from lance_pipelines.maintenance.policy import CleanupPolicy

__all__ = ["OldVersions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldVersions:
    """What a cleanup policy says about the versions that there are.

    Attributes:
        versions: versions that there are.
        removable: versions that may go, ascending.
        named: versions that would go if no tag and no branch needed them.
        too_young: versions beyond the number that stays, and not old enough.
        next_at: when the oldest of those is old enough, in seconds since the epoch; None when there is none.
    """

    versions: int
    removable: tuple[int, ...]
    named: int
    too_young: int
    next_at: float | None

    @classmethod
    def of(cls, log: VersionLog, names: Sequence[ManifestName], policy: CleanupPolicy, *, now: float) -> Self:
        """Apply a policy.

        Args:
            log: the table's versions.
            names: all of them, ascending.
            policy: how many stay, and how long.
            now: seconds since the epoch.

        Raises:
            CorruptDataError: a file among the tags or branches is not a valid record.
            StorageError: a storage operation failed.
        """
        beyond = names[: -policy.retain_versions]
        age = policy.retention.total_seconds()
        num_old = len(beyond)
        if age:
            num_old = bisect.bisect_left(beyond, now - age, key=lambda name: _modified_at(log, name))
        old = [name.version for name in beyond[:num_old]]
        named = _named_versions(log) if old else frozenset()
        removable = tuple(version for version in old if version not in named)
        young = beyond[num_old:]
        return cls(
            versions=len(names),
            removable=removable,
            named=len(old) - len(removable),
            too_young=len(young),
            next_at=_modified_at(log, young[0]) + age if young else None,
        )


def _named_versions(log: VersionLog) -> frozenset[int]:
    tags = list_tags(log.store, log.root).values()
    branches = list_branches(log.store, log.root).values()
    tagged = {tag.version for tag in tags if tag.is_on_main_line}
    return frozenset(tagged | {branch.forked_from for branch in branches if branch.forked_from is not None})


def _modified_at(log: VersionLog, name: ManifestName) -> float:
    try:
        return log.store.head(log.path(name)).modified_at
    except NotFoundError:
        # Removed since it was listed: it was old enough for somebody.
        return 0.0
