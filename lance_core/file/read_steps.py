"""Runs reads that proceed in steps, and combines the steps of several reads so that they share requests.

A read is a generator: it yields the ranges that it needs next, receives their bytes, and finally returns its result.
Reads that run together share requests, so reading rows of many columns takes only as many requests as reading the
column with the most steps.

Source: own design; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow as pa

    from lance_core.io.byte_range import ByteRange

__all__ = ["Read", "ReadSteps", "run_steps", "together"]

Read: TypeAlias = "Callable[[Sequence[ByteRange]], list[pa.Buffer]]"
"""A function that reads ranges of one file with as few requests as possible; called from several threads."""

T = TypeVar("T")

ReadSteps: TypeAlias = "Generator[Sequence[ByteRange], Sequence[pa.Buffer], T]"
"""A generator that yields the ranges to read, receives their bytes, and returns a ``T``."""


def run_steps(steps: ReadSteps[T], read: Read) -> T:
    """Run one read to completion."""
    try:
        ranges = next(steps)
        while True:
            ranges = steps.send(read(ranges) if ranges else ())
    except StopIteration as finished:
        result: T = finished.value
        return result


def together(readings: Sequence[ReadSteps[T]]) -> ReadSteps[list[T]]:
    """Combine several reads into one, which returns their results in the same order."""
    if len(readings) == 1:
        return [(yield from readings[0])]
    results: list[Any] = [None] * len(readings)
    waiting: list[tuple[int, ReadSteps[T], Sequence[ByteRange]]] = []
    for index, steps in enumerate(readings):
        try:
            waiting.append((index, steps, next(steps)))
        except StopIteration as finished:
            results[index] = finished.value
    while waiting:
        found = yield [extent for _, _, ranges in waiting for extent in ranges]
        still, at = [], 0
        for index, steps, ranges in waiting:
            part = found[at : at + len(ranges)]
            at += len(ranges)
            try:
                still.append((index, steps, steps.send(part)))
            except StopIteration as finished:
                results[index] = finished.value
        waiting = still
    return results
