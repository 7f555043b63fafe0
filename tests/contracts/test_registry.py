"""Every alternative of every ``oneof`` in the page encodings is either decoded, in every form that pylance decodes, or
refused by name.

The alternatives are read from the proto files, so that a new one fails here until it is decoded or refused.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any

from lance_core.encodings import compressive
from lance_core.encodings.api import Chunks, FixedRows
from lance_core.encodings.page_decoder import STRUCTURAL_NOT_YET, decode_leaf
from lance_core.encodings.page_encoder import encode_pages
from lance_core.encodings.registry import COMPRESSIVE, COMPRESSIVE_NOT_YET, DECODER
from lance_core.encodings.v2_0 import registry as v2_0
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.file.column_metadata import ColumnMetadata
from lance_core.proto import pb20, pb21, pb23, pb_file2
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion
from tests.support.encoding_choices import (
    ARRAY_ENCODING,
    CHOICES,
    COLUMN_ENCODING,
    COMPRESSION,
    DECODED,
    LAYOUT,
    MODULES,
    REFUSED,
    ROOT,
)
from tests.support.pages_v2_0 import decode as decode_2_0


def test_every_proto_file_of_page_encodings_is_covered_by_the_registry():
    files = {path.name for path in (ROOT / "protos").glob("encodings*.proto")}
    assert files == {Path(module.DESCRIPTOR.name).name for module in MODULES}


def test_optional_fields_of_encodings_do_not_count_as_choices():
    declared = sum(
        path.read_text().count("oneof ") - path.read_text().count("// oneof ")
        for path in (ROOT / "protos").glob("encodings*.proto")
    )
    assert len(CHOICES) == declared


def test_every_oneof_of_the_page_encodings_is_in_the_registry():
    assert set(CHOICES) == set(DECODED) | set(REFUSED)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_encoding_in_the_protobuf_schema_is_either_decoded_or_refused(choice):
    decoded, refused = DECODED.get(choice, set()), REFUSED.get(choice, {})
    assert decoded | set(refused) == CHOICES[choice]
    assert not decoded & set(refused)


@pytest.mark.parametrize("refused", [COMPRESSIVE_NOT_YET, STRUCTURAL_NOT_YET, v2_0.REFUSED])
def test_every_refused_encoding_has_an_explanation(refused):
    assert all(refused.values())


def filled(message, arm):
    """Return a message in which only this arm is set, to an empty value."""
    field = message.DESCRIPTOR.fields_by_name[arm]
    if field.message_type is None:
        setattr(message, arm, 8)
    else:
        getattr(message, arm).SetInParent()
    return message


@pytest.mark.parametrize("arm", REFUSED[COMPRESSION])
def test_refused_compressions_raise_unsupported_encoding(arm):
    array = pa.array(range(100), pa.int64())
    field = schema_from_arrow(pa.schema([("c", array.type)])).fields[0]
    (page,) = encode_pages(field, array, version=LanceFileVersion.V2_1)
    refused = filled(pb21.CompressiveEncoding(), arm)
    page.layout.mini_block.value_compression.CopyFrom(refused)
    with pytest.raises(UnsupportedEncodingError, match=REFUSED[COMPRESSION][arm]):
        decode_leaf(field, page.layout, page.buffers, page.num_rows)
    chunks, rows = Chunks.single(np.zeros(8, np.uint8), 1), FixedRows(np.zeros((1, 8), np.uint8))
    for decode, values in [(DECODER.mini_block, chunks), (DECODER.per_value, rows), (DECODER.block, chunks)]:
        with pytest.raises(UnsupportedEncodingError, match=REFUSED[COMPRESSION][arm]):
            decode(refused, values)


@pytest.mark.parametrize("arm", REFUSED[ARRAY_ENCODING])
def test_refused_array_encodings_raise_unsupported_encoding(arm):
    refused = filled(pb20.ArrayEncoding(), arm)
    nested = pb20.ArrayEncoding(nullable=pb20.Nullable(no_nulls=pb20.Nullable.NoNull(values=refused)))
    for encoding in (refused, nested):
        with pytest.raises(UnsupportedEncodingError, match=REFUSED[ARRAY_ENCODING][arm]):
            decode_2_0(encoding, [bytes(80)], pa.int64(), 10)


def test_no_page_layout_is_refused():
    # At present, no page layout is refused.
    assert REFUSED[LAYOUT] == {}


@pytest.mark.parametrize(
    ("choice", "arm"),
    [(choice, arm) for choice in CHOICES if choice.startswith("lance.encodings23.") for arm in sorted(CHOICES[choice])],
)
def test_the_planar_layout_of_format_2_3_is_refused_with_every_encoding(choice, arm):
    layout = pb23.PlanarLayout()
    parts = {
        "StructuralPlane": layout.structure,
        "ValuePlane": layout.values,
        "ZippedValues": layout.values.zipped,
        "SparseStructuralLayer": layout.structure.sparse.layers.add(),
    }
    filled(parts[choice.split(".")[2]], arm)
    message = column_message(COLUMN_ENCODINGS["values"])
    wrapped = Any(type_url="/lance.encodings23.PlanarLayout", value=layout.SerializeToString())
    page = message.pages.add(length=1)
    page.encoding.direct.encoding = wrapped.SerializeToString()
    with pytest.raises(UnsupportedEncodingError, match=REFUSED[choice][arm]):
        ColumnMetadata.parse(message.SerializeToString(), 0, "here", LanceFileVersion.V2_2)


def test_encoding_modules_are_named_after_the_encoding_they_decode():
    files = {path.stem for path in Path(compressive.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == set(COMPRESSIVE)
    for arm in files:
        module = importlib.import_module(f"lance_core.encodings.compressive.{arm}")
        assert module.ENCODING is COMPRESSIVE[arm]
        assert module.ENCODING.arm == arm


FORMS = {
    "mini_block": {
        "flat",
        "inline_bitpacking",
        "variable",
        "fsst",
        "packed_struct",
        "fixed_size_list",
        "rle",
        "byte_stream_split",
        "general",
    },
    "per_value": {"constant", "flat", "fixed_size_list", "variable", "fsst", "general", "variable_packed_struct"},
    "block": {
        "flat",
        "constant",
        "variable",
        "fixed_size_list",
        "inline_bitpacking",
        "out_of_line_bitpacking",
        "general",
        "rle",
    },
}
"""What the reference decodes, in which form."""

MORE_FORMS = {"mini_block": {"constant"}, "per_value": {"packed_struct"}, "block": set()}
"""What only this library decodes: children of other encodings."""


def test_the_list_of_forms_contains_every_compressive_encoding():
    assert set(FORMS) == {"mini_block", "per_value", "block"}
    assert set().union(*FORMS.values()) == set(COMPRESSIVE)


@pytest.mark.parametrize("form", FORMS)
def test_every_encoding_has_the_forms_that_pylance_decodes(form):
    found = {arm for arm, encoding in COMPRESSIVE.items() if getattr(encoding, form) is not None}
    assert FORMS[form] - found == set(), "forms that the reference decodes are missing"
    assert found - FORMS[form] == MORE_FORMS[form]
    assert all(callable(getattr(COMPRESSIVE[arm], form).decode) for arm in found)


@pytest.mark.parametrize(
    ("form", "arm"),
    [(form, arm) for form in FORMS for arm in sorted(COMPRESSIVE) if arm not in FORMS[form] | MORE_FORMS[form]],
)
def test_an_encoding_in_an_unsupported_form_is_refused_and_named_in_the_error(form, arm):
    chunks, rows = Chunks.single(np.zeros(8, np.uint8), 1), FixedRows(np.zeros((1, 8), np.uint8))
    message = f"{arm}' is not supported for {form.replace('_', '-')} data"
    with pytest.raises(UnsupportedEncodingError, match=message):
        getattr(DECODER, form)(filled(pb21.CompressiveEncoding(), arm), rows if form == "per_value" else chunks)


# ── Column encodings and locations of descriptions ────────────────────────────────────────────────────────────────────


def column_message(encoding, url="/lance.encodings.ColumnEncoding"):
    message = pb_file2.ColumnMetadata()
    wrapped = Any(type_url=url, value=encoding.SerializeToString())
    message.encoding.direct.encoding = wrapped.SerializeToString()
    return message


COLUMN_ENCODINGS = {
    "values": pb20.ColumnEncoding(values={}),
    "blob": pb20.ColumnEncoding(blob=pb20.Blob(inner=pb20.ColumnEncoding(values={}))),
    "zone_index": pb20.ColumnEncoding(zone_index=pb20.ZoneIndex(inner=pb20.ColumnEncoding(values={}))),
}


def test_every_column_encoding_is_in_the_registry():
    assert set(COLUMN_ENCODINGS) == CHOICES[COLUMN_ENCODING]


@pytest.mark.parametrize("arm", COLUMN_ENCODINGS)
def test_every_column_encoding_is_read_in_format_2_0(arm):
    data = column_message(COLUMN_ENCODINGS[arm]).SerializeToString()
    assert ColumnMetadata.parse(data, 0, "here", LanceFileVersion.V2_0).is_blob == (arm == "blob")


@pytest.mark.parametrize("arm", ["blob", "zone_index"])
def test_column_encodings_other_than_plain_values_are_refused_after_format_2_0(arm):
    data = column_message(COLUMN_ENCODINGS[arm]).SerializeToString()
    with pytest.raises(UnsupportedEncodingError, match=arm):
        ColumnMetadata.parse(data, 0, "here", LanceFileVersion.V2_2)


def test_encodings_described_outside_the_column_metadata_are_refused():
    places = pb_file2.Encoding.DESCRIPTOR.oneofs_by_name["location"].fields
    assert {field.name for field in places} == {"direct", "indirect", "none"}
    message = pb_file2.ColumnMetadata()
    message.encoding.indirect.SetInParent()
    with pytest.raises(UnsupportedEncodingError, match="elsewhere"):
        ColumnMetadata.parse(message.SerializeToString(), 0, "here", LanceFileVersion.V2_0)
    message.encoding.none.SetInParent()
    with pytest.raises(CorruptDataError):
        ColumnMetadata.parse(message.SerializeToString(), 0, "here", LanceFileVersion.V2_0)
