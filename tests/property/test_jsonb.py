"""Any JSON document survives a round trip through binary JSON, whose bytes equal those of pylance."""

import json

import lance
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_core.schema.jsonb import jsonb_from_text, text_from_jsonb

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


@given(DOCUMENTS)
def test_binary_json_survives_a_round_trip(document: object) -> None:
    text = json.dumps(document)
    found = text_from_jsonb(jsonb_from_text(text.encode()))
    assert json.loads(found) == document
    assert text_from_jsonb(jsonb_from_text(found.encode())) == found


@settings(max_examples=20, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=40))
def test_binary_json_has_the_same_bytes_and_text_as_in_pylance(tmp_path_factory, documents: list[object]) -> None:
    texts = [json.dumps(document, ensure_ascii=False) for document in documents]
    path = tmp_path_factory.mktemp("json")
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    rows = pa.table({"x": column})
    with lance.file.LanceFileWriter(str(path / "file.lance"), rows.schema) as file:
        file.write_batch(rows)
    stored = lance.file.LanceFileReader(str(path / "file.lance")).read_all().to_table()["x"].to_pylist()
    assert [jsonb_from_text(text.encode()) for text in texts] == stored
    shown = lance.write_dataset(rows, str(path / "table")).to_table()["x"].to_pylist()
    assert [text_from_jsonb(data) for data in stored] == shown
