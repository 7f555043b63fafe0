"""Whether a store keeps the condition "create only if absent": tried once for each bucket and process.

A server that does not know ``If-None-Match`` may pass it over and answer that the object was created. Two writers
would then both win one version, and the rows of one would be gone. So before the first such write an object of a name
that nobody else has is created, and created again under the condition: a store that answers "created" both times is
refused.

The object lies beside the one that is to be made, is named like the residue of an interrupted local commit, so that
nobody takes it for a version and a cleanup removes it, and is deleted at once.

Source: behavior of rclone's ``serve s3``, which passes conditions over.
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
    """A store whose condition is in doubt."""

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        """Create or replace an object."""
        ...

    def put_if_none_match(self, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Return one conditional request, whether or not the store keeps the condition."""
        ...

    def delete(self, path: str) -> None:
        """Remove one object."""
        ...


@runtime_checkable
class ProbedStore(Protocol):
    """A store that tries its condition before it relies on it."""

    def require_condition(self, path: str) -> None:
        """Try it now, beside an object. Raises as :func:`require_condition`."""
        ...


def require_condition(store: ConditionalPuts, place: tuple[str, str], path: str) -> None:
    """Refuse a store that does not keep the condition.

    Args:
        store: the store.
        place: endpoint and bucket, for which the answer is remembered.
        path: the object that is to be created.

    Raises:
        UnsafeStoreError: the store passes the condition over, or does not know it.
        StorageError: it could not be determined.
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
