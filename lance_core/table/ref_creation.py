"""Creation of tag and branch files: exactly one of several writers succeeds, even if responses are lost.

If a create request does not return "created", the file is read back and compared with the content to be written. No
two writers write the same content, because it includes the creation time of a tag or the identity of a branch.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lance_core.errors import CommitOutcomeUnknownError, LanceError, NotFoundError, StorageError
from lance_core.io.object_store import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_core.io.object_store import ObjectStore

__all__ = ["create_ref", "known_to_exist"]

_ATTEMPTS: Final = 3


def create_ref(
    store: ObjectStore, path: str, data: bytes, create: Callable[[str, bytes], PutOutcome] | None = None
) -> PutOutcome:
    """Create a file unless another writer has created it.

    Args:
        store: the store of the dataset.
        path: the path of the file.
        data: the content of the file, which no other writer produces.
        create: function that creates a file unless it exists; if None, the store creates it.

    Raises:
        UnsafeStoreError: the store cannot create a file atomically.
        StorageError: a storage operation failed, and the file does not exist.
        CommitOutcomeUnknownError: it could not be determined whether the file exists or may still appear.
    """
    create = store.put_if_absent if create is None else create
    in_flight: StorageError | None = None
    cause: StorageError | None = None
    for _ in range(_ATTEMPTS):
        cause = None
        try:
            if create(path, data) is PutOutcome.CREATED:
                return PutOutcome.CREATED
        except StorageError as error:
            cause = error
        found = _read_back(store, path, cause)
        if found is not None:
            return PutOutcome.CREATED if found == data else PutOutcome.EXISTS
        if cause is not None and cause.in_flight:
            in_flight = cause
        if cause is not None and not cause.retryable:
            break
    if in_flight is not None:
        raise CommitOutcomeUnknownError(
            f"{path}: an earlier request to create the file may still be in progress: {in_flight}", path=path
        ) from in_flight
    if cause is not None:
        raise cause
    raise StorageError(
        f"cannot create {path}: the store rejected the request {_ATTEMPTS} times, but the file does not exist",
        path=path,
    )


@contextmanager
def known_to_exist(what: str) -> Iterator[None]:
    """Convert errors raised after a successful create, so that they are not mistaken for a failed create."""
    try:
        yield
    except StorageError as error:
        raise CommitOutcomeUnknownError(f"{what} was created, but could not be verified: {error}") from error


def _read_back(store: ObjectStore, path: str, cause: StorageError | None) -> bytes | None:
    """Return the content of the file after a create that did not return "created"; None if it does not exist."""
    try:
        return bytes(store.get(path))
    except NotFoundError:
        return None
    except LanceError as error:
        raise CommitOutcomeUnknownError(
            f"could not determine whether {path} was created: {cause or error}", path=path
        ) from error
