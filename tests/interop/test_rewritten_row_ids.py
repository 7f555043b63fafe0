"""A rewrite must keep the row ids of the rows it replaces; pylance accepts any ids and then reports a corrupt table."""

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import LanceFragment, RowIdSequence

import lance_core
from lance_core import LanceOperation
from lance_core.errors import CorruptDataError, InvalidInputError


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2, 3, 4, 5, 6]}), uri, max_rows_per_file=3, enable_stable_row_ids=True)
    lance.dataset(uri).delete("a = 2")
    return uri


def _new(uri: str, row_ids: list[int], values: list[int]) -> Any:
    fragment = LanceFragment.create(uri, pa.table({"a": values}))
    fragment.row_id_meta = RowIdSequence(row_ids).to_inline_metadata()
    return fragment


def _ours(fragment: Any) -> lance_core.FragmentMetadata:
    return lance_core.FragmentMetadata.from_json(json.dumps(fragment.to_json()))


def _rewrite(uri: str, row_ids: list[int]) -> None:
    old = lance_core.dataset(uri).get_fragments()[0].metadata
    group = LanceOperation.RewriteGroup([old], [_ours(_new(uri, row_ids, [1, 3]))])
    lance_core.LanceDataset.commit(uri, LanceOperation.Rewrite([group], []), read_version=2)


@pytest.mark.parametrize(
    ("row_ids", "detail"),
    [
        ([0, 3], "row id 2 occurs only in the replaced rows"),
        ([0, 1], "row id 1 occurs only in the new fragments"),
        ([100, 101], "row id 0 occurs only in the replaced rows"),
        ([0], r"\(1 in total\).*\(2 in total\): row id 2"),
    ],
    ids=["of another fragment", "of a deleted row", "never given", "too few"],
)
def test_a_rewrite_with_other_row_ids_is_refused(uri: str, row_ids: list[int], detail: str) -> None:
    with pytest.raises(InvalidInputError, match=detail):
        _rewrite(uri, row_ids)
    assert lance.dataset(uri).version == 2


def test_a_rewrite_with_row_ids_in_another_order_is_accepted(uri: str) -> None:
    _rewrite(uri, [2, 0])
    for library in (lance, lance_core):
        dataset = library.dataset(uri)
        dataset.validate()
        table = dataset.to_table(with_row_id=True)
        assert dict(zip(table["_rowid"].to_pylist(), table["a"].to_pylist(), strict=True)) == {
            2: 1,
            0: 3,
            3: 4,
            4: 5,
            5: 6,
        }


@pytest.mark.parametrize("row_ids", [[0, 3], [100, 101], [0]], ids=["live twice", "never given", "too few"])
def test_a_table_with_wrong_row_ids_is_corrupt_for_lance_core_and_pylance(uri: str, row_ids: list[int]) -> None:
    old = lance.dataset(uri).get_fragments()[0].metadata
    group = lance.LanceOperation.RewriteGroup([old], [_new(uri, row_ids, [1, 3])])
    lance.LanceDataset.commit(uri, lance.LanceOperation.Rewrite([group], []), read_version=2)
    with pytest.raises(OSError, match="corrupt"):
        lance.dataset(uri).validate()
    with pytest.raises(CorruptDataError):
        lance_core.dataset(uri).validate()


def _update(uri: str, row_ids: list[int], *, deletes: str) -> None:
    """Commit an update that claims to move one row of the first fragment into a new one."""
    changed = lance.dataset(uri).get_fragments()[0].delete(deletes)
    operation = LanceOperation.Update(
        updated_fragments=[_ours(changed)], new_fragments=[_ours(_new(uri, row_ids, [9]))], update_mode="rewrite_rows"
    )
    lance_core.LanceDataset.commit(uri, operation, read_version=2)


@pytest.mark.parametrize(
    ("row_id", "detail"),
    [
        (0, "row id 0, which is still in use in fragment 0"),
        (3, "row id 3, which occurs in no updated or removed fragment"),
    ],
)
def test_an_update_with_wrong_ids_for_its_moved_rows_is_refused(uri: str, row_id: int, detail: str) -> None:
    with pytest.raises(InvalidInputError, match=detail):
        _update(uri, [row_id], deletes="a = 3")
    assert lance.dataset(uri).version == 2
    _update(uri, [2], deletes="a = 3")
    for library in (lance, lance_core):
        library.dataset(uri).validate()
        assert library.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 3, 4, 5, 2]
