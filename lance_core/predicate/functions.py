"""The functions that a predicate may call.

A function is included if its results match the reference for every argument. Regular expressions, dates and rounding
are not included, because the engines differ in the details.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.predicate.kernels import in_single

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_core.predicate.expressions import Values

__all__ = ["CHOICES", "FUNCTIONS", "MATCHERS", "Function"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one argument.

    Attributes:
        kernel: computes the function.
        takes: "string" or "number".
        gives: type of the result; None for the type of the argument.
    """

    kernel: Callable[[Values], Values]
    takes: str
    gives: Any = None


def _changed_case(values: Values, ascii_kernel: Callable[[Values], Values], change: Callable[[str], str]) -> Values:
    """Change the case; letters outside ASCII may become several (ß, SS), which Arrow's kernels do not support."""
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
"""Functions of one argument."""

MATCHERS: Final[Mapping[str, Callable[..., Values]]] = MappingProxyType(
    {"starts_with": pc.starts_with, "ends_with": pc.ends_with, "contains": pc.match_substring}
)
"""Functions of a text and a constant text to look for."""

CHOICES: Final = frozenset({"coalesce", "ifnull", "nvl"})
"""Names of: the first argument that is not null."""
