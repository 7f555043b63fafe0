"""Checks, once for each bucket and process, whether a store honors the condition "create only if absent".

A server that does not support ``If-None-Match`` may ignore it and respond that the object was created. Two writers
could then both create the same version, and the rows of one of them would be lost. Therefore, before the first
conditional write, a test object with a unique name is created unconditionally; then, a conditional request tries to
create it again. A store that responds "created" both times is rejected.

The test object is stored next to the object to be created. It is deleted immediately after the test. If it remains
nevertheless, a cleanup removes it. It cannot be mistaken for a version, because its name has the form of a temporary
file of an interrupted local commit.

Source: behavior of rclone's ``serve s3``, which ignores conditions.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from lance_core.errors import LanceError, NotSupportedError, StorageError, UnsafeStoreError
from lance_core.io.object_store import PutOutcome

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ConditionalPuts", "ProbedStore", "require_condition"]

_NOT_IMPLEMENTED: Final = (400, 405, 501)
_ADVICE: Final = "to commit safely, use a commit_lock or an external manifest store (s3+ddb://, s3+sql://)"
_found: dict[tuple[str, str], bool] = {}


class ConditionalPuts(Protocol):
    """A store that sends conditional writes to a server that may ignore the condition."""

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        """Create or replace an object."""
        ...

    def put_if_none_match(self, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Send one conditional request, without checking that the store honors the condition."""
        ...

    def delete(self, path: str) -> None:
        """Remove one object."""
        ...


@runtime_checkable
class ProbedStore(Protocol):
    """A store that can test whether its server honors the condition."""

    def require_condition(self, path: str) -> None:
        """Raise an error if the server ignores the condition "create only if absent".

        The test uses an object next to ``path``. For the errors, see the module-level function.
        """
        ...


def require_condition(store: ConditionalPuts, place: tuple[str, str], path: str) -> None:
    """Raise an error if a store does not honor the condition "create only if absent".

    Args:
        store: the store.
        place: endpoint and bucket, the key under which the result is cached.
        path: path of the object to be created.

    Raises:
        UnsafeStoreError: the store ignores or does not support the condition.
        StorageError: the test failed, so it is unknown whether the store honors the condition.
    """
    keeps = _found.get(place)
    if keeps is None:
        keeps = _found[place] = _try_condition(store, f"{path}#{secrets.randbelow(10**18)}")
    if not keeps:
        endpoint, bucket = place
        raise UnsafeStoreError(
            f"bucket {bucket} at {endpoint} does not honor the condition If-None-Match; {_ADVICE}",
            path=path,
            bucket=bucket,
            endpoint=endpoint,
        )


def _try_condition(store: ConditionalPuts, path: str) -> bool:
    try:
        store.put(path, b"probe")
        return store.put_if_none_match(path, b"probe") is PutOutcome.EXISTS
    except NotSupportedError:
        return False
    except StorageError as error:
        if error.context.get("status") in _NOT_IMPLEMENTED:
            return False
        raise
    finally:
        with suppress(LanceError):
            store.delete(path)
