"""Validates the arguments of the classes that read and write single files, before anything else happens.

Signatures follow pylance, whose extension module rejects wrong types with ``TypeError``. This library raises
:class:`~lance_core.errors.InvalidTypeError`, a subclass of ``TypeError``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, Final

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError

__all__ = [
    "bytes_like",
    "checked_path",
    "checked_schema",
    "checked_storage_options",
    "column_names",
    "metadata_entry",
    "positive_number",
    "refuse_namespace",
    "rows_to_write",
    "size_in_bytes",
]

_MAX_COUNT: Final = 2**63 - 1
_MAX_BYTES: Final = 2**64 - 1
"""The largest size in bytes that pylance accepts; very large sizes mean "no limit"."""


def checked_path(path: Any) -> str:
    """Check a path or URI and return it as a string.

    Raises:
        InvalidTypeError: the path is neither a string nor a path object, or is given as bytes.
        InvalidInputError: the path is empty.
    """
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    text = _text("path", path)
    if not text:
        raise InvalidInputError("path must not be empty", argument="path")
    return text


def checked_storage_options(options: Any) -> Mapping[str, str] | None:
    """Check storage options: a mapping from strings to strings.

    Raises:
        InvalidTypeError: the argument is not a mapping from strings to strings.
    """
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise _wrong_type("storage_options", "a dict of strings", options)
    for name, value in options.items():
        _text("a name in storage_options", name)
        _text(f"storage_options[{name!r}]", value)
    return options


def column_names(columns: Any) -> list[str] | None:
    """Check the names of the columns to read; None means all columns.

    Raises:
        InvalidTypeError: the argument is not a list of strings; a single string is also rejected.
        InvalidInputError: the list is empty.
    """
    if columns is None:
        return None
    if isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence):
        raise _wrong_type("columns", "a list of strings", columns)
    names = [_text("a column", name) for name in columns]
    if not names:
        raise InvalidInputError("columns must not be empty", argument="columns")
    return names


def positive_number(name: str, value: Any) -> int:
    """Check that a number of rows or batches is a whole number of at least 1.

    Raises:
        InvalidTypeError: the value is not a whole number.
        InvalidInputError: the value is less than 1, or does not fit in 64 bits.
    """
    return _whole_number(name, value, 1, _MAX_COUNT)


def size_in_bytes(name: str, value: Any) -> int | None:
    """Check a number of bytes; None is accepted.

    Raises:
        InvalidTypeError: the value is not a whole number.
        InvalidInputError: the value is less than 0, or does not fit in 64 bits.
    """
    return None if value is None else _whole_number(name, value, 0, _MAX_BYTES)


def checked_schema(schema: Any) -> pa.Schema | None:
    """Check an Arrow schema; None is accepted.

    Raises:
        InvalidTypeError: the argument is neither a schema nor None.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise _wrong_type("schema", "a pyarrow.Schema", schema)
    return schema


def rows_to_write(batch: Any) -> pa.RecordBatch | pa.Table:
    """Check the rows to write, a batch or a table.

    Raises:
        InvalidTypeError: the argument is neither a record batch nor a table.
    """
    if not isinstance(batch, (pa.RecordBatch, pa.Table)):
        raise _wrong_type("batch", "a pyarrow.RecordBatch or pyarrow.Table", batch)
    return batch


def metadata_entry(key: Any, value: Any) -> tuple[str, bytes]:
    """Check an entry of schema metadata.

    Raises:
        InvalidTypeError: the key or value is not a string.
        InvalidInputError: the key or value cannot be encoded as UTF-8.
    """
    try:
        _text("key", key).encode()
        return key, _text("value", value).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"metadata entry {key!r}: the key and the value must be valid Unicode, found value {value!r}"
        ) from error


def bytes_like(name: str, data: Any) -> pa.Buffer:
    """Convert data to a buffer, without a copy if possible; as in pylance, lists of numbers from 0 to 255 are accepted.

    Raises:
        InvalidTypeError: the argument is neither bytes-like nor a list of numbers.
    """
    try:
        return pa.py_buffer(bytes(data) if isinstance(data, (list, tuple)) else data)
    except (TypeError, ValueError, BufferError) as error:
        raise _wrong_type(name, "bytes", data) from error


def refuse_namespace(namespace_client: object | None, table_id: list[str] | None) -> None:
    """Check that neither namespace argument is given.

    Raises:
        NotSupportedError: an argument is not None.
    """
    if namespace_client is not None or table_id is not None:
        raise NotSupportedError("namespaces are not supported: namespace_client and table_id must be None")


def _whole_number(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = index(value)
    except TypeError as error:
        raise _wrong_type(name, "a whole number", value) from error
    if number < least:
        raise InvalidInputError(f"{name} must be at least {least}, found {number}", argument=name)
    if number > most:
        raise InvalidInputError(f"{name} must be at most {most}, found {number}", argument=name)
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type(name, "a string", value)
    return value


def _wrong_type(name: str, expected: str, found: object) -> InvalidTypeError:
    return InvalidTypeError(f"{name} must be {expected}, found {repr(found)[:100]}", argument=name)
