"""PlanFigures: statistics of a planned compaction, known before any data is read."""

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
    """A table before and after, and the part of it that is rewritten.

    Rows are live rows. Files are data files and deletion files. Bytes are those of data files; bytes of new files are
    estimated from the old ones.

    Attributes:
        tasks: parts that the work consists of.
        fragments_before: of the table.
        fragments_after: of the table, estimated when a byte target decides.
        rows: of the table; a compaction does not change them.
        deleted_rows: still stored in the table's files.
        deleted_rows_after: those that stay stored.
        files_before: of the table.
        files_after: of the table.
        bytes_before: of the table.
        bytes_after_estimate: of the table.
        rewritten_fragments: fragments that are replaced.
        rewritten_rows: rows that are read and written.
        rewritten_deleted_rows: rows that are no longer stored.
        rewritten_files: files that the new version does not refer to.
        rewritten_bytes: bytes that are read.
        new_fragments: fragments that replace them.
        new_bytes_estimate: bytes that are written; needed on storage in addition until old versions are removed.
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
        """Of tasks, given as fragment ids, on a table."""
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
        """Of tasks alone, as if the table had no other fragments."""
        table = [figures_of(fragment) for task in tasks for fragment in task]
        return cls.of(table, [[fragment.id for fragment in task] for task in tasks], settings)


def figures_of(fragment: FragmentMetadata) -> FragmentFigures:
    """Return the numbers of a fragment for the planner, without indices."""
    return FragmentFigures(
        id=fragment.id,
        physical_rows=fragment.physical_rows,
        deleted_rows=fragment.num_deletions,
        num_bytes=sum(file.file_size_bytes or 0 for file in fragment.files),
        num_files=len(fragment.files) + (fragment.deletion_file is not None),
    )
