"""Tables and bars in Markdown, as Dagster's web interface renders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["bar", "markdown_table"]

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def bar(fraction: float, num_cells: int = 24) -> str:
    """Return a bar of block characters, at least one eighth of a cell long."""
    whole, rest = divmod(max(1, round(fraction * num_cells * 8)), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; vertical bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)
