"""The table of page encodings of format 2.0; only this module selects an encoding by the field set in the oneof.

Together, ``ARMS``, ``STRUCTURE`` and ``REFUSED`` list every arm (field) of the oneof ``ArrayEncoding.array_encoding``;
a test compares them with the oneof.

Source: ``lance.encodings.ArrayEncoding``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.encodings.v2_0 import (
    binary,
    bitpacked,
    dictionary,
    fixed_size_binary,
    fixed_size_list,
    flat,
    fsst,
    nullable,
    packed_struct,
)
from lance_core.encodings.v2_0.api import wrong_type
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb20

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from google.protobuf.message import Message

    from lance_core.encodings.v2_0.api import Arm, PageBuffers, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["ARMS", "REFUSED", "STRUCTURE", "decode_array", "is_packed", "selected_arm"]

ARMS: Final[Mapping[str, Arm]] = MappingProxyType(
    {
        "flat": flat.ARM,
        "nullable": nullable.ARM,
        "fixed_size_list": fixed_size_list.ARM,
        "binary": binary.ARM,
        "dictionary": dictionary.ARM,
        "fsst": fsst.ARM,
        "packed_struct": packed_struct.ARM,
        "bitpacked": bitpacked.ARM,
        "fixed_size_binary": fixed_size_binary.ARM,
    }
)
"""Maps the name of each arm that describes values to its :class:`~lance_core.encodings.v2_0.api.Arm`."""

STRUCTURE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "list": "the offsets column of a list: encodings/v2_0/list.py",
        "struct": "the header column of a struct: encodings/v2_0/struct.py",
    }
)
"""Maps each arm that describes a list or struct to the role of its column; the following columns contain the values."""

_PREVIEW: Final = "belongs to previews of format 2.1 and does not occur in format 2.0"

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bitpacked_for_non_neg": _PREVIEW,
        "constant": _PREVIEW,
        "inline_bitpacking": _PREVIEW,
        "out_of_line_bitpacking": _PREVIEW,
        "variable": _PREVIEW,
        "packed_struct_fixed_width_mini_block": _PREVIEW,
        "block": _PREVIEW,
        "rle": _PREVIEW,
        "general_mini_block": _PREVIEW,
        "byte_stream_split": _PREVIEW,
    }
)
"""Maps each arm that is known but rejected to the reason for the rejection."""


def selected_arm(encoding: pb20.ArrayEncoding) -> str:
    """Return the name of the oneof field that is set.

    Raises:
        CorruptDataError: no field is set.
        UnsupportedEncodingError: the field does not exist in this library's version of the format, or is rejected.
    """
    arm = encoding.WhichOneof("array_encoding")
    if arm is None:
        if len(UnknownFieldSet(encoding)):
            raise UnsupportedEncodingError("an array encoding has an unknown type")
        raise CorruptDataError("an array encoding has no type")
    if arm in REFUSED:
        raise UnsupportedEncodingError(f"encoding {arm!r} is not supported: it {REFUSED[arm]}", arm=arm)
    return str(arm)


def is_packed(message: Message) -> bool:
    """Return whether this message refers to any buffer that is compressed and must therefore be read as a whole."""
    if isinstance(message, pb20.Flat):
        return flat.is_compressed(message)
    return any(
        is_packed(part)
        for field, value in message.ListFields()
        if field.message_type is not None
        for part in (value if field.is_repeated else [value])
    )


def decode_array(encoding: pb20.ArrayEncoding, dtype: pa.DataType, rows: Spans, page: PageBuffers) -> Steps[pa.Array]:
    """Decode rows of one page.

    Args:
        encoding: encoding of the page.
        dtype: Arrow type of the column.
        rows: the requested rows, relative to the start of the page.
        page: locations of the buffers of the page.

    Returns:
        An array of exactly ``dtype``; it uses the bytes of the page if the layout allows it.

    Raises:
        CorruptDataError: the page is inconsistent or does not match the type.
        UnsupportedEncodingError: the encoding is not supported.
    """
    arm = selected_arm(encoding)
    known = ARMS.get(arm)
    if known is None:
        raise wrong_type(arm, dtype)
    return (yield from known.decode(getattr(encoding, arm), dtype, rows, page, decode_array))
