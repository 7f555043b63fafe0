"""JSON columns: converting text to binary and back; equal documents are converted once."""

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.schema import json_columns
from lance_core.schema.json_columns import decode_json, encode_json


def test_json_columns_keep_row_order_and_nulls() -> None:
    texts = pa.array(["{}", None, "[1]", "{}", None, '"x"'])
    binary = encode_json(texts, "j")
    assert binary.type == pa.large_binary()
    assert decode_json(binary, "j").equals(texts)
    assert decode_json(binary.slice(2, 3), "j").to_pylist() == ["[1]", "{}", None]
    assert encode_json(texts.slice(0, 0), "j").equals(pa.array([], pa.large_binary()))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_json_dictionary_nulls_remain_null(place: int) -> None:
    values = ["[1]", "{}"]
    values.insert(place, None)
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, place], pa.int8()), pa.array(values))
    assert decode_json(encode_json(texts, "j"), "j").to_pylist() == [*values, None, None]


def test_equal_json_documents_are_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    convert = json_columns.jsonb_from_text
    monkeypatch.setattr(json_columns, "jsonb_from_text", lambda text: seen.append(text) or convert(text))
    assert encode_json(pa.array(["[1]", "{}", "[1]"] * 100), "j").null_count == 0
    assert seen == [b"[1]", b"{}"]


def test_column_with_invalid_json_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="column 'j': a value is not valid JSON"):
        encode_json(pa.array(["{}", "{"]), "j")
