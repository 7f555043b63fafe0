"""The message between the steps of a cleanup: the location and the policy.

The plan itself is not passed on. The step that removes files plans again while it holds the dataset's pool slot:
between the steps a version may have been tagged or committed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Self

from lance_core import metadata
from lance_core.errors import LanceError, NotFoundError
from lance_pipelines.maintenance.policy import CleanupPolicy

if TYPE_CHECKING:
    import lance_core

__all__ = ["PlannedCleanup", "files_left_of", "plan_removal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCleanup:
    """What the plan step decided.

    Attributes:
        uri: the dataset's location.
        policy: which versions are removed.
        data_version: the data version, read before any version was removed.
    """

    uri: str
    policy: CleanupPolicy
    data_version: str

    def to_json(self) -> str:
        """Return the message as one JSON document; durations in seconds."""
        return json.dumps(asdict(self), sort_keys=True, default=timedelta.total_seconds)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON document; the inverse of :meth:`to_json`."""
        document = json.loads(text)
        policy = document["policy"]
        for name in ("older_than", "min_age"):
            policy[name] = timedelta(seconds=policy[name])
        return cls(uri=document["uri"], policy=CleanupPolicy(**policy), data_version=document["data_version"])


def plan_removal(dataset: lance_core.LanceDataset, policy: CleanupPolicy) -> metadata.CleanupPlan:
    """Plan the removal as of now; tagged versions are kept without an error.

    Args:
        dataset: the latest version.
        policy: which versions are removed.
    """
    return metadata.plan_cleanup(
        dataset,
        metadata.CleanupPolicy.of(
            older_than=policy.retention,
            retain_versions=policy.retain_versions,
            delete_unverified=policy.delete_unverified,
            error_if_tagged_old_versions=False,
        ),
    )


def files_left_of(plan: metadata.CleanupPlan, max_files: int) -> list[str]:
    """Paths of files that should have been removed but still exist after the plan was executed.

    A manifest is kept while a file of its version exists; so manifests are listed only where there is no such file.

    Args:
        plan: an executed plan.
        max_files: the maximum number of paths.
    """
    files: list[str] = []
    manifests: list[str] = []
    for file in plan.removable:
        (manifests if file.kind is metadata.FileKind.MANIFEST else files).append(file.path)
    for paths in (files, manifests):
        left = list(islice((path for path in paths if _exists(plan, path)), max_files))
        if left:
            return left
    return []


def _exists(plan: metadata.CleanupPlan, path: str) -> bool:
    store = plan.log.store
    try:
        store.head(store.join(plan.log.root, *path.split("/")))
    except NotFoundError:
        return False
    except LanceError:
        # A file that cannot even be checked could not be removed.
        return True
    return True
