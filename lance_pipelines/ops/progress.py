"""Shows the progress of a step: in the log of the run and, for a command, on the terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import dagster as dg

from lance_pipelines.progress import ProgressLines

__all__ = ["progress_lines", "shown_on"]

_displays: list[Callable[[str], object]] = []


def progress_lines(context: dg.OpExecutionContext, dataset: str) -> ProgressLines:
    """Return the receiver of a step's progress. It writes no line for work that ends within a few seconds."""
    return ProgressLines(partial(_write, context, dataset))


@contextmanager
def shown_on(display: Callable[[str], object]) -> Iterator[None]:
    """Pass the progress of all steps that run in this process during the block to ``display``, too."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


def _write(context: dg.OpExecutionContext, dataset: str, line: str) -> None:
    context.log.info(line)
    for display in _displays:
        display(f"{dataset}: {line}")
