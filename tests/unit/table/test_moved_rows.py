"""Row ids and versions of rows that an update moves or changes."""

import numpy as np
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_rowids, pb_table
from lance_core.table.fragment import Fragment
from lance_core.table.moved_rows import place_moved_rows, refresh_changed_rows
from lance_core.table.row_id_segments import encode_segment
from lance_core.table.row_lineage import CREATED_AT_ID, ROW_ID_ID
from lance_core.table.version_runs import VersionRuns, encode_version_runs
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


def test_moved_row_ids_precede_new_row_ids() -> None:
    fragment, end = _placed(_new(4, 13, 2))
    assert (row_ids(fragment), end) == ([13, 2, 20, 21], 22)
    assert created(fragment) == [2, 1, 9, 9]
    assert updated(fragment) == [9, 9, 9, 9]
    assert len(pb_rowids.RowIdSequence.FromString(fragment.message.inline_row_ids).segments) == 1


def test_rows_without_given_ids_get_new_row_ids() -> None:
    fragment, end = _placed(_new(3))
    assert (row_ids(fragment), created(fragment), end) == ([20, 21, 22], [9, 9, 9], 23)


def test_moved_rows_with_unknown_ids_count_as_newly_created() -> None:
    message = _new(1, 5)
    assert place_moved_rows(message, [], first_row_id=20, version=9) == 20
    assert created(Fragment(message)) == [9]


def test_new_row_ids_do_not_exceed_the_largest_64_bit_number() -> None:
    last = 2**64 - 1
    assert place_moved_rows(_new(3, 7), [], first_row_id=last - 2, version=9) == last
    with pytest.raises(InvalidInputError, match="cannot assign 2 row ids starting with 18446744073709551614"):
        place_moved_rows(_new(3, 7), [], first_row_id=last - 1, version=9)


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (_new(1, 4, 5), "2 row ids for 1 row"),
        (_new(3, 4, 4), "contains duplicates"),
        (_new(1, 20), "ids below 20"),
    ],
)
def test_invalid_moved_row_ids_are_refused(message: pb_table.DataFragment, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        _placed(message)


def test_only_changed_rows_get_a_new_updated_version() -> None:
    fragment = stable_table(5).message.fragments[0]
    refresh_changed_rows(fragment, np.array([1, 2], np.uint32), 7)
    assert (updated(Fragment(fragment)), created(Fragment(fragment))) == ([1, 7, 7, 1, 1], [1] * 5)
    refresh_changed_rows(fragment, None, 8)
    assert updated(Fragment(fragment)) == [8] * 5
    with pytest.raises(InvalidInputError, match="row offset 5"):
        refresh_changed_rows(fragment, np.array([5], np.uint32), 7)


def test_row_versions_that_are_not_recorded_remain_unchanged() -> None:
    bare = part(0).message
    refresh_changed_rows(bare, np.array([0], np.uint32), 7)
    assert bare == part(0).message


def _hidden(fragment: pb_table.DataFragment, field_id: int) -> np.ndarray:
    """Return hidden columns: ids descending from 4, and all rows created by version 6 and updated by version 7."""
    if field_id == ROW_ID_ID:
        return np.arange(4, 4 - fragment.physical_rows, -1).astype(np.uint64)
    return np.full(fragment.physical_rows, 6 if field_id == CREATED_AT_ID else 7, np.uint64)


def _spilled(num_rows: int) -> pb_table.DataFragment:
    message = part(0, num_rows).message
    for marker in (message.column_row_ids, message.column_created_at_versions, message.column_last_updated_at_versions):
        marker.SetInParent()
    return message


def test_rows_of_fragments_with_hidden_columns_can_be_moved() -> None:
    message = _new(3, 4, 3)
    assert place_moved_rows(message, [_spilled(3)], first_row_id=20, version=9, hidden=_hidden) == 21
    assert created(Fragment(message)) == [6, 6, 9]
    with pytest.raises(NotSupportedError, match=r"fragment 0 .* hidden column \(field -3\)"):
        place_moved_rows(_new(1, 4), [_spilled(3)], first_row_id=20, version=9)


def test_new_fragments_may_keep_their_ids_in_a_hidden_column() -> None:
    message = part(0, 2).message
    message.column_row_ids.SetInParent()
    assert place_moved_rows(message, [_spilled(3)], first_row_id=20, version=9, hidden=_hidden) == 20
    assert (row_ids(Fragment(message)), created(Fragment(message))) == ([4, 3], [6, 6])


def test_row_versions_in_hidden_columns_are_updated_inline() -> None:
    message = _spilled(3)
    refresh_changed_rows(message, np.array([1], np.uint32), 9, _hidden)
    assert updated(Fragment(message)) == [7, 9, 7]
    assert message.WhichOneof("created_at_version_sequence") == "column_created_at_versions"


def test_row_version_sequence_of_the_wrong_length_raises_corrupt_data() -> None:
    data = encode_version_runs(np.array([1, 1, 2], np.uint64))
    assert VersionRuns.parse(data, 3, "f").numbers().tolist() == [1, 1, 2]
    assert VersionRuns.parse(data, 3, "f").at(np.array([2, 0, 1])).tolist() == [2, 1, 1]
    with pytest.raises(CorruptDataError, match="3 rows, but the fragment has 4"):
        VersionRuns.parse(data, 4, "f")
    with pytest.raises(CorruptDataError, match="cannot be decoded"):
        VersionRuns.parse(b"\xff", 4, "f")
