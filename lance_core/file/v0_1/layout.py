"""Layout of a data file in format 0.1: the byte map and its constants.

::

    0        batches                 row groups: the pages of every field, depth first, batch after batch
    A        page table              i64 (position, length) for every field id lo..hi and every batch
             statistics pages        only if a column has statistics
             statistics page table   one batch; uses separate field ids, which start at 0
             dictionary values       one array per dictionary field, plain or binary, ascending field id
    B        u32 length, Manifest    the schema, with the positions of the dictionaries
    C        u32 length, Metadata    A, B, first row of every batch, the schema of the statistics
    end-16   footer                  i64 C, u16 0, u16 1 or 2, "LANC"

Nothing is aligned, padded, or compressed. All positions are absolute, and all numbers are little-endian. ``length`` is
a number of values. ``lo`` is the first field id that the manifest lists for the file, and ``hi`` is the largest. The
entries of structs and of ids without pages are (0, 0).

===========================  =============================  =====================
Field                        Position of                    Length
===========================  =============================  =====================
fixed width, dictionary      the values or keys             rows
string, binary               the offsets, after the bytes   rows
list                         the offsets, before the items  rows + 1
null                         (arbitrary)                    rows
===========================  =============================  =====================

**Source:** ``lance.file.Metadata``; behavior of pylance 14.0.2; files of releases since 0.4.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

__all__ = ["ENTRY", "FOOTER", "LENGTH", "MAX_ROWS", "WRITER_LIBRARY", "WRITER_VERSION"]

FOOTER: Final = struct.Struct("<qHH4s")
"""Footer: position of the metadata, version, and magic bytes."""

LENGTH: Final = struct.Struct("<I")
"""Length prefix of the ``Manifest`` and ``Metadata`` messages."""

ENTRY: Final = np.dtype("<i8")
"""Type of the numbers in the page table; each entry consists of two numbers."""

MAX_ROWS: Final = 2**31 - 1
"""Maximum number of rows in a file: the first row of each batch is stored as a signed 32-bit integer."""

WRITER_LIBRARY: Final = "lance"
WRITER_VERSION: Final = "14.0.2"
"""Writer version in the ``Manifest`` message: the pylance release that writes the same files as this library."""
