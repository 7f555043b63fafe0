"""Progress bars of long-running commands, on standard error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["shown_progress"]


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar while the ``with`` block runs, if standard error is a terminal.

    Args:
        what: what is counted.

    Yields:
        A function that takes the number of finished items and the total number of items.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # A large package, which is needed only on a terminal.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
