"""Indices that were rewritten along with fragments."""

import uuid

import pytest
from pyroaring import BitMap

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_table, pb_transaction
from lance_core.table.index_rules import decode_index_section
from lance_core.table.rewritten_indices import with_rewritten_indices
from tests.support.manifests import index

A, B = index("a", (0,), {0, 1, 7}, base_id=3), index("b", (1,), {0, 1})
SECTION = pb_table.IndexSection(indices=[A, B]).SerializeToString()
NEW = uuid.UUID(int=5).bytes


def _rewritten(old: bytes, new: bytes = NEW) -> pb_transaction.Transaction.Rewrite.RewrittenIndex:
    return pb_transaction.Transaction.Rewrite.RewrittenIndex(
        old_id=pb_table.UUID(uuid=old),
        new_id=pb_table.UUID(uuid=new),
        new_index_files=[pb_table.IndexFile(path="x", size_bytes=9)],
    )


def test_rewritten_index_covers_the_new_fragments() -> None:
    section = with_rewritten_indices(SECTION, [_rewritten(A.uuid.uuid)], [((0, 1), (8, 9)), ((5,), (10,))])
    first, second = decode_index_section(section)
    assert second == B
    assert first.uuid.uuid == NEW
    assert set(BitMap.deserialize(first.fragment_bitmap)) == {7, 8, 9}
    assert [(file.path, file.size_bytes) for file in first.files] == [("x", 9)]
    assert not first.HasField("base_id")
    assert (first.name, first.fields, first.index_details) == (A.name, A.fields, A.index_details)


def test_rewritten_indices_without_a_match_change_nothing() -> None:
    assert with_rewritten_indices(SECTION, [], [((0,), (8,))]) is SECTION
    assert with_rewritten_indices(SECTION, [_rewritten(uuid.UUID(int=9).bytes)], [((0,), (8,))]) is SECTION
    assert with_rewritten_indices(None, [_rewritten(NEW)], []) is None


@pytest.mark.parametrize(
    ("rewritten", "group", "message"),
    [
        ([_rewritten(A.uuid.uuid), _rewritten(A.uuid.uuid)], ((0, 1), (8,)), "twice"),
        ([_rewritten(A.uuid.uuid, B.uuid.uuid)], ((0, 1), (8,)), "another index"),
        ([_rewritten(A.uuid.uuid), _rewritten(B.uuid.uuid)], ((0, 1), (8,)), "another index"),
        ([_rewritten(A.uuid.uuid, b"x")], ((0, 1), (8,)), "malformed UUID"),
        ([_rewritten(A.uuid.uuid)], ((0, 5), (8,)), "fragment 0 but not fragment 5"),
        ([_rewritten(A.uuid.uuid)], ((0, 1), (0,)), "that has no id"),
    ],
)
def test_inconsistent_rewritten_indices_are_refused(rewritten: list[object], group: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        with_rewritten_indices(SECTION, rewritten, [group])


def test_rewritten_index_may_keep_its_id() -> None:
    section = with_rewritten_indices(SECTION, [_rewritten(A.uuid.uuid, A.uuid.uuid)], [((0, 1), (8,))])
    assert set(BitMap.deserialize(decode_index_section(section)[0].fragment_bitmap)) == {7, 8}
