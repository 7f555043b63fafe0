"""Logical types: the strings in ``Field.logical_type`` and the Arrow types that they represent.

=============================  ==========================================================================
String                         Arrow
=============================  ==========================================================================
``int32``, ``date32:day`` …    the types without parameters, see ``_PLAIN``
``timestamp:{unit}:{zone}``    timestamp; zone ``-`` means no time zone; the zone may contain colons
``decimal:{width}:{p}:{s}``    decimal128, decimal256
``fixed_size_binary:{n}``      fixed-size binary of n bytes
``fixed_size_list:{item}:{n}`` fixed-size list; n is the last segment, so item may contain colons
``dict:{value}:{index}:false`` dictionary; the ordered flag is not stored
``struct``                     children are the members
``list``, ``list.struct`` …    one child, the item
``map``                        one child, the struct of key and value
``json``                       large_binary of JSONB bytes
=============================  ==========================================================================

Fixed-size lists can be nested at most 64 levels deep. View types of strings and binaries are stored as the
corresponding types without views. Interval, decimal32, decimal64, union, run-end encoded, and list-view types have no
logical type.

The strings in a damaged file may have any length. Each string is processed only once, and error messages quote only its
beginning.

**Source:** ``lance.file.Field.logical_type``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.schema.field import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY
from lance_core.wording import counted

if TYPE_CHECKING:
    from lance_core.schema.field import Field

__all__ = ["BFLOAT16", "MAX_LIST_DEPTH", "arrow_field", "arrow_type", "leaf_type", "logical_type_of", "plain_type"]

_UNITS: Final = ("s", "ms", "us", "ns")

_PLAIN: Final = (
    ("null", pa.null()),
    ("bool", pa.bool_()),
    ("int8", pa.int8()),
    ("uint8", pa.uint8()),
    ("int16", pa.int16()),
    ("uint16", pa.uint16()),
    ("int32", pa.int32()),
    ("uint32", pa.uint32()),
    ("int64", pa.int64()),
    ("uint64", pa.uint64()),
    ("halffloat", pa.float16()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("string", pa.string()),
    ("large_string", pa.large_string()),
    ("binary", pa.binary()),
    ("large_binary", pa.large_binary()),
    ("date32:day", pa.date32()),
    ("date64:ms", pa.date64()),
    ("time32:s", pa.time32("s")),
    ("time32:ms", pa.time32("ms")),
    ("time64:us", pa.time64("us")),
    ("time64:ns", pa.time64("ns")),
    *((f"duration:{unit}", pa.duration(unit)) for unit in _UNITS),
)
_TYPE_OF: Final = MappingProxyType(dict(_PLAIN) | {"json": pa.large_binary()})
_NAME_OF: Final = MappingProxyType({dtype: name for name, dtype in _PLAIN})

BFLOAT16: Final = "lance.bfloat16"
"""The only extension type that a logical type can express for the items of a fixed-size list."""

_BFLOAT16_ITEM: Final = pa.field(
    "item", pa.binary(2), metadata={EXTENSION_NAME_KEY: BFLOAT16, EXTENSION_METADATA_KEY: ""}
)

_MAX_INT32: Final = 2**31 - 1

MAX_LIST_DEPTH: Final = 64
"""Maximum nesting depth of fixed-size lists."""

_FIXED_SIZE_LIST: Final = "fixed_size_list:"
_MAX_SHOWN: Final = 200


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type in which values are stored, without extension types and views."""
    if isinstance(dtype, pa.BaseExtensionType):
        return plain_type(dtype.storage_type)
    if dtype == pa.string_view():
        return pa.string()
    if dtype == pa.binary_view():
        return pa.binary()
    return dtype


def logical_type_of(dtype: pa.DataType, where: str) -> str:
    """Return the string that represents an Arrow type.

    Args:
        dtype: any Arrow type; extension types are treated like their storage types.
        where: path of the column, for messages.

    Raises:
        NotSupportedError: the format has no logical type or no encoding for the type.
    """
    dtype = plain_type(dtype)
    name = _NAME_OF.get(dtype)
    if name is not None:
        return name
    if pa.types.is_timestamp(dtype):
        return f"timestamp:{dtype.unit}:{dtype.tz or '-'}"
    if pa.types.is_decimal128(dtype) or pa.types.is_decimal256(dtype):
        return f"decimal:{dtype.bit_width}:{dtype.precision}:{dtype.scale}"
    if pa.types.is_fixed_size_binary(dtype):
        return f"fixed_size_binary:{dtype.byte_width}"
    if pa.types.is_struct(dtype):
        return "struct"
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        container = "list" if pa.types.is_list(dtype) else "large_list"
        return f"{container}.struct" if pa.types.is_struct(plain_type(dtype.value_type)) else container
    if pa.types.is_map(dtype):
        return _map_name(dtype, where)
    if pa.types.is_fixed_size_list(dtype):
        return _fixed_size_list_name(dtype, where)
    if pa.types.is_dictionary(dtype):
        return _dictionary_name(dtype, where)
    raise _unsupported(dtype, where, "the format has no logical type for it")


