"""Converts typed errors to the message of a failed step, and invalid run configurations to one line.

A typed error states what failed. Its stack trace is logged once, at debug level; otherwise, Dagster would show the
stack trace of its own frames with the failure of the step, and again with the failure of the run.
"""

import atexit
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import dagster as dg
from dagster._core.errors import DagsterUserCodeProcessError
from dagster_shared.error import SerializableErrorInfo

from lance_core.errors import LanceError, StorageError, TooMuchWriteContentionError

__all__ = ["as_failure", "config_headline", "reported_as_failure", "take_failures"]

_MAX_CAUSE_CHARACTERS = 2000

_SAMPLE: Final = re.compile(r"\.? (?:Expected: \"|Sample config for missing )", re.DOTALL)
"""Matches the start of the sample configuration that Dagster appends to an error message."""

_JOB: Final = re.compile(r"Error in config for job (\w+)")
"""Matches the beginning of Dagster's message about a run configuration; the job name contains the dataset's name."""

_failures: dict[str, str] = {}
"""Maps the name of each dataset whose latest step failed to the message of that failure."""


@atexit.register
def _print_failures() -> None:
    # Dagster prints the message twice, between its own stack frames; this repeats it at the end of the log.
    for message in _failures.values():
        sys.stderr.write(f"FAILED {message}\n")


def take_failures() -> list[str]:
    """Return and discard the failure messages, which would otherwise be printed when the process ends."""
    messages = list(_failures.values())
    _failures.clear()
    return messages


def config_headline(error: dg.DagsterInvalidConfigError) -> str:
    """Return the errors of a run configuration in one line, with the path of each field, without Dagster's samples."""
    found = [_SAMPLE.split(str(each.message))[0] for each in error.errors]
    return " ".join(f"run configuration: {'; '.join(found)}".split())


def _say_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Handle an uncaught exception: for an invalid configuration, print one line instead of a stack trace."""
    if isinstance(error, dg.DagsterInvalidConfigError):
        named = _JOB.match(str(error))
        job = f"{named[1]}: " if named else ""
        sys.stderr.write(f"FAILED {job}{config_headline(error)}\n")
    else:
        _previous_hook(kind, error, trace)


_previous_hook: Final = sys.excepthook
sys.excepthook = _say_one_line


class _StacklessError(DagsterUserCodeProcessError):
    """An error that Dagster shows without a stack trace, because Dagster treats it as an error of another process."""

    def __init__(self, message: str) -> None:
        dg.DagsterError.__init__(self, message)
        info = SerializableErrorInfo(message=f"Failure: {message}", stack=[], cls_name="Failure")
        self.user_code_process_error_infos = [info]


class _FinalError(dg.Failure, _StacklessError):
    """Ends a step permanently. Dagster does not apply the retry policy of the op to errors of this kind."""


def as_failure(error: LanceError, dataset: str) -> dg.Failure:
    """Convert an error to a Dagster failure, with the error's message as headline and its context as metadata.

    Retries are allowed only if the same call may succeed later.
    """
    metadata: dict[str, dg.MetadataValue] = {
        "lance/error": dg.MetadataValue.text(error.kind.value),
        "lance/error_type": dg.MetadataValue.text(type(error).__name__),
        "lance/dataset": dg.MetadataValue.text(dataset),
    }
    for name, value in error.context.items():
        metadata[f"lance/{name}"] = dg.MetadataValue.text(str(value))
    cause = error.__cause__
    if cause is not None:
        metadata["lance/cause"] = dg.MetadataValue.text(f"{type(cause).__name__}: {cause}"[:_MAX_CAUSE_CHARACTERS])
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    retried = _is_worth_retrying(error)
    make = dg.Failure if retried else _FinalError
    return make(
        description=f"{dataset}: {error}{notes} [{type(error).__name__}]", metadata=metadata, allow_retries=retried
    )


@contextmanager
def reported_as_failure(dataset: str, log: logging.Logger | None = None) -> Iterator[None]:
    """Convert a typed error raised inside the block to a failure of the step, without the errors that it wraps.

    Args:
        dataset: the dataset's name.
        log: receives the stack trace.
    """
    try:
        yield
    except LanceError as error:
        if log is not None:
            log.debug("".join(traceback.format_exception(error)).rstrip())
        failure = as_failure(error, dataset)
        _failures[dataset] = str(failure.description)
        raise failure from None
    _failures.pop(dataset, None)


def _is_worth_retrying(error: LanceError) -> bool:
    if isinstance(error, StorageError):
        return error.retryable
    return isinstance(error, TooMuchWriteContentionError)
