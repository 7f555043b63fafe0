"""Creation of files that are not versions, such as tags, for protocols in which the store does not decide commits.

If the store supports conditional creates, exactly one writer creates the file. Otherwise, the file is checked, written
and read back: two simultaneous writers may then both get ``CREATED``, and one of their files remains, as with the
reference in all cases. Versions are never created this way.
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
