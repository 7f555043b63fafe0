"""The functions that a predicate may call, and the arguments that they accept.

The module contains the functions for which Arrow's results equal those of pylance for all arguments. DataFusion
evaluates the others (``engine``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.coercion import common_type
from lance_core.predicate.expressions import Constant, computed
from lance_core.predicate.kernels import in_single
from lance_core.predicate.operands import converted, is_text, mismatch, text_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_core.predicate.expressions import Expression, Values
    from lance_core.predicate.syntax import Call

__all__ = ["FUNCTIONS", "Function", "bind_call"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one argument.

    Attributes:
        kernel: computes the function.
        takes: kind of argument that the function accepts: "string" or "number".
        gives: type of the result; if None, the type of the argument.
    """

    kernel: Callable[[Values], Values]
    takes: str
    gives: Any = None


def _changed_case(values: Values, ascii_kernel: Callable[[Values], Values], change: Callable[[str], str]) -> Values:
    """Change the case; a non-ASCII letter may become several letters (ß, SS), which Arrow's kernels do not support."""
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return ascii_kernel(values)
    distinct = pc.dictionary_encode(values)
    changed = [None if text is None else change(text) for text in distinct.dictionary.to_pylist()]
    return pc.take(pa.array(changed, values.type), distinct.indices)


def _lower(values: Values) -> Values:
    return _over_array(values, lambda array: _changed_case(array, pc.ascii_lower, str.lower))


def _upper(values: Values) -> Values:
    return _over_array(values, lambda array: _changed_case(array, pc.ascii_upper, str.upper))


def _over_array(values: Values, kernel: Callable[[Values], Values]) -> Values:
    return kernel(values) if isinstance(values, pa.Array) else kernel(pa.array([values.as_py()], values.type))[0]


def _length(values: Values) -> Values:
    return pc.cast(pc.utf8_length(values), pa.int32())


def _octet_length(values: Values) -> Values:
    return pc.cast(pc.binary_length(values), pa.int32())


def _is_nan(values: Values) -> Values:
    return pc.is_nan(pc.cast(values, pa.float64(), safe=False))


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        "lower": Function(_lower, "string"),
        "upper": Function(_upper, "string"),
        "length": Function(_length, "string", pa.int32()),
        "char_length": Function(_length, "string", pa.int32()),
        "character_length": Function(_length, "string", pa.int32()),
        "octet_length": Function(_octet_length, "string", pa.int32()),
        "isnan": Function(_is_nan, "number", pa.bool_()),
        "abs": Function(in_single(pc.abs), "number"),
    }
)
"""Functions that take one argument."""

_MATCHERS: Final[Mapping[str, Callable[..., Values]]] = MappingProxyType(
    {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}
)
"""Functions that search a string for a constant string."""

_CHOICES: Final = frozenset({"coalesce", "ifnull", "nvl"})
"""Names of the functions that return the first of their arguments that is not null."""


def bind_call(node: Call, arguments: Sequence[Expression]) -> Expression:
    """Convert a function call to an expression that can be evaluated.

    Args:
        node: the call.
        arguments: the bound arguments of the call.

    Raises:
        InvalidInputError: the number or the types of the arguments are wrong.
        NotSupportedError: the function is not supported.
    """
    if node.function in _CHOICES:
        return _choice(node, arguments)
    if node.function in _MATCHERS:
        return _matcher(node, arguments)
    function = FUNCTIONS.get(node.function)
    if function is None:
        raise NotSupportedError(
            f"predicate: {node.text}: the function {node.function!r} is not supported",
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
        raise mismatch(node, *arguments, expected="arguments with a common type")
    return computed(pc.coalesce, dtype, *(converted(argument, dtype) for argument in arguments))


def _matcher(node: Call, arguments: Sequence[Expression]) -> Expression:
    _check_count(node, 2)
    text, wanted = arguments
    if not (is_text(text.dtype) and is_text(wanted.dtype)):
        raise mismatch(node, text, wanted, expected="strings")
    if not isinstance(wanted, Constant) or not wanted.scalar.is_valid:
        raise NotSupportedError(f"predicate: {node.text}: the second argument must be a constant that is not null")
    kernel = partial(_MATCHERS[node.function], pattern=wanted.scalar.as_py())
    return computed(kernel, pa.bool_(), converted(text, text_type(text.dtype)))


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _check_count(node: Call, expected: int) -> None:
    if len(node.arguments) != expected:
        raise InvalidInputError(
            f"predicate: {node.text}: wrong number of arguments: expected {expected}, found {len(node.arguments)}"
        )
