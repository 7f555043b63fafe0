"""The number of rows of the next file of a task.

With ``k = rows // target`` files (at least one) the rows are spread evenly, larger files first: 250 rows with a target
of 70 become 84, 83, 83. A file is never smaller than the target unless it is the only one, so that the next compaction
leaves it alone. A byte target closes a file earlier; the rest is distributed again. Then every file has one target or
the other, but for the last.

Source: file sizes of pylance 14.0.2; the byte target is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.compaction.options import CompactionSettings

__all__ = ["OutputEstimate", "estimate_outputs", "next_file_rows"]


@dataclass(frozen=True, slots=True)
class OutputEstimate:
    """A file that a task will presumably write.

    Attributes:
        rows: of the file.
        num_bytes: of the file, as far as source files tell.
    """

    rows: int
    num_bytes: int


def next_file_rows(rows_left: int, target_rows: int) -> int:
    """The number of rows of the next file.

    Computing it again for every file gives an even split: with ``k`` files left to write, each takes at least an equal
    share, after which ``rows_left // target_rows`` is ``k - 1``.
    """
    return -(-rows_left // max(1, rows_left // target_rows))


def estimate_outputs(rows: int, num_bytes: int, settings: CompactionSettings) -> list[OutputEstimate]:
    """The files that this many rows become; none for no rows."""
    max_bytes = settings.byte_target
    outputs = []
    while rows:
        here = next_file_rows(rows, settings.target_rows_per_fragment)
        if max_bytes is not None and num_bytes * here > max_bytes * rows:
            here = min(here, -(-max_bytes * rows // num_bytes))
        # A file closed by its bytes has at least as many as the target.
        bytes_here = -(-num_bytes * here // rows)
        outputs.append(OutputEstimate(here, bytes_here))
        rows -= here
        num_bytes -= min(bytes_here, num_bytes)
    return outputs
