"""RowReader: reads the live rows of one fragment, or of several small fragments together, from data files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.io.read_costs import MEMORY_COSTS
from lance_core.scan.fetch_plan import RowCosts
from lance_core.scan.output_schema import batch_without_columns
from lance_core.scan.read_plan import ReadPlan, assemble_column
from lance_core.scan.row_columns import ROW_COLUMN_IDS
from lance_core.scan.scan_plan import live_to_physical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from lance_core.blobs.descriptors import BlobDescriptors
    from lance_core.file.field_source import RowStatistics
    from lance_core.file.read_config import ReadConfig
    from lance_core.file.reader import FileReader
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment

__all__ = ["OpenColumns", "RowReader", "one_array", "positions_of", "slices"]

OpenColumns: TypeAlias = "tuple[FileReader, Schema, Mapping[int, int]]"
"""An open file, the part of the schema to read from it, and a map from field ids to column indices."""

_Parts: TypeAlias = "dict[int, list[tuple[Field, pa.Array]]]"
"""Maps the id of each top-level field to the parts of the field that were read from the files."""


class RowReader(ABC):
    """Reads rows that are numbered in two ways, as in :mod:`~lance_core.scan.scan_plan`: live and physical."""

    @property
    @abstractmethod
    def physical_rows(self) -> int:
        """Number of rows, including deleted rows."""

    @property
    @abstractmethod
    def recorded_bytes(self) -> int:
        """Total size of the data files in bytes; files without a recorded size are not counted."""

    @property
    @abstractmethod
    def num_live_rows(self) -> int:
        """Number of live rows."""

    @abstractmethod
    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return the sorted positions of deleted rows, shape (num_deleted,)."""

    @abstractmethod
    def by_fragment(self, positions: npt.NDArray[np.int64]) -> Iterator[tuple[Fragment, npt.NDArray[np.int64]]]:
        """Yield each fragment with those of the given ascending physical positions that are in it."""

    @abstractmethod
    def statistics(self, field_ids: Sequence[int]) -> Iterator[RowStatistics]:
        """Yield the recorded statistics of some fields."""

    @abstractmethod
    def blobs(self, descriptors: pa.StructArray, field_id: int) -> BlobDescriptors:
        """Return the locations of the values of a blob column."""

    @abstractmethod
    def open_columns(self, plan: ReadPlan) -> list[OpenColumns]:
        """Open the files that contain the columns of a projection."""

    @abstractmethod
    def row_column(self, field: Field, positions: npt.NDArray[np.int64]) -> pa.Array:
        """Return the values of a system column that is not stored in a data file, for some physical positions."""

    def _lay_over(self, wanted: Schema, arrays: list[pa.Array], rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns with the values of overlays, if there are any."""
        del wanted, rows
        return arrays

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
        return self.runs(wanted, start, stop, config, config.batch_rows)

    def runs(
        self, wanted: Schema, start: int, stop: int, config: ReadConfig, max_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Like :meth:`batches`, but yield up to ``max_rows`` rows together if they have been decoded together."""
        if start >= stop:
            return
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
            yield from slices(run, max_rows)
            # Release these before the next pages are decoded.
            del parts, arrays, run

    def row_costs(self, wanted: Schema, table: Schema) -> RowCosts:
        """Return the quantities that determine how long it takes to read rows; for the arguments, see :meth:`take`."""
        opened = self.open_columns(ReadPlan.of(wanted, table))
        num_bytes = sum(file.stored_bytes(here.fields, columns) for file, here, columns in opened)
        num_leaves = sum(len(here.leaves()) for _, here, _ in opened)
        costs = opened[0][0].read_costs if opened else MEMORY_COSTS
        return RowCosts(num_leaves, num_bytes / max(1, self.physical_rows), costs)

    def take(self, wanted: Schema, live_rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Read individual live rows, in the requested order; rows may repeat.

        Args:
            wanted: the projection, with the table's field ids.
            live_rows: indices among the live rows.
            table: the whole schema.
        """
        return self.take_physical(wanted, live_to_physical(self.deleted_rows(), live_rows), table)

    def take_physical(self, wanted: Schema, rows: npt.NDArray[np.int64], table: Schema) -> pa.RecordBatch:
        """Read individual rows by their positions in the data files, including deleted rows; see :meth:`take`."""
        plan = ReadPlan.of(wanted, table)
        parts: _Parts = {}
        for file, here, columns in self.open_columns(plan):
            rows_here = file.take(here.fields, rows, column_indices=columns)
            _collect(parts, here, (one_array(column) for column in rows_here.columns))
        return plan.output.batch(self._assemble(plan.wanted, parts, rows), len(rows))

    def _physical_runs(self, plan: ReadPlan, start: int, stop: int, config: ReadConfig) -> Iterator[tuple[_Parts, int]]:
        """Yield the parts of the columns, and their number of rows, for consecutive ranges of rows ``[start, stop)``.

        If there is only one file, the ranges follow its pages, which avoids copies; several files are read in lockstep.
        """
        sources = self.open_columns(plan)
        if not sources:
            for position in range(start, stop, config.batch_rows):
                yield {}, min(config.batch_rows, stop - position)
            return
        config = _bounded(config, sources)
        streams = [
            file.read_batches(
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

    def _assemble(self, wanted: Schema, parts: _Parts, rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns for rows at the given physical positions."""
        arrays = []
        for top in wanted.fields:
            if top.id not in ROW_COLUMN_IDS:
                arrays.append(assemble_column(top, parts.get(top.id, ()), len(rows)))
            elif top.id in parts:
                arrays.append(self._without_nulls(parts[top.id][0][1]))
            else:
                arrays.append(self.row_column(top, positions_of(rows)))
        return self._lay_over(wanted, arrays, rows)

    def _without_nulls(self, array: pa.Array) -> pa.Array:
        """Return a hidden column, after checking that it has no nulls."""
        return array


def _bounded(config: ReadConfig, sources: Sequence[OpenColumns]) -> ReadConfig:
    """Return the settings with fewer rows per batch if a batch would exceed the maximum number of bytes."""
    if config.batch_bytes is None:
        return config
    known = [file.rows_within(config.batch_bytes, here.fields, columns) for file, here, columns in sources]
    # Rows of several files share the maximum.
    rows = min([each // len(sources) for each in known if each is not None], default=config.batch_rows)
    return config if rows >= config.batch_rows else replace(config, batch_rows=max(1, rows))


def _collect(parts: _Parts, here: Schema, arrays: Iterable[pa.Array]) -> None:
    for top, array in zip(here.fields, arrays, strict=True):
        parts.setdefault(top.id, []).append((top, array))


def positions_of(rows: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return row numbers as an array."""
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


def slices(batch: pa.RecordBatch, max_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch as non-empty batches of at most ``max_rows`` rows."""
    if 0 < batch.num_rows <= max_rows:
        yield batch
        return
    for at in range(0, batch.num_rows, max_rows):
        yield batch.slice(at, max_rows)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as a single array."""
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
