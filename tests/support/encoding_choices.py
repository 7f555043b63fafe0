"""The choices in the page encodings: what the proto files declare, and how each alternative is handled."""

from __future__ import annotations

from pathlib import Path

from lance_core.encodings.page_decoder import STRUCTURAL, STRUCTURAL_NOT_YET
from lance_core.encodings.registry import COMPRESSIVE, COMPRESSIVE_NOT_YET
from lance_core.encodings.v2_0 import registry as v2_0
from lance_core.proto import pb20, pb21, pb23

ROOT = Path(__file__).resolve().parents[2]
MODULES = (pb20, pb21, pb23)


def messages_of(container):
    """Yield every message type that a file or message declares, at any depth."""
    types = getattr(container, "message_types_by_name", None) or getattr(container, "nested_types_by_name", {})
    for message in types.values():
        yield message
        yield from messages_of(message)


def choices_of(module):
    """Return the name and the arms of every oneof in a file, except those that protobuf creates for optional fields."""
    found = {}
    for message in messages_of(module.DESCRIPTOR):
        for oneof in message.oneofs:
            names = {field.name for field in oneof.fields}
            if names != {oneof.name.removeprefix("_")}:
                found[oneof.full_name] = names
    return found


CHOICES = {name: arms for module in MODULES for name, arms in choices_of(module).items()}

ARRAY_ENCODING = "lance.encodings.ArrayEncoding.array_encoding"
COLUMN_ENCODING = "lance.encodings.ColumnEncoding.column_encoding"
COMPRESSION = "lance.encodings21.CompressiveEncoding.compression"
LAYOUT = "lance.encodings21.PageLayout.layout"

DECODED = {
    # Decoded through a registry.
    ARRAY_ENCODING: {*v2_0.ARMS, *v2_0.STRUCTURE},
    COMPRESSION: {*COMPRESSIVE},
    LAYOUT: {*STRUCTURAL},
    # Distinguished where they are decoded.
    COLUMN_ENCODING: {"values", "zone_index", "blob"},
    "lance.encodings.Nullable.nullability": {"no_nulls", "some_nulls", "all_nulls"},
    "lance.encodings21.FullZipLayout.details": {"bits_per_value", "bits_per_offset"},
    "lance.encodings21.VariablePackedStruct.FieldEncoding.layout": {"bits_per_value", "bits_per_length"},
}
"""Arms that are read; further down, each is met in a file."""

_UNSTABLE = r"PlanarLayout.*not supported"
REFUSED = {
    ARRAY_ENCODING: {arm: rf"{arm}.*not supported" for arm in v2_0.REFUSED},
    COMPRESSION: {arm: rf"{arm}.*not supported" for arm in COMPRESSIVE_NOT_YET},
    LAYOUT: {arm: rf"{arm}.*not supported" for arm in STRUCTURAL_NOT_YET},
    # The layout of 2.3 is refused as a whole, without examining its content.
    "lance.encodings23.StructuralPlane.codec": {"dense": _UNSTABLE, "sparse": _UNSTABLE},
    "lance.encodings23.SparseStructuralLayer.layer": {
        "validity": _UNSTABLE,
        "list": _UNSTABLE,
        "fixed_size_list": _UNSTABLE,
    },
    "lance.encodings23.ValuePlane.codec": {
        "chunked": _UNSTABLE,
        "zipped": _UNSTABLE,
        "constant": _UNSTABLE,
        "no_values": _UNSTABLE,
        "indexed": _UNSTABLE,
    },
    "lance.encodings23.ZippedValues.addressing": {"bits_per_value": _UNSTABLE, "bits_per_offset": _UNSTABLE},
}
"""Arms that are not read, each with the error that names it, or the layout around it."""
