"""Bitmaps return the same results and raise the same built-in exceptions as those of pylance."""

import collections.abc
import pickle
from collections.abc import Callable
from typing import Any

import lance
import lance.bitmap
import pyarrow as pa
import pytest

import lance_core
from lance_core.bitmap import Bitmap


def changed(new: Callable[..., Any]) -> Any:
    bitmap = new([1, 2, 3])
    bitmap.update([7, 8])
    bitmap.add(9)
    bitmap.discard(1)
    bitmap.remove(2)
    popped = bitmap.pop()
    kept = bitmap.copy()
    bitmap.clear()
    return popped, kept, bitmap, len(kept)


def in_place(new: Callable[..., Any]) -> Any:
    bitmap = new([1, 2, 3])
    bitmap &= [2, 3, 4]
    bitmap |= {9}
    bitmap -= range(3)
    bitmap ^= [9, 10]
    return bitmap


CALLS: dict[str, Callable[[Any], Any]] = {
    "order": lambda new: new([3, 1, 3]),
    "empty": lambda new: new(),
    "arrow": lambda new: new(pa.array([2, 1], pa.int8())),
    "chunked arrow": lambda new: new(pa.chunked_array([[2], [1]])),
    "arrow with null": lambda new: new(pa.array([1, None])),
    "arrow of text": lambda new: new(pa.array(["a"])),
    "arrow of negative numbers": lambda new: new(pa.array([-1])),
    "negative": lambda new: new([-1]),
    "too large": lambda new: new([2**32]),
    "text": lambda new: new(["a"]),
    "float": lambda new: new([1.5]),
    "number": lambda new: new(5),
    "hash": lambda new: hash(new()),
    "missing": lambda new: new([1]).remove(99),
    "pop of empty": lambda new: new().pop(),
    "discard text": lambda new: new([1]).discard("x"),
    "contains": lambda new: [each in new([1, 2]) for each in (1, 3, "a", 2**40, -1, 1.0)],
    "equal": lambda new: [new([1, 2]) == each for each in ({1, 2}, [2, 1], 5, "ab", new([1]), [-1])],
    "order of sets": lambda new: (new([1]) <= [1, 2], new([1]) < {1}, new([1, 2]) > [1], new([1]) >= new([1])),
    "order with number": lambda new: new([1]) <= 5,
    "and": lambda new: new([1, 2, 3]) & range(3),
    "or": lambda new: new([1]) | [7],
    "or number": lambda new: new([1]) | 3,
    "xor": lambda new: new([1, 2]) ^ [2, 3],
    "reflected": lambda new: ({1, 9} | new([1]), {1, 9} - new([1]), {1, 9} & new([1]), {1, 9} ^ new([1])),
    "methods": lambda new: (
        new([1]).union([9]),
        new([1, 2]).intersection([1]),
        new([1, 2]).difference([1]),
        new([1, 2]).symmetric_difference([1, 7]),
        new([1]).issubset(range(9)),
        new([1]).issuperset([1]),
        new([1]).isdisjoint([7]),
    ),
    "union with text": lambda new: new([1]).union(["a"]),
    "changes": changed,
    "in place": in_place,
    "pickled": lambda new: pickle.loads(pickle.dumps(new([1, 2]))),
    "subscript": lambda new: new([1])[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_bitmap_has_the_same_results_and_errors_as_in_pylance(name: str) -> None:
    found = []
    for new in (Bitmap, lance.bitmap.Bitmap):
        try:
            found.append(repr(CALLS[name](new)))
        except (TypeError, ValueError, KeyError) as error:
            found.append({kind for kind in (TypeError, ValueError, KeyError) if isinstance(error, kind)})
    ours, theirs = found
    # Our errors may inherit from several built-in exceptions, including those of pylance.
    assert ours == theirs or (isinstance(ours, set) and isinstance(theirs, set) and theirs <= ours)


def test_fragments_of_datasets_and_indices_are_bitmaps(tmp_path: Any) -> None:
    lance.write_dataset(pa.table({"a": range(10)}), tmp_path, max_rows_per_file=4).create_scalar_index("a", "BTREE")
    dataset = lance_core.dataset(tmp_path)
    with pytest.warns(DeprecationWarning, match="list_indices"):
        segments = dataset.list_indices()
    bitmaps = [
        dataset.fragment_ids(),
        segments[0]["fragment_ids"],
        dataset.describe_indices()[0].segments[0].fragment_ids,
    ]
    assert bitmaps == [{0, 1, 2}] * 3
    assert all(isinstance(each, Bitmap) and isinstance(each, collections.abc.MutableSet) for each in bitmaps)
