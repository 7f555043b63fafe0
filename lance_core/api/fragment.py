"""LanceFragment: a handle to one fragment of a version, for reading the fragment separately."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, overload

from pyarrow.dataset import Fragment as ArrowFragment

from lance_core.absent import PylanceClass
from lance_core.api.fragment_session import FragmentSession
from lance_core.columns.add import add_to_fragment
from lance_core.columns.batch_udf import BatchUDF
from lance_core.columns.column_values import column_values
from lance_core.columns.joined_rows import JoinedColumns, JoinedRows
from lance_core.columns.update_fragment import update_fragment
from lance_core.delete.delete import delete_from_fragment, delete_rows_at
from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.places.location import uri_text
from lance_core.public.arguments import checked_hints, checked_number, refuse_unsupported
from lance_core.public.fragment_conversion import fragment_from_record, shown_fragments
from lance_core.public.fragment_metadata import FragmentMetadata
from lance_core.repair.validation import validate_fragment
from lance_core.scan.output_schema import shown_schema
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.table_view import Destination
from lance_core.scan.take import take_rows
from lance_core.schema.lance_schema import LanceSchema
from lance_core.table.fragment import Fragment
from lance_core.write.request import WriteRequest, requested_version
from lance_core.write.write import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from lance_core.columns.column_values import ColumnValues
    from lance_core.file.session import Session
    from lance_core.proto import pb_table
    from lance_core.public.data_file_metadata import DataFile
    from lance_core.scan.table_view import Handle, TableView
    from lance_core.write.data_input import ReaderLike
    from lance_core.write.progress import FragmentWriteProgress

__all__ = ["LanceFragment"]

_MAX_ROWS: Final = 2**32
"""Maximum number of rows in a fragment: a row address stores the offset of the row in 32 bits."""
_MAX_BYTES: Final = 2**63 - 1


class LanceFragment(ArrowFragment, PylanceClass):  # type: ignore[misc]  # pyarrow has no types
    """A handle to one fragment of a version of a dataset. It is a ``pyarrow.dataset.Fragment``.

    Args:
        dataset: a handle to the version.
        fragment_id: id of the fragment.

    Raises:
        InvalidInputError: the version has no such fragment.
    """

    __slots__ = ("_dataset", "_message", "_view")

    def __init__(self, dataset: Handle, fragment_id: int) -> None:
        """Look up the fragment; nothing is read."""
        view = dataset.view
        record = view.find_fragment(fragment_id)
        if record is None:
            raise InvalidInputError(
                f"fragment {fragment_id!r} does not exist in version {view.version}", fragment_id=fragment_id
            )
        self._dataset = dataset
        self._view = view
        self._message = record.message

    @classmethod
    def of(cls, dataset: Handle, view: TableView, message: pb_table.DataFragment) -> Self:
        """Return a handle to a fragment of a version that ``dataset`` has checked out, now or earlier."""
        handle = cls.__new__(cls)
        handle._dataset = dataset
        handle._view = view
        handle._message = message
        return handle

    @property
    def _record(self) -> Fragment:
        """The record of the fragment; not an attribute, because tables have thousands of fragments."""
        return Fragment(self._message)

    @staticmethod
    def create(  # noqa: D417  # the reference's signature; arguments without effect are described together
        dataset_uri: str | Path,
        data: ReaderLike,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: FragmentWriteProgress | None = None,
        mode: str = "append",
        *,
        data_storage_version: str | None = None,
        use_legacy_format: bool | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any = None,
        table_id: list[str] | None = None,
        session: Session | None = None,
    ) -> FragmentMetadata:
        """Write rows as one fragment that no version refers to yet; see :func:`lance_core.write_fragments`.

        Args:
            dataset_uri: location of the dataset to which the fragment will be added.
            data: the rows (at least one), all of which are written to one data file.
            fragment_id: the id of the fragment in the result; None means 0.
            schema: as for :func:`lance_core.write_fragments`; the same applies to all other arguments.

        Raises:
            InvalidInputError: there are no rows, or more rows than a fragment can have.
            SchemaMismatchError: the mode is "append", but the schema of the rows does not match the dataset's.
            StorageError: a storage operation failed; the file was removed.
        """
        refuse_unsupported("create", namespace_client=namespace_client, table_id=table_id)
        destination = Destination.of(uri_text(dataset_uri), storage_options, session=session).with_latest()
        request = WriteRequest.of(
            mode=mode,
            max_rows_per_file=_MAX_ROWS,
            max_bytes_per_file=_MAX_BYTES,
            max_rows_per_group=max_rows_per_group,
            data_storage_version=requested_version(data_storage_version, use_legacy_format),
            progress=progress,
        )
        staged = stage_rows(
            destination.log, destination.manifest, data, schema, request, storage_options=destination.storage_options
        )
        fragments = shown_fragments(staged.operation.added_fragments())
        if len(fragments) != 1:
            num_rows = sum(fragment.physical_rows for fragment in fragments)
            raise InvalidInputError(f"a fragment must have between 1 and {_MAX_ROWS} rows, found {num_rows}")
        return replace(fragments[0], id=fragment_id or 0)

    @staticmethod
    def create_from_file(filename: str, dataset: Handle, fragment_id: int) -> FragmentMetadata:
        """Describe a fragment that consists of an existing data file, for example to recover a lost fragment.

        Args:
            filename: path of the file, relative to ``data/``.
            dataset: the dataset; the file must contain all of its columns.
            fragment_id: the id of the fragment in the result.

        Raises:
            NotFoundError: the file does not exist.
            SchemaMismatchError: the columns of the file differ from those of the dataset.
            CorruptDataError: the file is not a data file, or is damaged.
            StorageError: a storage operation failed.
        """
        view = dataset.view
        file, num_rows = view.describe_data_file(filename)
        missing = {field.id for field in view.schema.leaves()} - set(file.fields)
        if missing:
            column = view.schema.field(min(missing)).name
            raise SchemaMismatchError(
                f"data file {filename!r} lacks field {column!r} of the dataset's schema", column=column
            )
        number = checked_number("fragment_id", fragment_id, 0, 2**32)
        return FragmentMetadata(id=number, files=[file], physical_rows=num_rows)

    def __repr__(self) -> str:
        """Return the fragment id and the data file paths as text."""
        paths = [file.path for file in self._message.files]
        return f"LanceFragment(id={self.fragment_id}, data_files={paths})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the dataset handle and the fragment id."""
        return LanceFragment, (self._dataset, self.fragment_id)

    @property
    def fragment_id(self) -> int:
        """The id of the fragment; unique within the dataset."""
        return self._record.id

    @property
    def metadata(self) -> FragmentMetadata:
        """The metadata of the fragment, from the manifest."""
        return fragment_from_record(self._record)

    @property
    def physical_rows(self) -> int:
        """Number of rows in the data files, including deleted rows."""
        return self._record.physical_rows

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows."""
        return self.physical_rows - self.count_rows()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the dataset."""
        return shown_schema(self._view.schema)

    @property
    def physical_schema(self) -> NoReturn:
        """Not supported, as in pylance; accessing it raises a NotSupportedError. See :attr:`schema`."""
        raise NotSupportedError("fragments have no physical schema of their own; use the attribute 'schema'")

    @property
    def partition_expression(self) -> NoReturn:
        """Not supported, as in pylance; accessing it raises a NotSupportedError."""
        raise NotSupportedError("a fragment has no partition expression")

    def data_files(self) -> list[DataFile]:
        """Return the data files of the fragment."""
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Return the path of the deletion file, relative to the root of the dataset, or None if no row is deleted."""
        metadata = self.metadata
        return None if metadata.deletion_file is None else metadata.deletion_file.path(self.fragment_id)

    def count_rows(self, filter: Any = None) -> int:
        """Return the number of rows that are not deleted and, if a filter is given, match it."""
        return LanceScanner(self._view.source_of(self._record), columns=[], filter=filter).count_rows()

    def validate(self) -> None:
        """Check the fragment's files against the manifest.

        Raises:
            CorruptDataError: a file does not match the manifest.
        """
        validate_fragment(self._record, self._view.schema, self._view.locator)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: Any = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """Plan a scan of this fragment; see :meth:`LanceDataset.scanner`.

        The default scan options of the dataset are not used. ``schema`` is accepted for callers of
        ``pyarrow.dataset.Fragment`` that pass it, such as DataFusion, and is ignored.
        """
        checked_hints(batch_readahead=batch_readahead, late_materialization=late_materialization)
        return LanceScanner(
            self._view.source_of(self._record),
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
            io_buffer_size=io_buffer_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
            blob_handling=blob_handling,
        )

    def to_batches(
        self,
        *,
        columns: list[str] | dict[str, str] | None = None,
        batch_size: int | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: Any = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            batch_size=batch_size,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            batch_readahead=batch_readahead,
            blob_handling=blob_handling,
            order_by=order_by,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            include_deleted_rows=include_deleted_rows,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
        ).to_batches()

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        order_by: Any = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> pa.Table:
        """Read the rows into memory; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            order_by=order_by,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            include_deleted_rows=include_deleted_rows,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
        ).to_table()

    def to_pandas(  # noqa: D417  # the arguments of a scan are described there
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_mode: str = "lazy",
        order_by: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Read the rows into a pandas DataFrame; see :meth:`scanner`, and :meth:`LanceScanner.to_pandas` for blobs.

        Args:
            blob_mode: what the frame contains for blob columns: "lazy", "bytes", or "descriptions".
            **kwargs: arguments for ``pyarrow.Table.to_pandas``.
        """
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            order_by=order_by,
        ).to_pandas(blob_mode=blob_mode, **kwargs)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows."""
        return self.scanner(limit=num_rows).to_table()

    def delete(self, predicate: Any) -> FragmentMetadata | None:
        """Delete the rows of this fragment that match a predicate.

        Writes a deletion file, but creates no version; commit the result with :class:`LanceOperation.Delete`.

        Returns:
            The changed fragment; if no row matches, the unchanged fragment; if no rows remain, None.

        Raises:
            InvalidInputError: the predicate is invalid, or it cannot be evaluated for a row.
            NotSupportedError: part of the predicate is not supported.
            StorageError: a storage operation failed.
        """
        left = delete_from_fragment(self._view, self._record, predicate)
        return None if left is None else fragment_from_record(left)

    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        """Delete the rows of this fragment at the given positions.

        Writes a deletion file, but creates no version; commit the result with :class:`LanceOperation.Delete`.

        Args:
            offsets: positions of rows among all rows of the fragment, including deleted rows. Rows that are already
                deleted are ignored.

        Returns:
            The changed fragment; if no row is left to delete, the unchanged fragment; if no rows remain, None.

        Raises:
            InvalidTypeError: a position is not a whole number.
            InvalidInputError: the fragment has no row at a position.
            StorageError: a storage operation failed.
        """
        left = delete_rows_at(self._view, self._record, [checked_number("offset", each, 0, 2**32) for each in offsets])
        return None if left is None else fragment_from_record(left)

    def merge(
        self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add columns by a left join with other rows; see :meth:`LanceDataset.merge`.

        Writes a data file, but creates no version; commit the results of all fragments with
        :class:`LanceOperation.Merge`.

        Returns:
            The fragment with the new file, and the schema of the table with the new columns.

        Raises:
            LanceError: as for :meth:`LanceDataset.merge`, except that there are no conflicts.
        """
        rows = JoinedRows(data_obj, left_on if right_on is None else right_on, schema)
        return self._with_columns(JoinedColumns(rows, left_on))

    def merge_columns(
        self,
        value_func: Any,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add columns with values; see :meth:`LanceDataset.add_columns`.

        Writes a data file, but creates no version; commit the results of all fragments with
        :class:`LanceOperation.Merge`. Fragments can be changed in parallel, even in other processes, because a
        fragment and its result can be pickled.

        Args:
            value_func: the new columns: a dict of SQL expressions, a function, or a stream of batches with one row
                for each row of this fragment that is not deleted.
            columns: columns that a function receives; see ``read_columns`` of :meth:`LanceDataset.add_columns`.
            batch_size: as for :meth:`LanceDataset.add_columns`.
            reader_schema: as for :meth:`LanceDataset.add_columns`.

        Returns:
            The fragment with the new file, and the schema of the table with the new columns.

        Raises:
            InvalidInputError: a function has a checkpoint file. For other causes, see :meth:`LanceDataset.add_columns`.
            LanceError: as for :meth:`LanceDataset.add_columns`, except that there are no conflicts.
        """
        if isinstance(value_func, BatchUDF) and value_func.cache is not None:
            raise InvalidInputError(
                "a function with a checkpoint file cannot be used for a single fragment; use LanceDataset.add_columns"
            )
        values = column_values(value_func, columns, reader_schema, batch_size, of_all_fragments=False)
        return self._with_columns(values)

    @overload
    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[False] = False,
    ) -> tuple[FragmentMetadata, list[int]]: ...

    @overload
    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[True],
    ) -> tuple[FragmentMetadata, list[int], bytes]: ...

    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """Replace the values of columns with those of other rows that have the same keys; unmatched rows do not change.

        Writes a data file with the columns, but creates no version; commit the results with
        :class:`LanceOperation.Update` and ``update_mode="rewrite_columns"``.

        Args:
            data_obj: the new values and their keys, which are kept in memory. Of several rows with the same key, the
                last one is used.
            left_on: the column of the fragment to join on, which may be ``_rowid`` or ``_rowaddr``.
            right_on: the column of ``data_obj`` to join on; None if it has the same name.
            schema: the schema to which ``data_obj`` is converted; None for its own.
            with_offsets: whether to return the changed rows. If row ids are stable, pass them to the operation as
                ``updated_fragment_offsets``, so that only these rows are recorded as changed.

        Returns:
            The fragment with the new file; the ids of the fields that the file contains; and if requested, the
            positions of the changed rows in the fragment, as a portable Roaring bitmap.

        Raises:
            SchemaMismatchError: the table or the data lacks a column, or a type differs.
            InvalidInputError: a column is a system column, or a new value is null although the column must not contain
                nulls.
            NotSupportedError: the table has format 0.1, or a column contains blobs.
            StorageError: a storage operation failed.
        """
        rows = JoinedRows(data_obj, left_on if right_on is None else right_on, schema)
        changed, field_ids, offsets = update_fragment(self._view, self._counted_record(), rows, left_on)
        shown = fragment_from_record(changed)
        return (shown, field_ids, offsets) if with_offsets else (shown, field_ids)

    def _with_columns(self, values: ColumnValues) -> tuple[FragmentMetadata, LanceSchema]:
        changed, schema = add_to_fragment(self._view, self._counted_record(), values)
        return fragment_from_record(changed), LanceSchema(schema)

    def _counted_record(self) -> Fragment:
        """Return the record of the fragment with its number of rows, which old manifests do not contain."""
        fragments = self._view.counted_manifest.fragments
        return next((each for each in fragments if each.id == self.fragment_id), self._record)

    def take(self, indices: Sequence[int] | pa.Array, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Return rows by position; positions count only the rows of this fragment that are not deleted."""
        return take_rows(self._view.source_of(self._record), indices, columns)

    def open_session(
        self, columns: list[str] | dict[str, str] | None = None, with_row_address: bool | None = None
    ) -> FragmentSession:
        """Return a session for repeated takes of the same columns; the read is planned only once.

        Args:
            columns: names or dotted paths; None means all columns of the table. A dict maps names to SQL expressions.
            with_row_address: whether to append the column ``_rowaddr``.

        Raises:
            InvalidInputError: a column is unknown, or there are no columns.
            InvalidTypeError: ``columns`` is not a list of names.
        """
        return FragmentSession(self._view.source_of(self._record), columns, with_row_address)
