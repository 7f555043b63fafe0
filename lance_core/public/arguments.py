"""Checks arguments: rejects unsupported ones, and validates numbers, strings, and schemas.

Signatures follow pylance, so that existing code works unchanged. An unsupported argument that would change the result
is rejected if it is given; an argument that only tunes caches or read-ahead is accepted and has no effect.
"""

from __future__ import annotations

from operator import index
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.absent import reason_of_argument
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.schema.convert import check_names, schema_from_arrow
from lance_core.schema.field import Schema
from lance_core.schema.lance_schema import LanceSchema

__all__ = [
    "checked_expression",
    "checked_hints",
    "checked_number",
    "checked_text",
    "order_sign",
    "refuse_unsupported",
    "schema_with_ids",
    "whole_number",
]

_ORDERS: Final = ("asc", "desc")


def refuse_unsupported(function: str, **arguments: object) -> None:
    """Raise an error if an unsupported argument is given.

    Args:
        function: name of the function, for the message.
        arguments: the values of the unsupported arguments, keyed by name; None and False count as not given.

    Raises:
        NotSupportedError: an argument is given; the message names the first such argument and the reason.
    """
    for name, value in arguments.items():
        if value is not None and value is not False:
            problem = f"{function}: argument {name!r} is not supported"
            reason = reason_of_argument(function, name)
            raise NotSupportedError(problem if reason is None else f"{problem}: {reason}", argument=name)


def whole_number(name: str, value: Any) -> int:
    """Return an argument as an ``int``; numpy integers are accepted, but floats such as 2.0 are not.

    Raises:
        InvalidTypeError: the value is not a whole number; the message contains the name of the argument.
    """
    try:
        return index(value)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name) from error


def checked_hints(
    *,
    batch_readahead: Any = None,
    fragment_readahead: Any = None,
    late_materialization: Any = None,
    read_params: Any = None,
) -> None:
    """Check arguments of a scan that have no effect here, because they only tune how the reference executes it.

    Raises:
        InvalidInputError: a number is too small, or ``late_materialization`` has a wrong type.
        InvalidTypeError: a number is not a whole number, or ``read_params`` is not a dictionary.
    """
    if read_params is not None and not isinstance(read_params, dict):
        raise InvalidTypeError(f"read_params must be a dictionary, found {type(read_params).__name__}")
    _at_least("batch_readahead", batch_readahead, 1)
    _at_least("fragment_readahead", fragment_readahead, 0)
    listed = isinstance(late_materialization, list) and all(isinstance(name, str) for name in late_materialization)
    if late_materialization is not None and not isinstance(late_materialization, bool) and not listed:
        raise InvalidInputError(
            f"late_materialization must be a bool or a list of strings, found {late_materialization!r:.80}"
        )


def checked_expression(name: str, value: object) -> None:
    """Check that an argument is None or an Arrow expression.

    Raises:
        InvalidTypeError: the argument is neither None nor an Arrow expression.
    """
    if value is not None and not isinstance(value, pc.Expression):
        raise InvalidTypeError(f"{name} must be an Arrow expression, found {type(value).__name__}", argument=name)


def checked_number(name: str, value: object, start: int, stop: int) -> int:
    """Return an argument as an ``int`` after checking that it is a whole number in [start, stop).

    Raises:
        InvalidTypeError: the value is not a whole number.
        InvalidInputError: the number is out of range.
    """
    number = whole_number(name, value)
    if not start <= number < stop:
        raise InvalidInputError(f"{name} must be from {start} to {stop - 1}, found {number}", argument=name)
    return number


def checked_text(name: str, value: object) -> str:
    """Return an argument after checking that it is a string that can be stored in a protobuf message.

    Raises:
        InvalidTypeError: the value is not a string.
        InvalidInputError: the string is not valid Unicode.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a string, found {value!r:.40}", argument=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} must be valid Unicode: {error}", argument=name) from error
    return value


def order_sign(order: object) -> int:
    """Return the factor by which sort keys are multiplied: 1 for "asc", -1 for "desc" or None.

    Raises:
        InvalidTypeError: the order is neither a string nor None.
        InvalidInputError: the string is neither "asc" nor "desc".
    """
    if order is not None and not isinstance(order, str):
        raise InvalidTypeError(f"order must be a string, found {order!r}", argument="order")
    if order not in (None, *_ORDERS):
        raise InvalidInputError(f"invalid sort order {order!r}; valid values are: {', '.join(_ORDERS)}")
    return 1 if order == "asc" else -1


def schema_with_ids(schema: pa.Schema | LanceSchema | Schema) -> Schema:
    """Return a schema with field ids; the fields of an Arrow schema are numbered depth-first, starting from 0.

    Raises:
        InvalidInputError: the argument is not a schema, or the schema is not valid for a table.
    """
    if isinstance(schema, LanceSchema):
        schema = schema.record
    if isinstance(schema, Schema):
        check_names(schema.names)
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    raise InvalidInputError(f"a schema must be a pyarrow.Schema or a lance_core Schema, found {type(schema).__name__}")


def _at_least(name: str, value: Any, least: int) -> int | None:
    number = None if value is None else whole_number(name, value)
    if number is not None and number < least:
        raise InvalidInputError(f"{name} must be at least {least}, found {number}", argument=name)
    return number
