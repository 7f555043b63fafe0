"""The literal values of a predicate."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CONSTANTS", "number"]

CONSTANTS: Final[Mapping[str, pa.Scalar]] = MappingProxyType(
    {"TRUE": pa.scalar(True), "FALSE": pa.scalar(False), "NULL": pa.scalar(None)}
)
"""Words that stand for a value."""

_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)


def number(text: str) -> pa.Scalar:
    """Parse a number as int64, or as uint64 or float64 if it does not fit."""
    if text.lstrip("-").isdecimal() and len(text) <= 21:
        value = int(text)
        if value in _INT64:
            return pa.scalar(value, pa.int64())
        if value in _UINT64:
            return pa.scalar(value, pa.uint64())
    return pa.scalar(float(text), pa.float64())
