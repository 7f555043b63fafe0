"""Stable row ids of rows that an update moved to new fragments or changed in place.

A new fragment of an update holds moved rows first, whose ids the writer gives, then fresh ones::

    row ids        given …                          | next free ids, at each commit attempt
    created at     as where the row was before      | committing version
    updated at     committing version               | committing version

The whole becomes one segment. A row is looked for in the fragments that the update touched, then in all others; it is
there still, deleted by this very update. Rows that changed in place keep their ids, and only theirs is the version of
the last update renewed.

Source: ``lance.table.Transaction.Update``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_rowids, pb_table
from lance_core.table.row_id_segments import decode_segment, encode_segment
from lance_core.table.version_runs import decode_version_runs, encode_version_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["given_row_ids", "place_moved_rows", "refresh_changed_rows"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"

_FIRST_VERSION = 1
"""Stands for a creation that was not recorded."""


def given_row_ids(fragment: pb_table.DataFragment) -> _Numbers:
    """The row ids that a fragment carries, in the order of its rows; none when it carries none.

    Raises:
        CorruptDataError: they cannot be decoded.
        NotSupportedError: they are kept in a hidden column.
    """
    arm = fragment.WhichOneof("row_id_sequence")
    if arm is None:
        return np.empty(0, np.uint64)
    if arm != "inline_row_ids":
        raise NotSupportedError(
            f"fragment {fragment.id} keeps its row ids in a hidden column; moving its rows is not supported"
        )
    what = f"row ids of fragment {fragment.id}"
    try:
        sequence = pb_rowids.RowIdSequence.FromString(fragment.inline_row_ids)
    except DecodeError as error:
        raise CorruptDataError(f"{what} cannot be decoded: {error}") from error
    parts = [decode_segment(segment, what) for segment in sequence.segments]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def place_moved_rows(
    fragment: pb_table.DataFragment,
    sources: Sequence[pb_table.DataFragment],
    *,
    first_row_id: int,
    version: int,
) -> int:
    """Set the three sequences of a new fragment of an update, in place.

    Args:
        fragment: the new fragment; the ids that it carries belong to its first rows.
        sources: where the moved rows were, most likely places first.
        first_row_id: the next free id of the table.
        version: the version being committed.

    Returns:
        The next free id after the fragment's rows.

    Raises:
        InvalidInputError: more ids than rows, an id twice, or one that was never given.
        CorruptDataError: a sequence of a source is damaged.
        NotSupportedError: a source keeps its sequences in hidden columns.
    """
    moved = given_row_ids(fragment)
    num_rows = fragment.physical_rows
    if len(moved) > num_rows:
        raise InvalidInputError(
            f"a new fragment carries {len(moved)} row ids for {num_rows} rows", expected=num_rows, found=len(moved)
        )
    if len(np.unique(moved)) != len(moved):
        raise InvalidInputError("a new fragment carries a row id twice")
    if len(moved) and int(moved.max()) >= first_row_id:
        raise InvalidInputError(
            f"a new fragment carries row id {int(moved.max())}; the table has given ids below {first_row_id}"
        )
    fresh = np.arange(first_row_id, first_row_id + num_rows - len(moved), dtype=np.uint64)
    ids = np.concatenate([moved, fresh])
    fragment.inline_row_ids = pb_rowids.RowIdSequence(segments=[encode_segment(ids)]).SerializeToString()
    created = np.concatenate([_creation_versions(moved, sources, version), np.full(len(fresh), version, np.uint64)])
    fragment.inline_created_at_versions = encode_version_runs(created)
    fragment.inline_last_updated_at_versions = encode_version_runs(np.full(num_rows, version, np.uint64))
    return first_row_id + len(fresh)


def refresh_changed_rows(fragment: pb_table.DataFragment, offsets: npt.NDArray[np.uint32] | None, version: int) -> None:
    """Renew the version of the last update of rows that changed in place.

    Args:
        fragment: changed; one that does not record the version inline stays as it is.
        offsets: physical positions; None for all rows.
        version: the version being committed.

    Raises:
        InvalidInputError: an offset lies outside the fragment.
        CorruptDataError: the sequence is damaged.
    """
    num_rows = fragment.physical_rows
    if offsets is None:
        fragment.inline_last_updated_at_versions = encode_version_runs(np.full(num_rows, version, np.uint64))
        return
    if fragment.WhichOneof("last_updated_at_version_sequence") != "inline_last_updated_at_versions":
        return
    if offsets.size and int(offsets.max()) >= num_rows:
        raise InvalidInputError(
            f"fragment {fragment.id} has {num_rows} rows, row {int(offsets.max())} is said to have changed"
        )
    what = f"versions of fragment {fragment.id}"
    versions = decode_version_runs(fragment.inline_last_updated_at_versions, num_rows, what)
    versions[offsets] = version
    fragment.inline_last_updated_at_versions = encode_version_runs(versions)


def _creation_versions(moved: _Numbers, sources: Sequence[pb_table.DataFragment], version: int) -> _Numbers:
    """The version that created each moved row; the committing one for a row that is nowhere."""
    found = np.full(len(moved), version, np.uint64)
    missing = np.ones(len(moved), bool)
    for source in sources:
        if not missing.any():
            break
        ids = given_row_ids(source)
        order = np.argsort(ids, kind="stable")
        places = np.searchsorted(ids, moved, sorter=order)
        hits = missing & (places < len(ids))
        hits[hits] = ids[order[places[hits]]] == moved[hits]
        if hits.any():
            found[hits] = _created_at(source)[order[places[hits]]]
            missing &= ~hits
    return found


def _created_at(fragment: pb_table.DataFragment) -> _Numbers:
    arm = fragment.WhichOneof("created_at_version_sequence")
    if arm is None:
        return np.full(fragment.physical_rows, _FIRST_VERSION, np.uint64)
    if arm != "inline_created_at_versions":
        raise NotSupportedError(
            f"fragment {fragment.id} keeps versions in a hidden column; moving its rows is not supported"
        )
    what = f"versions of fragment {fragment.id}"
    return decode_version_runs(fragment.inline_created_at_versions, fragment.physical_rows, what)
