"""ColumnOrdering: one of the columns by which the rows of a scan are sorted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lance_core.errors import InvalidTypeError

__all__ = ["ColumnOrdering", "column_orderings"]


@dataclass
class ColumnOrdering:
    """A column to sort by.

    Attributes:
        column_name: name or dotted path of the column.
        ascending: whether the smallest value comes first. NaN is greater than all numbers, and 0.0
            is greater than -0.0.
        nulls_first: whether nulls come first; otherwise, they come last. This does not depend on ``ascending``.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


def column_orderings(order_by: Any) -> list[ColumnOrdering]:
    """Convert the argument ``order_by`` of a scan to a list; a string is the name of a column.

    Raises:
        InvalidTypeError: the argument is neither a list of orderings and names, nor a name.
    """
    items = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(items, Iterable):
        raise InvalidTypeError(
            f"order_by must be a list of ColumnOrdering objects or names of columns, found {type(order_by).__name__}"
        )
    return [_ordering(item) for item in items]


def _ordering(item: Any) -> ColumnOrdering:
    if isinstance(item, str):
        return ColumnOrdering(item)
    try:
        # The class of pylance is accepted too.
        return ColumnOrdering(str(item.column_name), bool(item.ascending), bool(item.nulls_first))
    except AttributeError as error:
        raise InvalidTypeError(
            f"order_by must contain ColumnOrdering objects or names of columns, found {type(item).__name__}"
        ) from error
