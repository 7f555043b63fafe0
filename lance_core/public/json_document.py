"""JSON documents from other processes: every value is checked when it is read.

A document is read with *readers*: functions that take a value and its location, check the value, and return it in
the required form. If a value is missing, has the wrong type, or is out of range, the error contains the location, the
expected value, and the value found::

    rewrite result at $.new_fragments[0].physical_rows: expected a whole number from 0 to 4294967296, found 'x'
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from operator import index
from reprlib import repr as shortened
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from lance_core.errors import InvalidInputError, InvalidTypeError

__all__ = [
    "JsonObject",
    "Reader",
    "byte_string",
    "entries",
    "listed",
    "malformed",
    "mapping",
    "nullable",
    "parse_document",
    "parse_value",
    "text",
    "whole",
]

_T = TypeVar("_T")
Reader: TypeAlias = Callable[[Any, str], _T]
"""A function that takes a value and its location, and returns the converted value or raises ``InvalidInputError``."""

_REQUIRED: Final = object()


class JsonObject:
    """A JSON object whose entries are read one at a time.

    Args:
        value: the object.
        where: the location of the object in the document, for messages.

    Attributes:
        where: the location of the object in the document.
    """

    def __init__(self, value: Any, where: str) -> None:
        """Check that ``value`` is a JSON object."""
        self._entries = mapping(value, where)
        self.where = where

    def take(self, name: str, reader: Reader[_T], default: Any = _REQUIRED) -> _T:
        """Return the value of an entry, checked and converted.

        Args:
            name: name of the entry.
            reader: checks and converts the value.
            default: the unconverted value to use if the entry is missing; without a default, a missing entry is an
                error.

        Raises:
            InvalidInputError: the entry is missing or malformed.
        """
        where = f"{self.where}.{name}"
        value = self._entries.get(name, default)
        if value is _REQUIRED:
            raise InvalidInputError(f"{where} is missing", where=where)
        return reader(value, where)

    def refuse_others(self, names: Collection[str]) -> None:
        """Reject entries with unknown names, because their values would be lost.

        Args:
            names: the names of all known entries.

        Raises:
            InvalidInputError: the name of an entry is not in ``names``.
        """
        unknown = next((name for name in self._entries if name not in names), None)
        if unknown is not None:
            malformed(self.where, f"only the entries {sorted(names)}", unknown)


def parse_document(what: str, document: str) -> JsonObject:
    """Parse a JSON document whose top-level value is an object.

    Args:
        what: the kind of document, for messages.
        document: the JSON text.

    Raises:
        InvalidTypeError: the document is not a string.
        InvalidInputError: the document is not a JSON object.
    """
    return JsonObject(parse_value(what, document), f"{what} at $")


def parse_value(what: str, document: str) -> Any:
    """Parse a JSON document with any top-level value.

    Args:
        what: the kind of document, for messages.
        document: the JSON text.

    Raises:
        InvalidTypeError: the document is not a string.
        InvalidInputError: the document is not JSON.
    """
    if not isinstance(document, str):
        raise InvalidTypeError(f"the JSON document of a {what} must be a string, found {type(document).__name__}")
    try:
        return json.loads(document)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"invalid JSON document for a {what}: {error}") from error


def whole(start: int, stop: int) -> Reader[int]:
    """Return a reader for integers in [start, stop), which rejects bools and floats."""

    def read(value: Any, where: str) -> int:
        try:
            number = None if isinstance(value, bool) else index(value)
        except TypeError:
            number = None
        if number is None or not start <= number < stop:
            malformed(where, f"a whole number from {start} to {stop - 1}", value)
        return number

    return read


def text(value: Any, where: str) -> str:
    """Read a string, which must be valid Unicode."""
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        malformed(where, "a valid Unicode string", value)
    return value


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Read an object without converting its entries."""
    if not isinstance(value, Mapping):
        malformed(where, "an object", value)
    return value


def entries(build: Callable[[JsonObject], _T]) -> Reader[_T]:
    """Return a reader for JSON objects; it converts each object by calling ``build``."""
    return lambda value, where: build(JsonObject(value, where))


def byte_string(value: Any, where: str) -> bytes:
    """Read a list of bytes; reject a number, which ``bytes`` would interpret as a size."""
    if not isinstance(value, (list, tuple)) or not set(map(type, value)) <= {int}:
        malformed(where, "a list of bytes", value)
    try:
        return bytes(value)
    except ValueError:
        malformed(where, "a list of bytes", value)


def listed(item: Reader[_T]) -> Reader[list[_T]]:
    """Return a reader for lists, which reads each item with ``item``."""

    def read(value: Any, where: str) -> list[_T]:
        if not isinstance(value, (list, tuple)):
            malformed(where, "a list", value)
        return [item(entry, f"{where}[{position}]") for position, entry in enumerate(value)]

    return read


def nullable(item: Reader[_T]) -> Reader[_T | None]:
    """Return a reader that reads null as None and any other value with ``item``."""
    return lambda value, where: None if value is None else item(value, where)


def malformed(where: str, expected: str, found: Any) -> NoReturn:
    """Raise an error for a malformed value.

    Raises:
        InvalidInputError: always.
    """
    raise InvalidInputError(f"{where}: expected {expected}, found {shortened(found)}", where=where)
