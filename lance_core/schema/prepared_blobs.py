"""The prepared shape of v2 blobs: the descriptors that writers of sidecar files provide, one struct per value.

====  ============  ===========================================================================
Kind  Name          Members set in addition to ``kind``; all others are null
====  ============  ===========================================================================
0     inline        data
1     packed        blob_id, blob_size, position
2     dedicated     blob_id, blob_size
3     external      uri; if known, also blob_size, position, and blob_id (of a base path)
4     managed       uri relative to the root of the table, blob_size, position
5     managed       uri relative to base path blob_id, blob_id, blob_size, position
====  ============  ===========================================================================

A null value is a null struct.

**Source:** ``BlobDescriptorArrayBuilder`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.schema.blob_fields import is_blob_v2, prepared_field
from lance_core.schema.field import BLOB_V2, EXTENSION_NAME_KEY

if TYPE_CHECKING:
    from lance_core.schema.field import Field

__all__ = [
    "DEDICATED",
    "EXTERNAL",
    "INLINE",
    "MANAGED",
    "MANAGED_IN_BASE",
    "PACKED",
    "PREPARED_TYPE",
    "in_given_shape",
    "is_managed_path",
    "prepared_arrow_field",
]

INLINE, PACKED, DEDICATED, EXTERNAL, MANAGED, MANAGED_IN_BASE = range(6)

PREPARED_TYPE: Final = pa.struct(
    [
        ("kind", pa.uint8()),
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("blob_id", pa.uint32()),
        ("blob_size", pa.uint64()),
        ("position", pa.uint64()),
    ]
)


def prepared_arrow_field(name: str) -> pa.Field:
    """Return the Arrow field of a column of prepared descriptors."""
    return pa.field(name, PREPARED_TYPE, metadata={EXTENSION_NAME_KEY: BLOB_V2})


def in_given_shape(declared: Field, given: pa.DataType) -> Field:
    """Return a table field in which blobs that are given as descriptors have the prepared shape.

    Args:
        declared: the field of the table, with its ids.
        given: type of the given rows; it may differ from the type of the field.
    """
    if is_blob_v2(declared):
        return prepared_field(declared) if given == PREPARED_TYPE else declared
    if declared.is_leaf or isinstance(given, pa.BaseExtensionType):
        return declared
    below = [given.field(index) for index in range(given.num_fields)]
    types = {child.name: child.type for child in below}
    if not declared.is_struct and len(below) == 1:
        types = {declared.children[0].name: below[0].type}
    children = tuple(
        in_given_shape(child, types[child.name]) if child.name in types else child for child in declared.children
    )
    return declared if children == declared.children else declared.with_children(children)


def is_managed_path(uri: str) -> bool:
    """Return whether the URI of a managed value is a relative path below its base directory."""
    is_plain = all(" " <= character != "\x7f" and character != "\\" for character in uri)
    return is_plain and {"", ".", ".."}.isdisjoint(uri.split("/"))
