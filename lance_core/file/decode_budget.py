"""The memory budget that the columns of a stream of batches share while they are decoded.

Every column decodes one range of its rows at a time and keeps it until the batches have consumed it, so one range per
column is in memory at any time. If each range is a whole page, ten columns take little memory, but a thousand columns
take a gigabyte. If the ranges that are best for speed exceed the budget, the largest of them are reduced to a common
size such that all ranges fit, but never to less than one batch of rows.

Ranges are split while the stream is being read, because a plan that lists every part would grow with the file.

Source: own design; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.file.field_source import Pace
from lance_core.file.scan import FieldPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.file.field_source import FieldSource
    from lance_core.file.read_config import ReadConfig

__all__ = ["fair_share", "stream_plans"]

_LEAST_BYTES: Final = 16 * 1024
"""Minimum share of a column in the memory budget, in bytes. Decoding a range has a fixed cost, about that of decoding
16 KiB."""


def stream_plans(sources: Sequence[FieldSource], start: int, stop: int, config: ReadConfig) -> list[FieldPlan]:
    """Plan how to read rows ``[start, stop)`` of some fields as a stream.

    Args:
        sources: the sources of the fields, one per field.
        start: first row.
        stop: row after the last.
        config: sets the number of rows per batch and the maximum decoded size of all fields together.
    """
    batch_rows, budget = config.batch_rows, config.decoded_bytes
    plans = [source.plan(start, stop, batch_rows=batch_rows) for source in sources]
    if stop - start <= batch_rows:
        # A single batch contains all the rows.
        return list(map(FieldPlan, sources, plans))
    demands = [max(map(source.memory_of, segments), default=0) for source, segments in zip(sources, plans, strict=True)]
    if sum(demands) <= budget:
        return list(map(FieldPlan, sources, plans))
    pace = Pace(max(_LEAST_BYTES, fair_share(demands, budget)), batch_rows, start)
    return [
        FieldPlan(source, segments, pace if demand > pace.max_memory else None)
        for source, segments, demand in zip(sources, plans, demands, strict=True)
    ]


def fair_share(demands: Sequence[int], budget: int) -> int:
    """Return the largest share such that the demands, each capped at the share, add up to no more than the budget."""
    left = budget
    for index, demand in enumerate(sorted(demands)):
        num_others = len(demands) - index
        if demand * num_others > left:
            return left // num_others
        left -= demand
    return max(demands, default=0)
