"""Checks of arguments: unsupported ones, numbers, strings and schemas.

Signatures follow pylance so that code moves over unchanged. An argument that would change the result and is not
supported is refused when it is given; one that only tunes caches or read-ahead is accepted and has no effect.
"""

from __future__ import annotations

from operator import index
from typing import Any

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.schema.convert import check_names, schema_from_arrow
from lance_core.schema.field import Schema

__all__ = ["checked_number", "checked_text", "refuse_unsupported", "schema_with_ids", "whole_number"]


def refuse_unsupported(function: str, **arguments: object) -> None:
    """Refuse arguments that are given.

    Args:
        function: the function with these arguments, for the message.
        arguments: by name; None and False mean "not given".

    Raises:
        NotSupportedError: names the first argument that is given.
    """
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotSupportedError(f"{function}: argument {name!r} is not supported", argument=name)


def whole_number(name: str, value: Any) -> int:
    """Return an argument as an ``int``; numpy's integers are accepted, floats such as 2.0 are not.

    Raises:
        InvalidTypeError: names the argument.
    """
    try:
        return index(value)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name) from error


def checked_number(name: str, value: object, start: int, stop: int) -> int:
    """Return a whole number in [start, stop).

    Raises:
        InvalidTypeError: it is not a whole number.
        InvalidInputError: it is out of range.
    """
    number = whole_number(name, value)
    if not start <= number < stop:
        raise InvalidInputError(f"{name} is {number}, expected {start} to {stop - 1}", argument=name)
    return number


def checked_text(name: str, value: object) -> str:
    """Return a string that a protobuf message can store.

    Raises:
        InvalidTypeError: it is not a string.
        InvalidInputError: it is not valid Unicode.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a string, found {value!r:.40}", argument=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} cannot be encoded: {error}", argument=name) from error
    return value


def schema_with_ids(schema: pa.Schema | Schema) -> Schema:
    """Return the schema with field ids; an Arrow schema gets them depth first from 0.

    Raises:
        InvalidInputError: it is not a schema, or a table cannot have it.
    """
    if isinstance(schema, Schema):
        check_names(schema.names)
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    raise InvalidInputError(f"a schema must be a pyarrow.Schema or a Schema, found {type(schema).__name__}")
