"""Rows → data files → new fragments.

One fragment is one data file. The next file is started after ``max_rows_per_file`` rows exactly, or when the current
one has reached ``max_bytes_per_file`` by the file writer's estimate. Files appear under their names whole; when
anything fails, files of this call are removed again, because no version refers to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.file.writer import DEFAULT_DATA_CACHE_BYTES, DEFAULT_MAX_PAGE_BYTES, DEFAULT_MAX_ROWS_PER_GROUP
from lance_core.public.arguments import whole_number
from lance_core.table.base_paths import DataPlace
from lance_core.table.paths import DATA_DIRECTORY
from lance_core.write.new_data_file import NewDataFile, remove_placed_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.versions import LanceFileVersion
    from lance_core.write.new_data_file import BlobSettings

__all__ = ["DEFAULT_MAX_BYTES_PER_FILE", "DEFAULT_MAX_ROWS_PER_FILE", "FileLimits", "write_data_files"]

DEFAULT_MAX_ROWS_PER_FILE: Final = 1024 * 1024
DEFAULT_MAX_BYTES_PER_FILE: Final = 90 * 1024 * 1024 * 1024
"""Both as the reference has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """When to start the next file, and how much to collect before a page is written.

    Attributes:
        max_rows: rows of a file; exact.
        max_bytes: bytes of a file; reached, then the next file is started.
        column_cache_bytes: what a column collects before it writes a page.
        max_page_bytes: upper bound of a page.
        max_rows_per_group: rows of a batch in files of format 0.1.
    """

    max_rows: int
    max_bytes: int
    column_cache_bytes: int
    max_page_bytes: int
    max_rows_per_group: int = DEFAULT_MAX_ROWS_PER_GROUP

    @classmethod
    def of(
        cls,
        *,
        max_rows_per_file: int | None,
        max_bytes_per_file: int | None,
        data_cache_bytes: int | None,
        max_page_bytes: int | None,
        num_columns: int,
        max_rows_per_group: int | None = None,
    ) -> Self:
        """From the arguments of the reference, where ``data_cache_bytes`` is shared by the top-level columns.

        None stands for the default of each.

        Raises:
            InvalidInputError: a limit is not positive.
            InvalidTypeError: a limit is not a whole number.
        """
        limits = (
            ("max_rows_per_file", max_rows_per_file),
            ("max_bytes_per_file", max_bytes_per_file),
            ("data_cache_bytes", data_cache_bytes),
            ("max_page_bytes", max_page_bytes),
            ("max_rows_per_group", max_rows_per_group),
        )
        for name, value in limits:
            if value is not None and whole_number(name, value) < 1:
                raise InvalidInputError(f"{name} must be at least 1, found {value}")
        max_bytes = DEFAULT_MAX_BYTES_PER_FILE if max_bytes_per_file is None else max_bytes_per_file
        total = DEFAULT_DATA_CACHE_BYTES * num_columns if data_cache_bytes is None else data_cache_bytes
        # A cache larger than a file would make every file a single page per column.
        share = min(total, max_bytes) // max(num_columns, 1)
        return cls(
            max_rows=DEFAULT_MAX_ROWS_PER_FILE if max_rows_per_file is None else max_rows_per_file,
            max_bytes=max_bytes,
            column_cache_bytes=share,
            max_page_bytes=DEFAULT_MAX_PAGE_BYTES if max_page_bytes is None else max_page_bytes,
            max_rows_per_group=DEFAULT_MAX_ROWS_PER_GROUP if max_rows_per_group is None else max_rows_per_group,
        )


def write_data_files(
    batches: Iterable[pa.RecordBatch],
    *,
    store: ObjectStore,
    root: str,
    schema: Schema,
    file_version: LanceFileVersion,
    limits: FileLimits,
    dictionaries: Mapping[int, pa.Array] | None = None,
    file_token: str | None = None,
    blobs: BlobSettings | None = None,
    places: Sequence[DataPlace] = (),
) -> list[Fragment]:
    """Write batches as new fragments of a table.

    Args:
        batches: the rows; consumed as a stream.
        store: the store of the table.
        root: the table's path in it.
        schema: the columns to write, with the table's field ids.
        file_version: format of the files.
        limits: when to start the next file.
        dictionaries: field id -> values that dictionary columns start with, in format 0.1.
        file_token: 16 hex digits that end every file's stem.
        blobs: how values of blob columns are written.
        places: the directories that the files go to in turn; none for ``data/`` of the table.

    Returns:
        One fragment per file, with id 0; none when there are no rows.

    Raises:
        SchemaMismatchError: a batch does not fit the schema.
        StorageError: the store failed.
    """
    files = _Files(store, root, schema, file_version, limits, dictionaries, file_token, blobs, places)
    try:
        for batch in batches:
            files.write(batch)
        return files.finish()
    except BaseException:
        files.abort()
        raise


class _Files:
    """The files of one call: finished ones, and the one being written."""

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        schema: Schema,
        file_version: LanceFileVersion,
        limits: FileLimits,
        dictionaries: Mapping[int, pa.Array] | None,
        file_token: str | None,
        blobs: BlobSettings | None,
        places: Sequence[DataPlace],
    ) -> None:
        self._store = store
        self._root = root
        self._schema = schema
        self._file_version = file_version
        self._limits = limits
        self._dictionaries = dictionaries
        self._file_token = file_token
        self._blobs = blobs
        self._finished: list[Fragment] = []
        self._places = cycle(places or (DataPlace(store, store.join(root, DATA_DIRECTORY)),))
        self._names: list[tuple[DataPlace, str]] = []
        self._current: NewDataFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            file = self._open()
            num_rows = self._rows_that_fit(batch, file)
            file.write(batch.slice(0, num_rows))
            batch = batch.slice(num_rows)
            if file.num_rows >= self._limits.max_rows or file.num_bytes >= self._limits.max_bytes:
                self._close()

    def finish(self) -> list[Fragment]:
        self._close()
        return self._finished

    def abort(self) -> None:
        try:
            if self._current is not None:
                self._current.abort()
                self._current = None
        finally:
            remove_placed_files(self._names)

    def _rows_that_fit(self, batch: pa.RecordBatch, file: NewDataFile) -> int:
        num_rows: int = min(batch.num_rows, self._limits.max_rows - file.num_rows)
        left_bytes = self._limits.max_bytes - file.num_bytes
        batch_bytes = batch.nbytes
        if batch_bytes > left_bytes:
            num_rows = min(num_rows, max(1, batch.num_rows * left_bytes // int(batch_bytes)))
        return num_rows

    def _open(self) -> NewDataFile:
        if self._current is None:
            place = next(self._places)
            self._current = NewDataFile(
                self._store,
                self._root,
                self._schema,
                self._file_version,
                column_cache_bytes=self._limits.column_cache_bytes,
                max_page_bytes=self._limits.max_page_bytes,
                max_rows_per_group=self._limits.max_rows_per_group,
                dictionaries=self._dictionaries,
                file_token=self._file_token,
                blobs=self._blobs,
                place=place,
            )
            self._names.append((place, self._current.name))
        return self._current

    def _close(self) -> None:
        if self._current is not None:
            self._finished.append(self._current.finish())
            self._dictionaries = self._current.dictionaries
            self._current = None
