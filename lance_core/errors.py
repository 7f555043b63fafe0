"""The exception hierarchy of ``lance_core``, grouped by what the caller should do next.

==============================  ==================================================================
Group                           What the caller should do next
==============================  ==================================================================
``InvalidInputError``           correct the call
``NotFoundError``               use a different location or name
``AlreadyExistsError``          use a different mode or name
``NotSupportedError``           upgrade, or convert the data
``CorruptDataError``            stop: the data violates the format; retrying never helps
``CommitConflictError``         read the new version and repeat the operation, or give up (see the subclasses)
``CommitOutcomeUnknownError``   read the versions first: the commit may have succeeded
``StorageError``                retry if ``.retryable`` is True
``OutOfMemoryError``            request fewer rows or columns at once
``InternalError``               report a bug
==============================  ==================================================================

If pylance raises a built-in exception in the same situation, the class here also inherits from that exception, so that
existing ``except`` clauses keep working. Every error can be pickled, because Spark workers and Dagster's multiprocess
executor send errors between processes.
"""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "CommitConflictError",
    "CommitOutcomeUnknownError",
    "CommitOvertakenError",
    "CorruptDataError",
    "DatasetNotFoundError",
    "ErrorKind",
    "IncompatibleTransactionError",
    "IndexNotFoundError",
    "InternalError",
    "InvalidCleanupError",
    "InvalidInputError",
    "InvalidMergeError",
    "InvalidRefError",
    "InvalidSchemaError",
    "InvalidTypeError",
    "LanceError",
    "NotFoundError",
    "NotSupportedError",
    "OutOfMemoryError",
    "RefAlreadyExistsError",
    "RefConflictError",
    "RefNotFoundError",
    "RetryableCommitConflictError",
    "RowOutOfRangeError",
    "SchemaMismatchError",
    "StorageError",
    "TooMuchWriteContentionError",
    "UnsafeStoreError",
    "UnsupportedEncodingError",
    "UnsupportedFeatureFlagError",
    "UnsupportedSchemeError",
    "UnsupportedVersionError",
    "VersionNotFoundError",
]


class ErrorKind(StrEnum):
    """Machine-readable error codes. Existing values never change, because logs and alerts match on them."""

    INVALID_INPUT = "invalid_input"
    SCHEMA_MISMATCH = "schema_mismatch"
    NOT_FOUND = "not_found"
    DATASET_NOT_FOUND = "dataset_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    REF_NOT_FOUND = "ref_not_found"
    ALREADY_EXISTS = "already_exists"
    NOT_SUPPORTED = "not_supported"
    UNSUPPORTED_VERSION = "unsupported_version"
    UNSUPPORTED_FEATURE_FLAG = "unsupported_feature_flag"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    CORRUPT_DATA = "corrupt_data"
    COMMIT_CONFLICT = "commit_conflict"
    RETRYABLE_COMMIT_CONFLICT = "retryable_commit_conflict"
    INCOMPATIBLE_TRANSACTION = "incompatible_transaction"
    TOO_MUCH_WRITE_CONTENTION = "too_much_write_contention"
    COMMIT_OUTCOME_UNKNOWN = "commit_outcome_unknown"
    STORAGE = "storage"
    INTERNAL = "internal"
    INVALID_SCHEMA = "invalid_schema"
    INVALID_TYPE = "invalid_type"
    ROW_OUT_OF_RANGE = "row_out_of_range"
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    INVALID_REF = "invalid_ref"
    REF_ALREADY_EXISTS = "ref_already_exists"
    INVALID_CLEANUP = "invalid_cleanup"
    ACCESS_DENIED = "access_denied"
    UNSAFE_STORE = "unsafe_store"
    INDEX_NOT_FOUND = "index_not_found"
    REF_CONFLICT = "ref_conflict"
    OUT_OF_MEMORY = "out_of_memory"
    COMMIT_OVERTAKEN = "commit_overtaken"
    INVALID_MERGE = "invalid_merge"


