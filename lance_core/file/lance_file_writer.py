"""LanceFileWriter: writes one data file, with the same arguments and results as in pylance's ``lance.file``.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.file.families import open_writer
from lance_core.file.file_arguments import (
    bytes_like,
    checked_path,
    checked_schema,
    checked_storage_options,
    metadata_entry,
    refuse_namespace,
    rows_to_write,
    size_in_bytes,
)
from lance_core.file.prepared_input import PreparedInput
from lance_core.file.write_config import DEFAULT_MAX_PAGE_BYTES, WriteConfig
from lance_core.io.uri import resolve
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.storable import check_storable
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from types import TracebackType

    from lance_core.file.data_file_writer import DataFileWriter
    from lance_core.io.object_store import ObjectStore

__all__ = ["LanceFileWriter"]


class LanceFileWriter:
    """Writes one data file.

    Leaving the ``with`` block closes the file, or removes it if the block raised an exception. A writer that is
    discarded without being closed removes its file.

    Args:
        path: local path or URI.
        schema: schema of the file; by default, the schema of the first batch.
        data_cache_bytes: number of bytes to collect for all columns before pages are written; by default 8 MiB per
            column, or less with more than 24 leaf columns.
        version: format version; by default the stable version.
        storage_options: settings for remote stores.
        namespace_client: not supported.
        table_id: not supported.
        max_page_bytes: maximum page size in bytes, by default 32 MiB; larger arrays are split.
        keep_original_array: accepted for compatibility; batches always stay in memory until their pages are written.

    Raises:
        InvalidTypeError: an argument has the wrong type.
        InvalidInputError: a size is negative, or the version is unknown.

    Attributes:
        closed: whether :meth:`close` has been called.
        size_bytes: size of the file in bytes; None until the file is closed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: object | None = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        keep_original_array: bool | None = None,
        _place: tuple[ObjectStore, str] | None = None,
    ) -> None:
        """See the class docstring; a session passes the resolved location as ``_place``."""
        refuse_namespace(namespace_client, table_id)
        arrow = checked_schema(schema)
        self._store, self._location = _place or resolve(checked_path(path), checked_storage_options(storage_options))
        page_bytes = size_in_bytes("max_page_bytes", max_page_bytes)
        self._config = WriteConfig(
            version=DEFAULT_VERSION if version is None else LanceFileVersion.parse(version),
            data_cache_bytes=size_in_bytes("data_cache_bytes", data_cache_bytes),
            max_page_bytes=DEFAULT_MAX_PAGE_BYTES if page_bytes is None else page_bytes,
        )
        # Kept until the first batch provides the schema.
        self._early_metadata: dict[str, bytes] = {}
        self._early_buffers: list[pa.Buffer] = []
        self._input: tuple[pa.Schema, PreparedInput] | None = None
        self._writer = None if arrow is None else self._open(arrow)
        self.closed = False
        self.size_bytes: int | None = None

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows.

        Raises:
            InvalidTypeError: the argument is neither a batch nor a table.
            SchemaMismatchError: the batch does not match the schema; none of its rows was added.
        """
        rows = rows_to_write(batch)
        if self._writer is None:
            self._writer = self._open(rows.schema)
        for part in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            self._writer.write_batch(self._prepared(part.schema).batch(part))

    def _prepared(self, schema: pa.Schema) -> PreparedInput:
        if self._input is None or (self._input[0] is not schema and not self._input[0].equals(schema)):
            self._input = (schema, PreparedInput(schema))
        return self._input[1]

    def close(self) -> int | None:
        """Finish the file.

        Returns:
            The number of rows written; None if the file was already closed.

        Raises:
            InvalidInputError: no schema was given and no batch was written.
        """
        if self.closed:
            return None
        self.closed = True
        written = self._opened().finish()
        self.size_bytes = written.num_bytes
        return written.num_rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema metadata of the file.

        Raises:
            InvalidTypeError: the key or value is not a string.
        """
        name, content = metadata_entry(key, value)
        if self._writer is None and not self.closed:
            self._early_metadata[name] = content
        else:
            self._opened().add_schema_metadata(name, content)

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes in a new global buffer and return its index; the first index is 1.

        Raises:
            InvalidTypeError: the argument is neither bytes-like nor a list of numbers.
        """
        buffer = bytes_like("data", data)
        if self._writer is None and not self.closed:
            self._early_buffers.append(buffer)
            return len(self._early_buffers)
        return self._opened().add_global_buffer(buffer)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, or remove it after an exception."""
        if error is None:
            self.close()
        elif self._writer is not None:
            self.closed = True
            self._writer.abort()

    def _open(self, arrow: pa.Schema) -> DataFileWriter:
        schema = schema_from_arrow(self._prepared(arrow).schema)
        check_storable(schema, self._config.version)
        writer = open_writer(self._store.create(self._location), schema, self._config)
        weakref.finalize(self, _give_up, writer, os.getpid())
        try:
            for buffer in self._early_buffers:
                writer.add_global_buffer(buffer)
            for key, value in self._early_metadata.items():
                # Entries in the schema of a batch take precedence over entries added before it.
                if key not in schema.metadata:
                    writer.add_schema_metadata(key, value)
        except BaseException:
            writer.abort()
            raise
        return writer

    def _opened(self) -> DataFileWriter:
        if self._writer is None:
            raise InvalidInputError("the file has no schema: none was given, and no batch was written")
        return self._writer


def _give_up(writer: DataFileWriter, process: int) -> None:
    """Remove the leftovers of a discarded writer; a forked process does not touch its parent's file."""
    if process == os.getpid():
        writer.abort()
