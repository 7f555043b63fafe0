"""The memory that a stream may decode ahead of its batches, shared by its columns.

Every column decodes a stretch of its rows at a time, and holds it until the batches have used it up. As many stretches
as there are columns are held at once: a whole page each is little for ten columns and a gigabyte for a thousand. Where
the budget does not suffice for the stretches that are best for speed, the largest are cut down to an equal share, but
never below the rows of a batch.

Cutting is done while the stream goes on: a plan of all pieces would grow with the file.

Source: own design, see ``docs/decisions/0009-reading-data-files.md``.
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
"""A share is not less: decoding a piece costs about as much as this many bytes take."""


def stream_plans(sources: Sequence[FieldSource], start: int, stop: int, config: ReadConfig) -> list[FieldPlan]:
    """How rows ``[start, stop)`` of some fields are read as a stream.

    Args:
        sources: the fields.
        start: first row.
        stop: end of the rows.
        config: rows that the consumer wants at a time, and decoded bytes that all fields together may hold.
    """
    batch_rows, budget = config.batch_rows, config.decoded_bytes
    plans = [source.plan(start, stop, batch_rows=batch_rows) for source in sources]
    if stop - start <= batch_rows:
        # One batch, which holds all of them.
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
    """The most that each may have so that all together stay within the budget; who wants less leaves the rest."""
    left = budget
    for index, demand in enumerate(sorted(demands)):
        num_others = len(demands) - index
        if demand * num_others > left:
            return left // num_others
        left -= demand
    return max(demands, default=0)
