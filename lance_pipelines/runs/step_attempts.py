"""The runs in which a step was attempted before."""

import dagster as dg
from dagster._core.execution.context.system import StepExecutionContext

__all__ = ["earlier_attempts"]


def earlier_attempts(step: StepExecutionContext, *, includes_other_runs: bool) -> list[str]:
    """Return the ids of the runs in which the step was attempted, and did not succeed, before this attempt.

    A run that re-executes a failed run has that run as its parent. A run in which the step succeeded does
    not count: if that run is executed again, the step takes effect again.

    Args:
        step: the step.
        includes_other_runs: whether to also search the runs that this run repeats.
    """
    run = step.dagster_run
    found = [run.run_id] if step.previous_attempt_count else []
    while includes_other_runs and run.parent_run_id is not None:
        parent = step.instance.get_run_by_id(run.parent_run_id)
        if parent is None or parent.is_success or _has_succeeded(step, parent.run_id):
            break
        found.append(parent.run_id)
        run = parent
    return found


def _has_succeeded(step: StepExecutionContext, run_id: str) -> bool:
    entries = step.instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    return any(entry.step_key == step.step.key for entry in entries)
