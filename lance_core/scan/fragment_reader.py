"""FragmentReader: reads the live rows of one fragment from its data files, and applies the overlays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.blobs.descriptors import BlobDescriptors
from lance_core.errors import CorruptDataError
from lance_core.file.families import keeps_statistics
from lance_core.file.session import UNCACHED, Session
from lance_core.scan.fragment_overlays import FragmentOverlays
from lance_core.scan.output_schema import batch_without_columns
from lance_core.scan.read_plan import ReadPlan, assemble_column
from lance_core.scan.row_columns import ROW_COLUMN_IDS, RowColumns
from lance_core.scan.scan_plan import live_to_physical
from lance_core.schema.field import Field, Schema
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.row_lineage import RowLineage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lance_core.file.field_source import RowStatistics
    from lance_core.file.read_config import ReadConfig
    from lance_core.file.reader import FileReader
    from lance_core.scan.read_plan import PlannedFile
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.data_file import DataFile
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentReader"]

_Parts: TypeAlias = dict[int, list[tuple[Field, pa.Array]]]
"""Maps the id of each top-level field to the parts of the field that were read from the files."""


class FragmentReader:
    """Reads one fragment. Its files are opened when they are first needed, and then kept open.

    Args:
        fragment: the fragment to read.
        locator: locates the files of the fragment.
        first_row: number of live rows in the preceding fragments; needed only for ``_rowoffset``.
        session: opens the files, and keeps them open for other readers.
    """

    def __init__(
        self, fragment: Fragment, locator: FileLocator, first_row: int = 0, session: Session = UNCACHED
    ) -> None:
        """Initialize without reading anything."""
        self._fragment = fragment
        self._locator = locator
        files = self._files = _OpenFiles(fragment, locator, session)
        self._overlays = FragmentOverlays(fragment, files.any_reader)
        self._lineage = RowLineage(fragment.message, lambda _, field_id: files.hidden_column(field_id))
        self._row_columns = RowColumns(self._lineage, first_row, files.deleted_rows)

    @property
    def fragment_id(self) -> int:
        """The id of the fragment."""
        return self._fragment.id

    @property
    def num_live_rows(self) -> int:
        """Number of live rows. The deletion file is read only if the number of deleted rows is not recorded.

        Raises:
            CorruptDataError: the number of deleted rows exceeds the number of rows.
        """
        deletion = self._fragment.deletion_file
        if deletion is None:
            return self._fragment.physical_rows
        num_deleted = deletion.num_deleted_rows or len(self.deleted_rows())
        if num_deleted > self._fragment.physical_rows:
            raise CorruptDataError(
                f"fragment {self.fragment_id} has {self._fragment.physical_rows} rows, but {num_deleted} are recorded "
                "as deleted"
            )
        return self._fragment.physical_rows - num_deleted

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return the sorted positions of deleted rows, shape (num_deleted,); they are read once and cached.

        Raises:
            CorruptDataError: the deletion file is damaged, or the number of rows that it lists is wrong.
        """
        return self._files.deleted_rows()

    def blobs(self, descriptors: pa.StructArray, field_id: int) -> BlobDescriptors:
        """Return the locations of the values of a blob column.

        Args:
            descriptors: descriptors read from the column, for some rows of this fragment.
            field_id: field id of the column.
        """
        file = next((file for file in self._files.files if field_id in file.columns()), None)
        if file is None:
            if descriptors.null_count < len(descriptors) or not self._files.files:
                raise CorruptDataError(
                    f"fragment {self.fragment_id} has no data file for the blob field with id {field_id}"
                )
            # These rows were written before the column existed: the file is not searched for values.
            file = self._files.files[0]
        return BlobDescriptors.of(descriptors, self._locator.data_file(file), self._locator, file.base_id)

    def batches(self, wanted: Schema, start: int, stop: int, config: ReadConfig) -> Iterator[pa.RecordBatch]:
        """Stream live rows.

        Args:
            wanted: the projection, with the table's field ids. Blobs are returned as descriptors.
            start: index of the first live row to read.
            stop: index of the live row at which to stop (exclusive).
            config: read settings, including the maximum number of rows in a batch.

        Yields:
            Non-empty batches with the :class:`OutputSchema` of the projection.
        """
        if start >= stop:
            return
        batch_rows = config.batch_rows
        plan = ReadPlan.of(wanted)
        output = plan.output
        deleted = self.deleted_rows()
        position, last = start, stop - 1
        if len(deleted):
            position, last = live_to_physical(deleted, np.array([start, stop - 1], np.int64)).tolist()
        for parts, num_rows in self._physical_runs(plan, position, last + 1, config):
            arrays = self._assemble(plan.wanted, parts, range(position, position + num_rows))
            run = _without(output.batch(arrays, num_rows), deleted, position)
            position += num_rows
            if 0 < run.num_rows <= batch_rows:
                yield run
            else:
                for at in range(0, run.num_rows, batch_rows):
                    yield run.slice(at, batch_rows)
            # Release these before the next pages are decoded.
            del parts, arrays, run

    def take(self, wanted: Schema, live_rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Read individual live rows, in the requested order; rows may repeat.

        Args:
            wanted: the projection, with the table's field ids.
            live_rows: indices among the live rows of the fragment.
            table: the whole schema.
        """
        return self.take_physical(wanted, live_to_physical(self.deleted_rows(), live_rows), table)

    def take_physical(self, wanted: Schema, rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Read individual rows by their positions in the data files, including deleted rows; see :meth:`take`."""
        plan = ReadPlan.of(wanted, table)
        parts: _Parts = {}
        for file, here, columns in (*plan.files(self._files.files), *self._hidden_files(plan.row_columns)):
            rows_here = self._files.reader(file).take(here.fields, rows, column_indices=columns)
            _collect(parts, here, (_one_array(column) for column in rows_here.columns))
        return plan.output.batch(self._assemble(plan.wanted, parts, rows), len(rows))

    def hidden_column(self, field_id: int) -> npt.NDArray[np.uint64]:
        """Return the values of a hidden row-lineage column, including those of deleted rows.

        Raises:
            CorruptDataError: no file contains the column, several do, or the file is damaged.
        """
        return self._files.hidden_column(field_id)

    def check(self) -> None:
        """Open every file of the fragment and compare it with the information in the manifest.

        Raises:
            NotFoundError: a file is missing.
            CorruptDataError: a file is damaged, or its rows or columns differ from those recorded in the manifest.
        """
        self.deleted_rows()
        self._overlays.check()
        self._lineage.check()
        for file in self._files.files:
            self._files.reader(file).check_columns(file.all_columns())

    def statistics(self, field_ids: Sequence[int]) -> Iterator[RowStatistics]:
        """Yield the statistics of all files that contain any of the fields; if there are overlays, yield nothing.

        Raises:
            CorruptDataError: the statistics of a file are damaged.
        """
        if self._overlays:
            return
        for file in self._files.files:
            if keeps_statistics(file.file_version) and not set(field_ids).isdisjoint(file.field_ids):
                found = self._files.reader(file).statistics(field_ids)
                if found is not None:
                    yield found

    def _physical_runs(self, plan: ReadPlan, start: int, stop: int, config: ReadConfig) -> Iterator[tuple[_Parts, int]]:
        """Yield the parts of the columns, and their number of rows, for consecutive ranges of rows ``[start, stop)``.

        If there is only one file, the ranges follow its pages, which avoids copies; several files are read in lockstep.
        """
        sources = [*plan.files(self._files.files), *self._hidden_files(plan.row_columns)]
        if not sources:
            for position in range(start, stop, config.batch_rows):
                yield {}, min(config.batch_rows, stop - position)
            return
        streams = [
            self._files.reader(file).read_batches(
                here.fields, config, column_indices=columns, row_range=(start, stop), in_runs=len(sources) == 1
            )
            for file, here, columns in sources
        ]
        # Every stream splits the same rows into batches of the same size.
        for batches in zip(*streams, strict=True):
            parts: _Parts = {}
            for (_, here, _), batch in zip(sources, batches, strict=True):
                _collect(parts, here, batch.columns)
            num_rows = batches[0].num_rows
            del batches
            yield parts, num_rows

    def _hidden_files(self, row_columns: Iterable[Field]) -> list[PlannedFile]:
        """Return the data files that store the requested system columns as hidden columns."""
        hidden = [top for top in row_columns if self._lineage.is_hidden(top.id)]
        holders = map(self._files.hidden_file, hidden)
        return [(file, Schema(fields=(top,)), file.all_columns()) for top, file in zip(hidden, holders, strict=True)]

    def _assemble(self, wanted: Schema, parts: _Parts, rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns for rows at the given physical positions."""
        arrays = []
        for top in wanted.fields:
            if top.id not in ROW_COLUMN_IDS:
                arrays.append(assemble_column(top, parts.get(top.id, ()), len(rows)))
            elif top.id in parts:
                arrays.append(self._files.without_nulls(parts[top.id][0][1]))
            else:
                arrays.append(self._row_columns.column(top, _positions(rows)))
        return self._overlays.lay_over(wanted, arrays, _positions(rows)) if self._overlays else arrays


class _OpenFiles:
    """Opens the files of one fragment. It does not refer to its users, so no reference cycle keeps the files open.

    Args:
        fragment: the fragment.
        locator: locates the files of the fragment.
        session: opens the files, and keeps them open for other readers.
    """

    __slots__ = ("_deleted", "_files", "_fragment", "_locator", "_open", "_session")

    def __init__(self, fragment: Fragment, locator: FileLocator, session: Session) -> None:
        """Initialize without opening anything."""
        self._session = session
        self._fragment = fragment
        self._locator = locator
        self._files: tuple[DataFile, ...] | None = None
        self._deleted: npt.NDArray[np.uint32] | None = None
        self._open: dict[str, FileReader] = {}

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The records of the fragment's data files, parsed once; raises the errors of :meth:`DataFile.from_proto`."""
        if self._files is None:
            self._files = self._fragment.files
        return self._files

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return the sorted positions of deleted rows, shape (num_deleted,); they are read once and cached.

        Raises:
            CorruptDataError: the deletion file is damaged, or the number of rows that it lists is wrong.
        """
        if self._deleted is None:
            self._deleted = read_deletion_offsets(self._fragment, self._locator)
        return self._deleted

    def reader(self, file: DataFile) -> FileReader:
        """Return a reader for a data file that contains all rows of the fragment.

        Raises:
            CorruptDataError: the file is damaged, or its format or number of rows differs from the manifest.
        """
        reader = self.any_reader(file)
        if reader.num_rows != self._fragment.physical_rows:
            raise CorruptDataError(
                f"data file {reader.path} has {reader.num_rows} rows, but fragment {self._fragment.id} records "
                f"{self._fragment.physical_rows}",
                path=reader.path,
                expected=self._fragment.physical_rows,
                found=reader.num_rows,
            )
        return reader

    def any_reader(self, file: DataFile) -> FileReader:
        """Return a reader for a file that need not contain all rows, such as an overlay.

        Raises:
            CorruptDataError: the file is damaged, or its format differs from the manifest.
        """
        reader = self._open.get(file.path)
        if reader is None:
            location = self._locator.data_file(file)
            reader = self._session.open_file(
                location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
            )
            if reader.version is not file.file_version:
                raise CorruptDataError(
                    f"data file {location.path} has format {reader.version.value}, but the manifest records "
                    f"{file.file_version.value}",
                    path=location.path,
                    expected=file.file_version.value,
                    found=reader.version.value,
                )
            self._open[file.path] = reader
        return reader

    def hidden_file(self, field: Field) -> DataFile:
        """Return the data file that contains a hidden column.

        Raises:
            CorruptDataError: no data file or more than one data file contains the column.
        """
        files = [file for file in self.files if field.id in file.hidden_columns()]
        if len(files) != 1:
            raise CorruptDataError(
                f"fragment {self._fragment.id}: expected one data file with the hidden column {field.name!r} "
                f"(id {field.id}), found {len(files)}",
                expected=1,
                found=len(files),
            )
        return files[0]

    def hidden_column(self, field_id: int) -> npt.NDArray[np.uint64]:
        """Return the values of a hidden row-lineage column, including those of deleted rows.

        Raises:
            CorruptDataError: no file contains the column, several do, or the file is damaged.
        """
        field = Field(id=field_id, name=f"field {field_id}", logical_type="uint64")
        file = self.hidden_file(field)
        table = self.reader(file).read_table((field,), column_indices=file.all_columns())
        return np.asarray(self.without_nulls(_one_array(table.column(0))))

    def without_nulls(self, array: pa.Array) -> pa.Array:
        """Return a hidden column, after checking that it has no nulls."""
        if array.null_count:
            raise CorruptDataError(f"fragment {self._fragment.id}: a hidden row-lineage column contains nulls")
        return array


def _collect(parts: _Parts, here: Schema, arrays: Iterable[pa.Array]) -> None:
    for top, array in zip(here.fields, arrays, strict=True):
        parts.setdefault(top.id, []).append((top, array))


def _positions(rows: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, range) else rows


def _without(batch: pa.RecordBatch, deleted: npt.NDArray[np.uint32], position: int) -> pa.RecordBatch:
    """Return the batch without deleted rows; ``position`` is the physical position of its first row."""
    if not len(deleted):
        return batch
    low, high = np.searchsorted(deleted, [position, position + batch.num_rows])
    if low == high:
        return batch
    if not batch.num_columns:
        return batch_without_columns(batch.num_rows - int(high - low))
    keep = np.ones(batch.num_rows, bool)
    keep[deleted[low:high] - position] = False
    return batch.filter(pa.array(keep))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as a single array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
