"""Grouping: decides which fragments are rewritten together, based on statistics of the fragments, without I/O.

Fragments are processed in id order::

    candidate     even alone      its fraction of deleted rows exceeds the threshold, or it has more than ten overlays
                  with neighbors  fewer rows than the row target, and fewer bytes than the byte target if there is one
                  never           any other fragment, and excluded fragments
    bin           neighboring candidates that the same indices cover; a single candidate "with neighbors" is dropped
    task          part of a bin; it ends once it reaches the target, if enough rows remain for another task
    budget        the first tasks that together stay within the limits

Two steps go beyond the planner of pylance:

* New fragments get the highest ids. Therefore, the new fragments of different tasks become neighbors, and so do old
  fragments that were separated only by replaced fragments. Fragments that the next compaction would merge for this
  reason are merged immediately (``_settle``), so that a second compaction right after the first has nothing to do.
* If even the first task exceeds the budget, the first useful part of a task that fits in the budget is used instead.
  Otherwise, nothing would ever be compacted.

Rows are distributed evenly among ``k = rows // target`` new files (at least one), with larger files first: with a
target of 70, 250 rows become files with 84, 83, and 83 rows. A file never has fewer rows than the target unless it is
the only one, so that the next compaction does not rewrite it. If there is a byte target, files may be closed earlier;
the remaining rows are then distributed again. In that case, every file except the last reaches the row target or the
byte target.

Source: planner and file sizes of pylance 14.0.2; the two steps and the byte target are specific to this library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.compaction.options import MAX_OVERLAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_core.compaction.options import CompactionSettings

__all__ = [
    "FragmentFigures",
    "OutputEstimate",
    "estimate_outputs",
    "next_file_rows",
    "plan_bins",
    "plan_tasks",
    "within_budget",
]

_TASK_TARGETS: Final = 4
"""Size of a task, as a multiple of the byte target. The size that the rows will have in the new files is not known in
advance. A task that produces several full files leaves only one small file, the last one, even if the estimate is far
too high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentFigures:
    """The statistics of a fragment that the planner uses.

    Attributes:
        id: id of the fragment.
        physical_rows: number of rows in the fragment's files, including deleted rows.
        deleted_rows: number of deleted rows in the fragment's files.
        num_bytes: size of the data files and overlays in bytes.
        num_files: number of data files and deletion files.
        num_overlays: number of overlay files.
        indices: the indices that cover the fragment, as positions in the list of the table's non-system indices.
    """

    id: int
    physical_rows: int
    deleted_rows: int = 0
    num_bytes: int = 0
    num_files: int = 1
    num_overlays: int = 0
    indices: frozenset[int] = frozenset()

    @property
    def live_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.physical_rows - self.deleted_rows

    @property
    def live_bytes(self) -> int:
        """Estimated size in bytes of the rows that are not deleted, in proportion to their number."""
        return self.num_bytes * self.live_rows // max(self.physical_rows, 1)


class _Candidacy(Enum):
    NO = "no"
    WITH_NEIGHBORS = "with neighbors"
    ITSELF = "itself"


_Task: TypeAlias = "tuple[FragmentFigures, ...]"
_Amount: TypeAlias = tuple[int, int, int]
"""An amount of data: number of fragments, number of live rows, and number of bytes."""


def plan_tasks(fragments: Sequence[FragmentFigures], settings: CompactionSettings) -> list[tuple[int, ...]]:
    """Group the fragments that a compaction rewrites.

    Args:
        fragments: the fragments of the whole table, in ascending order of id.
        settings: the settings of the compaction.

    Returns:
        The fragment ids of each task, in ascending order; no fragment belongs to two tasks.
    """
    tasks = plan_bins(fragments, settings)
    settled = _settle(fragments, tasks, settings)
    fits_whole = len(within_budget(settled, settings)) == len(settled)
    tasks = settled if fits_whole else within_budget(tasks, settings) or _first_part(tasks, settings)
    return [tuple(fragment.id for fragment in task) for task in tasks]


