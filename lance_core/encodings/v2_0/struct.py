"""``struct``: the header column of a struct. It contains no data; the members are in the columns that follow it.

The column has exactly one page, which covers all rows of the file. Format 2.0 cannot represent null structs.

Source: ``lance.encodings.SimpleStruct``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from lance_core.proto import pb20

__all__ = ["encode_header"]


def encode_header() -> pb20.ArrayEncoding:
    """Return the encoding ``struct {}``."""
    encoding = pb20.ArrayEncoding()
    encoding.struct.SetInParent()
    return encoding