@lru_cache(maxsize=1024)
def arrow_type(field: Field) -> pa.DataType:
    """Return the Arrow type of a field, including its children; extension types become their storage types.

    Raises:
        CorruptDataError: the logical type is malformed or does not match its children.
        NotSupportedError: the logical type is unknown.
    """
    if field.is_struct:
        return pa.struct([arrow_field(child) for child in field.children])
    if field.is_list:
        item = arrow_field(_only_child(field))
        return pa.large_list(item) if field.logical_type.startswith("large_") else pa.list_(item)
    if field.is_map:
        entries = _only_child(field)
        if not entries.is_struct or len(entries.children) != 2:
            raise CorruptDataError(
                f"the child of map field {field.name!r} must be a struct of key and value, found type "
                f"{_shown(entries.logical_type)} with {counted(len(entries.children), 'child', 'children')}"
            )
        key, value = entries.children
        if key.logical_type == "null":
            raise NotSupportedError(
                f"map field {field.name!r} has keys of type null, which Arrow does not support", field=field.name
            )
        return pa.map_(arrow_field(key).with_nullable(False), arrow_field(value))
    if field.is_structural_fixed_size_list:
        item_name, dimensions = _split_fixed_size_list(field.logical_type)
        child = _only_child(field)
        if item_name != "struct" or len(dimensions) != 1 or not child.is_struct:
            raise CorruptDataError(
                f"field {field.name!r} of type {_shown(field.logical_type)} has child {child.name!r} of type "
                f"{_shown(child.logical_type)}; expected type 'fixed_size_list:struct:<size>' and a struct"
            )
        return pa.list_(arrow_field(child), dimensions[0])
    if field.children:
        raise CorruptDataError(f"field {field.name!r} of type {_shown(field.logical_type)} must not have children")
    return leaf_type(field.logical_type)


@lru_cache(maxsize=1024)
def arrow_field(field: Field) -> pa.Field:
    """Convert a field to an Arrow field, with its metadata; see :func:`arrow_type`."""
    metadata = dict(field.metadata)
    if field.extension_name:
        metadata.setdefault(EXTENSION_NAME_KEY, field.extension_name.encode())
    # In Arrow, values of the null type are always null, regardless of the flag.
    nullable = field.nullable or field.logical_type == "null"
    return pa.field(field.name, arrow_type(field), nullable=nullable, metadata=metadata or None)


def leaf_type(logical_type: str) -> pa.DataType:
    """Return the Arrow type of a logical type that needs no child fields.

    Raises:
        CorruptDataError: a parameter of the string is malformed.
        NotSupportedError: the string is unknown, or fixed-size lists are nested more than 64 levels deep.
    """
    plain = _TYPE_OF.get(logical_type)
    if plain is not None:
        return plain
    family, _, rest = logical_type.partition(":")
    try:
        if family == "timestamp":
            unit, _, zone = rest.partition(":")
            return pa.timestamp(unit, None if zone in ("", "-") else zone)
        if family == "decimal":
            return _decimal_type(rest)
        if family == "fixed_size_binary":
            return pa.binary(_checked_number(rest, 0, _MAX_INT32))
        if family == "fixed_size_list":
            return _fixed_size_list_type(logical_type)
        if family == "dict":
            return _dictionary_type(rest)
    except (ValueError, TypeError) as error:
        raise CorruptDataError(f"logical type {_shown(logical_type)} is malformed: {error}") from error
    raise NotSupportedError(f"unknown logical type {_shown(logical_type)}", logical_type=logical_type)


def _map_name(dtype: pa.MapType, where: str) -> str:
    if dtype.keys_sorted:
        raise _unsupported(dtype, where, "maps with sorted keys cannot be stored; drop keys_sorted")
    return "map"


def _fixed_size_list_name(dtype: pa.FixedSizeListType, where: str) -> str:
    dimensions: list[str] = []
    item_type: pa.DataType = dtype
    while pa.types.is_fixed_size_list(item_type):
        if item_type.list_size < 1:
            raise _unsupported(dtype, where, "the dimension must be at least 1")
        if len(dimensions) == MAX_LIST_DEPTH:
            raise NotSupportedError(
                f"column {where!r}: fixed-size lists are nested more than {MAX_LIST_DEPTH} levels deep"
            )
        dimensions.append(str(item_type.list_size))
        item = item_type.value_field
        item_type = plain_type(item.type)
    if pa.types.is_struct(item_type) and len(dimensions) > 1:
        raise _unsupported(dtype, where, "fixed-size lists of structs cannot be nested in other fixed-size lists")
    if not (pa.types.is_struct(item_type) or _is_fixed_width(item_type)):
        raise _unsupported(dtype, where, "items of a fixed-size list must be structs, nulls, or fixed-width values")
    item_name = BFLOAT16 if _is_bfloat16(item) else logical_type_of(item_type, where)
    return ":".join([*["fixed_size_list"] * len(dimensions), item_name, *reversed(dimensions)])


