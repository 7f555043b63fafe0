"""Row ids that users assign to fragments are encoded as by pylance and kept by commits."""

import pickle
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.fragment import FragmentMetadata, RowDatasetVersionMeta, RowIdMeta, RowIdSequence

SEQUENCES = [
    [7, 12],
    range(5),
    range(5, 0, -1),
    range(0, 10, 2),
    [],
    [2**64 - 1, 0],
    pa.array([1, 2], pa.int16()),
    pa.chunked_array([[3], [1]]),
    [1, 2, 3, 5, 8, 1000],
]


@pytest.mark.parametrize("ids", SEQUENCES, ids=str)
def test_sequence_is_encoded_as_in_pylance(ids: Any) -> None:
    ours, theirs = RowIdSequence(ids), lance.fragment.RowIdSequence(ids)
    assert ours.to_inline_metadata().asdict() == theirs.to_inline_metadata().asdict()
    assert ours.to_pyarrow() == theirs.to_pyarrow()
    assert (len(ours), list(ours), repr(ours)) == (len(theirs), list(theirs), repr(theirs))
    read = RowIdSequence.from_inline_metadata(RowIdMeta.from_json(theirs.to_inline_metadata().json()))
    assert read == ours == pickle.loads(pickle.dumps(ours))


@pytest.mark.parametrize("ids", [[7, 7], [-1], ["a"], [2**64], [None], [1.5], 5, range(-3, 2)], ids=str)
def test_sequence_of_invalid_ids_is_refused_as_in_pylance(ids: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)) as theirs:
        lance.fragment.RowIdSequence(ids)
    expected = InvalidTypeError if theirs.type is TypeError else InvalidInputError
    with pytest.raises(expected):
        RowIdSequence(ids)


@pytest.mark.parametrize(
    "ids", [pa.array([1, None]), pa.array(["a"]), pa.array([-1]), pa.array([1.5]), range(2**33)], ids=str
)
def test_sequence_of_invalid_arrays_raises_invalid_input(ids: Any) -> None:
    with pytest.raises(InvalidInputError):
        RowIdSequence(ids)


def test_sequence_stored_in_a_column_cannot_be_read_from_metadata() -> None:
    with pytest.raises(NotSupportedError, match="stored inline"):
        RowIdSequence.from_inline_metadata(RowIdMeta("Column"))


@pytest.mark.parametrize("document", ['{"Inline": [255]}', '{"Inline": [300]}', '{"Inline": 3000000000}', "{"])
def test_malformed_row_id_metadata_raises_invalid_input(document: str) -> None:
    with pytest.raises(InvalidInputError):
        RowIdSequence.from_inline_metadata(RowIdMeta.from_json(document))


def test_huge_row_id_range_in_metadata_is_not_expanded() -> None:
    huge = {"Inline": [10, 8, 10, 6, 16, *([255] * 4), 127]}
    with pytest.raises(InvalidInputError, match="row ids"):
        RowIdSequence.from_inline_metadata(RowIdMeta(huge))


def test_fragments_of_both_libraries_have_the_same_metadata(tmp_path: Path) -> None:
    lance_core.write_dataset(pa.table({"a": range(10)}), tmp_path, enable_stable_row_ids=True)
    ours = lance_core.dataset(tmp_path).get_fragments()[0].metadata
    theirs = lance.dataset(tmp_path).get_fragments()[0].metadata
    assert isinstance(ours.row_id_meta, RowIdMeta)
    assert isinstance(ours.created_at_version_meta, RowDatasetVersionMeta)
    assert ours.row_id_meta.asdict() == theirs.row_id_meta.asdict()
    assert ours.to_json() == theirs.to_json()
    assert FragmentMetadata.from_json(theirs.to_json()) == ours == pickle.loads(pickle.dumps(ours))


def test_moved_rows_keep_the_row_ids_assigned_by_users(tmp_path: Path) -> None:
    lance_core.write_dataset(pa.table({"a": range(4)}), tmp_path, enable_stable_row_ids=True)
    dataset = lance_core.dataset(tmp_path)
    old = dataset.get_fragments()[0]
    left = old.delete("a >= 2")
    assert left is not None
    (new,) = lance_core.write_fragments(pa.table({"a": [20, 30]}), dataset)
    new.row_id_meta = RowIdSequence([2, 3]).to_inline_metadata()
    operation = lance_core.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[left], new_fragments=[new], fields_modified=[]
    )
    lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    for library in (lance, lance_core):
        rows = library.dataset(tmp_path).to_table(with_row_id=True).sort_by("_rowid").to_pydict()
        assert rows == {"a": [0, 1, 20, 30], "_rowid": [0, 1, 2, 3]}
