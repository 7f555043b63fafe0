"""Checks the values of compaction options, and parses their text form in the table config.

The first argument of each check describes the origin of the value, for use in error messages. A check raises
``InvalidTypeError`` if the type is wrong, ``InvalidInputError`` if the value is out of range, and ``NotSupportedError``
if the value is not supported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any, Final

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.public.arguments import whole_number
from lance_core.versions import LanceFileVersion

__all__ = [
    "MODES",
    "boolean",
    "file_version",
    "fraction",
    "fragment_ids",
    "mode",
    "not_deferred",
    "parse_boolean",
    "parse_whole",
    "positive",
]

MODES: Final = MappingProxyType(
    {"reencode": "Reencode", "try_binary_copy": "TryBinaryCopy", "force_binary_copy": "ForceBinaryCopy"}
)
"""Maps each compaction mode to its spelling in JSON documents."""

_MAX_U32: Final = 2**32 - 1
_MAX_U64: Final = 2**64 - 1
_BOOLEANS: Final = MappingProxyType({"true": True, "false": False})


def positive(where: str, value: Any) -> int:
    """Check that a value is a whole number of at least 1, and return it."""
    number = whole_number(where, value)
    if not 1 <= number <= _MAX_U64:
        raise InvalidInputError(f"{where} must be between 1 and {_MAX_U64}, found {value!r}", argument=where)
    return number


def boolean(where: str, value: Any) -> bool:
    """Check that a value is True or False, and return it."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{where} must be True or False, found {value!r}", argument=where)
    return value


def fraction(where: str, value: Any) -> float:
    """Check that a value is a number of at least 0, and return it; numbers above 1 are allowed."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidTypeError(f"{where} must be a number, found {value!r}", argument=where)
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if math.isnan(number) or number < 0:
        raise InvalidInputError(f"{where} must be a number of at least 0, found {value!r:.40}", argument=where)
    return number


def mode(where: str, value: Any) -> str:
    """Check that a value is a supported mode from ``MODES``, and return it in lowercase."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{where} must be a string, found {value!r}", argument=where)
    if value.lower() not in MODES:
        raise InvalidInputError(f"{where} must be one of {list(MODES)}, found {value!r}", argument=where)
    if value.lower() == "force_binary_copy":
        raise NotSupportedError(
            f"{where}: 'force_binary_copy' is not supported; rows are always reencoded", argument=where
        )
    return value.lower()


def not_deferred(where: str, value: Any) -> bool:
    """Check that a value is False, and return it; True is not supported."""
    if boolean(where, value):
        raise NotSupportedError(f"{where}: deferring the remapping of indices is not supported", argument=where)
    return False


def fragment_ids(where: str, value: Any) -> tuple[int, ...]:
    """Check that a value is a list of fragment ids, and return the ids as a tuple."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InvalidTypeError(f"{where} must be a list of fragment ids, found {value!r}", argument=where)
    ids = tuple(whole_number(f"each entry of {where}", each) for each in value)
    outside = [each for each in ids if not 0 <= each <= _MAX_U32]
    if outside:
        raise InvalidInputError(
            f"{where} must contain fragment ids from 0 to {_MAX_U32}, found {outside[0]}", argument=where
        )
    return ids


def file_version(where: str, value: Any) -> str:
    """Check that a value is a format version or an alias, and return the version number."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{where} must be a string such as '2.2', found {value!r}", argument=where)
    return LanceFileVersion.parse(value).value


def parse_whole(text: str) -> int:
    """Parse a string as a whole number; raise ``ValueError`` if it is not one."""
    if not text.removeprefix("+").isdecimal() or not text.isascii():
        raise ValueError(text)
    return int(text)


def parse_boolean(text: str) -> bool:
    """Parse "true" or "false", ignoring case; raise ``KeyError`` for other strings."""
    return _BOOLEANS[text.lower()]