def plan_bins(fragments: Iterable[FragmentFigures], settings: CompactionSettings) -> list[_Task]:
    """Return the tasks that pylance would plan without a budget.

    Args:
        fragments: the fragments of the whole table, in ascending order of id.
        settings: the settings of the compaction.
    """
    excluded = frozenset(settings.excluded_fragment_ids)
    tasks: list[_Task] = []
    members: list[FragmentFigures] = []  # of the bin that is still growing
    for fragment in fragments:
        is_candidate = fragment.id not in excluded and _candidacy(fragment, settings) is not _Candidacy.NO
        if members and not (is_candidate and fragment.indices == members[0].indices):
            tasks += _tasks_of(members, settings)
            members = []
        if is_candidate:
            members.append(fragment)
    return [*tasks, *_tasks_of(members, settings)]


def _candidacy(fragment: FragmentFigures, settings: CompactionSettings) -> _Candidacy:
    threshold = settings.materialize_deletions_threshold
    if settings.materialize_deletions and threshold < 1 and fragment.physical_rows:
        # The reference compares in single precision.
        deleted = np.float32(fragment.deleted_rows) / np.float32(fragment.physical_rows)
        if deleted > np.float32(threshold):
            return _Candidacy.ITSELF
    if fragment.num_overlays > MAX_OVERLAYS:
        return _Candidacy.ITSELF
    max_bytes = settings.byte_target
    is_small = fragment.physical_rows < settings.target_rows_per_fragment
    if is_small and (max_bytes is None or fragment.num_bytes < max_bytes):
        return _Candidacy.WITH_NEIGHBORS
    return _Candidacy.NO


def _tasks_of(members: list[FragmentFigures], settings: CompactionSettings) -> list[_Task]:
    """Return the tasks of one bin."""
    if not members or (len(members) == 1 and _candidacy(members[0], settings) is not _Candidacy.ITSELF):
        return []
    return [task for task in _split(members, settings) if _is_useful(task, settings)]


def _split(members: list[FragmentFigures], settings: CompactionSettings) -> list[_Task]:
    target_rows = settings.target_rows_per_fragment
    target_bytes = settings.byte_target
    task_bytes = None if target_bytes is None else target_bytes * _TASK_TARGETS
    rows_left = sum(fragment.live_rows for fragment in members)
    bytes_left = sum(fragment.live_bytes for fragment in members)
    tasks: list[_Task] = []
    start = rows = num_bytes = 0
    for position, fragment in enumerate(members):
        rows += fragment.live_rows
        num_bytes += fragment.live_bytes
        rows_left -= fragment.live_rows
        bytes_left -= fragment.live_bytes
        fills_rows = rows >= target_rows and rows_left >= target_rows
        if fills_rows or (task_bytes is not None and num_bytes >= task_bytes and bytes_left >= task_bytes):
            tasks.append(tuple(members[start : position + 1]))
            start, rows, num_bytes = position + 1, 0, 0
    tasks.append(tuple(members[start:]))
    return [task for task in tasks if task]


def _is_useful(task: _Task, settings: CompactionSettings) -> bool:
    """Return whether rewriting does more than move the rows. If there is only a row target, it always does."""
    if settings.byte_target is None:
        return bool(task)
    if any(_candidacy(fragment, settings) is _Candidacy.ITSELF for fragment in task):
        return True
    return len(estimate_outputs(_live_rows(task), _live_bytes(task), settings)) < len(task)


def _settle(fragments: Sequence[FragmentFigures], tasks: list[_Task], settings: CompactionSettings) -> list[_Task]:
    """Join the tasks that the next compaction would join, and add the fragments that it would add."""
    while tasks:
        joined = _join_once(fragments, tasks, settings)
        if joined is None or joined == tasks:
            return tasks
        tasks = joined
    return tasks


def _join_once(
    fragments: Sequence[FragmentFigures], tasks: list[_Task], settings: CompactionSettings
) -> list[_Task] | None:
    """Perform one round of :func:`_settle`; return None if no fragments remain to be merged."""
    rewritten = {fragment.id for task in tasks for fragment in task}
    after = [fragment for fragment in fragments if fragment.id not in rewritten]
    sources: dict[int, _Task] = {fragment.id: (fragment,) for fragment in after}
    next_id = fragments[-1].id + 1
    origin: dict[int, int] = {}
    for number, task in enumerate(tasks):
        for output in estimate_outputs(_live_rows(task), _live_bytes(task), settings):
            # Whether or not an index will cover the result, it is never joined with fragments of different indices.
            indices = task[0].indices
            after.append(
                FragmentFigures(id=next_id, physical_rows=output.rows, num_bytes=output.num_bytes, indices=indices)
            )
            sources[next_id] = task
            origin[next_id] = number
            next_id += 1
    further = plan_bins(after, settings)
    if not further:
        return None
    used = {origin[fragment.id] for task in further for fragment in task if fragment.id in origin}
    kept = [task for number, task in enumerate(tasks) if number not in used]
    for task in further:
        parts = {source.id: source for fragment in task for source in sources[fragment.id]}
        kept.append(tuple(parts[fragment_id] for fragment_id in sorted(parts)))
    return sorted(_disjoint(kept), key=lambda task: task[0].id)


