"""OpenFiles: opens the files of one fragment when they are first needed, and keeps them open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError
from lance_core.file.session import UNCACHED, Session
from lance_core.schema.field import Field
from lance_core.table.deletion_vector import read_deletion_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_core.file.reader import FileReader
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.data_file import DataFile
    from lance_core.table.fragment import Fragment

__all__ = ["OpenFiles", "one_array"]


class OpenFiles:
    """Opens the files of one fragment. It does not refer to its users, so no reference cycle keeps the files open.

    Args:
        fragment: the fragment.
        locator: locates the files of the fragment.
        session: opens the files, and keeps them open for other readers.
    """

    __slots__ = ("_deleted", "_files", "_fragment", "_locator", "_open", "_session")

    def __init__(self, fragment: Fragment, locator: FileLocator, session: Session = UNCACHED) -> None:
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
        return np.asarray(self.without_nulls(one_array(table.column(0))))

    def without_nulls(self, array: pa.Array) -> pa.Array:
        """Return a hidden column, after checking that it has no nulls."""
        if array.null_count:
            raise CorruptDataError(f"fragment {self._fragment.id}: a hidden row-lineage column contains nulls")
        return array


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as a single array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
