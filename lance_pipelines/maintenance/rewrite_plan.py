"""Planning a rewrite: which small fragments are merged, and which fragments with many deleted rows are rewritten.

===========================  ==========================================================================
Operation                    Fragments
===========================  ==========================================================================
``compact``                  small neighbors, and large ones above the deletion threshold
``materialize_deletions``    those above the deletion threshold; all others are excluded from the plan
===========================  ==========================================================================
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.optimize import Compaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import lance_core
    from lance_core.optimize import CompactionPlan, CompactionTask

__all__ = ["RewriteOperation", "plan_rewrite", "task_documents"]

_EXCLUDED: Final = "excluded_fragment_ids"


class RewriteOperation(StrEnum):
    """Why fragments are rewritten."""

    COMPACT = "compact"
    MATERIALIZE_DELETIONS = "materialize_deletions"


def plan_rewrite(
    dataset: lance_core.LanceDataset, operation: RewriteOperation, options: Mapping[str, Any]
) -> CompactionPlan:
    """Return the groups of fragments to rewrite, on the version that the handle shows.

    Args:
        dataset: an open handle.
        operation: why fragments are rewritten.
        options: options of ``Compaction.plan``, with ``materialize_deletions_threshold``.
    """
    chosen = dict(options)
    if operation is RewriteOperation.MATERIALIZE_DELETIONS:
        chosen[_EXCLUDED] = _fragments_within(dataset, options["materialize_deletions_threshold"])
    return Compaction.plan(dataset, chosen)


def task_documents(tasks: Iterable[CompactionTask]) -> tuple[str, ...]:
    """Tasks as JSON texts, for the workers.

    They omit the list of excluded fragments, which tasks do not need.
    """
    documents = [json.loads(task.json()) for task in tasks]
    for document in documents:
        document["options"][_EXCLUDED] = []
    return tuple(json.dumps(document) for document in documents)


def _fragments_within(dataset: lance_core.LanceDataset, threshold: float) -> list[int]:
    """Return the ids of the fragments whose fraction of deleted rows does not exceed the threshold."""
    fragments = dataset.counted_manifest.message.fragments
    ids = np.array([fragment.id for fragment in fragments], np.uint64)
    physical = np.array([fragment.physical_rows for fragment in fragments], np.float32)
    deleted = np.array([fragment.deletion_file.num_deleted_rows for fragment in fragments], np.float32)
    # The planner compares in single precision, as the reference does.
    fraction = np.divide(deleted, physical, out=np.zeros_like(deleted), where=physical > 0)
    within: list[int] = ids[fraction <= np.float32(threshold)].tolist()
    return within
