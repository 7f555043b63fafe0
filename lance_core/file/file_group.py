"""FileGroup: several data files with the same columns, read as if they were one file.

Rows, pages, and bytes are numbered consecutively across the files::

    rows     |  file 0   |  file 1  | …
    pages    |  0  1  2  |  3  4    | …          of each column
    bytes    |  file 0   |   gap   |  file 1  |   gap   | …

The gaps are so large that no request covers bytes of two files. A reader of the group plans all files at once, and
decodes neighboring pages with the same encoding in one step, so that reading a small file costs little more than
reading its bytes. The session caches the numbering of the pages, and the plans of readers, for later readers of the
same files.

Source: specific to this library; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.file_bytes import Part
from lance_core.file.page_cache import PageCache
from lance_core.file.projections import Projections
from lance_core.file.reader import FileReader
from lance_core.io.byte_range import ByteRange
from lance_core.io.request_pool import results_of
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pyarrow as pa

    from lance_core.file.field_source import FieldSource
    from lance_core.file.file_bytes import Read
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.io.read_costs import ReadCosts
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileGroup", "join_files"]

_GAP_BYTES: Final = 1024 * 1024

_PAGE_BYTES: Final = 500
"""Approximate memory in bytes of a page of a group."""


def join_files(readers: Sequence[FileReader], *, is_lasting: bool) -> FileReader:
    """Return a reader for all rows of some files, in order.

    Args:
        readers: files of structural formats, with the same fields in the same columns; at least one.
        is_lasting: whether the same files are likely to be read together again.
    """
    if len(readers) == 1:
        return readers[0]
    group = FileGroup([reader.metadata for reader in readers], is_lasting=is_lasting)
    return FileReader(group, group, projections=group.known)


class FileGroup:
    """The metadata and the bytes of a group of files. Safe for concurrent use by several threads.

    Args:
        files: the metadata of the files.
        is_lasting: whether the session caches information about the group.

    Attributes:
        path: name of the group in messages.
        num_bytes: number of bytes of the group, including gaps.
        num_rows: number of rows of all files.
        known: the information about the group that the session caches.
        page_states: the information about pages that is cached for each file, keyed by the pages of the group.
    """

    is_whole: Final = False
    """False: the files are not held in memory as a whole."""

    is_many_files: Final = True
    """True: each call to :meth:`read` opens the files that it reads."""

    is_mapped: Final = False
    """False: the group is not mapped as one range of memory, although each file may be."""

    num_bytes_held: Final = 0
    memory: Final = 0
    """0: the memory of the files and of the cached information about the group is counted elsewhere."""

    def __init__(self, files: Sequence[MetadataReader], *, is_lasting: bool) -> None:
        """Number the rows and the bytes of the files."""
        self._files = files
        *self._starts, self.num_bytes = accumulate((file.num_bytes + _GAP_BYTES for file in files), initial=0)
        *self._first_rows, self.num_rows = accumulate((file.num_rows for file in files), initial=0)
        self.path = f"{files[0].path} and {counted(len(files) - 1, 'other file')}"
        self.known = _KnownGroup.of([file.page_states for file in files], is_lasting=is_lasting)
        self.page_states = self.known.pages

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
        """The end of the group: a group has no metadata of its own."""
        return self.num_bytes

    def columns(self, indices: Sequence[int]) -> list[ColumnMetadata]:
        """Return the metadata of some columns, combined from all files in order.

        Raises:
            CorruptDataError: a file has a different number of slots per row in the column, or damaged metadata.
        """
        known = self.known.columns
        missing = [index for index in indices if index not in known]
        of_files = [file.columns(missing) for file in self._files] if missing else []
        for place, index in enumerate(missing):
            known[index] = self._joined(index, [columns[place] for columns in of_files])
        return [known[index] for index in indices]

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that each file has the columns that the manifest lists for it."""
        for file in self._files:
            file.check_columns(columns)

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the group, each of which is within one file.

        One call is made for each file; if the store is remote, the requests for all files are in flight together.
        """
        members = self._by_file(ranges)
        reads = [
            (self._files[index].file_bytes, [ranges[place].shifted(-self._starts[index]) for place in places])
            for index, places in members.items()
        ]
        if self.read_costs.is_remote and len(reads) > 1:
            of_files = results_of([file.begin(of_file) for file, of_file in reads])
        else:
            of_files = [file.read(of_file) for file, of_file in reads]
        found: dict[int, pa.Buffer] = {}
        for places, buffers in zip(members.values(), of_files, strict=True):
            found.update(zip(places, buffers, strict=True))
        return [found[place] for place in range(len(ranges))]

    def parts(self, ranges: Sequence[ByteRange]) -> list[Part]:
        """Divide ranges of the group into parts, as their files do."""
        parts = []
        for index, places in self._by_file(ranges).items():
            start = self._starts[index]
            of_file = self._files[index].file_bytes.parts([ranges[place].shifted(-start) for place in places])
            parts += [Part([each.shifted(start) for each in part.ranges], part.begin) for part in of_file]
        return parts

    def scattered(self) -> Read:
        """Return :meth:`read`, which requests exactly the given ranges."""
        return self.read

    def release(self, stop: int) -> bool:
        """Release nothing: the bytes in memory belong to the files."""
        del stop
        return False

    def _by_file(self, ranges: Sequence[ByteRange]) -> dict[int, list[int]]:
        """Return a map from the index of each file to the positions of its ranges in the given list."""
        members: dict[int, list[int]] = {}
        for place, wanted in enumerate(ranges):
            members.setdefault(bisect_right(self._starts, wanted.start) - 1, []).append(place)
        return members

    def _joined(self, index: int, columns: Sequence[ColumnMetadata]) -> ColumnMetadata:
        pages: list[Page] = []
        first_pages = []
        first_length, first_rows = columns[0].length, self._files[0].num_rows
        for file, start, first_row, column in zip(self._files, self._starts, self._first_rows, columns, strict=True):
            # The numbers of slots of all files add up to that of the group only if those of every file are right.
            if column.length * first_rows != first_length * file.num_rows:
                raise CorruptDataError(
                    f"{file.path}: column {index} has {counted(column.length, 'slot')} for "
                    f"{counted(file.num_rows, 'row')}, but {counted(first_length, 'slot')} for "
                    f"{counted(first_rows, 'row')} in {self._files[0].path}",
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
    """The page caches of several files, with the interface of a single cache.

    Args:
        caches: the cache of each file.

    Attributes:
        first_pages: for each column, the index of the first page of each file among the pages of the group.
    """

    __slots__ = ("_caches", "first_pages")

    def __init__(self, caches: Sequence[PageCache[Any]]) -> None:
        self._caches = caches
        self.first_pages: dict[int, list[int]] = {}

    def get(self, key: Hashable) -> Any | None:
        cache, key = self._of_file(key)
        return cache.get(key)

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None:
        cache, key = self._of_file(key)
        cache.put(key, value, num_bytes)

    def resize_owner(self, owner: object, num_bytes: int) -> None:
        """Do nothing: no cache contains the group."""

    def _of_file(self, key: Any) -> tuple[PageCache[Any], tuple[int, int]]:
        column, page = key
        first_pages = self.first_pages[column]
        # Files without rows have no pages; the last of the files that begin here has the page.
        index = bisect_right(first_pages, page) - 1
        return self._caches[index], (column, page - first_pages[index])


class _KnownGroup(Projections):
    """The information about a group that the session caches: the metadata of columns, and the sources of readers.

    Args:
        caches: the cache of each file.
        key: the key of this object in the first of the caches; None if the object is not cached.

    Attributes:
        pages: the caches of all files.
        columns: the metadata of columns.
    """

    __slots__ = ("__weakref__", "_keeper", "_key", "columns", "pages")

    def __init__(self, caches: Sequence[PageCache[Any]], key: Hashable = None) -> None:
        super().__init__()
        self._keeper = caches[0]
        self._key = key
        self.pages = _GroupPages(caches)
        self.columns: dict[int, ColumnMetadata] = {}

    @classmethod
    def of(cls, caches: Sequence[PageCache[Any]], *, is_lasting: bool) -> _KnownGroup:
        """Return the cached information about the group, or a new, empty object if none is cached."""
        owners = tuple([cache.owner for cache in caches])
        if not is_lasting or None in owners:
            # A file that is opened without a session has a cache of its own, which this object would keep in memory.
            return cls(caches)
        kept: _KnownGroup | None = caches[0].get(owners)
        return kept or cls(caches, owners)

    @property
    def memory(self) -> int:
        """Approximate memory in bytes, without the metadata of the files."""
        return super().memory + _PAGE_BYTES * sum([len(column.pages) for column in self.columns.values()])

    def add(
        self, fields: Sequence[Field], column_indices: Mapping[int, int] | None, sources: list[FieldSource]
    ) -> None:
        """Keep the sources of some fields; see :meth:`Projections.add`."""
        super().add(fields, column_indices, sources)
        if self._key is not None:
            self._keeper.resize(self._key, self, self.memory)
