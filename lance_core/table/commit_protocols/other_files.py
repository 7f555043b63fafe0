"""Creation of a file that is not a version, such as a tag, when the store does not decide about versions.

If the store supports conditional creates, it is still asked to create the file for exactly one writer. Otherwise the
file is checked, written and read back: two simultaneous writers may then both be told that they created the file, and
one file remains, as always with the reference. Versions are never created this way.
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
