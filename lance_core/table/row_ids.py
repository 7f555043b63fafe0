"""Stable row ids of new and rewritten fragments.

A table that was created with stable row ids gives every new row the next free id, and records for every row the version
that created it and the version that last changed it. For a new fragment, the ids and both kinds of versions
are a single run each::

    row ids              RowIdSequence { Range { start: next_row_id, end: next_row_id + rows } }
    created, updated     RowDatasetVersionSequence { span: Range { 0, rows }, version: committing version }

Ids are assigned at each commit attempt, so that concurrent appends never share an id. Sequences of existing fragments
are kept unchanged.

Rows that a compaction moves keep their ids and versions: the sequences of the old fragments are concatenated without
the deleted rows, and split at the boundaries of the new fragments. Segments of ids stay separate, and each is stored in
its smallest form. For a run of versions, only the length of its span matters, not the start.

Source: ``lance.table.RowIdSequence``, ``RowDatasetVersionSequence``; fragments of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.proto import pb_rowids, pb_table
from lance_core.table.fragment import Fragment
from lance_core.table.row_id_segments import serialize_row_ids
from lance_core.table.row_lineage import HiddenColumns, RowLineage, no_hidden_columns
from lance_core.table.version_runs import encode_version_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

__all__ = ["carry_row_ids", "give_row_ids", "live_rows", "require_free_row_ids"]

_MAX_U64: Final = 2**64 - 1
_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Source: TypeAlias = "tuple[Fragment, npt.NDArray[np.uint32]]"


def give_row_ids(message: pb_table.DataFragment, *, first_row_id: int, version: int) -> int:
    """Set the row ids and the two version sequences of a new fragment, in place.

    Args:
        message: the fragment; ``physical_rows`` must be set.
        first_row_id: the next free id of the table.
        version: the version being committed.

    Returns:
        The next free id after the fragment's rows.

    Raises:
        InvalidInputError: the table does not have enough unused row ids.
    """
    num_rows = message.physical_rows
    require_free_row_ids(first_row_id, num_rows)
    versions = pb_rowids.RowDatasetVersionSequence(
        runs=[pb_rowids.RowDatasetVersionRun(span=_range(0, num_rows), version=version)]
    ).SerializeToString()
    message.inline_row_ids = pb_rowids.RowIdSequence(
        segments=[_range(first_row_id, first_row_id + num_rows)]
    ).SerializeToString()
    message.inline_created_at_versions = versions
    message.inline_last_updated_at_versions = versions
    return first_row_id + num_rows


def require_free_row_ids(first_row_id: int, num_rows: int) -> None:
    """Check that enough 64-bit ids remain, starting with ``first_row_id``.

    Raises:
        InvalidInputError: not enough ids remain.
    """
    if first_row_id + num_rows > _MAX_U64:
        raise InvalidInputError(
            f"cannot assign {num_rows} row ids starting with {first_row_id}: row ids are limited to 64 bits",
            first_row_id=first_row_id,
            num_rows=num_rows,
        )


def _range(start: int, stop: int) -> pb_rowids.U64Segment:
    return pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=start, end=stop))


def carry_row_ids(
    sources: Sequence[_Source], new_fragments: Sequence[Fragment], hidden: HiddenColumns = no_hidden_columns
) -> list[Fragment]:
    """Copy the ids and versions of rewritten rows to the new fragments, and store them inline.

    Args:
        sources: the old fragments, each with the positions of its deleted rows, in the order in which their rows were
            written to the new fragments.
        new_fragments: the fragments that now contain the live rows.
        hidden: function that reads hidden columns.

    Returns:
        The new fragments with their sequences.

    Raises:
        CorruptDataError: a sequence is damaged, or does not have as many rows as its fragment.
    """
    counts = [fragment.physical_rows for fragment in new_fragments]
    lineages = [(RowLineage(fragment.message, hidden), live_rows(fragment, deleted)) for fragment, deleted in sources]
    ids = _chunks((part for lineage, live in lineages for part in _live_ids(lineage, live)), counts)
    created = _chunks((lineage.created_at(live) for lineage, live in lineages), counts)
    updated = _chunks((lineage.updated_at(live) for lineage, live in lineages), counts)
    result = []
    for fragment, id_parts, created_parts, updated_parts in zip(new_fragments, ids, created, updated, strict=True):
        message = pb_table.DataFragment()
        message.CopyFrom(fragment.message)
        message.inline_row_ids = serialize_row_ids(id_parts)
        message.inline_created_at_versions = encode_version_runs(np.concatenate(created_parts))
        message.inline_last_updated_at_versions = encode_version_runs(np.concatenate(updated_parts))
        result.append(Fragment(message))
    return result


def live_rows(fragment: Fragment, deleted: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return the physical positions of the rows that are not deleted, ascending."""
    return np.delete(np.arange(fragment.physical_rows, dtype=np.int64), deleted.astype(np.int64))


def _live_ids(lineage: RowLineage, live: npt.NDArray[np.int64]) -> Iterator[_Numbers]:
    """Yield the ids of live rows, segment by segment."""
    sequence = lineage.row_ids()
    for part in np.split(live, np.searchsorted(live, sequence.stops[:-1])):
        if len(part):
            yield sequence.at(part)


def _chunks(parts: Iterator[_Numbers], counts: Sequence[int]) -> Iterator[list[_Numbers]]:
    """Split a stream of parts into groups with the given numbers of rows."""
    rest = np.empty(0, np.uint64)
    for count in counts:
        chunk: list[_Numbers] = []
        missing = count
        while missing:
            while not len(rest):
                found = next(parts, None)
                if found is None:
                    raise CorruptDataError(
                        "the fragments that contained the rewritten rows have fewer row ids than rows; "
                        f"expected {sum(counts)}, found {sum(counts) - missing}",
                        expected=sum(counts),
                        found=sum(counts) - missing,
                    )
                rest = found
            chunk.append(rest[:missing])
            rest = rest[missing:]
            missing -= len(chunk[-1])
        yield chunk
