"""LegacyMetadataReader: reads everything except the values of a data file in format 0.1.

The page table does not record its field ids. They range from the first id that the table's manifest lists for the file
to the largest one; in files of early releases, they start at 0 instead. The position of the section after the page
table determines which case applies. Fields whose ids changed when the table was corrected
(:mod:`lance_core.table.old_writers`) are identified by their position among the fields of the file.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behavior of pylance 14.0.2; files of releases since 0.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.file.file_bytes import run_steps
from lance_core.file.layout import MAGIC
from lance_core.file.v0_1.embedded_manifest import EmbeddedManifest
from lance_core.file.v0_1.extents import Extents
from lance_core.file.v0_1.layout import FOOTER, LENGTH, MAX_ROWS
from lance_core.file.v0_1.page_reader import PageReader
from lance_core.file.v0_1.page_spans import PageSpans
from lance_core.file.v0_1.page_table import PageTable
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb_file
from lance_core.schema.convert import fields_from_proto
from lance_core.schema.field import Schema
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from lance_core.file.file_bytes import FileBytes
    from lance_core.schema.field import Field

__all__ = ["LegacyMetadataReader"]

_MOST_AHEAD: Final = 16 * 1024 * 1024
"""If the part of the file after the values has at most this many bytes, it is read with one request."""

_SECTION: Final = "metadata of format 0.1"

_FIELD_BYTES: Final = 1200
"""Approximate memory in bytes of a field of the schema, including the cached information about its pages."""


class LegacyMetadataReader:
    """The metadata of one file in format 0.1. Safe for concurrent use by several threads.

    Args:
        tail: the open file.
        field_ids: ids that the manifest lists for the file; None to use the file's own schema.

    Attributes:
        batch_offsets: first row of each batch, followed by the number of rows; shape (num_batches + 1,), int64.
        schema: the schema recorded in the file; empty if the file has no schema.
        own_ids: maps the table's field ids to the file's field ids, for the fields that the table reads from this file.
        statistics_schema: fields of the statistics, with their separate ids; None if the file has no statistics.
        page_table: locations of the pages of all fields.
        pages: decodes the pages.
        spans: byte ranges of the pages.

    Raises:
        CorruptDataError: the metadata is damaged.
        NotSupportedError: the schema has a field that this library does not support.
    """

    def __init__(self, tail: FileBytes, field_ids: Sequence[int] | None = None) -> None:
        """Read the footer, the messages, and the page table."""
        self._tail = tail
        self._listed_ids = field_ids
        self._field_ids = [field_id for field_id in field_ids or () if field_id >= 0]
        self._values: dict[int, pa.Array] = {}
        self._position = self._metadata_position()
        self._message = self._parsed_metadata()
        if 0 < self.num_bytes - self._message.page_table_position <= _MOST_AHEAD:
            # One request for both the tables and the messages.
            tail.extend(self._message.page_table_position)
        self.batch_offsets = self._checked_offsets()
        self._manifest = self._embedded_manifest()
        self.schema: Schema = self._manifest.schema
        self.own_ids = self._own_ids()
        self.statistics_schema = self._statistics_schema()
        self._statistics_table = self._parsed_statistics_table()
        self.page_table = self._parsed_page_table()
        self.pages = PageReader(self.page_table, self.num_bytes, self.path, self.dictionary)
        self.spans = PageSpans(self.page_table, self.schema, self.num_bytes)

    @property
    def path(self) -> str:
        """The file's path in its store."""
        return self._tail.path

    @property
    def num_bytes(self) -> int:
        """Size of the file in bytes."""
        return self._tail.num_bytes

    @property
    def metadata_start(self) -> int:
        """Position after the last page of the file; the metadata is between it and the end of the file."""
        return min(self._position, self._message.page_table_position)

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the parsed metadata, without dictionaries."""
        entries = self.page_table.num_bytes(*self.page_table.positions.shape)
        return _FIELD_BYTES * sum(1 for _ in self.schema.walk()) + entries + 8 * (3 * self.num_batches + 1)

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the file."""
        return LanceFileVersion.V0_1

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return int(self.batch_offsets[-1])

    @property
    def num_batches(self) -> int:
        """Number of batches in the file."""
        return len(self.batch_offsets) - 1

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the file; this makes no request if they are already in memory."""
        return self._tail.read(ranges)

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that the fields listed in a manifest exist; files without a schema are not checked.

        Raises:
            CorruptDataError: a field is missing.
        """
        unknown = [each for each in columns if self.schema.find(self.own_ids.get(each, each)) is None]
        if unknown and self.schema.fields:
            raise CorruptDataError(
                f"{self.path}: the manifest lists field id {unknown[0]}, which the file does not have", path=self.path
            )

    def dictionary(self, field: Field) -> pa.Array:
        """Return the dictionary values of a field, which are read on the first call.

        Raises:
            CorruptDataError: the file has no dictionary for the field.
        """
        known = self._values.get(field.id)
        if known is not None:
            return known
        place = self._manifest.dictionaries.get(self.own_ids.get(field.id, field.id))
        if place is None:
            raise self._corrupt(f"field {field.name!r} has no dictionary")
        values = run_steps(self.pages.values(field, place.position, place.num_values, Extents()), self.read)
        # No lock: another thread could hold it during a fork. If several threads read, the first result is kept.
        return self._values.setdefault(field.id, values)

    def statistics_pages(self) -> PageReader | None:
        """Return a decoder for the statistics, or None if the file has none.

        The statistics consist of a single batch, with one row for each batch of the file.
        """
        if self._statistics_table is None:
            return None
        return PageReader(self._statistics_table, self.num_bytes, self.path)

    def _metadata_position(self) -> int:
        [data] = self.read([self._range(self.num_bytes - FOOTER.size, self.num_bytes, "the footer")])
        position, _, _, magic = FOOTER.unpack(data)
        if magic != MAGIC:
            raise self._corrupt(f"the last 4 bytes are {magic!r}, expected {MAGIC!r}")
        return int(position)

    def _parsed_metadata(self) -> pb_file.Metadata:
        try:
            return pb_file.Metadata.FromString(self._section(self._position, "the metadata"))
        except DecodeError as error:
            raise self._corrupt(f"the metadata cannot be decoded: {error}") from error

    def _checked_offsets(self) -> NDArray[np.int64]:
        offsets = np.array(self._message.batch_offsets, np.int64)
        if not len(offsets):
            offsets = np.zeros(1, np.int64)
        if offsets[0] != 0 or bool((np.diff(offsets) < 0).any()) or int(offsets[-1]) > MAX_ROWS:
            raise self._corrupt(f"the batch offsets must start at 0, must not decrease, and must not exceed {MAX_ROWS}")
        return offsets

    def _embedded_manifest(self) -> EmbeddedManifest:
        if not self._message.manifest_position:
            return EmbeddedManifest(schema=Schema(fields=()))
        return EmbeddedManifest.parse(self._section(self._message.manifest_position, "the manifest"), self.path)

    def _statistics_schema(self) -> Schema | None:
        if not self._message.HasField("statistics"):
            return None
        return fields_from_proto(self._message.statistics.schema)

    def _parsed_statistics_table(self) -> PageTable | None:
        if self.statistics_schema is None or not self._message.statistics.fields:
            return None
        num_ids = max(self._message.statistics.fields) + 1
        return self._table(self._message.statistics.page_table_position, 0, num_ids, 1)

    def _parsed_page_table(self) -> PageTable:
        position, num_batches = self._message.page_table_position, self.num_batches
        end, is_exact = self._page_table_end()
        candidates = list(self._id_ranges())
        sizes = [PageTable.num_bytes(last + 1 - first, num_batches) for first, last in candidates]
        fits = [index for index, size in enumerate(sizes) if position + size <= end]
        equal = [index for index in fits if position + sizes[index] == end]
        for index in (equal or fits) if is_exact else [*equal, *(each for each in fits if each not in equal)]:
            first, last = candidates[index]
            table = self._table(position, first, last + 1 - first, num_batches)
            if self._is_plausible(table):
                return replace(table, own_ids=self.own_ids)
        if not candidates:
            return self._table(position, 0, 0, num_batches)
        first, last = candidates[0]
        raise self._corrupt(
            f"the page table at {position} does not match fields {first} to {last} and "
            f"{counted(num_batches, 'batch', 'batches')}"
        )

    def _own_ids(self) -> dict[int, int]:
        own = sorted(self.schema.field_ids())
        if self._listed_ids is None:
            return {field_id: field_id for field_id in own}
        if set(self._field_ids) <= set(own) or len(self._listed_ids) != len(own):
            return {field_id: field_id for field_id in self._field_ids}
        return {field_id: own_id for field_id, own_id in zip(self._listed_ids, own, strict=True) if field_id >= 0}

    def _id_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield possible pairs of the first and last field id in the page table, the most likely pair first."""
        own = self.schema.field_ids()
        if self._field_ids:
            yield self._field_ids[0], max(self._field_ids)
        if own:
            yield min(own), max(own)
            yield 0, max(own)
        if self._field_ids:
            yield 0, max(self._field_ids)

    def _page_table_end(self) -> tuple[int, bool]:
        """Return the start of the section after the page table, and whether it is known exactly."""
        if self._statistics_table is not None:
            # The first column of the statistics is a count, whose page starts at its recorded position.
            return int(self._statistics_table.positions[self._statistics_table.lengths > 0].min(initial=2**62)), True
        ends = [self._message.manifest_position or self._position]
        ends += [place.position for place in self._manifest.dictionaries.values()]
        return min(ends), not self._manifest.dictionaries

    def _is_plausible(self, table: PageTable) -> bool:
        """Return whether the pages of top-level fields have as many rows as the batches."""
        if not all(0 <= field_id - table.first_id < len(table.positions) for field_id in self.schema.field_ids()):
            return False
        num_rows = np.diff(self.batch_offsets)
        for top in self.schema.fields:
            if top.is_struct:
                continue
            _, lengths = table.pages(top.id)
            if not np.array_equal(lengths, num_rows + top.is_list):
                return False
        return True

    def _table(self, position: int, first_id: int, num_ids: int, num_batches: int) -> PageTable:
        num_bytes = PageTable.num_bytes(num_ids, num_batches)
        [data] = self.read([self._range(position, position + num_bytes, "the page table")])
        try:
            return PageTable.parse(
                data, first_id=first_id, num_ids=num_ids, num_batches=num_batches, file_bytes=self.num_bytes
            )
        except CorruptDataError as error:
            raise self._corrupt(error.message) from error

    def _section(self, position: int, what: str) -> bytes:
        """Return the message at a position, without its length prefix."""
        [length] = self.read([self._range(position, position + LENGTH.size, what)])
        (num_bytes,) = LENGTH.unpack(length)
        start = position + LENGTH.size
        [data] = self.read([self._range(start, start + num_bytes, what)])
        return bytes(data)

    def _range(self, start: int, stop: int, what: str) -> ByteRange:
        if not 0 <= start <= stop <= self.num_bytes:
            raise self._corrupt(
                f"{what} at [{start}, {stop}) is outside the file, which has {counted(self.num_bytes, 'byte')}"
            )
        return ByteRange(start, stop)

    def _corrupt(self, reason: str) -> CorruptDataError:
        return CorruptDataError(f"{self.path}: {reason}", path=self.path, section=_SECTION)
