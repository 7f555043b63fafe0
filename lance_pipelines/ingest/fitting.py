"""Determines whether new rows fit a dataset, and the schema with which they are written.

Rows that are added to a dataset are written with the dataset's own types; a column fits if its values do not change
when they are converted.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lance_core.errors import SchemaMismatchError
from lance_core.metadata import is_older_blob

__all__ = ["check_known", "fit_schema", "is_lossless", "new_columns"]

_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def new_columns(found: pa.Schema, existing: pa.Schema) -> pa.Schema:
    """Return the columns of the rows that the dataset does not have, as nullable columns."""
    return pa.schema([field.with_nullable(True) for field in found if field.name not in existing.names])


def fit_schema(found: pa.Schema, existing: pa.Schema, *, allows_missing: bool = False) -> pa.Schema:
    """Return the schema with which rows are added to a dataset.

    Args:
        found: the schema of the rows.
        existing: the dataset's schema.
        allows_missing: whether nullable columns of the dataset may be missing from the rows; their values are then
            nulls.

    Returns:
        The columns of the dataset that the rows have; all columns, unless some may be missing. Binary columns that are
        marked as blobs, as in tables before format 2.2, fit columns of blobs.

    Raises:
        SchemaMismatchError: a column is missing, is not in the dataset, or has a type that does not fit.
    """
    if allows_missing:
        check_known(found, existing)
        present = [field for field in existing if field.name in found.names or not field.nullable]
        existing = pa.schema(present, existing.metadata)
    _check_names(found, existing)
    for field in existing:
        column = found.field(field.name)
        if not is_lossless(column.type, field.type) and not (is_older_blob(column) and _is_blob(field.type)):
            raise SchemaMismatchError(
                f"column {field.name!r} has type {column.type} in the source, but type {field.type} in the dataset",
                column=field.name,
                expected=str(field.type),
                found=str(column.type),
            )
    return existing


def check_known(found: pa.Schema, existing: pa.Schema) -> None:
    """Refuse rows with a column that the dataset does not have.

    Raises:
        SchemaMismatchError: a column is not in the dataset.
    """
    extra = [name for name in found.names if name not in existing.names]
    if extra:
        raise SchemaMismatchError(
            f"column {extra[0]!r} of the source is not in the dataset, which has {_named(existing)}",
            column=extra[0],
            missing=(),
            extra=tuple(extra),
        )


def is_lossless(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether every value of one type can be stored in another unchanged; names of list items do not matter.

    A list type counts as storable in a fixed-size list type; the length of each list is checked when it is written.
    """
    if found.equals(expected) or pa.types.is_null(found):
        return True
    if isinstance(expected, pa.BaseExtensionType) or isinstance(found, pa.BaseExtensionType):
        # Of blobs, lance_core and pylance both have a class, with the same name in files.
        return bool(
            getattr(found, "extension_name", None) == getattr(expected, "extension_name", None)
            and is_lossless(found.storage_type, expected.storage_type)
        )
    if pa.types.is_struct(expected):
        return bool(
            pa.types.is_struct(found)
            and sorted(child.name for child in found) == sorted(child.name for child in expected)
            and all(is_lossless(found.field(child.name).type, child.type) for child in expected)
        )
    if pa.types.is_map(expected):
        return bool(
            pa.types.is_map(found)
            and is_lossless(found.key_type, expected.key_type)
            and is_lossless(found.item_type, expected.item_type)
        )
    if _is_list(expected):
        if not _is_list(found) or not is_lossless(found.value_type, expected.value_type):
            return False
        if not pa.types.is_fixed_size_list(found):
            return True
        return bool(pa.types.is_fixed_size_list(expected) and found.list_size == expected.list_size)
    if pa.types.is_dictionary(expected) and pa.types.is_dictionary(found):
        # Whether the order of a dictionary has a meaning is not stored.
        return bool(found.index_type == expected.index_type and found.value_type == expected.value_type)
    return _is_wider(found, expected)


def _is_blob(data_type: pa.DataType) -> bool:
    return getattr(data_type, "extension_name", None) == "lance.blob.v2"


def _is_wider(found: pa.DataType, expected: pa.DataType) -> bool:
    if found in _INTEGERS and expected in _INTEGERS:
        return _INTEGERS.index(found) <= _INTEGERS.index(expected)
    if pa.types.is_decimal128(found) and pa.types.is_decimal128(expected):
        return bool(found.scale == expected.scale and found.precision <= expected.precision)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(expected):
        # An instant is the same in every zone; a wall clock reading is not an instant.
        return bool(found.unit == expected.unit and (found.tz is None) == (expected.tz is None))
    return (found, expected) in {
        (pa.float32(), pa.float64()),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
        # They differ in how much an array may hold, not in its values; a batch holds little.
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        # Datasets store no views.
        *((pa.string_view(), text) for text in (pa.string(), pa.large_string())),
        *((pa.binary_view(), bytes_) for bytes_ in (pa.binary(), pa.large_binary())),
    }


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type)
    )


def _named(schema: pa.Schema) -> str:
    return f"the columns {', '.join(schema.names)}" if schema.names else "no columns"


def _check_names(found: pa.Schema, existing: pa.Schema) -> None:
    missing = [name for name in existing.names if name not in found.names]
    extra = [name for name in found.names if name not in existing.names]
    if missing:
        raise SchemaMismatchError(
            f"column {missing[0]!r} of the dataset is not in the source, which has {_named(found)}",
            column=missing[0],
            missing=tuple(missing),
            extra=tuple(extra),
        )
    check_known(found, existing)
