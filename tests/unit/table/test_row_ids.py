"""Row ids and versions of rows that move."""

import numpy as np
import pytest

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids, pb_table
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import carry_row_ids, give_row_ids
from tests.support.manifests import row_ids
from tests.support.records import fragment


def old(num_rows: int, *, first: int, version: int) -> Fragment:
    message = fragment(num_rows).message
    give_row_ids(message, first_row_id=first, version=version)
    return Fragment(message)


def versions(data: bytes) -> list[tuple[int, int, int]]:
    """Return (start, stop, version) of each run."""
    runs = pb_rowids.RowDatasetVersionSequence.FromString(data).runs
    return [(run.span.range.start, run.span.range.end, run.version) for run in runs]


def deleted(*rows: int) -> np.ndarray:
    return np.array(rows, np.uint32)


def test_row_id_sequences_are_joined_and_split() -> None:
    sources = [(old(10, first=100, version=1), deleted(0, 9)), (old(5, first=50, version=4), deleted())]
    first, second = carry_row_ids(sources, [fragment(9), fragment(4)])
    assert row_ids(first) == [*range(101, 109), 50]
    assert row_ids(second) == [51, 52, 53, 54]
    assert versions(first.message.inline_created_at_versions) == [(0, 8, 1), (8, 9, 4)]
    assert versions(second.message.inline_last_updated_at_versions) == [(0, 4, 4)]


def test_only_the_length_of_a_row_version_run_is_used() -> None:
    source = old(4, first=0, version=1)
    run = pb_rowids.RowDatasetVersionRun(
        span=pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=77, end=79)), version=9
    )
    source.message.inline_created_at_versions = pb_rowids.RowDatasetVersionSequence(runs=[run, run]).SerializeToString()
    [new] = carry_row_ids([(source, deleted(1))], [fragment(3)])
    assert versions(new.message.inline_created_at_versions) == [(0, 3, 9)]


def test_row_versions_that_were_not_recorded_get_defaults() -> None:
    source = old(2, first=0, version=5)
    source.message.ClearField("inline_last_updated_at_versions")
    [new] = carry_row_ids([(source, deleted())], [fragment(2)])
    assert versions(new.message.inline_last_updated_at_versions) == [(0, 2, 5)]
    source.message.ClearField("inline_created_at_versions")
    [new] = carry_row_ids([(source, deleted())], [fragment(2)])
    assert versions(new.message.inline_created_at_versions) == [(0, 2, 1)]


@pytest.mark.parametrize("name", ["inline_row_ids", "inline_created_at_versions", "inline_last_updated_at_versions"])
def test_damaged_row_lineage_raises_corrupt_data(name: str) -> None:
    for data in (b"\xff", b""):
        message = pb_table.DataFragment()
        message.CopyFrom(old(3, first=0, version=1).message)
        setattr(message, name, data)
        with pytest.raises(CorruptDataError, match="row lineage of fragment 0"):
            carry_row_ids([(Fragment(message), deleted())], [fragment(3)])


def test_more_rewritten_rows_than_row_ids_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="rewritten rows have fewer row ids than rows"):
        carry_row_ids([(old(3, first=0, version=1), deleted())], [fragment(2), fragment(3)])
