"""What a run does about others: when it begins, and before one of its steps takes the pool slot of a dataset."""

import time
from typing import Final

import dagster as dg

from lance_pipelines.dead_runs import fail_dead_runs, note_run_process, watch_for_dead_runs
from lance_pipelines.runs_in_flight import INGEST, find_runs_in_flight

__all__ = ["await_ingests", "begin_run", "prepare_for_pool"]

_POLL_SECONDS: Final = 1.0


def begin_run(context: dg.OpExecutionContext) -> None:
    """Note the process that the run lives in, and report runs whose process is gone.

    A run that finds nothing to do never comes to the pool; the dead are reported all the same.
    """
    note_run_process(context.instance, context.run_id)
    _report_dead_runs(context)


def await_ingests(context: dg.OpExecutionContext, dataset: str) -> None:
    """Wait for the ingests of a dataset that are at work now: what they commit is maintained with the rest.

    Those that begin later are not waited for, and none that is queued: this run may have the place in the queue that it
    waits for. Without a common instance nothing is known of other runs, and nothing is waited for.
    """
    first = told = _ingests_at_work(context, dataset)
    while left := {run_id: text for run_id, text in _ingests_at_work(context, dataset).items() if run_id in first}:
        if told is first or left.keys() != told.keys():
            context.log.info("%s: waits for %s.", dataset, ", ".join(left.values()))
            told = left
        time.sleep(_POLL_SECONDS)


def prepare_for_pool(context: dg.OpExecutionContext) -> None:
    """Free slots of runs that died with one in hand, and go on looking until this run has its own."""
    _report_dead_runs(context)
    watch_for_dead_runs(context.instance, context.run_id)


def _report_dead_runs(context: dg.OpExecutionContext) -> None:
    for run_id in fail_dead_runs(context.instance):
        context.log.warning("Run %s was unfinished and its process is gone: reported as failed.", run_id)


def _ingests_at_work(context: dg.OpExecutionContext, dataset: str) -> dict[str, str]:
    """Run id -> the run in words."""
    runs = find_runs_in_flight(context.instance, dataset, (INGEST,)).awaited
    return {run.run_id: run.text for run in runs if run.is_at_work}
