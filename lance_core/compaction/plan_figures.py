"""PlanFigures: statistics of a planned compaction, computed without reading any data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.compaction.grouping import FragmentFigures, estimate_outputs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lance_core.compaction.options import CompactionSettings
    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["PlanFigures", "figures_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """Statistics of a table before and after a compaction, and of the part of the table that is rewritten.

    Numbers of rows do not include deleted rows, unless noted otherwise. Numbers of files include data files and
    deletion files. Sizes include only data files; the sizes of new files are estimated from the old files.

    Attributes:
        tasks: number of tasks.
        fragments_before: number of fragments of the table before the compaction.
        fragments_after: number of fragments of the table after the compaction; an estimate if there is a byte target.
        rows: number of rows of the table, which a compaction does not change.
        deleted_rows: number of deleted rows still stored in the table's files.
        deleted_rows_after: number of deleted rows still stored after the compaction.
        files_before: number of files of the table before the compaction.
        files_after: number of files of the table after the compaction.
        bytes_before: size of the table in bytes before the compaction.
        bytes_after_estimate: estimated size of the table in bytes after the compaction.
        rewritten_fragments: number of fragments that are replaced.
        rewritten_rows: number of rows that are read and written.
        rewritten_deleted_rows: number of deleted rows that are no longer stored after the compaction.
        rewritten_files: number of files to which the new version no longer refers.
        rewritten_bytes: number of bytes that are read.
        new_fragments: number of fragments that replace the old ones.
        new_bytes_estimate: estimated number of bytes that are written; until old versions are removed, this space is
            needed in addition to the space of the old files.
    """

    tasks: int
    fragments_before: int
    fragments_after: int
    rows: int
    deleted_rows: int
    deleted_rows_after: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after_estimate: int
    rewritten_fragments: int
    rewritten_rows: int
    rewritten_deleted_rows: int
    rewritten_files: int
    rewritten_bytes: int
    new_fragments: int
    new_bytes_estimate: int

    @classmethod
    def of(
        cls,
        table: Sequence[FragmentFigures],
        tasks: Sequence[Collection[int]],
        settings: CompactionSettings,
    ) -> Self:
        """Compute the statistics of a table and its tasks, which are given as lists of fragment ids."""
        by_id = {fragment.id: fragment for fragment in table}
        parts = [[by_id[fragment_id] for fragment_id in task] for task in tasks]
        old = [fragment for part in parts for fragment in part]
        new = [
            output
            for part in parts
            for output in estimate_outputs(
                sum(fragment.live_rows for fragment in part), sum(fragment.live_bytes for fragment in part), settings
            )
        ]
        deleted_rows = sum(fragment.deleted_rows for fragment in table)
        old_deleted_rows = sum(fragment.deleted_rows for fragment in old)
        files = sum(fragment.num_files for fragment in table)
        old_files = sum(fragment.num_files for fragment in old)
        num_bytes = sum(fragment.num_bytes for fragment in table)
        old_bytes = sum(fragment.num_bytes for fragment in old)
        new_bytes = sum(output.num_bytes for output in new)
        return cls(
            tasks=len(parts),
            fragments_before=len(table),
            fragments_after=len(table) - len(old) + len(new),
            rows=sum(fragment.live_rows for fragment in table),
            deleted_rows=deleted_rows,
            deleted_rows_after=deleted_rows - old_deleted_rows,
            files_before=files,
            files_after=files - old_files + len(new),
            bytes_before=num_bytes,
            bytes_after_estimate=num_bytes - old_bytes + new_bytes,
            rewritten_fragments=len(old),
            rewritten_rows=sum(fragment.live_rows for fragment in old),
            rewritten_deleted_rows=old_deleted_rows,
            rewritten_files=old_files,
            rewritten_bytes=old_bytes,
            new_fragments=len(new),
            new_bytes_estimate=new_bytes,
        )

    @classmethod
    def of_tasks(cls, tasks: Sequence[Sequence[FragmentMetadata]], settings: CompactionSettings) -> Self:
        """Compute the statistics of the tasks alone, as if the table had no other fragments."""
        table = [figures_of(fragment) for task in tasks for fragment in task]
        return cls.of(table, [[fragment.id for fragment in task] for task in tasks], settings)


def figures_of(fragment: FragmentMetadata) -> FragmentFigures:
    """Return the statistics of a fragment for the planner, without the indices that cover it."""
    return FragmentFigures(
        id=fragment.id,
        physical_rows=fragment.physical_rows,
        deleted_rows=fragment.num_deletions,
        num_bytes=sum(file.file_size_bytes or 0 for file in fragment.files),
        num_files=len(fragment.files) + (fragment.deletion_file is not None),
    )
