"""Handles other runs when a run starts, and before a step takes the pool slot of a dataset."""

import time
from typing import Final

import dagster as dg

from lance_pipelines.events.commit_events import DATASET_TAG, OPERATION_TAG
from lance_pipelines.ingest.declaration import DatasetKey, dataset_name, key_parts
from lance_pipelines.runs.cpu_time import start_cpu_clock
from lance_pipelines.runs.dead_runs import fail_dead_runs, note_run_process, watch_for_dead_runs
from lance_pipelines.runs.runs_in_flight import INGEST, find_runs_in_flight

__all__ = ["await_ingests", "begin_run", "prepare_for_pool", "tag_check", "tag_ingest"]

_POLL_SECONDS: Final = 1.0


def begin_run(context: dg.OpExecutionContext) -> None:
    """Record the process of the run, and mark runs whose process no longer exists as failed.

    This is done even if the run finds nothing to do and never uses the pool.
    """
    start_cpu_clock()
    note_run_process(context.instance, context.run_id)
    _report_dead_runs(context)


def tag_ingest(context: dg.OpExecutionContext, dataset: DatasetKey) -> None:
    """Give a run that materializes only this dataset the tags of the ingest job.

    **Materialize** in the web interface, an automation condition, or a backfill launches the asset without its job, and
    an asset definition cannot specify tags for such runs.
    """
    if context.run.asset_selection == {dg.AssetKey(key_parts(dataset))} and DATASET_TAG not in context.run.tags:
        tags = {DATASET_TAG: dataset_name(dataset), OPERATION_TAG: INGEST}
        context.instance.add_run_tags(context.run_id, tags)


def tag_check(context: dg.OpExecutionContext, dataset: DatasetKey) -> None:
    """Give a run that only evaluates checks of this dataset, launched from its asset, the tags of the check job."""
    run = context.run
    keys = {check.asset_key for check in run.asset_check_selection or ()}
    if not run.asset_selection and keys == {dg.AssetKey(key_parts(dataset))} and DATASET_TAG not in run.tags:
        tags = {DATASET_TAG: dataset_name(dataset), OPERATION_TAG: "check"}
        context.instance.add_run_tags(context.run_id, tags)


def await_ingests(context: dg.OpExecutionContext, dataset: DatasetKey) -> None:
    """Wait for the ingests of a dataset that are running now, so that maintenance covers their commits.

    The function does not wait for ingests that are queued or start later, because this run may occupy the slot that
    they need. Without a shared instance, other runs are unknown, and the function returns immediately.
    """
    first = told = _ingests_at_work(context, dataset)
    while left := {run_id: text for run_id, text in _ingests_at_work(context, dataset).items() if run_id in first}:
        if told is first or left.keys() != told.keys():
            context.log.info("%s: waiting for %s.", dataset_name(dataset), ", ".join(left.values()))
            told = left
        time.sleep(_POLL_SECONDS)


def prepare_for_pool(context: dg.OpExecutionContext) -> None:
    """Release the pool slots of dead runs, and keep doing so until this run has its own slot."""
    _report_dead_runs(context)
    watch_for_dead_runs(context.instance, context.run_id)


def _report_dead_runs(context: dg.OpExecutionContext) -> None:
    for run_id in fail_dead_runs(context.instance):
        context.log.warning(
            "Run %s was unfinished, but its process no longer exists; the run was marked as failed.", run_id
        )


def _ingests_at_work(context: dg.OpExecutionContext, dataset: DatasetKey) -> dict[str, str]:
    """Return a description of each ingest that is running, by run id."""
    runs = find_runs_in_flight(context.instance, dataset, (INGEST,)).awaited
    return {run.run_id: run.text for run in runs if run.is_at_work}
