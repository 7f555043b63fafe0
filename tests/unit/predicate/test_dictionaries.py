"""Predicates on Arrow dictionaries select the same rows as predicates on the decoded values."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.errors import InvalidInputError
from lance_core.predicate import kernels
from lance_core.predicate.predicate import Predicate
from lance_core.schema.convert import schema_from_arrow

ITEMS = pa.array(["12", "b", None, "never", "ß", ""])
INDICES = pa.array([0, 1, None, 2, 4, 5, 0, 1, 1, 0], pa.int8())
WORDS = pa.DictionaryArray.from_arrays(INDICES, ITEMS)
CODES = pa.DictionaryArray.from_arrays(INDICES, pa.array([5, 1, None, 0, 7, -3], pa.int64()))
NUMBERS = pa.array(range(10))
DICTIONARIES = pa.record_batch({"w": WORDS, "c": CODES, "n": NUMBERS})
MEMBERS = pa.StructArray.from_arrays([WORDS, NUMBERS], ["w", "n"], mask=pa.array([row == 7 for row in range(10)]))

PREDICATES = [
    "w = 'b'",
    "w is null",
    "w is not null and c is null",
    "w <> 'b' or w is null",
    "w not in ('12', 'ß')",
    "not (w like '%b%')",
    "upper(w) = 'SS' or length(w) = 0",
    "coalesce(w, 'b') = 'b'",
    "w = '12' or n > 7 and c < 5",
    "w < cast(c as string)",
    "c between -3 and 5 and n <> 0",
    "c + 1 > 1 is null",
    "reverse(w) = '21' or c in (1, 7)",
    "(w = 'b') is distinct from (n = 1)",
]


def rows(predicate: str, batch: pa.RecordBatch) -> list[int]:
    return np.flatnonzero(Predicate.plan(schema_from_arrow(batch.schema), predicate).matches(batch)).tolist()


@pytest.mark.parametrize("predicate", PREDICATES)
def test_predicates_match_dictionaries_like_their_decoded_values(predicate: str) -> None:
    decoded = pa.record_batch({name: DICTIONARIES[name].dictionary_decode() for name in "wc"} | {"n": NUMBERS})
    for start, stop in ((0, 10), (3, 10), (2, 4)):
        part, values = (batch.slice(start, stop - start) for batch in (DICTIONARIES, decoded))
        assert rows(predicate, part) == rows(predicate, values)


def test_a_dictionary_in_a_null_struct_is_null() -> None:
    batch = pa.record_batch({"s": MEMBERS})
    assert rows("s.w = 'b'", batch) == [1, 8]
    assert rows("s.w is null", batch) == [2, 3, 7]


def test_predicate_is_evaluated_once_for_each_item_of_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = pc.match_substring_regex
    monkeypatch.setattr(
        kernels.pc, "match_substring_regex", lambda values, **rest: seen.append(len(values)) or original(values, **rest)
    )
    assert rows("w like '1_' and n > 3", DICTIONARIES) == [6, 9]
    assert seen == [len(ITEMS) + 1]


def test_dictionary_item_that_no_row_uses_need_not_be_valid() -> None:
    # 10 / 0 is not computed for any row.
    assert rows("10 / c = 2", DICTIONARIES) == [0, 6, 9]
    batch = DICTIONARIES.slice(0, 0)
    assert rows("10 / c = 2", batch) == []
    of_zero = pa.record_batch({"c": pa.DictionaryArray.from_arrays(pa.array([3, 3, 3, 3, 3, 3, 3]), CODES.dictionary)})
    with pytest.raises(InvalidInputError, match="divide by zero"):
        rows("10 / c = 2", of_zero)


def test_volatile_functions_are_called_for_each_row() -> None:
    many = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int8)), pa.array(["a"]))
    found = rows("w = 'a' and random() < 0.5", pa.record_batch({"w": many}))
    assert 0 < len(found) < 200
