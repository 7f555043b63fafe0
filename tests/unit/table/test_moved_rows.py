"""Row ids and versions of rows that an update moves or changes."""

import numpy as np
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_rowids, pb_table
from lance_core.table.fragment import Fragment
from lance_core.table.moved_rows import given_row_ids, place_moved_rows, refresh_changed_rows
from lance_core.table.row_id_segments import encode_segment
from lance_core.table.version_runs import decode_version_runs, encode_version_runs
from tests.support.manifests import created, part, row_ids, stable_table, updated


def _new(num_rows: int, *ids: int) -> pb_table.DataFragment:
    message = part(0, num_rows).message
    if ids:
        segment = encode_segment(np.array(ids, np.uint64))
        message.inline_row_ids = pb_rowids.RowIdSequence(segments=[segment]).SerializeToString()
    return message


def _placed(message: pb_table.DataFragment, *, version: int = 9) -> tuple[Fragment, int]:
    current = stable_table(10, 10)
    end = place_moved_rows(message, list(current.message.fragments), first_row_id=20, version=version)
    return Fragment(message), end


def test_given_ids_lead_and_fresh_ones_follow() -> None:
    fragment, end = _placed(_new(4, 13, 2))
    assert (row_ids(fragment), end) == ([13, 2, 20, 21], 22)
    assert created(fragment) == [2, 1, 9, 9]
    assert updated(fragment) == [9, 9, 9, 9]
    assert len(pb_rowids.RowIdSequence.FromString(fragment.message.inline_row_ids).segments) == 1


def test_without_given_ids_all_are_fresh() -> None:
    fragment, end = _placed(_new(3))
    assert (row_ids(fragment), created(fragment), end) == ([20, 21, 22], [9, 9, 9], 23)


def test_ids_of_rows_that_are_nowhere_count_as_created_now() -> None:
    message = _new(1, 5)
    assert place_moved_rows(message, [], first_row_id=20, version=9) == 20
    assert created(Fragment(message)) == [9]


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (_new(1, 4, 5), "2 row ids for 1 rows"),
        (_new(3, 4, 4), "a row id twice"),
        (_new(1, 20), "ids below 20"),
    ],
)
def test_ids_that_cannot_be_are_refused(message: pb_table.DataFragment, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        _placed(message)


def test_only_rows_that_changed_get_a_new_version() -> None:
    fragment = stable_table(5).message.fragments[0]
    refresh_changed_rows(fragment, np.array([1, 2], np.uint32), 7)
    assert (updated(Fragment(fragment)), created(Fragment(fragment))) == ([1, 7, 7, 1, 1], [1] * 5)
    refresh_changed_rows(fragment, None, 8)
    assert updated(Fragment(fragment)) == [8] * 5
    with pytest.raises(InvalidInputError, match="row 5"):
        refresh_changed_rows(fragment, np.array([5], np.uint32), 7)


def test_versions_that_are_not_recorded_inline_stay_as_they_are() -> None:
    bare = part(0).message
    refresh_changed_rows(bare, np.array([0], np.uint32), 7)
    assert bare == part(0).message


def test_hidden_columns_are_refused() -> None:
    spilled = part(0).message
    spilled.column_row_ids.SetInParent()
    with pytest.raises(NotSupportedError, match="hidden column"):
        given_row_ids(spilled)


def test_sequences_of_other_lengths_are_damage() -> None:
    data = encode_version_runs(np.array([1, 1, 2], np.uint64))
    assert decode_version_runs(data, 3, "f").tolist() == [1, 1, 2]
    with pytest.raises(CorruptDataError, match="3 rows, the fragment 4"):
        decode_version_runs(data, 4, "f")
    with pytest.raises(CorruptDataError, match="cannot be decoded"):
        decode_version_runs(b"\xff", 4, "f")
