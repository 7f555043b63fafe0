"""What a run does about others: when it begins, and before one of its steps takes the pool slot of a dataset."""

import dagster as dg

from lance_pipelines.dead_runs import fail_dead_runs, note_run_process, watch_for_dead_runs

__all__ = ["begin_run", "prepare_for_pool"]


def begin_run(context: dg.OpExecutionContext) -> None:
    """Note the process that the run lives in, and report runs whose process is gone.

    A run that finds nothing to do never comes to the pool; the dead are reported all the same.
    """
    note_run_process(context.instance, context.run_id)
    _report_dead_runs(context)


def prepare_for_pool(context: dg.OpExecutionContext) -> None:
    """Free slots of runs that died with one in hand, and go on looking until this run has its own."""
    _report_dead_runs(context)
    watch_for_dead_runs(context.instance, context.run_id)


def _report_dead_runs(context: dg.OpExecutionContext) -> None:
    for run_id in fail_dead_runs(context.instance):
        context.log.warning("Run %s was unfinished and its process is gone: reported as failed.", run_id)