def _is_bfloat16(item: pa.Field) -> bool:
    if isinstance(item.type, pa.BaseExtensionType):
        return bool(item.type.extension_name == BFLOAT16)
    return bool((item.metadata or {}).get(EXTENSION_NAME_KEY.encode()) == BFLOAT16.encode())


def _is_fixed_width(dtype: pa.DataType) -> bool:
    return not (pa.types.is_dictionary(dtype) or pa.types.is_nested(dtype)) and (
        pa.types.is_null(dtype)
        or pa.types.is_primitive(dtype)
        or pa.types.is_decimal(dtype)
        or pa.types.is_fixed_size_binary(dtype)
    )


def _dictionary_name(dtype: pa.DictionaryType, where: str) -> str:
    value = _NAME_OF.get(plain_type(dtype.value_type))
    # spec: the string has exactly four segments, so value types with parameters cannot be distinguished.
    if value is None or ":" in value:
        raise _unsupported(
            dtype, where, "dictionary values of this type cannot be stored; cast the column to its value type"
        )
    return f"dict:{value}:{logical_type_of(dtype.index_type, where)}:false"


def _dictionary_type(rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3 or parts[2] not in ("true", "false"):
        raise ValueError("expected dict:<value>:<index>:<ordered>")
    index = leaf_type(parts[1])
    if not pa.types.is_integer(index):
        raise ValueError(f"dictionary indices must have an integer type, found {index}")
    return pa.dictionary(index, leaf_type(parts[0]), ordered=parts[2] == "true")


def _decimal_type(rest: str) -> pa.DataType:
    width, precision, scale = rest.split(":")
    if width not in ("128", "256"):
        raise ValueError(f"decimal width {width!r:.200} must be 128 or 256")
    make = pa.decimal128 if width == "128" else pa.decimal256
    return make(_checked_number(precision, 1, 76), _checked_number(scale, -128, 127))


def _fixed_size_list_type(logical_type: str) -> pa.DataType:
    item, dimensions = _split_fixed_size_list(logical_type)
    found = leaf_type(item) if item != BFLOAT16 else pa.list_(_BFLOAT16_ITEM, dimensions.pop())
    for dimension in reversed(dimensions):
        found = pa.list_(found, dimension)
    return found


def _only_child(field: Field) -> Field:
    if len(field.children) != 1:
        raise CorruptDataError(
            f"field {field.name!r} of type {_shown(field.logical_type)} must have one child, found "
            f"{len(field.children)}",
            expected=1,
            found=len(field.children),
        )
    return field.children[0]


def _unsupported(dtype: pa.DataType, where: str, reason: str) -> NotSupportedError:
    return NotSupportedError(f"column {where!r} of type {dtype} is not supported: {reason}", arrow_type=str(dtype))


def _split_fixed_size_list(logical_type: str) -> tuple[str, list[int]]:
    """Return the innermost item of ``fixed_size_list:…:{item}:{n}:…`` and the dimensions, outermost first.

    Raises:
        CorruptDataError: a dimension is missing or is not a positive number.
        NotSupportedError: lists are nested more than 64 levels deep.
    """
    depth = start = 0
    while logical_type.startswith(_FIXED_SIZE_LIST, start):
        depth, start = depth + 1, start + len(_FIXED_SIZE_LIST)
        if depth > MAX_LIST_DEPTH:
            raise NotSupportedError(
                f"logical type {_shown(logical_type)} is nested more than {MAX_LIST_DEPTH} levels deep"
            )
    item, *dimensions = logical_type[start:].rsplit(":", depth)
    try:
        if len(dimensions) != depth:
            raise ValueError("expected fixed_size_list:<item>:<dimension>")
        return item, [_checked_number(dimension, 1, _MAX_INT32) for dimension in reversed(dimensions)]
    except ValueError as error:
        raise CorruptDataError(f"logical type {_shown(logical_type)} is malformed: {error}") from error


def _checked_number(text: str, low: int, high: int) -> int:
    """Parse a number in a logical type.

    Raises:
        ValueError: the text is not a number, or the number is out of range.
    """
    # int() alone would accept whitespace, underscores and non-ASCII digits.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ValueError(f"{text[:_MAX_SHOWN]!r} is not a number")
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def _shown(logical_type: str) -> str:
    """Quote a string for messages."""
    return repr(logical_type) if len(logical_type) <= _MAX_SHOWN else f"{logical_type[:_MAX_SHOWN]!r}…"
