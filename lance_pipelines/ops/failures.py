"""From a typed error to the one message that a failed step shows."""

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from lance_core.errors import LanceError, StorageError, TooMuchWriteContentionError

__all__ = ["as_failure", "clear_failures", "take_last_words"]

_MAX_CAUSE_CHARACTERS = 2000

_last_words: dict[str, str] = {}
"""Dataset -> message of its latest step, while that step has failed."""


@atexit.register
def _say_last_words() -> None:
    # Dagster prints the message twice among its own stack frames; who reads a log from its end finds it here.
    for message in _last_words.values():
        sys.stderr.write(f"FAILED {message}\n")


def take_last_words() -> list[str]:
    """The messages that would be said when the process ends, for a caller who says them now."""
    messages = list(_last_words.values())
    _last_words.clear()
    return messages


def as_failure(error: LanceError, dataset: str) -> dg.Failure:
    """The error as Dagster's own failure: its message as headline, its facts as metadata.

    Retries are allowed only where the same call may succeed later.
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
    return dg.Failure(
        description=f"{dataset}: {error}{notes} [{type(error).__name__}]",
        metadata=metadata,
        allow_retries=_is_worth_retrying(error),
    )


@contextmanager
def clear_failures(dataset: str) -> Iterator[None]:
    """Inside the block, a typed error becomes the step's one message; what it wraps stays out of the headline."""
    try:
        yield
    except LanceError as error:
        failure = as_failure(error, dataset)
        _last_words[dataset] = str(failure.description)
        raise failure from None
    _last_words.pop(dataset, None)


def _is_worth_retrying(error: LanceError) -> bool:
    if isinstance(error, StorageError):
        return error.retryable
    return isinstance(error, TooMuchWriteContentionError)
