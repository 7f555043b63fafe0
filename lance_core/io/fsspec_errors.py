"""Converts errors of fsspec packages to errors of this library.

The conversion uses status codes and built-in exception types, because every package has its own exception classes.

Source: errors of gcsfs, adlfs and azure-core.
"""

from __future__ import annotations

import errno
from typing import Final

from lance_core.errors import AccessDeniedError, CorruptDataError, LanceError, NotFoundError, StorageError
from lance_core.io.s3_errors import redacted

__all__ = ["EXCLUSIVE_VERB", "ObjectExistsError", "translate_fsspec"]

EXCLUSIVE_VERB: Final = "create"
"""Verb that messages use for an exclusive create, which fails if the object already exists."""

_WRITING: Final = frozenset({EXCLUSIVE_VERB, "write"})
_NOT_FOUND: Final = 404
_PAST_THE_END: Final = 416
_FIRST_SERVER_FAILURE: Final = 500
_THROTTLED: Final = 429


class ObjectExistsError(LanceError):
    """An exclusive create found an existing object. Stores handle this error internally."""


def translate_fsspec(error: Exception, verb: str, path: str, secrets: tuple[str, ...]) -> LanceError:
    """Convert an error raised by an fsspec package.

    Args:
        error: the error raised by the package.
        verb: the attempted operation.
        path: URI of the object.
        secrets: values that must not appear in messages.
    """
    status = getattr(error, "code", None) or getattr(error, "status_code", None)
    code = int(status) if isinstance(status, (int, str)) and str(status).isdecimal() else 0
    what = f"cannot {verb} {path}"
    text = redacted(str(error) or type(error).__name__, secrets)
    if verb == EXCLUSIVE_VERB and (isinstance(error, FileExistsError) or code in (409, 412)):
        return ObjectExistsError(f"{what}: the object already exists", path=path)
    is_missing = isinstance(error, FileNotFoundError) or code == _NOT_FOUND
    if is_missing and verb in _WRITING:
        container = path.partition("://")[2].partition("/")[0]
        return StorageError(f"{what}: container {container!r} does not exist", path=path, errno=errno.ENOENT)
    if is_missing:
        return NotFoundError(f"{what}: the object does not exist", path=path)
    if code == _PAST_THE_END:
        return CorruptDataError(f"{what}: the requested range extends past the end of the object", path=path)
    if isinstance(error, PermissionError) or code in (401, 403) or text.startswith("Forbidden"):
        return AccessDeniedError(f"{what}: {text}", path=path)
    unsettled = code == 0 or code >= _FIRST_SERVER_FAILURE
    return StorageError(
        f"{what}: {type(error).__name__}: {text}",
        path=path,
        status=code,
        retryable=unsettled or code == _THROTTLED,
        in_flight=unsettled,
    )