class LanceError(Exception):
    """Base class of the errors that ``lance_core`` defines.

    Args:
        message: what went wrong and where, what was expected, and what was found.
        context: details for programs, such as path, version, offset, or encoding; the values must be picklable.

    Attributes:
        kind: the error code of the class.
        context: details for programs, read-only.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL

    def __init__(self, message: str = "", **context: object) -> None:
        super().__init__(message)
        self.message = message
        self._context = dict(context)

    @property
    def context(self) -> Mapping[str, object]:
        """Details for programs, such as path, version, or offset; read-only."""
        return MappingProxyType(self._context)

    def __str__(self) -> str:
        # OSError and KeyError override __str__; these errors always show the message.
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self._context))


def _set_os_attributes(error: OSError, number: object, path: object) -> None:
    if isinstance(number, int):
        error.errno = number
        error.strerror = os.strerror(number)
    if isinstance(path, str):
        error.filename = path


def _rebuild(cls: type[LanceError], message: str, context: dict[str, object]) -> LanceError:
    return cls(message, **context)


class InvalidInputError(LanceError, ValueError):
    """An argument is invalid; nothing was changed."""

    kind = ErrorKind.INVALID_INPUT


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has an unsupported type."""

    kind = ErrorKind.INVALID_TYPE


class InvalidSchemaError(InvalidInputError, OSError):
    """The table schema is invalid; for example, a column name is reserved, contains a dot, or occurs twice."""

    kind = ErrorKind.INVALID_SCHEMA


class InvalidRefError(InvalidInputError, OSError):
    """The name of a tag or branch is invalid."""

    kind = ErrorKind.INVALID_REF


class RefConflictError(InvalidInputError, OSError):
    """A branch to be deleted is used by a tag or branch, or a branch was deleted or recreated during the operation."""

    kind = ErrorKind.REF_CONFLICT


class InvalidCleanupError(InvalidInputError, OSError):
    """The cleanup options are invalid, or the cleanup would remove tagged versions."""

    kind = ErrorKind.INVALID_CLEANUP


class InvalidMergeError(InvalidInputError, OSError):
    """A condition or the write mode of a merge is invalid, or source rows match rows that they must not match."""

    kind = ErrorKind.INVALID_MERGE


class RowOutOfRangeError(InvalidInputError, OSError):
    """A row position is out of range."""

    kind = ErrorKind.ROW_OUT_OF_RANGE


class SchemaMismatchError(InvalidInputError, OSError):
    """The schema of the data does not match the schema of the dataset."""

    kind = ErrorKind.SCHEMA_MISMATCH


class NotFoundError(LanceError, FileNotFoundError):
    """The requested object does not exist. ``errno`` is ENOENT, and ``filename`` is the path, if there is one."""

    kind = ErrorKind.NOT_FOUND

    def __init__(self, message: str = "", **context: object) -> None:
        super().__init__(message, **context)
        _set_os_attributes(self, errno.ENOENT, context.get("path"))


class DatasetNotFoundError(NotFoundError, ValueError):
    """No dataset exists at this location. Also a ``ValueError``, as in pylance."""

    kind = ErrorKind.DATASET_NOT_FOUND


class VersionNotFoundError(NotFoundError, ValueError):
    """The version does not exist."""

    kind = ErrorKind.VERSION_NOT_FOUND


class RefNotFoundError(NotFoundError, ValueError):
    """The dataset has no such tag or branch."""

    kind = ErrorKind.REF_NOT_FOUND


class IndexNotFoundError(NotFoundError, RuntimeError):
    """The dataset has no such index. Also a ``RuntimeError``, as in pylance."""

    kind = ErrorKind.INDEX_NOT_FOUND


class AlreadyExistsError(LanceError, FileExistsError):
    """A dataset, tag, or file with the same name already exists."""

    kind = ErrorKind.ALREADY_EXISTS


class RefAlreadyExistsError(AlreadyExistsError, ValueError):
    """A tag or branch with the same name already exists. Also a ``ValueError``, as in pylance."""

    kind = ErrorKind.REF_ALREADY_EXISTS


class NotSupportedError(LanceError, NotImplementedError, OSError):
    """The request is valid, but this library does not support it."""

    kind = ErrorKind.NOT_SUPPORTED


