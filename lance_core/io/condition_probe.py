"""Checks whether a store honors the condition "create only if absent": once for each bucket and process.

A server that does not know ``If-None-Match`` may ignore it and answer that the object was created. Two writers could
then both create the same version, and the rows of one would be lost. Before the first such write, an object with a
unique name is therefore created, and created again under the condition: a store that answers "created" both times is
rejected.

The object is next to the one to be created and is named like a leftover of an interrupted local commit, so that it is
not mistaken for a version and cleanup removes it. It is deleted immediately.

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
_ADVICE: Final = "commits to it are not safe without a commit_lock or an external manifest store (s3+ddb://, s3+sql://)"
_found: dict[tuple[str, str], bool] = {}


class ConditionalPuts(Protocol):
    """A store that might not honor the condition."""

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
    """A store that tests the condition before it relies on it."""

    def require_condition(self, path: str) -> None:
        """Test the condition with an object next to ``path``. Errors: see :func:`require_condition`."""
        ...


def require_condition(store: ConditionalPuts, place: tuple[str, str], path: str) -> None:
    """Reject a store that does not honor the condition.

    Args:
        store: the store.
        place: endpoint and bucket; the key of the cached result.
        path: path of the object to be created.

    Raises:
        UnsafeStoreError: the store ignores or does not know the condition.
        StorageError: the result could not be determined.
    """
    keeps = _found.get(place)
    if keeps is None:
        keeps = _found[place] = _try_condition(store, f"{path}#{secrets.randbelow(10**18)}")
    if not keeps:
        endpoint, bucket = place
        raise UnsafeStoreError(
            f"bucket {bucket} at {endpoint} ignores the condition If-None-Match; {_ADVICE}",
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