def _disjoint(tasks: list[_Task]) -> list[_Task]:
    """Join tasks that share a fragment: outputs of one task may have been added to two others."""
    groups: dict[int, dict[int, FragmentFigures]] = {}
    group_of: dict[int, int] = {}
    for number, task in enumerate(tasks):
        merged = {fragment.id: fragment for fragment in task}
        for other in {group_of[fragment_id] for fragment_id in merged if fragment_id in group_of}:
            merged.update(groups.pop(other))
        groups[number] = merged
        group_of.update(dict.fromkeys(merged, number))
    return [tuple(parts[fragment_id] for fragment_id in sorted(parts)) for parts in groups.values()]


def within_budget(tasks: list[_Task], settings: CompactionSettings) -> list[_Task]:
    """Return the first tasks that together stay within the limits, as pylance does."""
    return tasks[: _num_within(map(_amount, tasks), settings)]


def _first_part(tasks: list[_Task], settings: CompactionSettings) -> list[_Task]:
    """Return the first sequence of fragments within one task that stays within the limits and is useful to rewrite."""
    for task in tasks:
        amounts = [_amount((fragment,)) for fragment in task]
        for start in range(len(task)):
            part = task[start : start + _num_within(islice(amounts, start, None), settings)]
            alone = len(part) == 1 and _candidacy(part[0], settings) is not _Candidacy.ITSELF
            if part and not alone and _is_useful(part, settings):
                return [part]
    return []


def _amount(task: _Task) -> _Amount:
    return len(task), _live_rows(task), sum(fragment.num_bytes for fragment in task)


def _num_within(amounts: Iterable[_Amount], settings: CompactionSettings) -> int:
    """Return the largest number of leading amounts whose sum is within the limits."""
    limits = (settings.max_source_fragments, settings.max_source_rows, settings.max_source_bytes)
    totals = [0, 0, 0]
    count = 0
    for amount in amounts:
        totals = [total + more for total, more in zip(totals, amount, strict=True)]
        if any(limit is not None and total > limit for limit, total in zip(limits, totals, strict=True)):
            break
        count += 1
    return count


def _live_rows(task: _Task) -> int:
    return sum(fragment.live_rows for fragment in task)


def _live_bytes(task: _Task) -> int:
    return sum(fragment.live_bytes for fragment in task)


@dataclass(frozen=True, slots=True)
class OutputEstimate:
    """The estimated size of a file that a task will write.

    Attributes:
        rows: number of rows in the file.
        num_bytes: size of the file in bytes, estimated from the source files.
    """

    rows: int
    num_bytes: int


def next_file_rows(rows_left: int, target_rows: int) -> int:
    """Return the number of rows to write to the next file.

    Computing this number again for every file gives an even split: if ``k`` files remain to be written, the next file
    gets at least an equal share. After that, ``rows_left // target_rows`` is ``k - 1``.
    """
    return -(-rows_left // max(1, rows_left // target_rows))


def estimate_outputs(rows: int, num_bytes: int, settings: CompactionSettings) -> list[OutputEstimate]:
    """Return estimates of the files to which the given number of rows will be written; empty if there are no rows."""
    max_bytes = settings.byte_target
    outputs = []
    while rows:
        here = next_file_rows(rows, settings.target_rows_per_fragment)
        if max_bytes is not None and num_bytes * here > max_bytes * rows:
            here = min(here, -(-max_bytes * rows // num_bytes))
        # A file that is closed because of its size has at least as many bytes as the target.
        bytes_here = -(-num_bytes * here // rows)
        outputs.append(OutputEstimate(here, bytes_here))
        rows -= here
        num_bytes -= min(bytes_here, num_bytes)
    return outputs
