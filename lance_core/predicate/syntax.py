"""The syntax tree of a predicate, before it is bound to a schema.

Every node stores the text from which it was parsed, for error messages, and its height, which limits the depth of the
tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MAX_HEIGHT",
    "Between",
    "Call",
    "Cast",
    "Infix",
    "Like",
    "Logical",
    "Membership",
    "Name",
    "Negation",
    "Node",
    "Not",
    "Test",
    "Value",
    "checked_height",
]

MAX_HEIGHT: Final = 64
"""Maximum nesting depth of parentheses and operators; 50 in pylance. Chains of AND or OR may have any length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    text: str
    height: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(_Base):
    """A column or a struct member of a column.

    Attributes:
        path: names from the column down to the member.
        exact: whether the column's name is case-sensitive because it was quoted.
    """

    path: tuple[str, ...]
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value(_Base):
    """A constant.

    Attributes:
        scalar: the value.
        adapts: whether the constant adopts the type of the column with which it is compared, as an untyped SQL literal
            does.
    """

    scalar: pa.Scalar
    adapts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Logical(_Base):
    """A chain of ANDs or a chain of ORs.

    Attributes:
        operator: "AND" or "OR".
        operands: the operands, at least two.
    """

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(_Base):
    """A logical negation."""

    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation(_Base):
    """A minus sign before an operand that is not a literal."""

    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Infix(_Base):
    """A comparison, an arithmetic operation, or ``||``.

    Attributes:
        operator: "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "DISTINCT", or "NOT DISTINCT".
    """

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Test(_Base):
    """The test IS [NOT] NULL, IS [NOT] TRUE, or IS [NOT] FALSE.

    Attributes:
        what: "NULL", "TRUE", or "FALSE".
    """

    __test__ = False  # the name is SQL's; pytest must not collect it

    operand: Node
    what: str
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership(_Base):
    """The operator [NOT] IN (…)."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(_Base):
    """The operator [NOT] BETWEEN low AND high."""

    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Like(_Base):
    """The operator [NOT] LIKE or [NOT] ILIKE."""

    operand: Node
    pattern: Node
    negated: bool
    ignores_case: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(_Base):
    """A cast: CAST(… AS …), or a typed literal such as ``date '2020-01-01'``."""

    operand: Node
    target: pa.DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(_Base):
    """A function call.

    Attributes:
        function: name of the function in lowercase.
    """

    function: str
    arguments: tuple[Node, ...]


Node: TypeAlias = Name | Value | Logical | Not | Negation | Infix | Test | Membership | Between | Like | Cast | Call


def checked_height(*below: Node) -> int:
    """Return the height of a node with the given children.

    Raises:
        InvalidInputError: the height would exceed the limit.
    """
    height = 1 + max((node.height for node in below), default=0)
    if height > MAX_HEIGHT:
        raise InvalidInputError(f"the predicate is nested more than {MAX_HEIGHT} levels deep")
    return height
