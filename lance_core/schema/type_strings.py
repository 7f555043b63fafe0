"""Parts of logical type strings: nested fixed-size lists, numbers, and quoting in messages.

Strings in damaged files may have any length. They are processed once, and messages quote only the beginning.

**Source:** ``lance.file.Field.logical_type``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import Final

from lance_core.errors import CorruptDataError, NotSupportedError

__all__ = ["MAX_INT32", "MAX_LIST_DEPTH", "checked_number", "shown", "split_fixed_size_list"]

MAX_INT32: Final = 2**31 - 1

MAX_LIST_DEPTH: Final = 64
"""Maximum nesting depth of fixed-size lists."""

_FIXED_SIZE_LIST: Final = "fixed_size_list:"
_MAX_SHOWN: Final = 200


def split_fixed_size_list(logical_type: str) -> tuple[str, list[int]]:
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
                f"logical type {shown(logical_type)} is nested more than {MAX_LIST_DEPTH} levels deep"
            )
    item, *dimensions = logical_type[start:].rsplit(":", depth)
    try:
        if len(dimensions) != depth:
            raise ValueError("expected fixed_size_list:<item>:<dimension>")
        return item, [checked_number(dimension, 1, MAX_INT32) for dimension in reversed(dimensions)]
    except ValueError as error:
        raise CorruptDataError(f"logical type {shown(logical_type)} is malformed: {error}") from error


def checked_number(text: str, low: int, high: int) -> int:
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


def shown(logical_type: str) -> str:
    """Quote a string for messages."""
    return repr(logical_type) if len(logical_type) <= _MAX_SHOWN else f"{logical_type[:_MAX_SHOWN]!r}…"
