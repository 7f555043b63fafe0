"""Executes a task: reads the live rows of its fragments in order, and writes them to new files.

Rows are streamed: at any time, only a few decoded pages and the pages being written are in memory, regardless of the
size of the fragments. Neighboring small fragments are read as if they were one. If the execution fails, the files that
it has finished are removed; no version refers to them.

Blobs are rewritten: their values are loaded in place of the descriptors, a bounded number of bytes at a time.
References to values outside the table remain references.

If an index refers to rows by address, the result lists the addresses of the rows that were read, so that pylance can
remap its indices: in ascending order, the n-th address is the old address of the n-th row in the new files.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.output_files import OutputFiles
from lance_core.compaction.result import CompactionMetrics, RewriteResult, content_key
from lance_core.errors import InvalidInputError
from lance_core.file.external_values import ExternalValues
from lance_core.file.read_config import ReadConfig
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.scan.loaded_blobs import with_loaded_blobs
from lance_core.scan.scan_source import ScanSource
from lance_core.table.base_paths import reference_directories
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.row_ids import carry_row_ids
from lance_core.write.target import known_dictionaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.compaction.options import CompactionSettings
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.scan.row_reader import RowReader
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["execute_task", "needs_row_addresses", "read_ahead", "serialize_row_addresses"]

_BATCH_BYTES: Final = 8 * 1024 * 1024
_MAX_BATCH_ROWS: Final = 64 * 1024
"""Maximum number of rows in a batch."""

_BATCHES_PER_TARGET: Final = 8
"""Minimum number of batches in a file with a byte limit. The limit is checked only at the end of a batch."""

_PROBES: Final = (1, 64)
"""Row positions at which the task's first reads stop. These short reads measure the
size of rows in memory: stored sizes are a poor estimate for rows that compress well."""

_TOO_LARGE: Final = 4
"""If a batch exceeds its target size by this factor, the remaining rows are read in smaller batches."""

_BATCHES_AHEAD: Final = 3
_AHEAD_BYTES: Final = 64 * 1024 * 1024
"""Maximum number of stored bytes to read ahead of decoding; fragments of at most this size are read with one call per
file."""

_AHEAD_MIN_BYTES: Final = 16 * 1024 * 1024
"""Minimum stored size in bytes of a task for which a thread reads ahead."""


def execute_task(
    view: TableView,
    read_version: int,
    fragments: Sequence[FragmentMetadata],
    settings: CompactionSettings,
    file_token: str | None = None,
) -> RewriteResult:
    """Rewrite fragments; see :meth:`~lance_core.compaction.plan.CompactionTask.execute`."""
    source = view if view.version == read_version else view.at(read_version)
    manifest = source.counted_manifest
    check_rewritable(manifest, settings)
    rows = _Rows(source, _find(manifest, fragments), settings)
    files = OutputFiles(
        source.locator.data_place(None),
        source.schema,
        output_version(manifest, settings),
        settings,
        rows.num_rows,
        known_dictionaries(manifest),
        file_token,
        ExternalValues(reference_directories(manifest.base_paths), allow_outside=True),
    )
    try:
        for batch in rows.batches():
            files.write(batch)
        written = files.finish()
        if manifest.has_stable_row_ids:
            written = carry_row_ids(rows.sources(), written, hidden_columns_of(source.locator, source.session))
        new_fragments = [fragment_from_record(fragment) for fragment in written]
        return RewriteResult(
            read_version=read_version,
            original_fragments=list(fragments),
            new_fragments=new_fragments,
            metrics=CompactionMetrics.of(fragments, new_fragments),
            row_addrs=serialize_row_addresses(rows.sources()) if needs_row_addresses(manifest) else None,
        )
    except BaseException:
        files.abort()
        raise


class _Rows:
    """The live rows of a task's fragments, in order."""

    def __init__(self, source: TableView, fragments: list[Fragment], settings: CompactionSettings) -> None:
        self._schema = source.schema
        self._scanned = ScanSource(source.schema, fragments, source.locator, session=source.session)
        self._fragments = fragments
        self._batch_rows = settings.batch_size
        self._batch_bytes = _BATCH_BYTES
        if settings.byte_target is not None:
            self._batch_bytes = min(_BATCH_BYTES, settings.byte_target // _BATCHES_PER_TARGET)
        self.num_rows = self._scanned.num_live_rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; if there are many, a thread reads ahead."""
        num_bytes = sum(file.file_size_bytes for fragment in self._fragments for file in fragment.message.files)
        if num_bytes < _AHEAD_MIN_BYTES:
            return self._read()
        return read_ahead(self._read(), _BATCHES_AHEAD)

    def _read(self) -> Iterator[pa.RecordBatch]:
        row_bytes = max(map(_stored_row_bytes, self._fragments), default=0)
        is_first = True
        # Readers are created one at a time: each keeps its files open.
        readers = map(self._scanned.reader, self._fragments)
        for reader in joined_readers(readers, self._schema.fields, num_first=len(self._fragments)):
            position = 0
            while position < reader.num_live_rows:
                for batch in self._span(reader, position, row_bytes, is_first=is_first):
                    yield batch
                    position += batch.num_rows
                    row_bytes = max(row_bytes, _row_bytes(batch))
                    if self._batch_rows is None and batch.num_rows > _TOO_LARGE * self._rows_within(row_bytes):
                        break
            is_first = False

    def _span(self, reader: RowReader, position: int, row_bytes: int, *, is_first: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows from a position on: all, or only a few if the size of a row is not yet known."""
        stop, batch_rows = reader.num_live_rows, self._batch_rows or self._rows_within(row_bytes)
        if is_first and self._batch_rows is None:
            stop = min(stop, next((rows for rows in _PROBES if position < rows), stop))
        config = ReadConfig(batch_rows=batch_rows, ahead_bytes=_AHEAD_BYTES)
        return with_loaded_blobs(reader.batches(self._schema, position, stop, config), reader, self._schema)

    def sources(self) -> list[tuple[Fragment, npt.NDArray[np.uint32]]]:
        """Return every fragment that was read, together with the positions of its deleted rows."""
        return [(fragment, self._scanned.reader(fragment).deleted_rows()) for fragment in self._fragments]

    def _rows_within(self, row_bytes: int) -> int:
        """Return the number of rows in a batch if each row has ``row_bytes`` bytes."""
        return max(1, min(self._batch_bytes // (row_bytes + 1), _MAX_BATCH_ROWS))


def _stored_row_bytes(fragment: Fragment) -> int:
    num_bytes = sum(file.file_size_bytes for file in fragment.message.files)
    return int(num_bytes // max(fragment.physical_rows, 1))


def _row_bytes(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes // batch.num_rows)


def _find(manifest: Manifest, fragments: Sequence[FragmentMetadata]) -> list[Fragment]:
    """Return the records of a task's fragments."""
    by_id = {fragment.id: fragment for fragment in manifest.fragments}
    records = []
    for fragment in fragments:
        record = by_id.get(fragment.id)
        if record is None or content_key(fragment_from_record(record)) != content_key(fragment):
            raise InvalidInputError(
                f"fragment {fragment.id} of the task does not match version {manifest.version}: the fragment does not "
                "exist in that version, or has different files",
                fragment=fragment.id,
                version=manifest.version,
            )
        records.append(record)
    return records


_T = TypeVar("_T")
_END: Final = object()


def read_ahead(source: Iterator[_T], depth: int) -> Iterator[_T]:
    """Yield the items of a source in order, while a thread fetches up to ``depth`` items in advance.

    Args:
        source: the source of the items; used only by the thread that fetches them.
        depth: maximum number of items fetched in advance; at least 1.

    Raises:
        Exception: the error that the source raised; it is raised after the preceding items have been yielded.
    """
    with ThreadPoolExecutor(max_workers=1) as executor:
        pending: deque[Future[object]] = deque(executor.submit(next, source, _END) for _ in range(depth))
        try:
            while True:
                item = pending.popleft().result()
                if item is _END:
                    return
                pending.append(executor.submit(next, source, _END))
                yield item  # type: ignore[misc]  # any object except the end marker is an item of the source
        finally:
            for future in pending:
                future.cancel()


def needs_row_addresses(manifest: Manifest) -> bool:
    """Return whether a version has an index that refers to rows by address."""
    if manifest.has_stable_row_ids:
        return False
    return any(not index.is_system for index in parse_index_section(manifest.index_section))


def serialize_row_addresses(sources: Iterable[tuple[Fragment, npt.NDArray[np.uint32]]]) -> bytes:
    """Return the addresses of all live rows, as a 64-bit Roaring bitmap.

    Args:
        sources: pairs of a fragment and the positions of its deleted rows.
    """
    from pyroaring import BitMap64

    addresses = BitMap64()
    for fragment, deleted in sources:
        first = fragment.id << 32
        addresses.add_range(first, first + fragment.physical_rows)
        if len(deleted):
            addresses -= BitMap64(deleted.astype(np.uint64) + np.uint64(first))
    addresses.run_optimize()
    return bytes(addresses.serialize())
