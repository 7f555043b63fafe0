"""FragmentReader: reads the live rows of one fragment from its data files, and applies the overlays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lance_core.blobs.descriptors import BlobDescriptors
from lance_core.errors import CorruptDataError
from lance_core.file.families import keeps_statistics
from lance_core.file.session import UNCACHED, Session
from lance_core.scan.fragment_overlays import FragmentOverlays
from lance_core.scan.row_columns import RowColumns
from lance_core.scan.row_reader import RowReader, one_array, positions_of
from lance_core.schema.field import Field, Schema
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.row_lineage import RowLineage
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.file.field_source import RowStatistics
    from lance_core.file.reader import FileReader
    from lance_core.scan.read_plan import PlannedFile, ReadPlan
    from lance_core.scan.row_reader import OpenColumns
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.data_file import DataFile
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentReader"]


class FragmentReader(RowReader):
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
        self._loaded: dict[ReadPlan, list[OpenColumns]] = {}

    @property
    def fragment_id(self) -> int:
        """The id of the fragment."""
        return self._fragment.id

    @property
    def physical_rows(self) -> int:
        """Number of rows in each data file, including deleted rows."""
        return self._fragment.physical_rows

    @property
    def is_remote(self) -> bool:
        """Whether the requests for several fragments should be in flight together."""
        return any(self._locator.data_store(file.base_id).read_costs.is_remote for file in self._files.files)

    @property
    def has_deleted_rows(self) -> bool:
        """Whether the fragment has a deletion file."""
        return self._fragment.has_deletion_file

    @property
    def recorded_bytes(self) -> int:
        """Total size of the data files in bytes; files without a recorded size are not counted."""
        return sum([file.num_bytes for file in self._files.files])

    @property
    def num_live_rows(self) -> int:
        """Number of live rows. The deletion file is read only if the number of deleted rows is not recorded.

        Raises:
            CorruptDataError: the number of deleted rows exceeds the number of rows.
        """
        if not self._fragment.has_deletion_file:
            return self._fragment.physical_rows
        num_deleted = self._fragment.num_deleted_rows or len(self.deleted_rows())
        if num_deleted > self._fragment.physical_rows:
            raise CorruptDataError(
                f"fragment {self.fragment_id} has {counted(self._fragment.physical_rows, 'row')}, but "
                f"{counted(num_deleted, 'deleted row')}"
            )
        return self._fragment.physical_rows - num_deleted

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return the sorted positions of deleted rows, shape (num_deleted,); they are read once and cached.

        Raises:
            CorruptDataError: the deletion file is damaged, or the number of rows that it lists is wrong.
        """
        return self._files.deleted_rows()

    def by_fragment(self, positions: npt.NDArray[np.int64]) -> Iterator[tuple[Fragment, npt.NDArray[np.int64]]]:
        """Yield the fragment and the positions."""
        yield self._fragment, positions

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
        for check in self.checks():
            check()

    def checks(self) -> list[Callable[[], object]]:
        """Return the parts of :meth:`check`, which raise errors independently of each other."""
        return [
            self.deleted_rows,
            self._overlays.check,
            self._lineage.check,
            *(partial(self._check_file, file) for file in self._files.files),
        ]

    def _check_file(self, file: DataFile) -> None:
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

    def open_columns(self, plan: ReadPlan) -> list[OpenColumns]:
        """Open the files that contain the columns of a projection.

        Raises:
            CorruptDataError: a file is damaged, or differs from the manifest.
        """
        planned = (*plan.files(self._files.files), *self._hidden_files(plan.row_columns))
        return [(self._files.reader(file), here, columns) for file, here, columns in planned]

    def load_columns(self, plan: ReadPlan) -> list[OpenColumns]:
        """Like :meth:`open_columns`, but also load the metadata of the columns from a remote store."""
        opened = self.open_columns(plan)
        if self.is_remote:
            for file, here, columns in opened:
                file.load_columns(here.fields, columns)
        return opened

    def loaded_columns(self, plan: ReadPlan) -> list[OpenColumns] | None:
        """Return the result of :meth:`load_columns` if it needs no request; None otherwise."""
        loaded = self._loaded.get(plan)
        if loaded is None and not self._hidden_files(plan.row_columns):
            loaded = []
            for file, here, columns in plan.files(self._files.files):
                reader = self._files.kept_reader(file)
                if reader is None or not reader.has_columns(here.fields, columns):
                    return None
                loaded.append((reader, here, columns))
            self._loaded[plan] = loaded
        return loaded

    def row_column(self, field: Field, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of a system column that is not stored in a data file, for some physical positions."""
        return self._row_columns.column(field, positions)

    def group_key(self, fields: Iterable[Field]) -> Hashable:
        """Return a key that is equal for fragments that can be read together; None if the fragment is read alone.

        Args:
            fields: the fields that are read, without blobs.
        """
        files = self._files.files
        if self._overlays or not files or not all(map(self._is_cheap_to_join, files)):
            return None
        if any(self._lineage.is_hidden(top.id) for top in fields):
            return None
        return self.is_remote, *[(file.field_ids, file.column_indices, file.file_version) for file in files]

    def _is_cheap_to_join(self, file: DataFile) -> bool:
        store = self._locator.data_store(file.base_id)
        return file.file_version.is_structural and (store.maps_files or store.read_costs.is_remote)

    def _hidden_files(self, row_columns: Iterable[Field]) -> list[PlannedFile]:
        """Return the data files that store the requested system columns as hidden columns."""
        hidden = [top for top in row_columns if self._lineage.is_hidden(top.id)]
        holders = map(self._files.hidden_file, hidden)
        return [(file, Schema(fields=(top,)), file.all_columns()) for top, file in zip(hidden, holders, strict=True)]

    def _lay_over(self, wanted: Schema, arrays: list[pa.Array], rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        return self._overlays.lay_over(wanted, arrays, positions_of(rows)) if self._overlays else arrays

    def _without_nulls(self, array: pa.Array) -> pa.Array:
        return self._files.without_nulls(array)


class _OpenFiles:
    """Opens the files of one fragment. The object does not refer to its users, so no reference cycle keeps files open.

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
            fragment, locator = self._fragment, self._locator
            deletion = fragment.deletion_file
            if deletion is None:
                return np.empty(0, np.uint32)
            place = locator.deletion_file(fragment.id, deletion)
            self._deleted = self._session.deleted_rows(place.store, place.path)
            if self._deleted is None:
                self._deleted = read_deletion_offsets(fragment, locator)
                self._session.keep_deleted_rows(place.store, place.path, self._deleted)
        return self._deleted

    def reader(self, file: DataFile) -> FileReader:
        """Return a reader for a data file that contains all rows of the fragment.

        Raises:
            CorruptDataError: the file is damaged, or its format or number of rows differs from that in the manifest.
        """
        reader = self.any_reader(file)
        if reader.num_rows != self._fragment.physical_rows:
            raise CorruptDataError(
                f"data file {reader.path} has {counted(reader.num_rows, 'row')}, but fragment "
                f"{self._fragment.id} records "
                f"{self._fragment.physical_rows}",
                path=reader.path,
                expected=self._fragment.physical_rows,
                found=reader.num_rows,
            )
        return reader

    def kept_reader(self, file: DataFile) -> FileReader | None:
        """Return the result of :meth:`reader` if the file has been opened before; None otherwise."""
        if file.path not in self._open:
            location = self._locator.data_file(file)
            if not self._session.keeps_file(
                location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
            ):
                return None
        return self.reader(file)

    def any_reader(self, file: DataFile) -> FileReader:
        """Return a reader for a file that need not contain all rows, such as an overlay.

        Raises:
            CorruptDataError: the file is damaged, or its format differs from that in the manifest.
        """
        reader = self._open.get(file.path)
        if reader is None:
            location = self._locator.data_file(file)
            reader = self._session.open_file(
                location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
            )
            if reader.version is not file.file_version:
                raise CorruptDataError(
                    f"data file {location.uri} has format {reader.version.value}, but the manifest records "
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
        return np.asarray(self.without_nulls(one_array(table.column(0))))

    def without_nulls(self, array: pa.Array) -> pa.Array:
        """Return a hidden column, after checking that it has no nulls."""
        if array.null_count:
            raise CorruptDataError(f"fragment {self._fragment.id}: a hidden row-lineage column contains nulls")
        return array
