"""Compaction: rewrites fragments into fewer, larger ones without deleted rows.

In one process::

    dataset.optimize.compact_files(target_rows_per_fragment=1_000_000)

In several processes, with tasks and results passed between them as JSON or pickled objects::

    plan = Compaction.plan(dataset, {"target_bytes_per_fragment": 2 * 1024**3})
    results = [task.execute(dataset) for task in plan.tasks]
    outcome = commit_rewrites(dataset, results)
    again = plan_again(dataset, outcome.lost, {"target_bytes_per_fragment": 2 * 1024**3})

The names follow ``lance.optimize``; ``commit_rewrites``, ``plan_again``, and the statistics of a plan exist only in
this library.
"""

from __future__ import annotations

from lance_core.compaction.commit_rewrites import RewriteCommit, commit_rewrites
from lance_core.compaction.optimizer import Compaction
from lance_core.compaction.options import CompactionOptions
from lance_core.compaction.plan import CompactionPlan, CompactionTask
from lance_core.compaction.plan_figures import PlanFigures
from lance_core.compaction.result import CompactionMetrics, RewriteResult
from lance_core.compaction.rounds import plan_again

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "PlanFigures",
    "RewriteCommit",
    "RewriteResult",
    "commit_rewrites",
    "plan_again",
]
