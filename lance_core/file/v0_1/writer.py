"""LegacyFileWriter: writes record batches to a data file in format 0.1, divided into row groups and pages.

Groups are written as soon as they are complete. Only one group, two numbers per page, the statistics, and
the dictionaries stay in memory. The file is identical, byte for byte, to the one that pylance 14.0.2 writes for the
same rows, unless the memory of the given arrays contains values in the slots of nulls.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; ``lance.file.Metadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.file.batch_alignment import BatchAlignment
from lance_core.file.data_file_writer import DataFileWriter, WrittenFile
from lance_core.file.layout import MAGIC
from lance_core.file.v0_1.dictionary_keys import DictionaryKeys
from lance_core.file.v0_1.embedded_manifest import DictionaryPlace, EmbeddedManifest
from lance_core.file.v0_1.layout import ENTRY, FOOTER, LENGTH, MAX_ROWS
from lance_core.file.v0_1.page_writer import PageWriter
from lance_core.file.v0_1.statistics import statistics_record
from lance_core.proto import pb_file
from lance_core.schema.convert import fields_to_proto
from lance_core.schema.storable import check_storable
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Schema

__all__ = ["LegacyFileWriter"]

_FLUSH_BYTES: Final = 1024 * 1024
"""Pages are written to the stream together once their total size reaches this many bytes."""

_RUN_BYTES: Final = 4 << 20
"""Maximum total size in bytes of row groups that are encoded together.

Large enough to make the cost of a call negligible, and small enough for CPU caches.
"""


class LegacyFileWriter(DataFileWriter):
    """Writes one data file in format 0.1.

    Leaving the ``with`` block without calling :meth:`finish` aborts the write.

    Args:
        stream: output stream; committed by :meth:`finish`, aborted by :meth:`abort`.
        schema: the fields of the file, with their table-wide ids.
        config: write settings; only the number of rows per group applies to this format.
        table: the table that the file is written for, whose dictionary values the file's dictionaries start with; None
            for a standalone file.

    Raises:
        UnsupportedVersionError: the format does not support a type in the schema.
    """

    def __init__(
        self,
        stream: WriteStream,
        schema: Schema,
        config: WriteConfig,
        table: TableContext | None = None,
    ) -> None:
        """See the class docstring."""
        check_storable(schema, config.version)
        self._stream = stream
        self._schema = schema
        self._alignment = BatchAlignment(schema)
        self._keys = DictionaryKeys(schema, None if table is None else table.dictionaries)
        self._group_rows = config.max_rows_per_group
        self._groups = _RowGroups(config.max_rows_per_group)
        self._pages = PageWriter(stream.position)
        self._batch_offsets = [0]
        self._num_rows = 0
        self._is_open = True

    @property
    def num_rows(self) -> int:
        """Number of rows accepted so far."""
        return self._num_rows

    @property
    def num_bytes(self) -> int:
        """Estimated file size in bytes: the bytes written so far plus the in-memory size of the collected rows."""
        return self._pages.position + self._groups.num_bytes

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """Dictionary values collected so far, by field id."""
        return self._keys.values

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows. The batch is kept in memory until its group is complete.

        Raises:
            SchemaMismatchError: the batch does not match the schema, or has a null in a dictionary column, which would
                be stored as a value.
            InvalidInputError: the file would have too many rows, or a dictionary too many values.
            StorageError: the stream failed; the file can no longer be finished.
        """
        self._require_open()
        arrays = self._alignment.align(batch)
        if batch.num_rows == 0:
            return
        if self._num_rows + batch.num_rows > MAX_ROWS:
            raise InvalidInputError(f"a file in format 0.1 can have at most {MAX_ROWS} rows")
        columns = [self._keys.replaced(top, array) for top, array in zip(self._schema.fields, arrays, strict=True)]
        self._is_open = False
        for groups in self._groups.add(columns, batch.num_rows):
            self._write_groups(groups)
        self._num_rows += batch.num_rows
        self._is_open = True

    def add_global_buffer(self, data: bytes | pa.Buffer) -> int:
        """Raise an error, because this format has no global buffers.

        Raises:
            NotSupportedError: always.
        """
        raise NotSupportedError("files in format 0.1 have no global buffers; use format 2.0 or later")

    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Add or replace an entry in the schema metadata of the file's manifest."""
        self._require_open()
        self._schema = self._schema.with_metadata({**self._schema.metadata, key: value})

    def finish(self, *, durable: bool = True) -> WrittenFile:
        """Write the collected rows, the tables, the messages, and the footer, and commit the stream.

        Raises:
            InvalidInputError: the writer was finished or aborted, or an earlier write failed.
            StorageError: the stream failed.
        """
        self._require_open()
        self._is_open = False
        if self._groups.num_rows:
            self._write_groups(self._groups.rest())
        self._write_tail()
        self._flush()
        self._stream.commit(durable=durable)
        return WrittenFile(
            num_rows=self._num_rows,
            num_bytes=self._pages.position,
            # Sorted ascending, because readers assume that the first id is the smallest; a column that was cast
            # keeps its old position.
            field_ids=tuple(sorted(self._schema.field_ids())),
            column_indices=(),
        )

    def abort(self) -> None:
        """Abort the write and discard the unfinished file. Safe to call after any failure, and more than once."""
        self._is_open = False
        self._groups = _RowGroups(1)
        self._pages.parts = []
        self._stream.abort()

    def _write_groups(self, columns: list[pa.Array]) -> None:
        """Write rows, beginning with a new group; the last group may have fewer rows than the others."""
        num_rows = len(columns[0])
        bounds = np.append(np.arange(0, num_rows, self._group_rows), num_rows)
        self._pages.write(self._schema.fields, columns, bounds, with_statistics=True)
        self._batch_offsets += (self._batch_offsets[-1] + bounds[1:]).tolist()
        if self._pages.position - self._stream.position >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        parts, self._pages.parts = self._pages.parts, []
        if parts:
            self._stream.write(pa.py_buffer(np.concatenate(parts)) if len(parts) > 1 else pa.py_buffer(parts[0]))

    def _write_tail(self) -> None:
        ids = self._schema.field_ids()
        num_batches = len(self._batch_offsets) - 1
        metadata = pb_file.Metadata(batch_offsets=self._batch_offsets)
        metadata.page_table_position = self._write_table(self._pages, min(ids, default=0), ids, num_batches)
        self._write_statistics(metadata)
        places = {
            field_id: DictionaryPlace(self._pages.write_values(values), len(values))
            for field_id, values in self._keys.values.items()
        }
        manifest = EmbeddedManifest(schema=self._schema, dictionaries=places).serialize()
        metadata.manifest_position = self._append(LENGTH.pack(len(manifest)) + manifest)
        message = metadata.SerializeToString()
        position = self._append(LENGTH.pack(len(message)) + message)
        self._append(FOOTER.pack(position, *LanceFileVersion.V0_1.footer_pair, MAGIC))

    def _write_statistics(self, metadata: pb_file.Metadata) -> None:
        record = statistics_record(self._schema, self._pages.statistics)
        if record is None:
            return
        schema, columns = record
        pages = PageWriter(self._pages.position)
        pages.write(schema.fields, columns, np.array([0, len(columns[0])]))
        self._pages.parts += pages.parts
        self._pages.position = pages.position
        ids = schema.field_ids()
        metadata.statistics.page_table_position = self._write_table(pages, 0, ids, 1)
        metadata.statistics.fields.extend(ids)
        metadata.statistics.schema.extend(fields_to_proto(schema))

    def _write_table(self, pages: PageWriter, first_id: int, ids: Sequence[int], num_batches: int) -> int:
        table = np.zeros((max(ids, default=first_id - 1) + 1 - first_id, num_batches, 2), ENTRY)
        for field_id, entries in pages.entries.items():
            table[field_id - first_id] = np.concatenate(entries)
        return self._pages.append(table)

    def _append(self, data: bytes) -> int:
        return self._pages.append(np.frombuffer(data, np.uint8))


