"""Converts Arrow arrays to pages in format 2.0. The type of a column largely determines the encoding.

::

    fixed width, bool      nullable{flat}
    fixed-size list        nullable{fixed_size_list{items}}
    null                   nullable{all_nulls}
    strings, binaries      binary; its bytes are compressed if the field's metadata requests it
    string, >= 100 rows    dictionary, if fewer than 100 distinct values
    dictionary             dictionary
    packed struct          packed_struct

Source: behavior of pylance 14.0.2, byte for byte except for the output of zstd.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.api import PageBuilder, is_variable_width
from lance_core.encodings.v2_0.binary import encode_binary
from lance_core.encodings.v2_0.dictionary import encode_automatic, encode_dictionary
from lance_core.encodings.v2_0.fixed_size_list import encode_items
from lance_core.encodings.v2_0.flat import encode_fixed_width
from lance_core.encodings.v2_0.fsst import encode_fsst
from lance_core.encodings.v2_0.nullable import encode_nullable
from lance_core.encodings.v2_0.packed_struct import encode_packed
from lance_core.proto import pb20

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ValueOptions", "encode_values"]

_DICTIONARY_ROWS: Final = 100
_DICTIONARY_ITEMS: Final = 100
_SAMPLE_ROWS: Final = (1024, 32 * 1024)
"""Numbers of rows in the samples that are checked first; a sample usually suffices to detect many distinct values."""

_COMPRESSION_KEY: Final = "lance-encoding:compression"
_LEVEL_KEY: Final = "lance-encoding:compression-level"
_BUFFER_SCHEMES: Final = ("zstd", "lz4", "none")
_LEVEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")
_LEVELS: Final = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """The encoding options in a field's metadata.

    Attributes:
        compression: compression of the bytes of strings; None = uncompressed.
        is_fsst: whether to encode strings with a symbol table.
    """

    compression: pb20.Compression | None = None
    is_fsst: bool = False

    @classmethod
    def of(cls, metadata: Mapping[str, bytes]) -> ValueOptions:
        """Read the options from a field's metadata; unknown schemes and invalid levels are ignored.

        The reference implementation does the same, and records the level unchanged even if the scheme has no levels.
        """
        scheme = metadata.get(_COMPRESSION_KEY, b"").decode("utf-8", "replace")
        if scheme not in _BUFFER_SCHEMES:
            return cls(is_fsst=scheme == "fsst")
        compression = pb20.Compression(scheme=scheme)
        text = metadata.get(_LEVEL_KEY, b"")
        if _LEVEL.fullmatch(text) and int(text) in _LEVELS:
            compression.level = int(text)
        return cls(compression=compression)


def encode_values(array: pa.Array, page: PageBuilder, options: ValueOptions) -> pb20.ArrayEncoding:
    """Encode one page of a column of values.

    Args:
        array: rows of the column; not a list, and a struct only if it is packed.
        page: receives the buffers.
        options: options requested by the field's metadata.

    Raises:
        NotSupportedError: the format does not support the values.
    """
    dtype = array.type
    if pa.types.is_struct(dtype):
        return encode_packed(array, page, _encode_any)
    if pa.types.is_dictionary(dtype):
        return encode_dictionary(array, page, _encode_any)
    if not is_variable_width(dtype):
        return _encode_any(array, page)
    found = _few_values(array) if pa.types.is_string(dtype) else None
    if found is not None:
        items, indices = found
        return encode_automatic(array, items, indices, page, _encode_any)
    if options.is_fsst:
        return encode_fsst(array, page)
    return encode_binary(array, page, options.compression)


def _encode_any(array: pa.Array, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode values with their nullability."""
    if is_variable_width(array.type):
        return encode_binary(array, page)
    return encode_nullable(array, page, _encode_plain)


def _encode_plain(array: pa.Array, page: PageBuilder) -> pb20.ArrayEncoding:
    """Encode values without their nullability."""
    if pa.types.is_fixed_size_list(array.type):
        return encode_items(array, page, _encode_any)
    return encode_fixed_width(array, page)


def _few_values(array: pa.Array) -> tuple[pa.Array, NDArray[np.uint8]] | None:
    """Return the distinct values in order of first occurrence, and each row's index in them plus one (0 for nulls)."""
    if len(array) < _DICTIONARY_ROWS:
        return None
    for num_rows in _SAMPLE_ROWS:
        if num_rows < len(array) and len(array.slice(0, num_rows).unique()) > _DICTIONARY_ITEMS:
            return None
    encoded = pc.dictionary_encode(array)
    if len(encoded.dictionary) >= _DICTIONARY_ITEMS:
        return None
    indices = np.asarray(encoded.indices.fill_null(-1)).astype(np.int8) if array.null_count else encoded.indices
    return encoded.dictionary, (np.asarray(indices) + 1).astype(np.uint8)
