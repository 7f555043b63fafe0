"""FragmentReader: rows of one fragment, joined over its data files, overlaid by newer cells, deleted ones left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import pyarrow as pa

from lance_core.api.blob_places import BlobDescriptors
from lance_core.api.column_sources import ColumnSources, assemble_column
from lance_core.api.fragment_overlays import FragmentOverlays
from lance_core.api.output_schema import OutputSchema, batch_without_columns
from lance_core.api.row_columns import ROW_COLUMN_IDS, RowColumns, split_row_columns
from lance_core.api.scan_plan import live_to_physical
from lance_core.errors import CorruptDataError
from lance_core.file.reader import FileReader
from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.field import Field, Schema
from lance_core.table.deletion_file import read_deletion_offsets
from lance_core.table.row_lineage import RowLineage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.data_file import DataFile
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentReader"]

_Parts: TypeAlias = dict[int, list[tuple[Field, pa.Array]]]
"""Top-level field id -> what each file holds of it."""


class FragmentReader:
    """Reads one fragment. Files are opened when their first rows are due, and then kept.

    Args:
        fragment: what to read.
        locator: finds its files.
        first_row: rows that are not deleted in the fragments before it; needed for ``_rowoffset`` only.
    """

    def __init__(self, fragment: Fragment, locator: FileLocator, first_row: int = 0) -> None:
        """Nothing is read yet."""
        self._fragment = fragment
        self._locator = locator
        self._deleted: npt.NDArray[np.uint32] | None = None
        self._open: dict[str, FileReader] = {}
        self._overlays = FragmentOverlays(fragment, self._opened)
        self._lineage = RowLineage(fragment.message, lambda _, field_id: self.hidden_column(field_id))
        self._row_columns = RowColumns(self._lineage, first_row, self.deleted_rows)

    @property
    def fragment_id(self) -> int:
        """Which fragment it reads."""
        return self._fragment.id

    @property
    def num_live_rows(self) -> int:
        """Rows that are not deleted; the deletion file is read only when its count was not recorded.

        Raises:
            CorruptDataError: more rows are deleted than there are.
        """
        deletion = self._fragment.deletion_file
        if deletion is None:
            return self._fragment.physical_rows
        num_deleted = deletion.num_deleted_rows or len(self.deleted_rows())
        if num_deleted > self._fragment.physical_rows:
            raise CorruptDataError(
                f"fragment {self.fragment_id} has {self._fragment.physical_rows} rows, {num_deleted} are said to be "
                "deleted"
            )
        return self._fragment.physical_rows - num_deleted

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Deleted positions, sorted, shape (num_deleted,); read once.

        Raises:
            CorruptDataError: the deletion file is damaged, or lists another number of rows than recorded.
        """
        if self._deleted is None:
            self._deleted = read_deletion_offsets(self._fragment, self._locator)
        return self._deleted

    def blobs(self, descriptors: pa.StructArray, field_id: int) -> BlobDescriptors:
        """Where the values of a blob column are.

        Args:
            descriptors: what the column gave for some rows of this fragment.
            field_id: of the column.
        """
        file = next((file for file in self._fragment.files if field_id in file.columns()), None)
        if file is None:
            if descriptors.null_count < len(descriptors) or not self._fragment.files:
                raise CorruptDataError(f"fragment {self.fragment_id} has no data file for blob field {field_id}")
            # Rows from before the column was there: no value is looked for in the file.
            file = self._fragment.files[0]
        return BlobDescriptors.of(descriptors, self._locator.data_file(file), self._locator, file.base_id)

    def batches(self, wanted: Schema, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Stream live rows.

        Args:
            wanted: the projection, with the table's field ids. Blobs come as descriptors.
            start: first live row.
            stop: live row after the last.
            batch_rows: at most so many rows in a batch.

        Yields:
            Batches of :class:`OutputSchema`; none is empty.
        """
        if start >= stop:
            return
        wanted = stored_schema(wanted)
        deleted = self.deleted_rows()
        position, last = live_to_physical(deleted, np.array([start, stop - 1], np.int64)).tolist()
        output = OutputSchema(wanted)
        for parts, num_rows in self._physical_runs(wanted, position, last + 1, batch_rows):
            arrays = self._assemble(wanted, parts, range(position, position + num_rows))
            run = _without(output.batch(arrays, num_rows), deleted, position)
            position += num_rows
            if 0 < run.num_rows <= batch_rows:
                yield run
            else:
                for at in range(0, run.num_rows, batch_rows):
                    yield run.slice(at, batch_rows)
            # Before the next pages are decoded these may go.
            del parts, arrays, run

    def take(self, wanted: Schema, live_rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Single live rows, in the order asked, repetition allowed.

        Args:
            wanted: the projection, with the table's field ids.
            live_rows: positions among the live rows.
            table: the whole schema.
        """
        return self.take_physical(wanted, live_to_physical(self.deleted_rows(), live_rows), table)

    def take_physical(self, wanted: Schema, rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Single rows by their positions in the data files, deleted ones included; see :meth:`take`."""
        wanted, table = stored_schema(wanted), stored_schema(table)
        parts: _Parts = {}
        for file, here in self._plan(wanted, table):
            rows_here = self._reader(file).take(here.fields, rows, column_indices=file.all_columns())
            _collect(parts, here, (_one_array(column) for column in rows_here.columns))
        return OutputSchema(wanted).batch(self._assemble(wanted, parts, rows), len(rows))

    def hidden_column(self, field_id: int) -> npt.NDArray[np.uint64]:
        """A hidden row lineage column, deleted rows included.

        Raises:
            CorruptDataError: no file holds it, or it is damaged.
        """
        [(file, here)] = self._hidden_files([Field(id=field_id, name=f"field {field_id}", logical_type="uint64")])
        table = self._reader(file).read_table(here.fields, column_indices=file.all_columns())
        return np.asarray(self._without_nulls(_one_array(table.column(0))))

    def check(self) -> None:
        """Open every file and compare it with what the manifest records.

        Raises:
            NotFoundError: a file is missing.
            CorruptDataError: a file is damaged, or has other rows or columns than recorded.
        """
        self.deleted_rows()
        self._overlays.check()
        self._lineage.check()
        for file in self._fragment.files:
            reader = self._reader(file)
            if file.file_version.is_legacy:
                own = cast("LegacyMetadataReader", reader.any_metadata).own_ids
                unknown = [each for each in file.columns() if reader.schema.find(own.get(each, each)) is None]
                if unknown and reader.schema.fields:
                    raise CorruptDataError(f"data file {reader.path} has no field {unknown[0]}", path=reader.path)
                continue
            num_columns = reader.metadata.footer.num_columns
            outside = [column for column in file.all_columns().values() if column >= num_columns]
            if outside:
                raise CorruptDataError(f"data file {reader.path} has no column {outside[0]}", path=reader.path)

    def legacy_files(self, field_ids: Sequence[int]) -> Iterator[LegacyMetadataReader]:
        """The open 0.1 files that hold any of some fields; none under overlays, which their statistics do not know."""
        if self._overlays:
            return
        for file in self._fragment.files:
            if file.file_version.is_legacy and not set(field_ids).isdisjoint(file.field_ids):
                metadata = self._reader(file).any_metadata
                if isinstance(metadata, LegacyMetadataReader):
                    yield metadata

    def _physical_runs(self, wanted: Schema, start: int, stop: int, batch_rows: int) -> Iterator[tuple[_Parts, int]]:
        """Parts of the columns, and the number of rows, for physical rows ``[start, stop)``.

        Of one file come as many batches at a time as its pages allow without a copy; several files keep step.
        """
        sources = self._plan(wanted)
        if not sources:
            for position in range(start, stop, batch_rows):
                yield {}, min(batch_rows, stop - position)
            return
        streams = [
            self._reader(file).read_batches(
                here.fields,
                column_indices=file.all_columns(),
                row_range=(start, stop),
                batch_rows=batch_rows,
                in_runs=len(sources) == 1,
            )
            for file, here in sources
        ]
        # Every stream cuts the same rows into batches of the same size.
        for batches in zip(*streams, strict=True):
            parts: _Parts = {}
            for (_, here), batch in zip(sources, batches, strict=True):
                _collect(parts, here, batch.columns)
            num_rows = batches[0].num_rows
            del batches
            yield parts, num_rows

    def _plan(self, wanted: Schema, table: Schema | None = None) -> list[tuple[DataFile, Schema]]:
        """What to read from which file."""
        stored, row = split_row_columns(wanted)
        if table is not None:
            table, _ = split_row_columns(table)
        hidden = [top for top in row if self._lineage.is_hidden(top.id)]
        return [*ColumnSources.plan(stored, self._fragment.files, table).files, *self._hidden_files(hidden)]

    def _hidden_files(self, fields: Sequence[Field]) -> Iterator[tuple[DataFile, Schema]]:
        """The file of each hidden column."""
        for field in fields:
            files = [file for file in self._fragment.files if field.id in file.hidden_columns()]
            if len(files) != 1:
                raise CorruptDataError(
                    f"fragment {self.fragment_id}: the hidden column {field.name!r} (id {field.id}) is in "
                    f"{len(files)} data files, expected 1",
                    expected=1,
                    found=len(files),
                )
            yield files[0], Schema(fields=(field,))

    def _assemble(self, wanted: Schema, parts: _Parts, rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        """The columns of rows at some physical positions."""
        arrays = []
        for top in wanted.fields:
            if top.id not in ROW_COLUMN_IDS:
                arrays.append(assemble_column(top, parts.get(top.id, ()), len(rows)))
            elif top.id in parts:
                arrays.append(self._without_nulls(parts[top.id][0][1]))
            else:
                arrays.append(self._row_columns.column(top, _positions(rows)))
        return self._overlays.lay_over(wanted, arrays, _positions(rows)) if self._overlays else arrays

    def _without_nulls(self, array: pa.Array) -> pa.Array:
        if array.null_count:
            raise CorruptDataError(f"fragment {self.fragment_id}: a hidden column of row lineage has nulls")
        return array

    def _reader(self, file: DataFile) -> FileReader:
        reader = self._opened(file)
        if reader.num_rows != self._fragment.physical_rows:
            raise CorruptDataError(
                f"data file {reader.path} has {reader.num_rows} rows, fragment {self._fragment.id} has "
                f"{self._fragment.physical_rows}",
                path=reader.path,
                expected=self._fragment.physical_rows,
                found=reader.num_rows,
            )
        return reader

    def _opened(self, file: DataFile) -> FileReader:
        if file.path not in self._open:
            location = self._locator.data_file(file)
            reader = FileReader.open(
                location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
            )
            if reader.version is not file.file_version:
                raise CorruptDataError(
                    f"data file {location.path} is of format {reader.version.value}, recorded is "
                    f"{file.file_version.value}",
                    path=location.path,
                    expected=file.file_version.value,
                    found=reader.version.value,
                )
            self._open[file.path] = reader
        return self._open[file.path]


def _collect(parts: _Parts, here: Schema, arrays: Iterable[pa.Array]) -> None:
    for top, array in zip(here.fields, arrays, strict=True):
        parts.setdefault(top.id, []).append((top, array))


def _positions(rows: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, range) else rows


def _without(batch: pa.RecordBatch, deleted: npt.NDArray[np.uint32], position: int) -> pa.RecordBatch:
    """The batch without deleted rows; ``position`` is the physical position of its first row."""
    low, high = np.searchsorted(deleted, [position, position + batch.num_rows])
    if low == high:
        return batch
    if not batch.num_columns:
        return batch_without_columns(batch.num_rows - int(high - low))
    keep = np.ones(batch.num_rows, bool)
    keep[deleted[low:high] - position] = False
    return batch.filter(pa.array(keep))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
