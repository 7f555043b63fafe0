"""Converts Arrow expressions to predicates.

The content of an expression is accessible only through its serialized form: an Arrow file with one row. The schema
metadata lists the nodes of the tree in prefix order; the columns contain the literals and options::

    call: and_kleene  call: greater  field_ref: a  literal: 0  end: greater  …  end: and_kleene

An Arrow expression has the same meaning as the corresponding SQL text: NaN is ordered, and IN does not match null.
Arrow uses stack space for every term of a chain of operators; write a chain of tens of thousands of terms as one
``isin`` or as SQL text.

Source: ``arrow::compute::Serialize(Expression)``; expressions of pyarrow 26.
"""

from __future__ import annotations

import ctypes
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import NotSupportedError
from lance_core.predicate.syntax import (
    Call,
    Cast,
    Infix,
    Like,
    Logical,
    Membership,
    Name,
    Negation,
    Node,
    Not,
    Test,
    Value,
    checked_height,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow.compute as pc

__all__ = ["read_arrow_expression"]


def read_arrow_expression(expression: pc.Expression) -> tuple[str, Node]:
    """Parse an expression.

    Returns:
        The expression as readable text, and the syntax tree of the predicate.

    Raises:
        InvalidInputError: the expression is nested too deeply.
        NotSupportedError: a function or an option is not supported, or a field is specified by its position.
    """
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as reader:
            content = reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise NotSupportedError(f"the Arrow expression cannot be read: {error}") from error
    node = _Reader(content).read()
    # Arrow needs more stack space to convert longer chains to text.
    return str(expression) if content.num_columns <= _MOST_SHOWN else f"{node.text[:200]} …", node


class _Reader:
    """Reads one serialized expression."""

    def __init__(self, content: pa.RecordBatch) -> None:
        self._content = content
        self._entries = _metadata_entries(content.schema)

    def read(self) -> Node:
        """Build the syntax tree from the innermost calls outward."""
        frames: list[list[Node]] = [[]]
        options: list[dict[str, Any]] = [{}]
        position = 0
        while position < len(self._entries):
            key, value = self._entries[position]
            position += 1
            match key:
                case "call":
                    frames.append([])
                    options.append({})
                case "end":
                    arguments, given = frames.pop(), options.pop()
                    frames[-1].append(_call(value, arguments, given))
                case "options":
                    options[-1] = self._options(int(value))
                case "literal":
                    frames[-1].append(_value(self._content.column(int(value))[0]))
                case "nested_field_ref":
                    stop = position + int(value)
                    path = tuple(name for _, name in self._entries[position:stop])
                    frames[-1].append(Name(text=".".join(path), path=path, exact=True))
                    position = stop
                case "field_ref":
                    frames[-1].append(Name(text=value, path=(value,), exact=True))
                case _:
                    raise NotSupportedError(f"predicate: Arrow expressions with {key!r} are not supported")
        [node] = frames[0]
        return node

    def _options(self, column: int) -> dict[str, Any]:
        """Return the options of a call as Arrow scalars."""
        struct = self._content.column(column)[0]
        return {name: struct[name] for name in struct}


def _value(scalar: pa.Scalar) -> Value:
    if pa.types.is_dictionary(scalar.type):
        # DataFusion compares columns that are dictionaries with dictionaries of one item.
        scalar = scalar.value
    # Converted as an array: the text of a scalar needs a Python value, which does not exist for some timestamps.
    text = pa.array([scalar], scalar.type).to_string(indent=0, skip_new_lines=True)[1:-1]
    return Value(text=text, scalar=scalar.cast(_in_utc(scalar.type)), adapts=_is_plain(scalar.type))


def _in_utc(dtype: pa.DataType) -> pa.DataType:
    """Replace the time zone of a timestamp type with UTC; pylance distinguishes only types with and without a zone."""
    has_zone = pa.types.is_timestamp(dtype) and dtype.tz is not None
    return pa.timestamp(dtype.unit, "UTC") if has_zone else dtype


def _is_plain(dtype: pa.DataType) -> bool:
    """Return whether literals of this type come from plain Python values, and therefore adopt the type of a column."""
    return bool(dtype in _PLAIN)


def _call(function: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    build = _FUNCTIONS.get(function)
    if build is None:
        known = sorted(_FUNCTIONS)
        raise NotSupportedError(
            f"predicate: the Arrow function {function!r} is not supported; supported: {known}", function=function
        )
    text = f"{function}({', '.join(argument.text[:60] for argument in arguments)})"
    return build(text, arguments, options)


def _infix(text: str, arguments: list[Node], options: dict[str, Any], *, operator: str) -> Node:
    left, right = arguments
    return Infix(text=text, height=checked_height(left, right), operator=operator, left=left, right=right)


def _logical(text: str, arguments: list[Node], options: dict[str, Any], *, operator: str) -> Node:
    # a & b & c nests to the left; the chain is flattened, so that the tree of a long chain is not deep.
    first, *others = arguments
    if isinstance(first, Logical) and first.operator == operator:
        height = max(first.height, checked_height(*others))
        return Logical(text=text, height=height, operator=operator, operands=(*first.operands, *others))
    return Logical(text=text, height=checked_height(*arguments), operator=operator, operands=tuple(arguments))


def _choice(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    # Only of conditions: (c AND x) OR (NOT c AND y) OR (c IS NULL AND NULL). DuckDB writes IN in this way.
    condition, if_true, if_false = arguments
    operands = (
        _logical(text, [condition, if_true], {}, operator="AND"),
        _logical(text, [_not(text, [condition], {}), if_false], {}, operator="AND"),
        _logical(text, [_test(text, [condition], {}, negated=False), _UNKNOWN], {}, operator="AND"),
    )
    return Logical(text=text, height=checked_height(*operands), operator="OR", operands=operands)


def _not(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    [operand] = arguments
    return Not(text=text, height=checked_height(operand), operand=operand)


def _negation(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    [operand] = arguments
    return Negation(text=text, height=checked_height(operand), operand=operand)


def _test(text: str, arguments: list[Node], options: dict[str, Any], *, negated: bool) -> Node:
    [operand] = arguments
    if "nan_is_null" in options and options["nan_is_null"].as_py():
        raise NotSupportedError(f"predicate: {text}: nan_is_null is not supported; use is_null() | is_nan()")
    return Test(text=text, height=checked_height(operand), operand=operand, what="NULL", negated=negated)


def _membership(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    [operand] = arguments
    values = options["value_set"].values
    items = tuple(_value(scalar) for scalar in values)
    return Membership(text=text, height=checked_height(operand, *items), operand=operand, items=items, negated=False)


def _cast(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    [operand] = arguments
    return Cast(text=text, height=checked_height(operand), operand=operand, target=_in_utc(options["to_type"].type))


def _pattern(options: dict[str, Any]) -> Value:
    return Value(text=repr(options["pattern"].as_py()), scalar=pa.scalar(options["pattern"].as_py(), pa.string()))


def _like(text: str, arguments: list[Node], options: dict[str, Any]) -> Node:
    [operand] = arguments
    return Like(
        text=text,
        height=checked_height(operand),
        operand=operand,
        pattern=_pattern(options),
        negated=False,
        ignores_case=options["ignore_case"].as_py(),
    )


def _matcher(text: str, arguments: list[Node], options: dict[str, Any], *, function: str) -> Node:
    if options["ignore_case"].as_py():
        raise NotSupportedError(f"predicate: {text}: ignore_case is not supported; compare lowercase values")
    given = (*arguments, _pattern(options))
    return Call(text=text, height=checked_height(*given), function=function, arguments=given)


def _function(text: str, arguments: list[Node], options: dict[str, Any], *, function: str) -> Node:
    return Call(text=text, height=checked_height(*arguments), function=function, arguments=tuple(arguments))


def _metadata_entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return all metadata entries of a schema, in order. ``Schema.metadata`` keeps only one entry per key."""
    exported = (ctypes.c_byte * _C_SCHEMA_BYTES)()
    address = ctypes.addressof(exported)
    schema._export_to_c(address)
    try:
        start = ctypes.c_void_p.from_address(address + _C_METADATA_OFFSET).value
        return [] if start is None else _entries_at(start)
    finally:
        # Importing takes ownership of the exported structure and releases it.
        pa.Schema._import_from_c(address)


def _entries_at(address: int) -> list[tuple[str, str]]:
    """Read entries of the C data interface: a count, then size and bytes of each key and value; native byte order."""
    texts = []
    count = ctypes.c_int32.from_address(address).value
    address += 4
    for _ in range(2 * count):
        length = ctypes.c_int32.from_address(address).value
        texts.append(ctypes.string_at(address + 4, length).decode())
        address += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


_UNKNOWN: Final = Value(text="NULL", scalar=pa.scalar(None, pa.bool_()))
_C_SCHEMA_BYTES: Final = 72
_C_METADATA_OFFSET: Final = 16
_MOST_SHOWN: Final = 1000
_PLAIN: Final = frozenset(
    {pa.null(), pa.bool_(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.binary()}
)
_FUNCTIONS: Final[Mapping[str, Callable[[str, list[Node], dict[str, Any]], Node]]] = MappingProxyType(
    {
        "equal": partial(_infix, operator="="),
        "not_equal": partial(_infix, operator="<>"),
        "less": partial(_infix, operator="<"),
        "less_equal": partial(_infix, operator="<="),
        "greater": partial(_infix, operator=">"),
        "greater_equal": partial(_infix, operator=">="),
        "add": partial(_infix, operator="+"),
        "add_checked": partial(_infix, operator="+"),
        "subtract": partial(_infix, operator="-"),
        "subtract_checked": partial(_infix, operator="-"),
        "multiply": partial(_infix, operator="*"),
        "multiply_checked": partial(_infix, operator="*"),
        "divide": partial(_infix, operator="/"),
        "divide_checked": partial(_infix, operator="/"),
        "and_kleene": partial(_logical, operator="AND"),
        "or_kleene": partial(_logical, operator="OR"),
        "if_else": _choice,
        "invert": _not,
        "negate": _negation,
        "is_null": partial(_test, negated=False),
        "is_valid": partial(_test, negated=True),
        "is_in": _membership,
        "cast": _cast,
        "match_like": _like,
        "starts_with": partial(_matcher, function="starts_with"),
        "ends_with": partial(_matcher, function="ends_with"),
        "match_substring": partial(_matcher, function="contains"),
        "is_nan": partial(_function, function="isnan"),
        "abs": partial(_function, function="abs"),
        "coalesce": partial(_function, function="coalesce"),
    }
)
"""Maps each Arrow compute function to the function that builds the corresponding predicate node."""
