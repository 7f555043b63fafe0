"""The search for strings that contain a literal, compared with the search of Arrow."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.predicate import substrings
from lance_core.predicate.kernels import like
from lance_core.predicate.substrings import contains

TEXTS = ["", "a", "ab", None, "aab", "abab", "b", "xäy", "ä", "aaaa", "abcab", "cab", None, "longer text with abcab"]


def texts(dtype: pa.DataType) -> pa.Array:
    chosen = np.random.default_rng(3).choice(np.array(TEXTS, object), 500)
    return pa.array(chosen.tolist(), dtype)


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("literal", ["a", "ab", "ba", "abcab", "ä", "aaaaa", "t w", "x" * 70])
def test_contains_finds_the_strings_that_arrow_finds(dtype: pa.DataType, literal: str) -> None:
    values = texts(dtype)
    for part in (values, values.slice(7, 100), values.slice(499), values.slice(0, 0)):
        assert contains(part, literal).equals(pc.match_substring(part, literal))


def test_contains_finds_literals_that_cross_block_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    values = texts(pa.string())
    expected = pc.match_substring(values, "abca")
    monkeypatch.setattr(substrings, "_PART_BYTES", 5)
    assert expected.true_count > 0
    assert contains(values, "abca").equals(expected)


def test_contains_does_not_join_neighboring_strings() -> None:
    assert contains(pa.array(["a", "b", "", "ab"]), "ab").to_pylist() == [False, False, False, True]


@pytest.mark.parametrize("values", [pa.scalar("cab"), pa.scalar(None, pa.string()), pa.array(["", None, ""])], ids=str)
def test_contains_accepts_scalars_and_empty_strings(values: pa.Array | pa.Scalar) -> None:
    assert contains(values, "ab").equals(pc.match_substring(values, "ab"))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("%b%", [True, True, False, True]),
        ("%", [True, True, True, True]),
        ("%%", [True, True, True, True]),
        ("%a_%", [True, False, False, True]),
        ("%a\\%%", [True, False, False, False]),
        ("%\nb%", [False, False, False, True]),
    ],
)
def test_like_pattern_between_percent_signs_matches_anywhere_in_the_text(pattern: str, expected: list[bool]) -> None:
    values = pa.array(["a%b", "b", "", "a\nb"])
    assert like(pattern, ignores_case=False)(values).to_pylist() == expected
