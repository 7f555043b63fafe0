"""FragmentGroup: neighboring fragments whose files have the same columns, read as if they were one fragment.

A scan of many small fragments would otherwise plan and decode the pages of every fragment separately, which takes far
longer than reading their rows. The first group of a scan has one fragment, and each further group twice as many, up to
a limit: the first rows arrive soon, and a scan that stops early has opened few files. In an object store, a scan that
does not stop early begins with a large group, because opening many files takes no longer than opening one.

Fragments are read alone if their data files do not suffice to read their rows: if they have overlays, hidden columns,
or blob values. Fragments with files in formats before 2.1, or with local files that are not memory-mapped, are read
alone, too. In object stores, the requests for the files of a group are in flight together.

Source: specific to this library; see :mod:`lance_core.file.file_group`.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from lance_core.errors import InternalError, LanceError, NotFoundError
from lance_core.file.file_group import join_files
from lance_core.io.request_pool import in_parallel
from lance_core.scan.row_reader import RowReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lance_core.blobs.descriptors import BlobDescriptors
    from lance_core.file.fetched_bytes import FetchedBytes
    from lance_core.file.field_source import RowStatistics
    from lance_core.file.read_config import ReadConfig
    from lance_core.file.reader import FileReader
    from lance_core.io.byte_range import ByteRange
    from lance_core.scan.fragment_reader import FragmentReader
    from lance_core.scan.read_plan import ReadPlan
    from lance_core.scan.row_reader import OpenColumns
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment

__all__ = ["FragmentGroup", "are_most", "deleted_rows_of", "joined_readers"]

T = TypeVar("T")

_MAX_FRAGMENTS: Final = 64
_MAX_ROWS: Final = 1024 * 1024
"""Maximum numbers of fragments and of physical rows in a group."""

_MANY_ROWS: Final = 256
"""If more rows than this are taken from each local file, the files are read one by one: each is mapped into memory,
which is cheaper than reading thousands of ranges."""

_MOST: Final = 0.9
"""If rows are taken from at least this share of a group's fragments, the whole group is opened: it is likely to be
requested again, and the session caches the metadata of the group."""

_MAX_REMOTE_FRAGMENTS: Final = 256
_MAX_REMOTE_ROWS: Final = 8 * 1024 * 1024
"""Maximum numbers of fragments and of physical rows in a group in an object store. The rows of each group are
read with several rounds of requests."""


def joined_readers(
    readers: Iterable[FragmentReader],
    fields: Sequence[Field],
    *,
    num_first: int = 1,
    has_limit: bool = False,
    takes_rows: bool = False,
    is_lasting: bool = True,
) -> Iterator[RowReader]:
    """Join neighboring fragments that can be read together.

    Args:
        readers: readers of the fragments, in scan order; consumed as needed.
        fields: the fields that are read.
        num_first: maximum number of fragments in the first group.
        has_limit: whether the caller may stop early.
        takes_rows: whether the caller takes individual rows from all of the fragments.
        is_lasting: whether the same fragments are likely to be read together again.
    """
    if any(leaf.is_blob for top in fields for leaf in top.leaves()):
        yield from readers
        return
    num_wanted = min(num_first, _MAX_FRAGMENTS)
    for key, alike in groupby(readers, lambda reader: reader.group_key(fields)):
        if key is None:
            yield from alike
            continue
        held: list[FragmentReader] = []
        num_rows, max_fragments, max_rows = 0, _MAX_FRAGMENTS, _MAX_ROWS
        for reader in alike:
            if not held and reader.is_remote:
                max_fragments, max_rows = _MAX_REMOTE_FRAGMENTS, _MAX_REMOTE_ROWS
                num_wanted = num_wanted if has_limit else max_fragments
            is_full = num_rows + reader.physical_rows > max_rows and not takes_rows
            if held and (len(held) == num_wanted or is_full):
                yield _joined(held, is_lasting=is_lasting)
                held, num_rows = [], 0
                num_wanted = min(2 * num_wanted, max_fragments)
            held.append(reader)
            num_rows += reader.physical_rows
        yield _joined(held, is_lasting=is_lasting)


def are_most(num_touched: int, num_fragments: int) -> bool:
    """Return whether a take that needs rows of ``num_touched`` fragments should open the files of all fragments."""
    return num_touched >= _MOST * num_fragments


class FragmentGroup(RowReader):
    """Reads several fragments; live and physical rows are numbered across all of them.

    Args:
        readers: readers of the fragments, which have the same :meth:`FragmentReader.group_key`.
        is_lasting: whether the same fragments are likely to be read together again.
    """

    def __init__(self, readers: Sequence[FragmentReader], *, is_lasting: bool) -> None:
        """Initialize without opening any file."""
        self._readers = readers
        self._is_lasting = is_lasting
        self._starts = np.array([0, *accumulate(reader.physical_rows for reader in readers)], np.int64)
        self._deleted: npt.NDArray[np.uint32] | None = None
        self._fetched: dict[str, FetchedBytes] = {}
        self._opened: dict[ReadPlan, list[OpenColumns]] = {}

    @property
    def readers(self) -> Sequence[FragmentReader]:
        """The readers of the fragments."""
        return self._readers

    @property
    def physical_rows(self) -> int:
        """Number of rows, including deleted rows."""
        return int(self._starts[-1])

    @property
    def recorded_bytes(self) -> int:
        """Total size of the data files in bytes; files without a recorded size are not counted."""
        return sum([reader.recorded_bytes for reader in self._readers])

    @property
    def num_live_rows(self) -> int:
        """Number of live rows."""
        return sum([reader.num_live_rows for reader in self._readers])

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return the sorted positions of deleted rows, shape (num_deleted,)."""
        if self._deleted is None:
            starts = self._starts[:-1].astype(np.uint32)
            with_file = [index for index, reader in enumerate(self._readers) if reader.has_deleted_rows]
            deleted = deleted_rows_of([self._readers[index] for index in with_file])
            parts = [rows + starts[index] for index, rows in zip(with_file, deleted, strict=True)]
            self._deleted = np.concatenate(parts) if parts else np.zeros(0, np.uint32)
        return self._deleted

    def by_fragment(self, positions: npt.NDArray[np.int64]) -> Iterator[tuple[Fragment, npt.NDArray[np.int64]]]:
        """Yield each fragment with those of the given ascending physical positions that are in it."""
        edges = np.searchsorted(positions, self._starts)
        for reader, start, low, high in zip(self._readers, self._starts, edges, edges[1:], strict=False):
            yield from reader.by_fragment(positions[low:high] - start)

    def statistics(self, field_ids: Sequence[int]) -> Iterator[RowStatistics]:
        """Yield nothing: files that are joined have no statistics."""
        del field_ids
        yield from ()

    def blobs(self, descriptors: pa.StructArray, field_id: int) -> BlobDescriptors:
        """Raise an error: fragments with blobs are not joined."""
        raise InternalError(
            f"blobs of field {field_id} must be requested from one fragment, not from a group of fragments"
        )

    def runs(
        self, wanted: Schema, start: int, stop: int, config: ReadConfig, max_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Stream live rows; see :meth:`RowReader.runs`. Only the files of the fragments with these rows are read."""
        live_starts = [0, *accumulate(reader.num_live_rows for reader in self._readers)]
        first = int(np.searchsorted(live_starts, start, side="right")) - 1
        last = int(np.searchsorted(live_starts, stop, side="left"))
        if start < stop and last - first < len(self._readers) and not self._fetched:
            part = _joined(self._readers[first:last])
            yield from part.runs(wanted, start - live_starts[first], stop - live_starts[first], config, max_rows)
            return
        num_read = 0
        try:
            for batch in super().runs(wanted, start, stop, config, max_rows):
                num_read += batch.num_rows
                yield batch
        except NotFoundError:
            raise
        except LanceError:
            # Read one fragment after another, so that the error names the file, after the rows before it.
            yield from self._one_by_one(wanted, start + num_read, stop, config, max_rows)

    def take_physical(self, wanted: Schema, rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Read individual rows; see :meth:`RowReader.take_physical`. Only the files with these rows are read."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        touched, places = np.unique(owners, return_inverse=True)
        if not are_most(len(touched), len(self._readers)) and not self._fetched:
            part = _joined([self._readers[index] for index in touched.tolist()])
            lengths = np.diff(self._starts)[touched]
            shifts = np.cumsum(lengths) - lengths - self._starts[touched]
            return part.take_physical(wanted, rows + shifts[places], table)
        if len(rows) > _MANY_ROWS * len(touched) and not self._readers[0].is_remote:
            return self._take_one_by_one(wanted, rows, owners, table)
        try:
            return super().take_physical(wanted, rows, table)
        except LanceError:
            # The error must name the file, and a file without requested rows must not cause one.
            return self._take_one_by_one(wanted, rows, owners, table)

    def open_columns(self, plan: ReadPlan) -> list[OpenColumns]:
        """Open the files that contain the columns of a projection; each result joins one file of every fragment.

        Raises:
            CorruptDataError: a file is damaged, or differs from the manifest.
        """
        opened = self._opened.get(plan)
        if opened is None:
            opened = self._opened[plan] = self._joined_columns(plan)
        if not self._fetched:
            return opened
        fetched = self._fetched
        return [
            (file.reading(fetched[file.path]) if file.path in fetched else file, here, indices)
            for file, here, indices in opened
        ]

    def _joined_columns(self, plan: ReadPlan) -> list[OpenColumns]:
        # No thread has to wait for files whose metadata is in memory.
        is_remote = self._readers[0].is_remote
        known = [reader.loaded_columns(plan) if is_remote else None for reader in self._readers]
        missing = [reader for reader, columns in zip(self._readers, known, strict=True) if columns is None]
        rest = iter(_each(missing, lambda reader: reader.load_columns(plan)))
        joined = []
        for columns in zip(*(next(rest) if each is None else each for each in known), strict=True):
            _, here, indices = columns[0]
            joined.append((join_files([file for file, _, _ in columns], is_lasting=self._is_lasting), here, indices))
        return joined

    def fetch(self, plans: Sequence[ReadPlan], config: ReadConfig) -> None:
        """Begin to fetch all pages of the columns of some projections. Later reads of these columns use these pages."""
        files: dict[str, FileReader] = {}
        ranges: dict[str, list[ByteRange]] = {}
        for plan in plans:
            for file, here, columns in self.open_columns(plan):
                files[file.path] = file
                ranges.setdefault(file.path, []).extend(file.page_ranges(here.fields, columns, config))
        self._fetched = {path: file.fetch(ranges[path]) for path, file in files.items()}

    def stop_fetching(self) -> None:
        """Send no further requests for the columns that are being fetched."""
        for fetched in self._fetched.values():
            fetched.ended()

    def row_column(self, field: Field, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of a system column that is not stored in a data file, for some physical positions."""
        order = None if bool((positions[1:] >= positions[:-1]).all()) else np.argsort(positions, kind="stable")
        ascending = positions if order is None else positions[order]
        edges = np.searchsorted(ascending, self._starts)
        parts = [
            reader.row_column(field, ascending[low:high] - start)
            for reader, start, low, high in zip(self._readers, self._starts, edges, edges[1:], strict=False)
            if low < high
        ]
        values = pa.concat_arrays(parts) if parts else pa.array([], pa.uint64())
        return values if order is None else values.take(pa.array(np.argsort(order)))

    def _take_one_by_one(
        self, wanted: Schema, rows: npt.NDArray[np.int64], owners: npt.NDArray[np.int64], table: Schema
    ) -> pa.RecordBatch:
        order = np.argsort(owners, kind="stable")
        edges = np.searchsorted(owners[order], np.arange(len(self._readers) + 1))
        batches = [
            reader.take_physical(wanted, rows[order[low:high]] - start, table)
            for reader, start, low, high in zip(self._readers, self._starts, edges, edges[1:], strict=False)
            if low < high
        ]
        batch = pa.concat_batches(batches)
        return batch if bool((owners[1:] >= owners[:-1]).all()) else batch.take(pa.array(np.argsort(order)))

    def _one_by_one(
        self, wanted: Schema, start: int, stop: int, config: ReadConfig, max_rows: int
    ) -> Iterator[pa.RecordBatch]:
        for reader in self._readers:
            num_rows = reader.num_live_rows
            yield from reader.runs(wanted, max(0, start), min(stop, num_rows), config, max_rows)
            start, stop = start - num_rows, stop - num_rows


def deleted_rows_of(readers: Sequence[FragmentReader]) -> list[npt.NDArray[np.uint32]]:
    """Return the sorted positions of the deleted rows of each fragment."""
    return _each(readers, lambda reader: reader.deleted_rows())


def _each(readers: Sequence[FragmentReader], read: Callable[[FragmentReader], T]) -> list[T]:
    """Call a function for each fragment; if the store is remote, the requests of all calls are in flight together."""
    if readers and readers[0].is_remote:
        return in_parallel([partial(read, reader) for reader in readers])
    return list(map(read, readers))


def _joined(readers: Sequence[FragmentReader], *, is_lasting: bool = False) -> RowReader:
    return readers[0] if len(readers) == 1 else FragmentGroup(readers, is_lasting=is_lasting)
