"""Converts Spark exceptions to typed errors.

Spark wraps a failure in layers: a Python traceback inside a Java exception inside a Python exception, or a chain of
Java causes. This module flattens the layers to a list of messages, outermost first. The first rule in the following
table that matches one of the messages applies:

================================================  ====================================================
Recognized by                                     Becomes
================================================  ====================================================
an error of this project, noted by a worker       the same class, message, and context
``No space left on device``, quota, file limit    ``StorageError``
``[FAILED_READ_FILE.*]``                          ``NotFoundError`` | ``StorageError`` (permission, network)
                                                  | ``SchemaMismatchError`` | ``CorruptDataError``
``[PATH_NOT_FOUND]``, ``[UNABLE_TO_INFER_SCHEMA]``  ``NotFoundError``
``[MALFORMED_RECORD_IN_PARSING*]``                ``CorruptDataError``
SQLSTATE class 0A                                 ``NotSupportedError``
SQLSTATE class 22 or 42, an illegal option        ``InvalidInputError``
a worker or the JVM exited, or out of memory      ``StorageError``
an ``OSError`` of a worker                        ``StorageError``
anything else                                     ``InternalError``
================================================  ====================================================

Source: error conditions of Spark 4.3 (``error-conditions.json``) and their rendering by PySpark.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]  # no types
from pyspark.errors import IllegalArgumentException, PySparkException

import lance_core.errors
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["reported_to_driver", "stated_plainly", "translate_failure", "translated"]

_NOTE: Final = "[lance-error] "
_NOTE_LINE: Final = re.compile(r"^\[lance-error\] (\{.*\})\s*$", re.MULTILINE)
_READING: Final = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] Encountered error while reading file (.+?)\.\s")
_PATH: Final = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\. SQLSTATE")
_TRACEBACK: Final = "Traceback (most recent call last)"
_SQLSTATE: Final = re.compile(r"SQLSTATE: (\w{2})\w{3}")
_DATABASE: Final = re.compile(r"\[FAILED_JDBC\.\w+\]")
_CONDITION: Final = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|File too large", re.IGNORECASE)
_OUTSIDE: Final = re.compile(
    r"Permission denied|AccessControlException|Access Denied|Connection|timed out|Input/output error|Stale file handle",
    re.IGNORECASE,
)
_NO_MEMORY: Final = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|MemoryError")
_PYTHON_ERROR: Final = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt))(?:: (.*))?$", re.MULTILINE)
_OS_ERRORS: Final = frozenset({"OSError", "PermissionError", "FileNotFoundError", "IsADirectoryError", "TimeoutError"})


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Convert Spark exceptions raised inside the block to typed errors; ``what`` describes the failed operation."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate_failure(error, what) from error


@contextmanager
def reported_to_driver() -> Iterator[None]:
    """In a worker, add a note to typed errors raised inside the block, so that the driver can recreate them."""
    try:
        yield
    except LanceError as error:
        facts = {"class": type(error).__name__, "message": error.message, "context": dict(error.context)}
        error.add_note(_NOTE + json.dumps(facts, default=str))
        raise


@contextmanager
def stated_plainly() -> Iterator[None]:
    """Like :func:`reported_to_driver`, but without the traceback, which Spark would show to the user.

    This is for code that Spark runs in a separate process while it plans a query.
    """
    try:
        with reported_to_driver():
            yield
    except LanceError as error:
        raise error.with_traceback(None) from None


def translate_failure(error: Exception, what: str) -> LanceError:
    """Convert a Spark exception to a typed error.

    Args:
        error: the exception that PySpark or Py4J raised.
        what: what failed, as the beginning of a sentence: ``"cannot read parquet source /data/in"``.

    Returns:
        A typed error, to be raised ``from`` the original. If a worker raised a typed error, the message does not
        contain ``what``, because the worker's error already contains the location.
    """
    messages = _messages(error)
    for rule in (
        _own_error,
        _storage_full,
        _unreadable_file,
        _missing_path,
        _failed_database,
        _unusable_request,
        _lost_process,
    ):
        found = rule(messages, what)
        if found is not None:
            return found
    if isinstance(error, Py4JNetworkError):
        return StorageError(f"{what}: Spark's JVM has exited", retryable=True)
    if isinstance(error, IllegalArgumentException):
        return InvalidInputError(f"{what}: {_summary(messages[0])}")
    return _worker_error(messages, what) or InternalError(f"{what}: {_summary(messages[0])}")


def _messages(error: Exception) -> list[str]:
    """Return the texts of the error and of its Java causes, outermost first."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    texts: list[str] = []
    # A chain of causes may be a cycle.
    while java is not None and len(texts) < 20:
        text = str(java.getMessage() or "")
        texts.append(text if text.strip() else str(java.getClass().getName()))
        java = java.getCause()
    return texts or [str(error)]


