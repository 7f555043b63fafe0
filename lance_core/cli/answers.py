"""Answer: what a command prints, as lines for people and as a JSON document for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EXIT_CHANGED", "EXIT_FINE", "EXIT_INTERRUPTED", "EXIT_PROBLEMS", "EXIT_REFUSED", "Answer"]

EXIT_FINE: Final = 0

EXIT_PROBLEMS: Final = 1
"""Exit code if problems were found and not all of them were repaired."""

EXIT_REFUSED: Final = 2
"""Exit code for invalid arguments, unreadable input, and failure to write the output; argparse uses the same code."""

EXIT_CHANGED: Final = 3
"""Exit code if another writer changed the table first, so that the command had no effect or only a partial one."""

EXIT_INTERRUPTED: Final = 130
"""Exit code after Ctrl+C, as shells report it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command.

    Attributes:
        document: the result as objects that JSON can represent.
        lines: the result as text.
        exit_code: the exit code of the command.
    """

    document: Any
    lines: Sequence[str]
    exit_code: int = EXIT_FINE
