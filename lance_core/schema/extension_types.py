"""Converts between the storage types that files contain and the extension types that are registered with Arrow.

The metadata of a field contains the name of its extension type. Arrow resolves such names when a schema or an array
passes through its IPC format or its C data interface. This module uses both. Nested fields are converted, too, and no
data is copied.

**Source:** metadata keys ``ARROW:extension:name`` and ``ARROW:extension:metadata`` of the Arrow columnar format.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.schema.field import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY
from lance_core.schema.logical_types import BFLOAT16

if TYPE_CHECKING:
    from lance_core.schema.field import Field

__all__ = [
    "contains_extension",
    "extension_metadata",
    "has_extension",
    "restore_batch",
    "restore_schema",
    "storage_array",
    "storage_type",
    "with_children",
]

_LENGTH_BYTES: Final = 4


def has_extension(field: Field) -> bool:
    """Return whether the field or one of its descendants has an extension type."""
    return any(node.extension_name or BFLOAT16 in node.logical_type for node in field.walk())


def restore_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with registered extension types restored; unknown or invalid ones remain storage types."""
    # This library's type is registered when it is first needed, unless another library has already registered it.
    from lance_core.schema import blob_types  # noqa: F401  # registers the type

    try:
        return pa.ipc.read_schema(schema.serialize())
    except (pa.ArrowException, ValueError, TypeError, KeyError):
        # An extension type validates its own parameters; if it rejects them, the storage remains readable.
        return schema


def restore_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the types of ``schema``, which :func:`restore_schema` returned; no data is copied."""
    if batch.schema.equals(schema):
        return batch
    return pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())


def extension_metadata(dtype: pa.BaseExtensionType) -> dict[str, bytes]:
    """Return the field metadata that specifies an extension type and its parameters.

    Arrow's own extension types do not expose their serialized parameters to Python, but the C data interface does. In
    this interface, metadata has the form ``i32 n | n x (i32 length | key | i32 length | value)`` in native byte order.
    """
    serialize = getattr(dtype, "__arrow_ext_serialize__", None)
    if serialize is not None:
        name = dtype.extension_name.encode()
        return {EXTENSION_NAME_KEY: name, EXTENSION_METADATA_KEY: bytes(serialize())}
    capsule = pa.field("", dtype).__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The third pointer of ArrowSchema, after format and name.
    at = ctypes.cast(pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))[2]
    texts = []
    if at:
        num_texts = 2 * ctypes.c_int32.from_address(at).value
        at += _LENGTH_BYTES
        for _ in range(num_texts):
            length = ctypes.c_int32.from_address(at).value
            texts.append(ctypes.string_at(at + _LENGTH_BYTES, length))
            at += _LENGTH_BYTES + length
    return {key.decode(): value for key, value in zip(texts[::2], texts[1::2], strict=True)}


def contains_extension(dtype: pa.DataType) -> bool:
    """Return whether the type is an extension type or contains one."""
    if isinstance(dtype, pa.BaseExtensionType):
        return True
    if not dtype.num_fields:
        return False
    return any(contains_extension(dtype.field(index).type) for index in range(dtype.num_fields))


def storage_type(dtype: pa.DataType) -> pa.DataType:
    """Return a type in which storage types replace all extension types; field metadata is omitted."""
    if isinstance(dtype, pa.BaseExtensionType):
        return storage_type(dtype.storage_type)
    if not contains_extension(dtype):
        return dtype
    children = [
        child.with_type(storage_type(child.type)).remove_metadata()
        for child in (dtype.field(index) for index in range(dtype.num_fields))
    ]
    return with_children(dtype, children)


def with_children(dtype: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    """Return the same kind of nested type with different children."""
    if pa.types.is_struct(dtype):
        return pa.struct(children)
    if pa.types.is_map(dtype):
        return pa.map_(*children[0].type)
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(children[0], dtype.list_size)
    return pa.large_list(children[0]) if pa.types.is_large_list(dtype) else pa.list_(children[0])


def storage_array(array: pa.Array) -> pa.Array:
    """Return an array in which storage types replace all extension types; no data is copied."""
    if not contains_extension(array.type):
        return array
    _, content = array.__arrow_c_array__()
    return pa.Array._import_from_c_capsule(storage_type(array.type).__arrow_c_schema__(), content)
