"""The operations of predicates on Arrow values.

Each operation accepts any mix of arrays and scalars, and returns a scalar if all operands are scalars. If an operand is
null, the result is null, except where SQL defines otherwise: AND and OR (three-valued logic), IS [NOT] NULL, TRUE, or
FALSE, and IS [NOT] DISTINCT FROM.

Floating-point numbers have the total order of IEEE 754: NaN equals itself and is greater than every number; NaN with
the sign bit set is less than every number; -0.0 is less than 0.0. The two zeros are equal only in a comparison with a
zero that is written as a constant in the predicate. Arrow's comparisons do not order NaN, so the bits are compared as
integers instead.

LIKE and ILIKE are converted to regular expressions, except LIKE patterns such as ``'%text%'``. ``%`` matches any
characters, including line breaks; ``_`` matches one character; a backslash escapes the character that follows it. A
backslash at the end of the pattern matches itself.

Source: predicates tested with pylance 14.0.2.
"""

from __future__ import annotations

import re
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.predicate.substrings import contains

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_core.predicate.expressions import Values


__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "TESTS",
    "all_of",
    "any_of",
    "compare_floats",
    "in_single",
    "is_member",
    "like",
    "negate",
    "order_keys",
]

_INTEGERS: Final = {
    16: (np.int16, 2**15 - 1, pa.int16()),
    32: (np.int32, 2**31 - 1, pa.int32()),
    64: (np.int64, 2**63 - 1, pa.int64()),
}
"""Maps a width in bits to the signed integers of that width: NumPy type, maximum, and Arrow type."""

_WILDCARDS: Final = {"%": ".*", "_": "."}
_PATTERN_PART: Final = re.compile(r"\\(.)|(.)", re.DOTALL)


def all_of(*values: Values) -> Values:
    """Compute AND: false if any value is false, else null if any is null."""
    result = values[0]
    for value in values[1:]:
        result = pc.and_kleene(result, value)
    return result


def any_of(*values: Values) -> Values:
    """Compute OR: true if any value is true, else null if any is null."""
    result = values[0]
    for value in values[1:]:
        result = pc.or_kleene(result, value)
    return result


def compare_floats(comparison: Callable[[Values, Values], Values], *, joins_zeros: bool) -> Callable[..., Values]:
    """Wrap a comparison so that it compares floating-point numbers by their total order."""

    def compare(left: Values, right: Values) -> Values:
        return comparison(order_keys(left, joins_zeros=joins_zeros), order_keys(right, joins_zeros=joins_zeros))

    return compare


def in_single(kernel: Callable[..., Values]) -> Callable[..., Values]:
    """Wrap a kernel that does not support half precision, so that it computes in single precision."""

    def compute(*values: Values) -> Values:
        if not pa.types.is_float16(values[0].type):
            return kernel(*values)
        result = kernel(*(pc.cast(value, pa.float32()) for value in values))
        return pc.cast(result, pa.float16(), safe=False)

    return compute


def is_member(items: pa.Array, *, negated: bool) -> Callable[[Values], Values]:
    """Return a kernel for [NOT] IN with constants: null if no item matches, and the value or an item is null."""
    has_null = bool(items.null_count)
    known = _keys(items.drop_null()).unique()

    def test(values: Values) -> Values:
        found = pc.is_in(_keys(values), value_set=known)
        decided = pc.and_(pc.is_valid(values), found) if has_null else pc.is_valid(values)
        result = pc.if_else(decided, found, pa.scalar(None, pa.bool_()))
        return pc.invert(result) if negated else result

    return test


def _keys(values: Values) -> Values:
    """Return lookup keys for values; those of floating-point numbers are their order keys, so that NaN is found."""
    return order_keys(values, joins_zeros=True) if pa.types.is_floating(values.type) else values


def negate(values: Values) -> Values:
    """Negate numbers; integers wrap around on overflow."""
    return pc.negate(values)


def _is_distinct(left: Values, right: Values) -> Values:
    differs = pc.fill_null(pc.not_equal(left, right), False)
    return pc.or_(differs, pc.xor(pc.is_null(left), pc.is_null(right)))


def _is_not_distinct(left: Values, right: Values) -> Values:
    return pc.invert(_is_distinct(left, right))


