"""Ids and versions of the rows of a fragment, regardless of where they are stored."""

import numpy as np
import pytest

from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb_table
from lance_core.table.row_lineage import CREATED_AT_ID, ROW_ID_ID, UPDATED_AT_ID, RowLineage
from lance_core.table.version_runs import encode_version_runs
from tests.support.manifests import part, stable_table

ROWS = np.array([2, 0, 2])


def _hidden(fragment: pb_table.DataFragment, field_id: int) -> np.ndarray:
    return np.arange(fragment.physical_rows, dtype=np.uint64) + np.uint64(-100 * field_id)


def test_row_ids_of_a_fragment_without_row_lineage_are_row_addresses() -> None:
    lineage = RowLineage(part(3, 5).message)
    assert not lineage.has_row_ids
    assert (
        lineage.ids_at(ROWS).tolist() == lineage.addresses_at(ROWS).tolist() == [(3 << 32) + 2, 3 << 32, (3 << 32) + 2]
    )
    assert lineage.created_at(ROWS).tolist() == lineage.updated_at(ROWS).tolist() == [1, 1, 1]
    assert len(lineage.given_row_ids()) == 0
    lineage.check()


def test_row_lineage_is_read_from_inline_sequences() -> None:
    fragment = stable_table(4, 5).message.fragments[1]
    fragment.inline_last_updated_at_versions = encode_version_runs(np.array([7, 7, 8, 8, 9], np.uint64))
    lineage = RowLineage(fragment)
    assert lineage.ids_at(ROWS).tolist() == [6, 4, 6]
    assert lineage.addresses_at(ROWS).tolist() == [(1 << 32) + 2, 1 << 32, (1 << 32) + 2]
    assert lineage.created_at(ROWS).tolist() == [2, 2, 2]
    assert lineage.updated_at(ROWS).tolist() == [8, 7, 8]
    assert not any(map(lineage.is_hidden, (ROW_ID_ID, CREATED_AT_ID, UPDATED_AT_ID, 0)))
    lineage.check()
    fragment.ClearField("inline_last_updated_at_versions")
    assert RowLineage(fragment).updated_at(ROWS).tolist() == [2, 2, 2]


def test_row_lineage_is_read_from_hidden_columns() -> None:
    fragment = part(1, 5).message
    for marker in (
        fragment.column_row_ids,
        fragment.column_created_at_versions,
        fragment.column_last_updated_at_versions,
    ):
        marker.SetInParent()
    lineage = RowLineage(fragment, _hidden)
    assert all(map(lineage.is_hidden, (ROW_ID_ID, CREATED_AT_ID, UPDATED_AT_ID)))
    assert lineage.ids_at(ROWS).tolist() == [302, 300, 302]
    assert lineage.created_at(ROWS).tolist() == [402, 400, 402]
    assert lineage.updated_at(ROWS).tolist() == [502, 500, 502]
    lineage.check()
    for ask in (RowLineage(fragment).row_ids, lambda: RowLineage(fragment).created_at(ROWS)):
        with pytest.raises(NotSupportedError, match="the row lineage of fragment 1 is in a hidden column"):
            ask()


def test_duplicate_row_ids_in_a_hidden_column_raise_corrupt_data() -> None:
    fragment = part(1, 3).message
    fragment.column_row_ids.SetInParent()
    lineage = RowLineage(fragment, lambda *_: np.array([7, 4, 7], np.uint64))
    with pytest.raises(CorruptDataError, match="row lineage of fragment 1: a list of numbers contains duplicates"):
        lineage.row_ids()


@pytest.mark.parametrize("name", ["inline_row_ids", "inline_created_at_versions", "inline_last_updated_at_versions"])
def test_row_lineage_check_finds_damaged_sequences(name: str) -> None:
    fragment = stable_table(4).message.fragments[0]
    for data in (b"\xff", b""):
        setattr(fragment, name, data)
        with pytest.raises(CorruptDataError, match="row lineage of fragment 0"):
            RowLineage(fragment).check()
