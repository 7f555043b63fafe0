"""Rejects item types of fixed-size lists and dictionaries that logical types cannot express.

Dictionaries and fixed-size lists of types other than structs have no child field whose metadata could contain the name
of an extension type. Of the extension types, logical types can only express ``lance.bfloat16``, at any depth; all
others would be lost silently, as would view types of the values of a dictionary.

**Source:** ``lance.file.Field.logical_type``; behavior of pylance 14.0.2, which rejects the same types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import NotSupportedError
from lance_core.schema.field import EXTENSION_NAME_KEY
from lance_core.schema.logical_types import BFLOAT16, plain_type

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bfloat16_list_name", "check_items"]

_VIEWS: Final = (pa.string_view(), pa.binary_view())
_MAX_DEPTH: Final = 64


def bfloat16_list_name(dtype: pa.DataType) -> str | None:
    """Return the logical type of (nested) fixed-size lists of bfloat16; None for other types."""
    name, sizes = None, []
    for item, size in _lists(dtype):
        sizes.append(str(size))
        name = _extension_of(item)
    if name != BFLOAT16 or len(sizes) > _MAX_DEPTH:
        return None
    return ":".join([*["fixed_size_list"] * len(sizes), BFLOAT16, *reversed(sizes)])


def check_items(dtype: pa.DataType, where: str) -> None:
    """Check that a logical type can express the items of a fixed-size list or the values of a dictionary.

    Args:
        dtype: storage type of a field; all other types pass, without a check of struct members and list items.
        where: path of the column, for messages.

    Raises:
        NotSupportedError: the items have an extension type, or the values a view type; the message contains the type to
            cast to.
    """
    for item, _ in _lists(dtype):
        name = _extension_of(item)
        if name not in ("", BFLOAT16) and not pa.types.is_struct(plain_type(item.type)):
            raise NotSupportedError(
                f"column {where!r}: items of a fixed-size list cannot have the extension type {name}; cast them to "
                f"{plain_type(item.type)}",
                column=where,
            )
    if pa.types.is_dictionary(dtype):
        value_type = dtype.value_type
        if isinstance(value_type, pa.BaseExtensionType) or value_type in _VIEWS:
            raise NotSupportedError(
                f"column {where!r}: values of a dictionary cannot have the type {value_type}; cast them to "
                f"{plain_type(value_type)}",
                column=where,
            )


def _lists(dtype: pa.DataType) -> Iterator[tuple[pa.Field, int]]:
    """Yield the item field and the size of every nested fixed-size list, starting with the outermost list."""
    while pa.types.is_fixed_size_list(dtype):
        yield dtype.value_field, dtype.list_size
        dtype = plain_type(dtype.value_type)


def _extension_of(item: pa.Field) -> str:
    if isinstance(item.type, pa.BaseExtensionType):
        return str(item.type.extension_name)
    name: bytes = (item.metadata or {}).get(EXTENSION_NAME_KEY.encode(), b"")
    return name.decode(errors="replace")
