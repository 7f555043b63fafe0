"""FileGroup: several data files with the same columns, read as if they were one file.

Rows, pages and bytes of the files are numbered one after another::

    rows     |  file 0   |  file 1  | …
    pages    |  0  1  2  |  3  4    | …          of each column
    bytes    |  file 0   |   gap   |  file 1  |   gap   | …

The gaps are so large that no request covers bytes of two files. A reader of the group plans all files at once, and
decodes neighboring pages that are encoded alike in one step, so a small file costs little more than its bytes.

Source: own design; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.page_cache import PageCache
from lance_core.file.reader import FileReader
from lance_core.io.byte_range import ByteRange
from lance_core.io.request_pool import in_parallel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.file.file_bytes import Read
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.io.object_store import ReadCosts
    from lance_core.schema.field import Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileGroup", "join_files"]

_GAP_BYTES: Final = 1024 * 1024


def join_files(readers: Sequence[FileReader]) -> FileReader:
    """Return a reader for all rows of some files, in order.

    Args:
        readers: files of structural formats, with the same fields in the same columns; at least one.
    """
    if len(readers) == 1:
        return readers[0]
    group = FileGroup([reader.metadata for reader in readers])
    return FileReader(group, group)


class FileGroup:
    """The metadata and the bytes of a group of files. Safe for concurrent use by several threads.

    Args:
        files: the metadata of the files.

    Attributes:
        path: names the group in messages.
        num_bytes: number of bytes of the group, including gaps.
        num_rows: number of rows of all files.
        page_states: the information about pages that is cached for each file, keyed by the pages of the group.
    """

    is_whole: Final = False
    """Reading makes requests."""

    is_many_files: Final = True
    """Each call of :meth:`read` opens the files that it reads."""

    is_mapped: Final = False
    """The group is not one range of memory, although each file may be."""

    num_bytes_held: Final = 0
    memory: Final = 0
    """The files account for their memory themselves."""

    def __init__(self, files: Sequence[MetadataReader]) -> None:
        """Number the rows and the bytes of the files."""
        self._files = files
        *self._starts, self.num_bytes = accumulate((file.num_bytes + _GAP_BYTES for file in files), initial=0)
        *self._first_rows, self.num_rows = accumulate((file.num_rows for file in files), initial=0)
        self.path = f"{files[0].path} and {len(files) - 1} other files"
        self.page_states = _GroupPages([file.page_states for file in files])

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the files."""
        return self._files[0].version

    @property
    def read_costs(self) -> ReadCosts:
        """Costs of reading from the store that contains the files."""
        return self._files[0].file_bytes.read_costs

    @property
    def schema(self) -> Schema:
        """The schema of the first file."""
        return self._files[0].schema

    @property
    def metadata_start(self) -> int:
        """The end of the group: its metadata is that of the files."""
        return self.num_bytes

    def columns(self, indices: Sequence[int]) -> list[ColumnMetadata]:
        """Return the metadata of some columns: that of all files, in order.

        Raises:
            CorruptDataError: a file has a different number of slots per row in the column, or damaged metadata.
        """
        of_files = [file.columns(indices) for file in self._files]
        return [self._joined(index, [columns[place] for columns in of_files]) for place, index in enumerate(indices)]

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that each file has the columns that the manifest lists for it."""
        for file in self._files:
            file.check_columns(columns)

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the group, each of which is within one file.

        This makes one call for each file; if the store is remote, their requests are in flight together.
        """
        members: dict[int, list[int]] = {}
        for place, wanted in enumerate(ranges):
            members.setdefault(bisect_right(self._starts, wanted.start) - 1, []).append(place)
        calls = [
            partial(self._read_file, index, [ranges[place] for place in places]) for index, places in members.items()
        ]
        of_files = in_parallel(calls) if self.read_costs.is_remote else [call() for call in calls]
        found: dict[int, pa.Buffer] = {}
        for places, buffers in zip(members.values(), of_files, strict=True):
            found.update(zip(places, buffers, strict=True))
        return [found[place] for place in range(len(ranges))]

    def scattered(self) -> Read:
        """Return :meth:`read`, which reads small parts as they are."""
        return self.read

    def release(self, stop: int) -> bool:
        """Release nothing: the bytes in memory belong to the files."""
        del stop
        return False

    def _read_file(self, index: int, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        start = self._starts[index]
        return self._files[index].file_bytes.read(
            [ByteRange(wanted.start - start, wanted.stop - start) for wanted in ranges]
        )

    def _joined(self, index: int, columns: Sequence[ColumnMetadata]) -> ColumnMetadata:
        pages: list[Page] = []
        first_pages = []
        first_length, first_rows = columns[0].length, self._files[0].num_rows
        for file, start, first_row, column in zip(self._files, self._starts, self._first_rows, columns, strict=True):
            # The numbers of slots of all files add up to that of the group only if those of every file are right.
            if column.length * first_rows != first_length * file.num_rows:
                raise CorruptDataError(
                    f"{file.path}: column {index} has {column.length} slots for {file.num_rows} rows",
                    path=file.path,
                    column=index,
                )
            first_pages.append(len(pages))
            pages += [_shifted(page, start, first_row) for page in column.pages if page.length]
        self.page_states.first_pages[index] = first_pages
        return ColumnMetadata(pages=tuple(pages))


def _shifted(page: Page, start: int, first_row: int) -> Page:
    return Page(
        buffers=tuple([ByteRange(buffer.start + start, buffer.stop + start) for buffer in page.buffers]),
        length=page.length,
        first_row=page.first_row + first_row,
        encoding=page.encoding,
    )


class _GroupPages(PageCache[Any]):
    """The caches of several files, as one.

    Args:
        caches: the cache of each file.

    Attributes:
        first_pages: for each column, the index of the first page of each file among the pages of the group.
    """

    __slots__ = ("_caches", "first_pages")

    def __init__(self, caches: Sequence[PageCache[Any]]) -> None:
        self._caches = caches
        self.first_pages: dict[int, list[int]] = {}

    def get(self, key: tuple[int, int]) -> Any | None:
        cache, key = self._of_file(key)
        return cache.get(key)

    def put(self, key: tuple[int, int], value: Any, num_bytes: int) -> None:
        cache, key = self._of_file(key)
        cache.put(key, value, num_bytes)

    def resize_owner(self, owner: object, num_bytes: int) -> None:
        """Do nothing: no cache contains the group."""

    def _of_file(self, key: tuple[int, int]) -> tuple[PageCache[Any], tuple[int, int]]:
        column, page = key
        first_pages = self.first_pages[column]
        # Files without rows have no pages; the last of the files that begin here has the page.
        index = bisect_right(first_pages, page) - 1
        return self._caches[index], (column, page - first_pages[index])
