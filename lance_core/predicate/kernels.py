"""The operations of predicates on Arrow values.

Each accepts any mix of arrays and scalars and returns a scalar if all are scalars. A null operand gives null, except
where SQL defines otherwise: AND and OR (three-valued logic), IS [NOT] NULL / TRUE / FALSE, IS [NOT] DISTINCT FROM.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.predicate.float_order import order_keys

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
    "negate",
]


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
    """Return a comparison of floating-point numbers in their total order."""

    def compare(left: Values, right: Values) -> Values:
        return comparison(order_keys(left, joins_zeros=joins_zeros), order_keys(right, joins_zeros=joins_zeros))

    return compare


def in_single(kernel: Callable[..., Values]) -> Callable[..., Values]:
    """Wrap a kernel to compute half-precision numbers in single precision, because Arrow does not support them."""

    def compute(*values: Values) -> Values:
        if not pa.types.is_float16(values[0].type):
            return kernel(*values)
        result = kernel(*(pc.cast(value, pa.float32()) for value in values))
        return pc.cast(result, pa.float16(), safe=False)

    return compute


def is_member(items: pa.Array, *, negated: bool) -> Callable[[Values], Values]:
    """Return a [NOT] IN test for constants: null if no item is equal and the value or an item is null."""
    has_null = bool(items.null_count)
    known = _keys(items.drop_null()).unique()

    def test(values: Values) -> Values:
        found = pc.is_in(_keys(values), value_set=known)
        decided = pc.and_(pc.is_valid(values), found) if has_null else pc.is_valid(values)
        result = pc.if_else(decided, found, pa.scalar(None, pa.bool_()))
        return pc.invert(result) if negated else result

    return test


def _keys(values: Values) -> Values:
    """Return lookup keys for values; floating-point numbers use their order keys, so that NaN is found."""
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
    """Return the remainder of a division that rounds towards zero."""
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
