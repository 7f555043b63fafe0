"""Checks of arguments: the ones that exist here by name only, and whole numbers.

Signatures follow pylance so that code moves over unchanged. An argument that would change the result and is not
supported is refused when it is given; one that only tunes caches or read-ahead is accepted and has no effect.
"""

from __future__ import annotations

from operator import index
from typing import Any

from lance_core.errors import InvalidTypeError, NotSupportedError

__all__ = ["refuse_unsupported", "whole_number"]


def refuse_unsupported(function: str, **arguments: object) -> None:
    """Refuse arguments that are given.

    Args:
        function: whose arguments they are, for the message.
        arguments: by name; None and False mean "not given".

    Raises:
        NotSupportedError: names the first argument that is given.
    """
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotSupportedError(f"{function}: argument {name!r} is not supported", argument=name)


def whole_number(name: str, value: Any) -> int:
    """An argument as an ``int``; numpy's integers are taken, floats are not, not even 2.0.

    Raises:
        InvalidTypeError: names the argument.
    """
    try:
        return index(value)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be a whole number, found {value!r}", argument=name) from error
