"""How commits update indices whose contents they cannot read."""

import pytest

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.table.index_rules import (
    decode_index_section,
    with_indices,
    with_moved_fragments,
    without_dropped_fields,
    without_empty_indices,
    without_fragments,
    without_rewritten_fields,
)
from tests.support.manifests import column_file, coverage, index, part, section, with_files


def reuse(*groups: tuple[list[int], list[int]], external: bool = False, tagged: bool = False) -> object:
    """Return the index entry of compactions with deferred remapping, with one group for each compaction."""
    details = pb_table.FragmentReuseIndexDetails
    digest = details.FragmentDigest
    versions = [
        details.Version(
            dataset_version=number,
            groups=[
                details.Group(
                    old_fragments=[digest(id=each) for each in old], new_fragments=[digest(id=each) for each in new]
                )
            ],
        )
        for number, (old, new) in enumerate(groups)
    ]
    message = index("__lance_frag_reuse", (), {5}, "FragmentReuse")
    message.index_details.value = details(
        inline=None
        if external
        else details.InlineContent(legacy_versions=versions, transitions=[b"entry"] if tagged else []),
        external=pb_table.ExternalFile(path="details.binpb", size=1) if external else None,
    ).SerializeToString()
    return message


BOTH = section(index("a", (0,), {0, 1, 9}), index("b", (1,), {0, 1}), reuse())


def test_fragments_with_changed_values_are_removed_from_indices_on_the_changed_fields() -> None:
    assert coverage(without_fragments(BOTH, [1], [0])) == {"a": [0, 9], "b": [0, 1], "__lance_frag_reuse": [5]}
    assert coverage(without_fragments(BOTH, [0, 1], [0, 1])) == {"a": [9], "b": [], "__lance_frag_reuse": [5]}


@pytest.mark.parametrize(
    ("groups", "left"),
    [
        ([([0, 1], [3])], []),
        ([([0, 1], [4])], [0, 1]),
        ([([0, 1], [3, 4])], [4]),
        # Two compactions, of which the second compacts the result of the first.
        ([([0], [2]), ([1, 2], [3, 6])], [6]),
        # A partly covered group: its new fragment is scanned without the index.
        ([([0, 8], [3])], [0, 1]),
    ],
)
def test_coverage_of_an_index_that_was_not_remapped_is_updated_before_the_change(
    groups: list[tuple[list[int], list[int]]], left: list[int]
) -> None:
    before = section(index("a", (0,), {0, 1}), index("b", (1,), {0, 1}), reuse(*groups))
    after = without_fragments(before, [3], [0])
    assert coverage(after) == {"a": left, "b": [0, 1], "__lance_frag_reuse": [5]}
    assert (after is before) == (left == [0, 1])


@pytest.mark.parametrize("kind", ["external", "tagged", "damaged"])
def test_index_covers_nothing_when_moved_rows_are_unknown(kind: str) -> None:
    entry = reuse(([0, 1], [3]), external=kind == "external", tagged=kind == "tagged")
    if kind == "damaged":
        entry.index_details.value = b"\x0a\xff"
    before = section(index("a", (0,), {0, 1}), index("b", (1,), {0, 1}), entry)
    assert coverage(without_fragments(before, [3], [0])) == {"a": [], "b": [0, 1], "__lance_frag_reuse": [5]}


@pytest.mark.parametrize(("fragment_ids", "field_ids"), [([7], [0]), ([], [0]), ([0], []), ([0], [5])])
def test_change_that_affects_no_index_keeps_the_index_section_unchanged(
    fragment_ids: list[int], field_ids: list[int]
) -> None:
    assert without_fragments(BOTH, fragment_ids, field_ids) is BOTH
    assert without_fragments(None, fragment_ids, field_ids) is None


def test_fragments_with_changed_covering_fields_are_removed_from_the_index() -> None:
    covering = section(index("a", (0, 1), {0}, covering_fields=[1]))
    assert coverage(without_fragments(covering, [0], [1])) == {"a": []}


def test_index_without_recorded_coverage_remains_unchanged() -> None:
    silent = section(index("a", (0,), None))
    assert without_fragments(silent, [0], [0]) is silent
    assert without_empty_indices(silent) is silent


@pytest.mark.parametrize("kind", ["Bitmap", "Inverted", "LabelList", "NGram", "Vector"])
def test_moved_rows_remain_indexed_if_the_index_contains_row_ids(kind: str) -> None:
    before = section(index("a", (0,), {0, 1}, kind))
    assert coverage(with_moved_fragments(before, new_ids=[4], source_ids={0, 1}, field_ids=[1])) == {"a": [0, 1, 4]}
    # One source fragment is not covered, or the value changed.
    assert with_moved_fragments(before, new_ids=[4], source_ids={0, 3}, field_ids=[1]) is before
    assert with_moved_fragments(before, new_ids=[4], source_ids={0}, field_ids=[0]) is before


@pytest.mark.parametrize("kind", ["BTree", "ZoneMap", "BloomFilter", "Unheard", ""])
def test_index_of_row_addresses_does_not_cover_moved_rows(kind: str) -> None:
    before = section(index("a", (0,), {0, 1}, kind))
    assert with_moved_fragments(before, new_ids=[4], source_ids={0}, field_ids=[1]) is before


def test_indices_are_dropped_with_their_fields() -> None:
    assert coverage(without_dropped_fields(BOTH, {1})) == {"b": [0, 1], "__lance_frag_reuse": [5]}
    assert without_dropped_fields(BOTH, {0, 1, 2}) is BOTH
    assert without_dropped_fields(section(index("a", (0,), {0})), {1}) is None


def test_oldest_of_several_empty_index_segments_is_kept() -> None:
    old, new = index("a", (0,), (), dataset_version=1), index("a", (0,), (), dataset_version=5)
    filled = index("a", (0,), {3}, dataset_version=7)
    assert decode_index_section(without_empty_indices(section(new, old))) == [old]
    assert decode_index_section(without_empty_indices(section(new, filled, old))) == [filled]
    vectors = section(index("v", (0,), (), "Vector"))
    assert without_empty_indices(vectors) is vectors
    kept = section(index("a", (0,), ()), index("v", (0,), {8}, "Vector"))
    assert without_empty_indices(kept) is kept


def test_indices_are_matched_by_uuid() -> None:
    first, second, third = (index(name, (0,), {0}) for name in "xyz")
    assert decode_index_section(with_indices(section(first, second), new=[third], removed={first.uuid.uuid})) == [
        second,
        third,
    ]
    assert decode_index_section(with_indices(section(first), new=[first], removed=())) == [first]
    assert with_indices(section(first), new=[], removed={first.uuid.uuid}) is None
    same = section(first)
    assert with_indices(same, new=[], removed={second.uuid.uuid}) is same


def test_fields_moved_to_another_file_are_removed_from_their_index() -> None:
    before = part(1).message
    after = with_files(part(1), column_file("f1.lance", 0, -2), column_file("new.lance", 1)).message
    assert coverage(without_rewritten_fields(BOTH, [(before, after)]))["b"] == [0]
    assert without_rewritten_fields(BOTH, [(before, before)]) is BOTH


@pytest.mark.parametrize("damage", [b"\xff\xff", section(pb_table.IndexMetadata(name="a", fragment_bitmap=b"\x01"))])
def test_damaged_index_section_raises_corrupt_data(damage: bytes) -> None:
    with pytest.raises(CorruptDataError):
        without_empty_indices(damage)
