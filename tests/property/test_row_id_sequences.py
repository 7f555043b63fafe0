"""Row id sequences: bytes equal to those of pylance, searches compared with a model, and hostile bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lance.fragment import RowIdMeta
from lance.fragment import RowIdSequence as TheirSequence

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_index import RowIdIndex
from lance_core.table.row_id_segments import encode_segment
from lance_core.table.row_id_sequence import RowIdSequence

MAX_ID = 2**64 - 1


def encoded(ids: list[int]) -> bytes:
    """Return the bytes that this library writes for a list of ids."""
    segments = [encode_segment(np.array(ids, np.uint64))] if ids else []
    return pb_rowids.RowIdSequence(segments=segments).SerializeToString()


def theirs(ids: list[int]) -> bytes:
    """Return the bytes that the reference writes."""
    return bytes(TheirSequence(ids).to_inline_metadata().asdict()["Inline"])


def read_by_theirs(data: bytes) -> list[int]:
    meta = RowIdMeta.from_dict({"Inline": list(data)})
    return TheirSequence.from_inline_metadata(meta).to_pyarrow().to_pylist()


@st.composite
def id_lists(draw: st.DrawFn) -> list[int]:
    """Draw lists of every form and width: ranges with few or many gaps, ascending or not."""
    base = draw(st.sampled_from([0, 1, 7, 2**16 - 2, 2**32 - 3, 2**40, 2**63 - 9]))
    slots = draw(st.integers(1, 400))
    ids = np.arange(slots)
    kept = draw(st.sampled_from(["all", "few gaps", "half", "every", "few"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kept == "few gaps":
        ids = np.delete(ids, rng.integers(0, slots, draw(st.integers(0, 8))))
    elif kept == "half":
        ids = ids[rng.random(slots) < 0.5]
    elif kept == "every":
        ids = ids[:: draw(st.integers(2, 20))]
    elif kept == "few":
        ids = np.unique(rng.integers(0, slots, 5))
    ids = [base + each * draw(st.sampled_from([1, 1, 1, 200, 2**20])) for each in ids.tolist()] or [base]
    ids = list(dict.fromkeys(each for each in ids if each <= MAX_ID))
    if draw(st.booleans()):
        rng.shuffle(ids)
    far = draw(st.sampled_from([None, None, None, 2**16, 2**16 - 1, 2**32, 2**32 - 1, 2**62]))
    if far is not None and min(ids) + far <= MAX_ID and min(ids) + far not in ids:
        ids.append(min(ids) + far)
    return ids


@given(id_lists())
@settings(max_examples=80)
@example([0])
@example([5, 15, 16])
@example([7, 65538, 3])
@example([7, 65539, 3])
@example([7, 3 + 2**32, 3])
@example([7, 2 + 2**32, 3])
@example([1, 1 + 2**32])
@example([0, 2**32 - 1])
@example([0, 2**32])
def test_row_id_sequences_have_the_same_bytes_as_in_pylance(ids: list[int]) -> None:
    assert encoded(ids) == theirs(ids)
    assert RowIdSequence.parse(theirs(ids), "test").numbers().tolist() == ids


@pytest.mark.parametrize("slots", [8, 9, 100, 128, 129, 1585, 4096])
def test_row_id_sequences_change_their_encoding_at_the_same_points_as_in_pylance(slots: int) -> None:
    """Ids are removed one by one, from a full range down to two ids, so that every encoding is used."""
    order = np.random.default_rng(slots).permutation(np.arange(1, slots - 1))
    counts = sorted({*range(min(40, slots - 1)), *range(slots // 32, slots // 32 + 8), *range(0, slots - 2, 61)})
    sparse = {slots - slots // step for step in (15, 16, 17)}
    for num_gaps in sorted({*counts, *sparse, *(each + 1 for each in sparse), slots - 2}):
        ids = np.delete(np.arange(slots), order[: max(0, min(num_gaps, slots - 2))]).tolist()
        assert encoded(ids) == theirs(ids)


def _segment(ids: list[int], form: str) -> pb_rowids.U64Segment:
    """Return ascending ids in the given encoding."""
    start, stop = ids[0], ids[-1] + 1
    values = pb_rowids.EncodedU64Array(
        u64_array=pb_rowids.EncodedU64Array.U64Array(values=np.array(ids, "<u8").tobytes())
    )
    gaps = np.setdiff1d(np.arange(start, stop), ids)
    holes = pb_rowids.EncodedU64Array(
        u32_array=pb_rowids.EncodedU64Array.U32Array(base=start, offsets=(gaps - start).astype("<u4").tobytes())
    )
    bits = np.packbits(np.isin(np.arange(start, stop), ids), bitorder="little").tobytes()
    fields: dict[str, Any] = {
        "range_with_holes": pb_rowids.U64Segment.RangeWithHoles(start=start, end=stop, holes=holes),
        "range_with_bitmap": pb_rowids.U64Segment.RangeWithBitmap(start=start, end=stop, bitmap=bits),
        "sorted_array": values,
        "array": values,
    }
    return pb_rowids.U64Segment(**{form: fields[form]})


FORMS = st.sampled_from(["range_with_holes", "range_with_bitmap", "sorted_array", "array"])
PARTS = st.lists(st.tuples(st.frozensets(st.integers(0, 90), min_size=1), FORMS), min_size=1, max_size=5)


@given(PARTS, st.randoms(use_true_random=False))
def test_any_valid_row_id_sequence_is_read_and_searched(parts: list[tuple[frozenset[int], str]], rng: Any) -> None:
    """The bounds of the segments overlap, as after compactions: part i contains the ids with remainder i."""
    lists = [sorted(each * len(parts) + index for each in ids) for index, (ids, _) in enumerate(parts)]
    segments = [_segment(ids, form) for ids, (_, form) in zip(lists, parts, strict=True)]
    data = pb_rowids.RowIdSequence(segments=segments).SerializeToString()
    expected = [each for ids in lists for each in ids]
    sequence = RowIdSequence.parse(data, "test").require(len(expected), "test")
    assert sequence.numbers().tolist() == expected == read_by_theirs(data)
    positions = rng.choices(range(len(expected)), k=20)
    assert sequence.at(np.array(positions)).tolist() == [expected[each] for each in positions]
    asked = np.arange(600, dtype=np.uint64)
    places = {each: position for position, each in enumerate(expected)}
    assert sequence.find(asked).tolist() == [places.get(each, -1) for each in asked.tolist()]


@given(
    st.lists(st.frozensets(st.integers(0, 60), min_size=1), min_size=1, max_size=6),
    st.lists(st.integers(0, 70), max_size=30),
)
def test_a_row_id_index_finds_the_live_rows(holders: list[frozenset[int]], asked: list[int]) -> None:
    """An id may occur in many fragments, and is deleted in all but the last."""
    sequences, deleted, model = {}, {}, {}
    for number, ids in enumerate(holders):
        listed = sorted(ids, key=lambda each: (each * 7) % 61)
        later = {each for others in holders[number + 1 :] for each in others}
        gone = [position for position, each in enumerate(listed) if each in later]
        model |= {each: (number, position) for position, each in enumerate(listed) if each not in later}
        sequences[number] = RowIdSequence.of(np.array(listed, np.uint64), "test")
        deleted[number] = np.array(gone, np.uint32)
    index = RowIdIndex(list(sequences), sequences.values())
    found = index.find(np.array(asked, np.uint64)).live(deleted)
    places = list(zip(found.owners.tolist(), found.positions.tolist(), strict=True))
    assert places == [model.get(each, (-1, -1)) for each in asked]
    assert found.is_found.tolist() == [each in model for each in asked]


def test_two_live_rows_with_one_row_id_raise_corrupt_data() -> None:
    sequence = RowIdSequence.of(np.array([4, 9], np.uint64), "test")
    found = RowIdIndex([0, 3], [sequence, sequence]).find(np.array([9], np.uint64))
    with pytest.raises(CorruptDataError, match="row id 9 occurs in fragment 0 and in fragment 3"):
        found.live({0: np.empty(0, np.uint32), 1: np.empty(0, np.uint32)})


@given(id_lists(), st.data())
@settings(max_examples=80)
def test_hostile_row_id_bytes_give_ids_or_raise_corrupt_data(ids: list[int], data: st.DataObject) -> None:
    """A flipped bit gives other ids, which are distinct and can be found, or a typed error."""
    original = bytearray(encoded(ids))
    bit = data.draw(st.integers(0, len(original) * 8 - 1))
    original[bit // 8] ^= 1 << bit % 8
    cut = data.draw(st.integers(0, len(original)))
    for hostile in (bytes(original), bytes(original[:cut])):
        try:
            sequence = RowIdSequence.parse(hostile, "test").require(len(ids), "test")
        except CorruptDataError:
            continue
        found = sequence.numbers()
        assert len(set(found.tolist())) == len(ids)
        assert sequence.find(found).tolist() == list(range(len(ids)))
