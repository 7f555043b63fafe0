"""Translation of Spark's exceptions to typed errors. The messages are those of Spark 4.3."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from lance_core.errors import (
    CorruptDataError,
    InternalError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    SchemaMismatchError,
    StorageError,
)
from lance_pipelines.spark.failures import reported_to_driver, translate_failure, translated


class FakeJava:
    """A Java exception with a chain of causes."""

    def __init__(self, *messages: str) -> None:
        self._message, self._rest = messages[0], messages[1:]

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> FakeJava | None:
        return FakeJava(*self._rest) if self._rest else None


def failed_with(*messages: str) -> PySparkException:
    error = PySparkException(messages[0])
    error._origin = FakeJava(*messages)  # type: ignore[attr-defined]
    return error


READING = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/in%20put/a.parquet.  SQLSTATE: KD001"
)
FULL = (
    'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
    'OSError: [Errno 28] No space left on device: "/d"\n'
)


@pytest.mark.parametrize(
    ("messages", "expected", "text"),
    [
        (
            ["[PATH_NOT_FOUND] Path does not exist: file:/data/none*. SQLSTATE: 42K03"],
            NotFoundError,
            "cannot do it: /data/none* does not exist",
        ),
        (
            ["[PATH_NOT_FOUND] Path does not exist: s3a://bucket/key. SQLSTATE: 42K03"],
            NotFoundError,
            "cannot do it: s3a://bucket/key does not exist",
        ),
        (
            [
                "[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet. It must be specified manually. "
                "SQLSTATE: 42KD9"
            ],
            NotFoundError,
            "cannot do it: no file of the source contains data; a source that may be empty needs a schema",
        ),
        (
            [READING, "file:/data/in put/a.parquet is not a Parquet file. Expected magic number at tail"],
            CorruptDataError,
            "cannot do it: /data/in put/a.parquet cannot be read: file:/data/in put/a.parquet is not a Parquet file. "
            "Expected magic number at tail",
        ),
        (
            [READING, "/data/in put/a.parquet (Permission denied)"],
            StorageError,
            "cannot do it: /data/in put/a.parquet cannot be read: /data/in put/a.parquet (Permission denied)",
        ),
        (
            [
                "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///data/a.parquet. File "
                "does not exist. It is possible the underlying files have been updated.\nYou can … SQLSTATE: KD001",
                "File file:/data/a.parquet does not exist",
            ],
            NotFoundError,
            "cannot do it: /data/a.parquet no longer exists",
        ),
        (
            [
                "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file "
                "file:///data/b.parquet. Data type mismatches when reading Parquet column [a]. Expected Spark type "
                "bigint, actual Parquet type BINARY. SQLSTATE: KD001",
                "column: [a], physicalType: BINARY, logicalType: bigint",
            ],
            SchemaMismatchError,
            "cannot do it: the types in /data/b.parquet differ from the declared types or from those of the other "
            "files: Data type mismatches "
            "when reading Parquet column [a]. Expected Spark type bigint, actual Parquet type BINARY.",
        ),
        (
            [
                "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected: x.\n"
                "Parse Mode: FAILFAST."
            ],
            CorruptDataError,
            "cannot do it: Malformed records are detected: x. Parse Mode: FAILFAST.",
        ),
        (
            [
                "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved. Did you mean one of "
                "the following? [`id`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['nope]\n+- Range"
            ],
            InvalidInputError,
            "cannot do it: A column with name `nope` cannot be resolved. Did you mean one of the following? [`id`].",
        ),
        (
            [
                "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012\n"
                "== SQL (line 1, position 8) ==\n1/0"
            ],
            InvalidInputError,
            "cannot do it: Division by zero. Use `try_divide`.",
        ),
        (
            [
                "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql:*********(redacted) on the operation: Couldn't "
                "connect to the database SQLSTATE: HV000",
                'FATAL: password authentication failed for user "lance"',
            ],
            StorageError,
            "cannot do it: Failed JDBC jdbc:postgresql:*********(redacted) on the operation: Couldn't connect to the "
            'database: FATAL: password authentication failed for user "lance"',
        ),
        (
            [
                "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc: on the operation: Failed to connect SQLSTATE: HV000",
                "No suitable driver found for jdbc:nosuch://lance:s3cr3t@host/db",
            ],
            StorageError,
            "cannot do it: Failed JDBC jdbc: on the operation: Failed to connect",
        ),
        (["[UNSUPPORTED_FEATURE.X] Not this. SQLSTATE: 0A000"], NotSupportedError, "cannot do it: Not this."),
        ([FULL], StorageError, 'cannot do it: OSError: [Errno 28] No space left on device: "/d"'),
        (
            ["Job aborted due to stage failure: Task 0", "error while calling spill()", "No space left on device"],
            StorageError,
            "cannot do it: Spark's working directory (spark.local.dir) is full: No space left on device",
        ),
        (
            ["Job aborted", "Python worker exited unexpectedly (crashed). Consider setting 'x'"],
            StorageError,
            "cannot do it: a worker process repeatedly exited unexpectedly; the most common cause is lack of memory",
        ),
        (
            ["Job aborted", "java.lang.OutOfMemoryError: Java heap space"],
            StorageError,
            "cannot do it: Spark ran out of memory; increase spark.driver.memory or spark.executor.memory",
        ),
        (
            [
                "Traceback (most recent call last):\n  File 'x'\nbotocore.exceptions.SomeError: one\n"
                "ValueError: it is odd\n"
            ],
            InternalError,
            "cannot do it: ValueError in a worker: it is odd",
        ),
        (
            ["Traceback (most recent call last):\n  File 'x'\nPermissionError: [Errno 13] Permission denied: '/x'\n"],
            StorageError,
            "cannot do it: PermissionError in a worker: [Errno 13] Permission denied: '/x'",
        ),
        (["something new\n\tat java.lang.Thread"], InternalError, "cannot do it: something new"),
    ],
)
def test_a_failure_of_spark_becomes_a_typed_error(messages: list[str], expected: type[LanceError], text: str) -> None:
    failure = translate_failure(failed_with(*messages), "cannot do it")
    assert type(failure) is expected
    assert str(failure) == text


def test_a_cycle_of_java_causes_becomes_an_internal_error() -> None:
    error = failed_with("first")
    error._origin.getCause = lambda: error._origin  # type: ignore[attr-defined]
    assert type(translate_failure(error, "x")) is InternalError


def test_spark_exceptions_without_a_java_cause_become_typed_errors() -> None:
    assert type(translate_failure(AnalysisException("[X] no. SQLSTATE: 42000"), "x")) is InvalidInputError
    assert type(translate_failure(IllegalArgumentException('For input string: "abc"'), "x")) is InvalidInputError
    assert type(translate_failure(Py4JNetworkError("Answer from Java side is empty"), "x")) is StorageError


def test_a_typed_error_of_a_worker_is_raised_unchanged() -> None:
    original = SchemaMismatchError("column 'v': two\nlines", column="v", row=3)
    with pytest.raises(SchemaMismatchError) as raised, reported_to_driver():
        raise original
    trace = "Traceback (most recent call last):\n  …\nlance_core.errors.SchemaMismatchError: column 'v': two\nlines\n"
    trace += "\n".join(raised.value.__notes__) + "\n\n\tat org.apache.spark"
    failure = translate_failure(failed_with("Job aborted", trace), "cannot do it")
    assert type(failure) is SchemaMismatchError
    assert failure.message == original.message
    assert dict(failure.context) == {"column": "v", "row": 3}


def test_a_translated_error_keeps_its_cause_and_other_errors_propagate_unchanged() -> None:
    original = failed_with("something")
    with pytest.raises(InternalError) as raised, translated("cannot do it"):
        raise original
    assert raised.value.__cause__ is original
    with pytest.raises(KeyError), translated("cannot do it"):
        raise KeyError("not Spark's")
