"""Function calls: the arguments that a function accepts, and its result type."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.coercion import common_type
from lance_core.predicate.expressions import Constant, computed
from lance_core.predicate.functions import CHOICES, FUNCTIONS, MATCHERS
from lance_core.predicate.operands import converted, is_text, mismatch, text_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.predicate.expressions import Expression
    from lance_core.predicate.syntax import Call

__all__ = ["bind_call"]


def bind_call(node: Call, arguments: Sequence[Expression]) -> Expression:
    """Build the expression that a call evaluates to.

    Args:
        node: the call.
        arguments: its bound arguments.

    Raises:
        InvalidInputError: the number or the types of the arguments are wrong.
        NotSupportedError: the function is not supported.
    """
    if node.function in CHOICES:
        return _choice(node, arguments)
    if node.function in MATCHERS:
        return _matcher(node, arguments)
    function = FUNCTIONS.get(node.function)
    if function is None:
        known = sorted({*FUNCTIONS, *MATCHERS, *CHOICES})
        raise NotSupportedError(
            f"predicate: {node.text}: the function {node.function!r} is not supported; known: {known}",
            function=node.function,
        )
    _check_count(node, 1)
    [argument] = arguments
    is_taken = is_text if function.takes == "string" else _is_number
    if not is_taken(argument.dtype):
        raise InvalidInputError(f"predicate: {node.text}: expected a {function.takes}, found {argument.dtype}")
    if is_text(argument.dtype):
        argument = converted(argument, text_type(argument.dtype))
    return computed(function.kernel, function.gives or argument.dtype, argument)


def _choice(node: Call, arguments: Sequence[Expression]) -> Expression:
    if node.function != "coalesce":
        _check_count(node, 2)
    elif not arguments:
        raise InvalidInputError(f"predicate: {node.text}: expected at least one argument")
    dtype = common_type(*(argument.dtype for argument in arguments))
    if dtype is None:
        raise mismatch(node, *arguments)
    return computed(pc.coalesce, dtype, *(converted(argument, dtype) for argument in arguments))


def _matcher(node: Call, arguments: Sequence[Expression]) -> Expression:
    _check_count(node, 2)
    text, wanted = arguments
    if not (is_text(text.dtype) and is_text(wanted.dtype)):
        raise mismatch(node, text, wanted)
    if not isinstance(wanted, Constant) or not wanted.scalar.is_valid:
        raise NotSupportedError(f"predicate: {node.text}: the second argument must be a constant")
    kernel = partial(MATCHERS[node.function], pattern=wanted.scalar.as_py())
    return computed(kernel, pa.bool_(), converted(text, text_type(text.dtype)))


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _check_count(node: Call, expected: int) -> None:
    if len(node.arguments) != expected:
        raise InvalidInputError(f"predicate: {node.text}: expected {expected} arguments, found {len(node.arguments)}")
