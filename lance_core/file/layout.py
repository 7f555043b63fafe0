"""Layout of a data file in format 2.0 or later: the byte map and its constants.

::

    0        page buffers            each at a multiple of 64, padded at the end with 0x48; in any order
             global buffers 1 …      (optional) each at a multiple of 64, padded at the end
             global buffer 0         FileDescriptor: schema and number of rows; at a multiple of 64, no padding after it
    A        column metadata         one ColumnMetadata message per column, back to back
    B        column metadata table   num_columns x (u64 position, u64 size)
    C        global buffer table     num_global_buffers x (u64 position, u64 size)
    end-40   footer                  u64 A, u64 B, u64 C, u32 num_global_buffers, u32 num_columns,
                                     u16 major, u16 minor, "LANC"

In format 2.0, the sections may be in any order. Early releases wrote no padding.

All numbers are little-endian, and all positions are absolute. A file is read from the end: first the footer, the
tables, and global buffer 0, then the metadata of the requested columns, then the pages with the requested rows.

**Source:** ``lance.file.v2.ColumnMetadata``, ``lance.file.FileDescriptor``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = [
    "ARRAY_ENCODING_URL",
    "COLUMN_ENCODING_URL",
    "FOOTER",
    "FOOTER_BYTES",
    "MAGIC",
    "MAX_ROWS",
    "PAGE_LAYOUT_URL",
    "TABLE_ENTRY_BYTES",
    "TAIL_BYTES",
]

MAGIC: Final = b"LANC"

FOOTER: Final = struct.Struct("<QQQIIHH4s")
FOOTER_BYTES: Final = FOOTER.size

TABLE_ENTRY_BYTES: Final = 16
"""Size in bytes of one (position, size) pair in the column metadata table or the global buffer table."""

TAIL_BYTES: Final = 64 * 1024
"""Number of bytes that the first read fetches from the end of a file; usually enough for all metadata."""

MAX_ROWS: Final = 2**32
"""Maximum number of rows in a file: a row address has 32 bits for the position in a fragment."""

ARRAY_ENCODING_URL: Final = "/lance.encodings.ArrayEncoding"
COLUMN_ENCODING_URL: Final = "/lance.encodings.ColumnEncoding"
PAGE_LAYOUT_URL: Final = "/lance.encodings21.PageLayout"
"""Type URLs are compared starting at their last slash; a URL without a slash is invalid."""
