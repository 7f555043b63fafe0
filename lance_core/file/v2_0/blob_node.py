"""BlobNode: reads values that are stored outside the pages, each in its own buffer.

::

    descriptors    packed_struct of (u64 position, u64 size); positions are absolute
    null           (1, 0)
    empty          (0, 0)

Source: ``lance.encodings.Blob``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.spans import Spans
from lance_core.encodings.v2_0.strings import Strings, array_from_strings
from lance_core.errors import CorruptDataError
from lance_core.file.v2_0.column_pages import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_core.encodings.v2_0.api import Steps
    from lance_core.file.v2_0.column_pages import ColumnPages
    from lance_core.file.v2_0.nodes import ValueNode

__all__ = ["BlobNode"]


@dataclass(frozen=True, slots=True)
class BlobNode:
    """Reads a field whose values are stored outside the pages.

    Attributes:
        dtype: Arrow type of the field: string, large_string, binary, or large_binary.
        descriptors: reads the (position, size) of each row.
        num_bytes: size of the file in bytes.
    """

    dtype: pa.DataType
    descriptors: ValueNode
    num_bytes: int

    @property
    def columns(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return self.descriptors.columns

    @property
    def below(self) -> Sequence[ColumnPages]:
        """See ``Node``."""
        return []

    def check_rows(self, expected: int) -> None:
        """See ``Node``."""
        self.descriptors.check_rows(expected)

    def decode(self, rows: Spans) -> Steps[list[pa.Array]]:
        """See ``Node``."""
        found = yield from self.descriptors.decode(rows)
        descriptors = joined(found)
        positions = np.asarray(descriptors.field(0))
        sizes = np.asarray(descriptors.field(1))
        is_null = (sizes == 0) & (positions == 1)
        if bool((sizes > self.num_bytes).any()) or bool((positions > self.num_bytes - sizes).any()):
            raise CorruptDataError(f"{self.descriptors.pages.where}: a blob extends past the end of the file")
        if int(sizes.sum()) > self.num_bytes:
            raise CorruptDataError(f"{self.descriptors.pages.where}: the blobs together are larger than the file")
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes.view(np.int64), out=offsets[1:])
        stored = np.flatnonzero(sizes)
        starts = positions[stored].astype(np.int64)
        stops = starts + sizes[stored].astype(np.int64)
        if len(stored) and bool((starts[1:] >= stops[:-1]).all()):
            [data] = yield [Spans.of(starts, stops)]
        else:
            # Not in row order; no writer does this.
            parts = yield [Spans.of(starts[at : at + 1], stops[at : at + 1]) for at in range(len(stored))]
            data = pa.py_buffer(b"".join(parts))
        validity = None if not bool(is_null.any()) else ~is_null
        return [array_from_strings(Strings(offsets, data, validity), self.dtype, "blob")]

    def guessed_offsets(self, rows: Spans) -> Iterable[Steps[Any]]:
        """See ``Node``."""
        return ()
