"""Typed errors become Dagster failures with a one-line description, and only transient errors are retried."""

from __future__ import annotations

import dagster as dg
import pytest

from lance_core.errors import (
    CommitOutcomeUnknownError,
    InternalError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_pipelines.ops.failures import as_failure, reported_as_failure


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (StorageError("slow down", retryable=True), True),
        (TooMuchWriteContentionError("busy"), True),
        (StorageError("disk full"), False),
        (SchemaMismatchError("column 'a'"), False),
        (CommitOutcomeUnknownError("who knows"), False),
        (InternalError("bug"), False),
    ],
)
def test_only_transient_errors_are_retried(error, is_retried) -> None:
    assert as_failure(error, "events").allow_retries is is_retried


def test_the_description_of_a_failure_names_the_dataset_the_cause_and_the_error_type() -> None:
    error = SchemaMismatchError("column 'a': expected int64, found string", column="a", expected="int64")
    error.add_note("the files of this write could not be removed")
    failure = as_failure(error, "events")
    assert failure.description == (
        "events: column 'a': expected int64, found string\nthe files of this write could not be removed "
        "[SchemaMismatchError]"
    )
    facts = {key: value.value for key, value in failure.metadata.items()}
    assert facts == {
        "lance/error": "schema_mismatch",
        "lance/error_type": "SchemaMismatchError",
        "lance/dataset": "events",
        "lance/column": "a",
        "lance/expected": "int64",
    }


def test_exceptions_other_than_typed_errors_propagate_unchanged() -> None:
    with pytest.raises(RuntimeError, match="bug"), reported_as_failure("events"):
        raise RuntimeError("bug")


def test_a_failure_caused_by_a_typed_error_has_no_exception_chain() -> None:
    error = StorageError("Spark's JVM has exited")
    error.__cause__ = RuntimeError("300 lines of Java")
    with pytest.raises(dg.Failure) as caught, reported_as_failure("events"):
        raise error
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caught.value.metadata["lance/cause"].value == "RuntimeError: 300 lines of Java"
