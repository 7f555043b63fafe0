"""Comparison and arithmetic of the scalars in JSON documents, for expressions in paths.

Non-negative integers are unsigned, and negative integers are signed. If one operand is negative, or if integers are
subtracted, the bits of both are interpreted as signed integers, as in pylance: 18446744073709551615 - 1 is -2.

**Source:** expressions computed with pylance 14.0.2.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.schema.jsonb import JsonbValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calculated", "compared", "signed"]

_I64, _U64 = range(-(1 << 63), 1 << 63), range(1 << 64)


def compared(left: JsonbValue, name: str, right: JsonbValue) -> bool | None:
    """Compare two values; None if they cannot be compared by this operator."""
    if left.is_container or right.is_container:
        return None
    if name == "starts with":
        text, prefix = left.string, right.string
        return None if text is None or prefix is None else text.startswith(prefix)
    if name not in _COMPARISONS:
        return None
    (left_kind, left_key), (right_kind, right_key) = _sort_key(left, right), _sort_key(right, left)
    if left_kind != right_kind:
        return True if name in ("!=", "<>") else None
    return bool(_COMPARISONS[name](left_key, right_key))


def calculated(left: JsonbValue, name: str, right: JsonbValue) -> JsonbValue:
    """Return the result of an arithmetic operator.

    Raises:
        InvalidInputError: an operand is not a number, the divisor is zero, or the result is out of range.
    """
    first, second = _operand(left), _operand(right)
    try:
        if name == "/" or isinstance(first, float) or isinstance(second, float):
            return JsonbValue.of(_FLOAT_OPERATIONS[name](float(first), float(second)))
        return JsonbValue.of(_whole(first, name, second))
    except (ArithmeticError, ValueError) as error:
        raise InvalidInputError(f"cannot compute {left.text} {name} {right.text} in a JSON path: {error}") from error


def signed(sign: str, value: JsonbValue) -> JsonbValue:
    """Apply a sign to a number.

    Raises:
        InvalidInputError: the value is not a number, or the result is out of range.
    """
    number = _operand(value)
    if sign == "+":
        return value
    if isinstance(number, int) and (number not in _I64 or -number not in _I64):
        raise InvalidInputError(f"cannot negate {number} in a JSON path: the result is out of range")
    return JsonbValue.of(-number)


def _operand(value: JsonbValue) -> float | int:
    number = value.number
    if number is None:
        raise InvalidInputError(f"an operand of an operator in a JSON path must be a number, found {value.text[:200]}")
    return number


def _whole(first: int, name: str, second: int) -> int:
    is_signed = name == "-" or first < 0 or second < 0
    if is_signed:
        first, second = _as_signed(first), _as_signed(second)
    result = _INT_OPERATIONS[name](first, second)
    if result not in (_I64 if is_signed else _U64):
        raise OverflowError("the result is out of range")
    return result


def _as_signed(number: int) -> int:
    return number if number in _I64 else number - (1 << 64)


def _remainder(first: int, second: int) -> int:
    """Return the remainder, which has the sign of the dividend."""
    remainder = abs(first) % abs(second)
    return -remainder if first < 0 else remainder


def _sort_key(value: JsonbValue, other: JsonbValue) -> tuple[str, object]:
    number = value.number
    if number is not None:
        compares_floats = isinstance(number, float) or isinstance(other.number, float)
        return "number", _float_key(float(number)) if compares_floats else number
    if value.string is not None:
        return "string", value.string
    return ("null", 0) if value.is_null else ("boolean", value.boolean)


def _float_key(number: float) -> tuple[bool, float]:
    """Return a sort key by which NaN equals itself, and is greater than all other numbers."""
    return math.isnan(number), 0.0 if math.isnan(number) else number


_COMPARISONS: Final[dict[str, Callable[..., object]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOAT_OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}
_INT_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": _remainder,
}
