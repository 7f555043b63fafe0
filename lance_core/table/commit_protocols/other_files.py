"""Creation of files that are not new versions, such as tags, for commit protocols that do not need conditional creates.

If the store supports conditional creates, exactly one writer creates the file. Otherwise, the file is written if it
does not exist, and read back. Two simultaneous writers may then both get ``CREATED``, although only one of their files
remains. With the reference implementation, this can happen on every store. New versions are never created this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import UnsafeStoreError
from lance_core.io.object_store import PutOutcome, has_object

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["create_other_file"]


def create_other_file(store: ObjectStore, path: str, data: pa.Buffer | bytes) -> PutOutcome:
    """Create a file unless it exists.

    Raises:
        StorageError: a storage operation failed.
    """
    try:
        return store.put_if_absent(path, data)
    except UnsafeStoreError:
        pass
    if has_object(store, path):
        return PutOutcome.EXISTS
    store.put(path, data)
    return PutOutcome.CREATED if bytes(store.get(path)) == bytes(data) else PutOutcome.EXISTS
