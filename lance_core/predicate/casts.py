"""CAST, and typed literals such as ``date '2020-01-01'``.

A cast of a column is supported if Arrow and pylance return the same result for every value. The typed literals
``date '2020-01-01'`` and ``timestamp '…'`` are implemented as casts of constant strings.

Source: predicates tested with pylance 14.0.2.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.coercion import convert, is_string
from lance_core.predicate.expressions import Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.predicate.expressions import Expression, Values
    from lance_core.predicate.syntax import Cast

__all__ = ["cast_kernel"]


def cast_kernel(operand: Expression, node: Cast) -> Callable[[Values], Values]:
    """Return the kernel that converts values of an operand to the type of the cast.

    Raises:
        NotSupportedError: the combination of types is not supported.
    """
    source, target = operand.dtype, node.target
    if isinstance(operand, Constant) and is_string(source):
        return partial(_parsed, node=node)
    if pa.types.is_timestamp(target) and (pa.types.is_timestamp(source) or pa.types.is_date(source)):
        return partial(convert, dtype=target)
    for accepts_source, accepts_target, is_safe in _CASTS:
        if accepts_source(source) and accepts_target(target):
            return partial(pc.cast, target_type=target, safe=is_safe)
    if source == target or pa.types.is_null(source):
        return partial(pc.cast, target_type=target)
    raise NotSupportedError(f"predicate: {node.text}: casting {source} to {target} is not supported")


def _parsed(scalar: pa.Scalar, *, node: Cast) -> pa.Scalar:
    text, target = scalar.as_py(), node.target
    try:
        if pa.types.is_date(target):
            return _date(text)
        if pa.types.is_timestamp(target):
            return _timestamp(text, target)
        return pc.cast(scalar, target)
    except (ValueError, OverflowError) as error:
        # ArrowInvalid is a ValueError.
        raise InvalidInputError(f"predicate: {node.text}: {text!r} is not a valid value of type {target}") from error


def _date(text: str) -> pa.Scalar:
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return pa.scalar(date(*map(int, match.groups())), pa.date32())


def _timestamp(text: str, target: pa.TimestampType) -> pa.Scalar:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(*range(1, 7)))
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    seconds = int((moment - _EPOCH).total_seconds()) - _offset_seconds(match["sign"], match["hours"], match["minutes"])
    nanoseconds = seconds * 10**9 + int((match["fraction"] or "").ljust(9, "0")[:9])
    # Digits beyond the precision of the unit are truncated toward the past.
    value = nanoseconds // _NANOSECONDS[target.unit]
    return pa.scalar(np.datetime64(value, target.unit), target)


def _offset_seconds(sign: str | None, hours: str | None, minutes: str | None) -> int:
    seconds = int(hours or 0) * 3600 + int(minutes or 0) * 60
    return -seconds if sign == "-" else seconds


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DATE: Final = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?:[Zz]|\ ?UTC|\ ?(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?)?",
    re.ASCII,
)


def _is_narrow(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_boolean(dtype))


_CASTS: Final = (
    # Source type, target type, and whether a value that does not fit is an error.
    (_is_narrow, pa.types.is_integer, True),
    (_is_narrow, pa.types.is_floating, False),
    (_is_narrow, pa.types.is_boolean, True),
    (pa.types.is_integer, is_string, True),
    (pa.types.is_floating, pa.types.is_floating, False),
    (is_string, is_string, True),
    (pa.types.is_date, pa.types.is_date, False),
    # The day in the timestamp's own zone.
    (pa.types.is_timestamp, pa.types.is_date, False),
)
