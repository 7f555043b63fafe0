"""Executing a task: read the live rows of its fragments in order, write them into new files.

Rows stream: at any time a few decoded pages of one fragment and the pages being filled are in memory, whatever the size
of the fragments. The files that a failed execution has finished are removed again; no version refers to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.commit.legacy_dictionaries import known_dictionaries
from lance_core.compaction.blob_rows import with_values
from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.identity import content_key
from lance_core.compaction.output_files import OutputFiles
from lance_core.compaction.read_ahead import read_ahead
from lance_core.compaction.result import CompactionMetrics, RewriteResult
from lance_core.compaction.row_addresses import needs_row_addresses, serialize_row_addresses
from lance_core.errors import InvalidInputError
from lance_core.file.read_config import ReadConfig
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.table.row_ids import carry_row_ids
from lance_core.write.external_blobs import ExternalReferences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.compaction.options import CompactionSettings
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["execute_task"]

_BATCH_BYTES: Final = 8 * 1024 * 1024
_MAX_BATCH_ROWS: Final = 64 * 1024
"""A batch has about this many bytes, and at most this many rows."""

_PROBES: Final = (1, 64)
"""Number of rows that are read first: stored bytes say little about rows that compress well."""

_TOO_LARGE: Final = 4
"""A batch this many times larger than it should be makes the rest of its fragment come in smaller ones."""

_BATCHES_AHEAD: Final = 3
_AHEAD_MIN_BYTES: Final = 16 * 1024 * 1024
"""Tasks of fewer stored bytes are done before a thread would pay."""


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
        ExternalReferences(manifest.base_paths, allow_outside=True),
    )
    try:
        for batch in rows.batches():
            files.write(batch)
        written = files.finish()
        if manifest.has_stable_row_ids:
            written = carry_row_ids(rows.sources(), written, hidden_columns_of(source.locator))
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
        self._source = source
        self._fragments = fragments
        self._batch_rows = settings.batch_size
        self._deleted: list[npt.NDArray[np.uint32]] = []
        self.num_rows = sum(self._reader(fragment).num_live_rows for fragment in fragments)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; a thread reads ahead when there are many."""
        self._deleted = []
        num_bytes = sum(file.file_size_bytes for fragment in self._fragments for file in fragment.message.files)
        if num_bytes < _AHEAD_MIN_BYTES:
            return self._read()
        return read_ahead(self._read(), _BATCHES_AHEAD)

    def _read(self) -> Iterator[pa.RecordBatch]:
        row_bytes = 0
        for fragment in self._fragments:
            # One reader at a time: each keeps its files open.
            reader = self._reader(fragment)
            self._deleted.append(reader.deleted_rows())
            row_bytes = max(row_bytes, _stored_row_bytes(fragment))
            position = 0
            while position < reader.num_live_rows:
                for batch in self._span(reader, position, row_bytes, is_first=fragment is self._fragments[0]):
                    yield batch
                    position += batch.num_rows
                    row_bytes = max(row_bytes, _row_bytes(batch))
                    if self._batch_rows is None and batch.num_rows > _TOO_LARGE * _batch_rows(row_bytes):
                        break

    def _span(
        self, reader: FragmentReader, position: int, row_bytes: int, *, is_first: bool
    ) -> Iterator[pa.RecordBatch]:
        """Rows from a position on: all that are left, unless they are of unknown size."""
        stop, batch_rows = reader.num_live_rows, self._batch_rows or _batch_rows(row_bytes)
        if is_first and self._batch_rows is None:
            stop = min(stop, next((rows for rows in _PROBES if position < rows), stop))
        schema = self._source.schema
        return with_values(reader.batches(schema, position, stop, ReadConfig(batch_rows=batch_rows)), reader, schema)

    def sources(self) -> list[tuple[Fragment, npt.NDArray[np.uint32]]]:
        """Every fragment that was read, with its deleted positions."""
        return list(zip(self._fragments, self._deleted, strict=True))

    def _reader(self, fragment: Fragment) -> FragmentReader:
        return FragmentReader(fragment, self._source.locator)


def _stored_row_bytes(fragment: Fragment) -> int:
    num_bytes = sum(file.file_size_bytes for file in fragment.message.files)
    return int(num_bytes // max(fragment.physical_rows, 1))


def _row_bytes(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes // batch.num_rows)


def _batch_rows(row_bytes: int) -> int:
    return max(1, min(_BATCH_BYTES // (row_bytes + 1), _MAX_BATCH_ROWS))


def _find(manifest: Manifest, fragments: Sequence[FragmentMetadata]) -> list[Fragment]:
    """The records of a task's fragments."""
    by_id = {fragment.id: fragment for fragment in manifest.fragments}
    records = []
    for fragment in fragments:
        record = by_id.get(fragment.id)
        if record is None or content_key(fragment_from_record(record)) != content_key(fragment):
            raise InvalidInputError(
                f"fragment {fragment.id} of the task does not match version {manifest.version}: it has different "
                "files, or does not exist there",
                fragment=fragment.id,
                version=manifest.version,
            )
        records.append(record)
    return records