class _RowGroups:
    """Collects rows and returns groups of exactly ``group_rows`` rows, except for the last group.

    Args:
        group_rows: number of rows per group.
    """

    __slots__ = ("_group_rows", "_held", "num_bytes", "num_rows")

    def __init__(self, group_rows: int) -> None:
        """Create an empty collection."""
        self._group_rows = group_rows
        self._held: list[list[pa.Array]] = []
        self.num_rows = 0
        self.num_bytes = 0

    def add(self, columns: list[pa.Array], num_rows: int) -> Iterator[list[pa.Array]]:
        """Add rows; yield runs of complete groups, each of which is a few MiB or a single group."""
        start = 0
        if self.num_rows:
            start = min(self._group_rows - self.num_rows, num_rows)
            self._hold([column.slice(0, start) for column in columns], start)
            if self.num_rows < self._group_rows:
                return
            yield self.rest()
        stop = num_rows - (num_rows - start) % self._group_rows
        groups_at_once = max(1, _RUN_BYTES * num_rows // (max(1, _num_bytes(columns)) * self._group_rows))
        rows_at_once = groups_at_once * self._group_rows
        for first in range(start, stop, rows_at_once):
            yield [column.slice(first, min(rows_at_once, stop - first)) for column in columns]
        if stop < num_rows:
            self._hold([column.slice(stop) for column in columns], num_rows - stop)

    def rest(self) -> list[pa.Array]:
        """Return the collected rows as one group, and clear the collection."""
        held, self._held = self._held, []
        self.num_rows = self.num_bytes = 0
        return [pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) for pieces in zip(*held, strict=True)]

    def _hold(self, columns: list[pa.Array], num_rows: int) -> None:
        self._held.append(columns)
        self.num_rows += num_rows
        self.num_bytes += _num_bytes(columns)


def _num_bytes(columns: list[pa.Array]) -> int:
    return sum(column.nbytes for column in columns)
