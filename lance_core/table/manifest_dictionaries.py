"""Values of dictionary columns, stored in the manifests of 0.1 tables.

Data files in format 0.1 contain only the indices of a dictionary column; all files of the table share the same values.
The values precede all other sections of the manifest file, and ``Field.dictionary`` records their position::

    strings, binaries     bytes | i64 offset[n + 1]     position of the offsets, n; offsets are file positions
    integers              value[n]                      position of the values, n

Every commit writes the values again, because their positions are specific to one manifest file. An empty string or
binary is read as null, because the format cannot represent null in any other way. Manifests of tables in other formats
also contain the message ``Field.dictionary``; it has no meaning there and is kept unchanged.

Source: ``lance.file.Dictionary``; manifests of pylance 14.0.2, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.schema.convert import fields_from_proto
from lance_core.schema.logical_types import arrow_type
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.proto import pb_table

__all__ = ["parse_dictionaries", "place_dictionaries"]

_OFFSET: Final = np.dtype("<i8")
_LEGACY_PAIRS: Final = ((0, 0), (0, 1), (0, 2))


def parse_dictionaries(message: pb_table.Manifest, buffer: pa.Buffer | bytes, path: str) -> dict[int, pa.Array]:
    """Read the values of the dictionary columns; only manifests of tables in format 0.1 contain such values.

    Args:
        message: the manifest.
        buffer: the whole manifest file.
        path: path of the file, for error messages.

    Returns:
        The dictionary values of each column, keyed by field id.

    Raises:
        CorruptDataError: the values are outside the file or invalid for their type.
        NotSupportedError: format 0.1 does not support the type of the values.
    """
    listed = {
        field.id: field.dictionary
        for field in message.fields
        if field.HasField("dictionary") and field.logical_type.startswith("dict:")
    }
    if not listed or not _is_legacy(message):
        return {}
    data = pa.py_buffer(buffer)
    found = {}
    for field in fields_from_proto(message.fields, {}).walk():
        if field.id not in listed:
            continue
        place = listed[field.id]
        try:
            found[field.id] = _read(data, arrow_type(field).value_type, place.offset, place.length)
        except (CorruptDataError, pa.ArrowInvalid, UnicodeDecodeError) as error:
            context = error.context if isinstance(error, LanceError) else {}
            raise CorruptDataError(
                f"manifest {path}: the dictionary of column {field.name!r}: {error}",
                **{**context, "path": path, "field": field.id},
            ) from error
    return found


def place_dictionaries(message: pb_table.Manifest, dictionaries: Mapping[int, pa.Array]) -> bytes:
    """Serialize the values, to be written from position 0 of a manifest file, and record their positions.

    Args:
        message: the manifest. This function sets ``Field.dictionary`` of every field that has values. As in the
            reference implementation, a dictionary field without values has no such message in a 0.1 table, and an empty
            one in all other tables.
        dictionaries: maps field ids to values; values of fields that are not in the manifest are omitted.

    Returns:
        The serialized values.
    """
    is_legacy = _is_legacy(message)
    parts: list[bytes] = []
    position = 0
    for field in message.fields:
        values = dictionaries.get(field.id)
        if values is None:
            if is_legacy:
                field.ClearField("dictionary")
            elif field.logical_type.startswith("dict:"):
                field.dictionary.SetInParent()
            continue
        before, data = _written(values, position)
        parts += [before, data]
        field.dictionary.offset = position + len(before)
        field.dictionary.length = len(values)
        position += len(before) + len(data)
    return b"".join(parts)


def _is_legacy(message: pb_table.Manifest) -> bool:
    if message.HasField("data_format"):
        return message.data_format.version == LanceFileVersion.V0_1.value
    first = next((file for fragment in message.fragments for file in fragment.files), None)
    return first is not None and (first.file_major_version, first.file_minor_version) in _LEGACY_PAIRS


def _read(data: pa.Buffer, value_type: pa.DataType, offset: int, length: int) -> pa.Array:
    is_number = bool(pa.types.is_integer(value_type) or pa.types.is_floating(value_type))
    if not (is_number or _has_offsets(value_type)):
        raise NotSupportedError(f"dictionaries of {value_type} are not supported in format 0.1")
    if length < 0 or offset < 0:
        raise CorruptDataError(
            f"invalid dictionary: {counted(length, 'value')} at position {offset}; expected non-negative numbers"
        )
    if is_number:
        _require(data, offset, length * value_type.byte_width)
        values = data.slice(offset, length * value_type.byte_width)
        return pa.Array.from_buffers(value_type, length, [None, pa.py_buffer(values.to_pybytes())])
    _require(data, offset, (length + 1) * _OFFSET.itemsize)
    offsets = np.frombuffer(data, _OFFSET, length + 1, offset)
    if np.any(offsets < 0) or np.any(offsets > data.size) or np.any(offsets[1:] < offsets[:-1]):
        raise CorruptDataError("the offsets are not in ascending order, or extend past the end of the file")
    binary = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        length,
        [
            pa.array(np.diff(offsets) != 0).buffers()[1],
            pa.py_buffer((offsets - offsets[0]).tobytes()),
            pa.py_buffer(data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()),
        ],
    )
    return binary.cast(value_type)


def _written(values: pa.Array, position: int) -> tuple[bytes, bytes]:
    """Return the bytes to write before the position to record, and the bytes to write from that position on."""
    if not _has_offsets(values.type):
        return b"", np.asarray(values.fill_null(0)).tobytes()
    wide = values.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(wide.buffers()[1], _OFFSET, len(wide) + 1, wide.offset * _OFFSET.itemsize)
    content = wide.buffers()[2]
    held = b"" if content is None else content.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    return held, (offsets - offsets[0] + position).astype(_OFFSET).tobytes()


def _require(data: pa.Buffer, offset: int, num_bytes: int) -> None:
    if offset + num_bytes > data.size:
        raise CorruptDataError(
            f"a range of {counted(num_bytes, 'byte')} at position {offset} extends past the end of the file "
            f"({counted(data.size, 'byte')})"
        )


def _has_offsets(data_type: pa.DataType) -> bool:
    return any(
        is_kind(data_type)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