def _own_error(messages: Sequence[str], what: str) -> LanceError | None:
    for message in messages:
        note = _NOTE_LINE.search(message)
        if note is None:
            continue
        facts = json.loads(note[1])
        kind = getattr(lance_core.errors, facts["class"], None)
        if isinstance(kind, type) and issubclass(kind, LanceError):
            return kind(facts["message"], **facts["context"])
    return None


def _storage_full(messages: Sequence[str], what: str) -> LanceError | None:
    for message in reversed(messages):
        if _FULL.search(message) is None:
            continue
        line = next(line.strip() for line in reversed(message.splitlines()) if _FULL.search(line))
        if _TRACEBACK not in message:
            # The JVM writes only shuffled and spilled rows.
            line = f"Spark's working directory (spark.local.dir) is full: {line}"
        return StorageError(f"{what}: {line}", retryable=False)
    return None


def _unreadable_file(messages: Sequence[str], what: str) -> LanceError | None:
    for index, message in enumerate(messages):
        reading = _READING.search(message)
        if reading is None:
            continue
        condition, path = reading[1], _plain_path(reading[2])
        causes = messages[index + 1 :]
        reason = _summary(causes[0]) if causes else _summary(message)
        if condition == "FILE_NOT_EXIST":
            return NotFoundError(f"{what}: {path} no longer exists", path=path)
        if any(_OUTSIDE.search(cause) for cause in causes):
            return StorageError(f"{what}: {path} cannot be read: {reason}", path=path)
        if condition == "PARQUET_COLUMN_DATA_TYPE_MISMATCH":
            detail = _summary(message[reading.end() :])
            return SchemaMismatchError(
                f"{what}: the types in {path} differ from the declared types or from those of the other "
                f"files: {detail}",
                path=path,
            )
        return CorruptDataError(f"{what}: {path} cannot be read: {reason}", path=path)
    return None


def _missing_path(messages: Sequence[str], what: str) -> LanceError | None:
    for message in messages:
        missing = _PATH.search(message)
        if missing is not None:
            path = _plain_path(missing[1])
            return NotFoundError(f"{what}: {path} does not exist", path=path)
        if "[UNABLE_TO_INFER_SCHEMA]" in message:
            return NotFoundError(
                f"{what}: no file of the source contains data; a source that may be empty needs a schema"
            )
        if "[MALFORMED_RECORD_IN_PARSING" in message:
            return CorruptDataError(f"{what}: {_summary(message)}")
    return None


def _failed_database(messages: Sequence[str], what: str) -> LanceError | None:
    """Return the failure of a connection to a database, with the message of its driver unless that contains a URL.

    Spark removes the URL from its own message, because it may contain a password.
    """
    for index, message in enumerate(messages):
        if _DATABASE.search(message) is None:
            continue
        said = [_summary(cause) for cause in messages[index + 1 :] if "jdbc:" not in cause and "://" not in cause]
        return StorageError(": ".join([what, _summary(message), *said[:1]]), retryable=False)
    return None


def _unusable_request(messages: Sequence[str], what: str) -> LanceError | None:
    for message in messages:
        state = _SQLSTATE.search(message)
        if state is not None and state[1] == "0A":
            return NotSupportedError(f"{what}: {_summary(message)}")
        if state is not None and state[1] in {"22", "42"}:
            return InvalidInputError(f"{what}: {_summary(message)}")
    return None


def _lost_process(messages: Sequence[str], what: str) -> LanceError | None:
    for message in messages:
        if _NO_MEMORY.search(message):
            return StorageError(
                f"{what}: Spark ran out of memory; increase spark.driver.memory or spark.executor.memory"
            )
        if "Python worker exited unexpectedly" in message or "ExecutorLostFailure" in message:
            return StorageError(
                f"{what}: a worker process repeatedly exited unexpectedly; the most common cause is lack of memory",
                retryable=True,
            )
    return None


def _worker_error(messages: Sequence[str], what: str) -> LanceError | None:
    """Return the exception at the end of a worker's Python traceback."""
    for message in messages:
        raised = _PYTHON_ERROR.findall(message) if _TRACEBACK in message else []
        if raised:
            name, text = raised[-1]
            kind = StorageError if name in _OS_ERRORS else InternalError
            return kind(f"{what}: {name} in a worker: {text}".rstrip(": "))
    return None


def _summary(message: str) -> str:
    """Return the first paragraph of a Spark message without its condition, SQLSTATE, and plan."""
    text = _CONDITION.sub("", message)
    text = re.split(r"\s*SQLSTATE: |\n\s*at |\n\n|\n'|\n== ", text, maxsplit=1)[0]
    return " ".join(text.split()).rstrip(";") or "no message"


def _plain_path(uri: str) -> str:
    """Return a local file's path as the user would write it; other URIs are unchanged."""
    match = re.fullmatch(r"file:/{1,3}(?=[^/])(.*)", uri)
    return unquote(f"/{match[1]}") if match else uri
