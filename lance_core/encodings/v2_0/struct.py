"""``struct``: the header column of a struct. It has no data: the members are the columns behind it.

The column has exactly one page, which stands for all rows of the file. Format 2.0 has no place for null structs.

Source: ``lance.encodings.SimpleStruct``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from lance_core.proto import pb20

__all__ = ["encode_header"]


def encode_header() -> pb20.ArrayEncoding:
    """``struct {}``."""
    encoding = pb20.ArrayEncoding()
    encoding.struct.SetInParent()
    return encoding