def _remainder(left: Values, right: Values) -> Values:
    """Return the remainder of a division that rounds toward zero."""
    if pa.types.is_floating(left.type):
        return _float_remainder(left, right)
    return pc.subtract(left, pc.multiply(pc.divide(left, right), right))


def _float_remainder(left: Values, right: Values) -> Values:
    dtype = left.type
    operands = [value if isinstance(value, pa.Array) else pa.array([value.as_py()], dtype) for value in (left, right)]
    with np.errstate(invalid="ignore"):
        numbers = np.fmod(*(np.asarray(operand.fill_null(1.0)) for operand in operands))
    missing = np.logical_or(*(np.asarray(operand.is_null()) for operand in operands))
    result = pa.array(numbers, dtype, mask=np.broadcast_to(missing, numbers.shape))
    return result if isinstance(left, pa.Array) or isinstance(right, pa.Array) else result[0]


def _is_null(values: Values) -> Values:
    return pc.is_null(values)


def _is_true(values: Values) -> Values:
    return pc.fill_null(values, False)


def _is_false(values: Values) -> Values:
    return pc.fill_null(pc.invert(values), False)


COMPARISONS: Final[Mapping[str, Callable[[Values, Values], Values]]] = MappingProxyType(
    {
        "=": pc.equal,
        "<>": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
        "DISTINCT": _is_distinct,
        "NOT DISTINCT": _is_not_distinct,
    }
)
ARITHMETIC: Final[Mapping[str, Callable[[Values, Values], Values]]] = MappingProxyType(
    {
        "+": in_single(pc.add),
        "-": in_single(pc.subtract),
        "*": in_single(pc.multiply),
        "/": in_single(pc.divide),
        "%": in_single(_remainder),
    }
)
TESTS: Final[Mapping[str, Callable[[Values], Values]]] = MappingProxyType(
    {"NULL": _is_null, "TRUE": _is_true, "FALSE": _is_false}
)


def order_keys(values: pa.Array | pa.Scalar, *, joins_zeros: bool) -> pa.Array | pa.Scalar:
    """Convert floating-point numbers to integers with the same order; nulls are kept.

    Args:
        values: values of type float16, float32, or float64.
        joins_zeros: whether -0.0 and 0.0 get the same key.

    Returns:
        New integers with the same width as the values.
    """
    if isinstance(values, pa.Scalar):
        return order_keys(pa.array([values.as_py()], values.type), joins_zeros=joins_zeros)[0]
    dtype, greatest, arrow_type = _INTEGERS[values.type.bit_width]
    numbers = np.asarray(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    bits = numbers.view(dtype)
    # A negative number is smaller if its magnitude is larger, so all of its bits except the sign are inverted.
    keys = bits ^ ((bits >> (values.type.bit_width - 1)) & dtype(greatest))
    if joins_zeros:
        keys = np.where(numbers == 0, 0, keys).astype(dtype, copy=False)
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(keys, arrow_type, mask=mask)


def like(pattern: str | None, *, ignores_case: bool) -> Callable[[Values], Values]:
    """Return a function that matches strings against a pattern; if the pattern is null, its result is null."""
    if pattern is None:
        return _unknown
    literal = _enclosed_literal(pattern)
    if literal and not ignores_case:
        return partial(contains, literal=literal)
    expression = _PATTERN_PART.sub(_translated, pattern)
    flags = "(?si)" if ignores_case else "(?s)"

    def test(values: Values) -> Values:
        return pc.match_substring_regex(values, pattern=f"{flags}\\A(?:{expression})\\z")

    return test


def _enclosed_literal(pattern: str) -> str | None:
    """Return the text between the two percent signs of a pattern that has no other wildcards; None for others."""
    text = pattern[1:-1]
    is_literal = pattern[:1] == pattern[-1:] == "%" and not any(sign in text for sign in ("%", "_", "\\"))
    return text if is_literal else None


def _translated(match: re.Match[str]) -> str:
    escaped, plain = match.groups()
    return re.escape(escaped) if escaped is not None else _WILDCARDS.get(plain, re.escape(plain))


def _unknown(values: Values) -> Values:
    return pa.nulls(len(values), pa.bool_()) if isinstance(values, pa.Array) else pa.scalar(None, pa.bool_())
