"""Stable row ids of rows that an update moved to new fragments or changed in place.

A new fragment of an update begins with moved rows, whose ids the writer provides, followed by new rows::

    row ids        provided …                       | next free ids, at each commit attempt
    created at     as in the previous fragment      | committing version
    updated at     committing version               | committing version

All ids form one segment. A moved row is now deleted in its previous fragment. To find this fragment, the fragments that
the update modified are searched first, then all others. Rows that changed in place keep their ids; only their
last-updated version changes.

Source: ``lance.table.Transaction.Update``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.table.row_id_segments import serialize_row_ids
from lance_core.table.row_ids import require_free_row_ids
from lance_core.table.row_lineage import HiddenColumns, RowLineage, no_hidden_columns
from lance_core.table.version_runs import encode_version_runs
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_core.proto import pb_table

__all__ = ["place_moved_rows", "refresh_changed_rows"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"


def place_moved_rows(
    fragment: pb_table.DataFragment,
    sources: Sequence[pb_table.DataFragment],
    *,
    first_row_id: int,
    version: int,
    hidden: HiddenColumns = no_hidden_columns,
) -> int:
    """Set the row ids and the two version sequences of a new fragment of an update, in place.

    Args:
        fragment: the new fragment; row ids that it already has belong to its first rows.
        sources: the fragments that may have contained the moved rows, in the order in which they are searched.
        first_row_id: the next free id of the table.
        version: the version being committed.
        hidden: function that reads hidden columns.

    Returns:
        The next free id after the fragment's rows.

    Raises:
        InvalidInputError: there are more ids than rows, an id occurs twice or was never assigned, or the ids cannot be
            decoded.
        CorruptDataError: a sequence of a source is damaged.
        NotSupportedError: a sequence is stored in a hidden column that cannot be read.
    """
    try:
        given = RowLineage(fragment, hidden).given_row_ids()
    except CorruptDataError as error:
        raise InvalidInputError(f"a new fragment has invalid row ids: {error}") from error
    num_rows = fragment.physical_rows
    if len(given) > num_rows:
        raise InvalidInputError(
            f"a new fragment has {counted(len(given), 'row id')} for {counted(num_rows, 'row')}",
            expected=num_rows,
            found=len(given),
        )
    moved = given.numbers()
    if len(given.sets) > 1 and len(np.unique(moved)) != len(moved):
        raise InvalidInputError("a new fragment has duplicate row ids")
    if len(moved) and int(moved.max()) >= first_row_id:
        raise InvalidInputError(
            f"a new fragment has row id {int(moved.max())}; the table has assigned only ids below {first_row_id}"
        )
    require_free_row_ids(first_row_id, num_rows - len(moved))
    fresh = np.arange(first_row_id, first_row_id + num_rows - len(moved), dtype=np.uint64)
    ids = np.concatenate([moved, fresh])
    fragment.inline_row_ids = serialize_row_ids([ids])
    created = np.concatenate(
        [_creation_versions(moved, sources, version, hidden), np.full(len(fresh), version, np.uint64)]
    )
    fragment.inline_created_at_versions = encode_version_runs(created)
    fragment.inline_last_updated_at_versions = encode_version_runs(np.full(num_rows, version, np.uint64))
    return first_row_id + len(fresh)


def refresh_changed_rows(
    fragment: pb_table.DataFragment,
    offsets: npt.NDArray[np.uint32] | None,
    version: int,
    hidden: HiddenColumns = no_hidden_columns,
) -> None:
    """Set the last-updated version of rows that changed in place, and store these versions inline.

    Args:
        fragment: the fragment to change. If it does not record these versions, it is changed only if all rows changed.
        offsets: physical positions of the changed rows; None means all rows.
        version: the version being committed.
        hidden: function that reads hidden columns.

    Raises:
        InvalidInputError: an offset is outside the fragment.
        CorruptDataError: the sequence of versions is damaged.
        NotSupportedError: the sequence is stored in a hidden column that cannot be read.
    """
    num_rows = fragment.physical_rows
    if offsets is None:
        fragment.inline_last_updated_at_versions = encode_version_runs(np.full(num_rows, version, np.uint64))
        return
    if fragment.WhichOneof("last_updated_at_version_sequence") is None:
        return
    if offsets.size and int(offsets.max()) >= num_rows:
        raise InvalidInputError(
            f"fragment {fragment.id} has {counted(num_rows, 'row')}, but row offset {int(offsets.max())} is "
            "listed as changed"
        )
    versions = RowLineage(fragment, hidden).updated_at(np.arange(num_rows, dtype=np.int64))
    versions[offsets] = version
    fragment.inline_last_updated_at_versions = encode_version_runs(versions)


def _creation_versions(
    moved: _Numbers, sources: Sequence[pb_table.DataFragment], version: int, hidden: HiddenColumns
) -> _Numbers:
    """Return the version that created each moved row, or the committing version for rows that are not found."""
    found = np.full(len(moved), version, np.uint64)
    missing = np.arange(len(moved))
    for source in sources:
        if not len(missing):
            break
        lineage = RowLineage(source, hidden)
        positions = lineage.row_ids().find(moved[missing])
        hits = positions >= 0
        if hits.any():
            found[missing[hits]] = lineage.created_at(positions[hits])
            missing = missing[~hits]
    return found
