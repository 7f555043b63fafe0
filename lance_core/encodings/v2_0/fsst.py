"""``fsst``: strings whose bytes are codes of a symbol table; written only if a field's metadata requests it.

::

    binary         the encoded strings, including nulls
    symbol_table   2312 bytes, see kernels/fsst_symbols.py; may specify that the strings are uncompressed

Source: ``lance.encodings.Fsst``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.fsst_symbols import (
    MAX_CODES,
    SymbolTable,
    compress_strings,
    expand_codes,
    parse_symbols,
    serialize_symbols,
    train_symbols,
)
from lance_core.encodings.v2_0.api import Arm, is_variable_width, wrong_type
from lance_core.encodings.v2_0.binary import encode_strings, read_strings
from lance_core.encodings.v2_0.strings import Strings, array_from_strings, strings_from_array
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from lance_core.wording import counted

if TYPE_CHECKING:
    from lance_core.encodings.v2_0.api import Decode, PageBuffers, PageBuilder, Steps
    from lance_core.encodings.v2_0.spans import Spans

__all__ = ["ARM", "encode_fsst"]

_MIN_BYTES: Final = 32 * 1024
"""Minimum total size in bytes of the strings of a page for compression; strings of smaller pages stay uncompressed."""


def encode_fsst(array: pa.Array, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode strings with a symbol table, or as ``binary`` without one if pylance could not read the result.

    Args:
        array: strings or binaries with 32-bit or 64-bit offsets.
        page: receives the buffers.
    """
    strings = strings_from_array(array)
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if is_large or array.null_count == len(array):
        return encode_strings(strings, page)
    table = SymbolTable.of(False)
    if int(strings.offsets[-1]) - int(strings.offsets[0]) >= _MIN_BYTES:
        data = np.frombuffer(strings.data, np.uint8)
        trained = train_symbols(data, strings.offsets)
        packed = None if trained is None else compress_strings(trained, data, strings.offsets)
        if trained is not None and packed is not None:
            table = trained
            strings = Strings(packed[1], pa.py_buffer(packed[0]), strings.validity)
    encoded = encode_strings(strings, page)
    return pb20.ArrayEncoding(fsst=pb20.Fsst(binary=encoded, symbol_table=serialize_symbols(table)))


def _decode(
    message: pb20.Fsst, dtype: pa.DataType, rows: Spans, page: PageBuffers, _decode_child: Decode
) -> Steps[pa.Array]:
    if not is_variable_width(dtype):
        raise wrong_type("fsst", dtype)
    if message.binary.WhichOneof("array_encoding") != "binary":
        raise CorruptDataError("the strings of an fsst page are not encoded as binary")
    table = parse_symbols(message.symbol_table)
    if table is None:
        raise CorruptDataError("the symbol table of an fsst page is malformed")
    strings = yield from read_strings(message.binary.binary, rows, page)
    if not table.is_compressed:
        return array_from_strings(strings, dtype, "fsst")
    offsets = strings.offsets
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise CorruptDataError("the offsets of strings are not in ascending order")
    num_codes = int(offsets[-1])
    if num_codes > MAX_CODES:
        raise NotSupportedError(
            f"{counted(num_codes, 'byte')} of encoded strings are too many for one read; read fewer rows at a time"
        )
    codes = np.frombuffer(strings.data, np.uint8)[:num_codes]
    expanded = expand_codes([table], codes, offsets)
    if expanded is None:
        raise CorruptDataError("a string of an fsst page ends in the middle of an escape sequence")
    data, bounds = expanded
    return array_from_strings(Strings(bounds, pa.py_buffer(data), strings.validity), dtype, "fsst")


ARM: Final = Arm(name="fsst", decode=_decode)
