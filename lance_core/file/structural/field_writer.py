"""StructuralFieldWriter: writes one top-level field to a file in format 2.1 or 2.2, with one column per leaf.

Source: ``lance.file.v2.ColumnMetadata``; spec of the structural formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.encodings.page_encoder import encode_pages
from lance_core.encodings.policy.field_options import options_of
from lance_core.encodings.policy.refusals import require_writable_field
from lance_core.file.array_cache import ArrayCache
from lance_core.file.blob_placement import BlobPlacement
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.field_writer import FinishedColumn

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.encodings.page_encoder import EncodedPage
    from lance_core.file.field_writer import BufferSink, FileInProgress
    from lance_core.schema.field import Field

__all__ = ["StructuralFieldWriter"]


class StructuralFieldWriter:
    """Collects the arrays of one field and writes one page per leaf when there is enough data.

    The settings in the field's metadata are validated when the writer is created.

    Args:
        field: the top-level field.
        file: settings and objects shared by the field writers of the file.
    """

    def __init__(self, field: Field, file: FileInProgress) -> None:
        """See the class docstring."""
        require_writable_field(field)
        for leaf in field.leaves():
            options_of(leaf, field)
        has_blobs = any(leaf.is_blob for leaf in field.leaves())
        config = file.config
        self._blobs = BlobPlacement(field, file.table, config.blob_pack_bytes) if has_blobs else None
        self._described: pa.Array | None = None
        self._field = field if self._blobs is None else self._blobs.stored
        self._version = config.version
        self._leaves = self._field.leaves()
        self._pages: list[list[Page]] = [[] for _ in self._leaves]
        limit = min(file.cache_bytes * len(field.leaves()), config.max_page_bytes)
        self._cache = ArrayCache(limit, config.max_page_bytes)
        self._queue = file.queue

    @property
    def num_bytes(self) -> int:
        """In-memory size in bytes of the data that has been collected but not yet written."""
        return self._cache.num_bytes

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Write the values that are stored outside the pages; :meth:`write` then uses their descriptors."""
        if self._blobs is not None:
            self._described = self._blobs.place(array, sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Add the rows of a batch and write the pages that are ready."""
        described, self._described = self._described, None
        for first_row, part in self._cache.add(array if described is None else described):
            self._write_pages(first_row, part, sink)

    def flush(self, sink: BufferSink) -> None:
        """Write the collected data."""
        for first_row, part in self._cache.drain():
            self._write_pages(first_row, part, sink)

    def finish(self, sink: BufferSink) -> list[FinishedColumn]:
        """Return the columns, one per leaf, depth first."""
        if self._blobs is not None:
            self._blobs.finish()
        return [
            FinishedColumn(field_id=leaf.id, metadata=ColumnMetadata(pages=tuple(pages)).serialize())
            for leaf, pages in zip(self._leaves, self._pages, strict=True)
        ]

    def _write_pages(self, first_row: int, array: pa.Array, sink: BufferSink) -> None:
        """Encode rows of the field, and write one page per leaf in submission order."""

        def encode() -> list[EncodedPage]:
            return encode_pages(self._field, array, version=self._version, multi_page=True)

        def place(encoded: list[EncodedPage]) -> None:
            for pages, page in zip(self._pages, encoded, strict=True):
                pages.append(_write_page(page, first_row, sink))

        self._queue.submit(array.nbytes, encode, place)


def _write_page(page: EncodedPage, first_row: int, sink: BufferSink) -> Page:
    return Page(
        buffers=tuple(sink.write_aligned(buffer) for buffer in page.buffers),
        length=page.num_rows,
        first_row=first_row,
        encoding=page.layout,
    )
