"""Executes a maintenance job, or the check job, inside the process of the command line."""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import dagster as dg
from dagster._core.errors import DagsterHomeNotSetError
from dagster.components.definitions import LazyDefinitions
from rich.console import Console
from rich.status import Status

from lance_core.errors import InvalidInputError, LanceError
from lance_pipelines.events.commit_events import OPERATION_TAG
from lance_pipelines.ingest.declaration import dataset_name
from lance_pipelines.jobs import DATASET_TAG, operation_config
from lance_pipelines.ops.failures import config_headline, take_failures
from lance_pipelines.ops.progress import shown_on
from lance_pipelines.resources.spark import SPARK_RESOURCE

__all__ = ["run_operation"]

_EXAMPLE_MODULE: Final = "my_project.definitions"

_INTERRUPTS: Final = (KeyboardInterrupt.__name__, dg.DagsterExecutionInterruptedError.__name__)


def run_operation(
    operation: str,
    values: Mapping[str, Any],
    *,
    module: str,
    dataset: str | None,
    spark_config: Mapping[str, str],
    verbose: bool,
) -> list[str]:
    """Run the job of an operation and wait for it to finish.

    Args:
        operation: ``compact``, ``materialize_deletions``, ``cleanup``, ``delete_rows``, ``retention``, ``restore``,
            ``verify``, ``build_index``, ``optimize_indices``, ``check``, or ``promote``.
        values: the operation's configuration; a value of None keeps the declared value.
        module: name of the Python module that contains the definitions.
        dataset: key or name of the declared dataset; may be None if only one is declared.
        spark_config: Spark properties.
        verbose: whether to show the run's log.

    Returns:
        The failures, one line each; empty if the run succeeded.
    """
    subject = operation
    try:
        job = _find_job(_load(module), operation, dataset)
        subject = f"{job.tags[DATASET_TAG]}: {operation}"
        config = operation_config(operation, job.tags[DATASET_TAG], **values)
        config["loggers"] = {"console": {"config": {"log_level": "INFO" if verbose else "CRITICAL"}}}
        if spark_config:
            config["resources"] = {SPARK_RESOURCE: {"config": {"spark_config": dict(spark_config)}}}
        with _instance() as instance, _shown_progress(is_logged=verbose):
            result = job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        return [f"{subject}: interrupted"]
    except dg.DagsterInvalidConfigError as error:
        return [f"{subject}: {config_headline(error)}"]
    except (LanceError, dg.DagsterError) as error:
        return [f"{operation}: {_one_line(error)}"]
    if result.success:
        return [f"{subject} {name}" for name in _failed_checks(result)]
    if any(map(_is_interrupt, result.get_step_failure_events())):
        return [f"{subject}: interrupted"]
    return take_failures() or [_headline(event) for event in result.get_step_failure_events()]


def _load(module: str) -> dg.Definitions:
    """Return the definitions in a module, found as ``dagster -m`` finds them.

    Raises:
        InvalidInputError: the module does not exist, or contains no definitions.
        DagsterError: a function decorated with ``@dg.definitions`` returns something other than definitions.
    """
    # As with ``python -m``, modules of the working directory can be imported.
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    if "/" in module or not all(module.split(".")):
        raise InvalidInputError(
            f"{module!r} is not the name of a module; expected a name such as {_EXAMPLE_MODULE}, without a path or an "
            "extension"
        )
    try:
        loaded = importlib.import_module(module)
    except (ImportError, SyntaxError) as error:
        raise InvalidInputError(f"module {module!r} cannot be imported: {error}") from error
    values = vars(loaded).values()
    # A function decorated with @dg.definitions takes precedence over the definitions that it may combine.
    decorated = [value for value in values if isinstance(value, LazyDefinitions)]
    found: Sequence[dg.Definitions | LazyDefinitions[Any]] = decorated or [
        value for value in values if isinstance(value, dg.Definitions)
    ]
    if len(found) != 1:
        raise InvalidInputError(
            f"module {module!r} must contain one dagster.Definitions or one function decorated with "
            f"@dagster.definitions, found {len(found)}"
        )
    (only,) = found
    return only if isinstance(only, dg.Definitions) else only()


def _find_job(definitions: dg.Definitions, operation: str, dataset: str | None) -> dg.JobDefinition:
    """Return the job with the operation's and the dataset's tags.

    Raises:
        InvalidInputError: the job does not exist, or several datasets are declared and none was specified.
    """
    jobs = {
        job.tags[DATASET_TAG]: job
        for job in definitions.resolve_all_job_defs()
        if job.tags.get(OPERATION_TAG) == operation and DATASET_TAG in job.tags
    }
    if not jobs:
        raise InvalidInputError(f"no declared dataset has a job for {operation}")
    if dataset is None and len(jobs) == 1:
        return next(iter(jobs.values()))
    if dataset is None:
        raise InvalidInputError(f"several datasets are declared; choose one with --dataset: {', '.join(sorted(jobs))}")
    job = jobs.get(dataset_name(dataset))
    if job is None:
        raise InvalidInputError(
            f"dataset {dataset!r} is not declared, or has no job for {operation}; expected one of: "
            f"{', '.join(sorted(jobs))}"
        )
    return job


@contextmanager
def _shown_progress(*, is_logged: bool) -> Iterator[None]:
    """Show the progress of the steps on standard error: in one changing line of a terminal, or else line by line."""
    if is_logged:
        yield
        return
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    status: list[Status] = []

    def show(line: str) -> None:
        if not console.is_terminal:
            console.print(line, soft_wrap=True)
        elif status:
            status[0].update(line)
        else:
            status.append(console.status(line))
            status[0].start()

    try:
        with shown_on(show):
            yield
    finally:
        for each in status:
            each.stop()


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    """Yield the instance in ``DAGSTER_HOME``, or a temporary instance for this run."""
    try:
        chosen = dg.DagsterInstance.get()
    except DagsterHomeNotSetError:
        chosen = dg.DagsterInstance.ephemeral()
    with chosen as instance:
        yield instance


def _failed_checks(result: dg.ExecuteInProcessResult) -> list[str]:
    """Return the failed checks whose severity is ``error``, with what they found."""
    return [
        f"{evaluation.check_name}: {evaluation.description}"
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR
    ]


def _is_interrupt(event: dg.DagsterEvent) -> bool:
    """Return whether the user interrupted a step; the exception depends on which process received the signal."""
    error = event.step_failure_data.error
    return error is not None and error.cls_name in _INTERRUPTS


def _headline(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    error = data.error
    # Dagster wraps what the step raised.
    while error is not None and error.cause is not None:
        error = error.cause
    return f"{event.step_key}: {_one_line(error.message if error is not None else 'no message')}"


def _one_line(message: object) -> str:
    """Join the lines of a Dagster message."""
    return " ".join(str(message).split())
