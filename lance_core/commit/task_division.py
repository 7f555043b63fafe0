"""Divides the fragments of a change among tasks for other processes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from lance_core.errors import InvalidInputError
from lance_core.public.arguments import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["divided"]

_Item = TypeVar("_Item")


def divided(items: Sequence[_Item], num_parts: int) -> list[Sequence[_Item]]:
    """Divide items into at most ``num_parts`` nonempty parts, whose sizes differ by at most one.

    Raises:
        InvalidInputError: ``num_parts`` is less than 1.
    """
    if whole_number("num_tasks", num_parts) < 1:
        raise InvalidInputError(f"num_tasks must be at least 1, found {num_parts}", argument="num_tasks")
    num_parts = min(num_parts, len(items))
    edges = [len(items) * part // max(num_parts, 1) for part in range(num_parts + 1)]
    return [items[start:stop] for start, stop in pairwise(edges)]
