"""The table that a dry run prints: statistics of a dataset before the work and, if known, after it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from humanfriendly import format_size, format_timespan  # type: ignore[import-untyped]  # no types
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

__all__ = ["PlanLine", "amount", "format_bytes", "format_duration", "render_plan"]

_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One line of the table.

    Attributes:
        name: what is counted.
        before: the value now; None if unknown.
        after: the value after the work; None if unknown.
        is_bytes: whether the values are numbers of bytes.
        is_estimate: whether ``after`` is an estimate.
    """

    name: str
    before: int | None
    after: int | None
    is_bytes: bool = False
    is_estimate: bool = False

    def cells(self) -> tuple[str, str, str, str]:
        """Return the name, the value before, the value after, and the change as text."""
        mark = "~" if self.is_estimate else ""
        change = ""
        if self.before is not None and self.after is not None and self.before != self.after:
            difference = self.after - self.before
            change = f"{'+' if difference > 0 else '-'}{self._text(abs(difference))}"
        return (
            self.name,
            "unknown" if self.before is None else self._text(self.before),
            "unknown" if self.after is None else mark + self._text(self.after),
            change and mark + change,
        )

    def _text(self, number: int) -> str:
        return format_bytes(number) if self.is_bytes else f"{number:,}"


def amount(number: int, noun: str, plural: str = "") -> str:
    """Return a number with a noun: ``1 fragment`` or ``2 fragments``.

    Args:
        number: the number.
        noun: the noun in the singular.
        plural: the noun in the plural; if empty, the singular and ``s``.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def format_bytes(number: int) -> str:
    """Return a number of bytes in human-readable form, for example ``1.5 GiB``."""
    return str(format_size(number, binary=True))


def format_duration(duration: timedelta) -> str:
    """Return a duration in words, for example ``2 weeks``."""
    return str(format_timespan(duration))


def render_plan(title: str, lines: Sequence[PlanLine], notes: Sequence[str] = ()) -> str:
    """Return the table as plain text, with the notes below it."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*line.cells())
    text = io.StringIO()
    console = Console(file=text, width=_WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(table)
    rows = [row.rstrip() for row in text.getvalue().splitlines()]
    return "\n".join([title, *rows, *notes]) + "\n"
