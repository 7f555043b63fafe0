"""Encoding options that the metadata of a field requests."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from lance_core.encodings.policy.field_options import FieldOptions, options_of
from lance_core.errors import InvalidInputError
from lance_core.schema.convert import schema_from_arrow


def options(metadata, *, top=None):
    metadata = {f"lance-encoding:{key}": value for key, value in metadata.items()}
    item = pa.field("item", pa.string(), metadata=metadata)
    top = {f"lance-encoding:{key}": value for key, value in (top or {}).items()}
    field = schema_from_arrow(pa.schema([pa.field("c", pa.list_(item), metadata=top)])).fields[0]
    return options_of(field.leaves()[0], field)


def test_field_options_without_metadata_are_the_defaults():
    assert options({}) == FieldOptions()


def test_field_options_read_every_metadata_key():
    asked = {
        "compression": "zstd",
        "compression-level": "7",
        "rle-threshold": "0.25",
        "bss": "off",
        "dict-divisor": "4",
        "dict-size-ratio": "0.5",
        "dict-values-compression": "lz4",
        "dict-values-compression-level": "3",
        "minichunk-size": "1024",
        "structural-encoding": "fullzip",
    }
    assert options(asked) == FieldOptions(
        compression="zstd",
        compression_level=7,
        rle_threshold=0.25,
        bss=False,
        dict_divisor=4,
        dict_size_ratio=0.5,
        dict_compression="lz4",
        dict_level=3,
        minichunk_bytes=1024,
        structure="fullzip",
    )


def test_field_options_of_a_leaf_override_those_of_its_column():
    found = options({"compression": "none"}, top={"compression": "zstd", "bss": "on"})
    assert (found.compression, found.bss) == ("none", True)


def test_field_options_ignore_unknown_names():
    assert options({"structural-encoding": "sparse", "bss": "auto"}) == FieldOptions()


@pytest.mark.parametrize("name", ["gzip", "", "ZSTD", " zstd", "zstd ", "None", "\x00"])
def test_field_options_refuse_unknown_compressions(name):
    with pytest.raises(InvalidInputError, match=re.escape(f"lance-encoding:compression is {name!r}, expected one of")):
        options({"compression": name})
    with pytest.raises(InvalidInputError, match="lance-encoding:compression"):
        options({}, top={"compression": name})


@pytest.mark.parametrize("name", ["none", "zstd", "lz4", "fsst"])
def test_field_options_accept_the_four_compressions(name):
    assert options({"compression": name}).compression == name


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("compression-level", "0", FieldOptions()),
        ("compression-level", "fast", FieldOptions()),
        ("compression-level", "99", FieldOptions(compression_level=22)),
        ("compression-level", "-3", FieldOptions(compression_level=1)),
        ("dict-divisor", "0", FieldOptions()),
        ("dict-size-ratio", "1.5", FieldOptions(dict_size_ratio=1.0)),
        ("rle-threshold", "nan", FieldOptions()),
        ("rle-threshold", "2.0", FieldOptions(rle_threshold=1.0)),
        ("minichunk-size", "8", FieldOptions(minichunk_bytes=64)),
        ("minichunk-size", "\u00b2", FieldOptions()),
    ],
)
def test_field_options_clamp_numbers_and_ignore_malformed_ones(key, value, expected):
    assert options({key: value}) == expected