class UnsupportedVersionError(NotSupportedError):
    """This library cannot read or write this file format version."""

    kind = ErrorKind.UNSUPPORTED_VERSION


class UnsupportedFeatureFlagError(NotSupportedError):
    """The table uses a feature flag that this library does not support."""

    kind = ErrorKind.UNSUPPORTED_FEATURE_FLAG


class UnsupportedEncodingError(NotSupportedError):
    """This library does not support this page encoding."""

    kind = ErrorKind.UNSUPPORTED_ENCODING


class UnsupportedSchemeError(NotSupportedError, ValueError):
    """This library does not support this URI scheme."""

    kind = ErrorKind.UNSUPPORTED_SCHEME


class UnsafeStoreError(NotSupportedError):
    """The store ignores the condition "create only if absent", so two writers could both commit the same version."""

    kind = ErrorKind.UNSAFE_STORE


class CorruptDataError(LanceError, ValueError):
    """The data violates the format. Retrying never helps."""

    kind = ErrorKind.CORRUPT_DATA


class CommitConflictError(LanceError, OSError):
    """Another writer committed a change that conflicts with this commit.

    Attributes:
        retryable: True if the operation may succeed when it is repeated on the latest version.
    """

    kind = ErrorKind.COMMIT_CONFLICT

    @property
    def retryable(self) -> bool:
        """True if the operation may succeed when it is repeated on the latest version."""
        return bool(self._context.get("retryable", True))


class RetryableCommitConflictError(CommitConflictError):
    """The operation conflicts with a new version; read that version and repeat the operation."""

    kind = ErrorKind.RETRYABLE_COMMIT_CONFLICT


class CommitOvertakenError(RetryableCommitConflictError):
    """The version was created too late: for example, after a cleanup had removed another version with the same number.

    The content of the table is unchanged: the new version was removed again, or a newer version reverted it. Repeat the
    operation and write its files again, because a cleanup may still remove the files of this commit.
    """

    kind = ErrorKind.COMMIT_OVERTAKEN


class IncompatibleTransactionError(CommitConflictError):
    """A newer version makes the operation invalid."""

    kind = ErrorKind.INCOMPATIBLE_TRANSACTION

    @property
    def retryable(self) -> bool:
        """False: the operation can never succeed."""
        return False


class TooMuchWriteContentionError(CommitConflictError):
    """In every attempt, another writer committed first; nothing was committed."""

    kind = ErrorKind.TOO_MUCH_WRITE_CONTENTION


class CommitOutcomeUnknownError(LanceError, OSError):
    """It is unknown whether the commit succeeded. Read the versions before trying again."""

    kind = ErrorKind.COMMIT_OUTCOME_UNKNOWN


class StorageError(LanceError, OSError):
    """A storage operation failed, for example because the disk is full, a permission is missing, or the network failed.

    The context entries ``errno`` and ``path``, if present, set the ``OSError`` attributes ``errno`` and ``filename``.

    Attributes:
        retryable: True if the same call may succeed later without any change.
        in_flight: True if the store may still execute the call, because it was sent and no final response arrived.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, message: str = "", **context: object) -> None:
        super().__init__(message, **context)
        _set_os_attributes(self, context.get("errno"), context.get("path"))

    @property
    def retryable(self) -> bool:
        """True if the same call may succeed later without any change."""
        return bool(self._context.get("retryable", False))

    @property
    def in_flight(self) -> bool:
        """True if the store may still execute the call, because it was sent and no final response arrived."""
        return bool(self._context.get("in_flight", False))


class AccessDeniedError(StorageError, PermissionError):
    """The store rejected the credentials, or the credentials do not permit the operation."""

    kind = ErrorKind.ACCESS_DENIED


class OutOfMemoryError(LanceError, MemoryError):
    """The requested data does not fit in memory; the data itself is valid."""

    kind = ErrorKind.OUT_OF_MEMORY


class InternalError(LanceError):
    """A bug in this library; please report it."""

    kind = ErrorKind.INTERNAL
