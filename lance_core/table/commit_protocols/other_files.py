"""Creating a file that is not a version, such as a tag, where versions are decided elsewhere than in the store.

The store is still asked to create it for one of several writers. One that cannot is looked at, written to and read
back: of two writers at the same moment both may be told that the file is theirs, and one file stays, as with the
reference everywhere. Versions are never made this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError, UnsafeStoreError
from lance_core.io.object_store import PutOutcome

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["create_other_file"]


def create_other_file(store: ObjectStore, path: str, data: pa.Buffer | bytes) -> PutOutcome:
    """Create a file unless it is there.

    Raises:
        StorageError: a storage operation failed.
    """
    try:
        return store.put_if_absent(path, data)
    except UnsafeStoreError:
        pass
    try:
        store.head(path)
    except NotFoundError:
        store.put(path, data)
        return PutOutcome.CREATED if bytes(store.get(path)) == bytes(data) else PutOutcome.EXISTS
    return PutOutcome.EXISTS
