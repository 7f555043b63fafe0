"""The reading methods of a dataset: scans, counts, single rows.

Signatures are the reference's; every verb plans a :class:`~lance_core.scan.scanner.LanceScanner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.errors import InvalidInputError
from lance_core.public.arguments import refuse_unsupported
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.take import take_rows, take_rows_by_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lance_core.api.fragment import LanceFragment

__all__ = ["DatasetScans"]


class DatasetScans(DatasetHandle):
    """The methods that read rows."""

    def __len__(self) -> int:
        """Rows that are not deleted."""
        return self.count_rows()

    def count_rows(self, filter: Any = None, **kwargs: Any) -> int:
        """Number of rows that are not deleted and match the filter, if any; only its columns are read.

        Raises:
            InvalidInputError: the filter is invalid.
            NotSupportedError: a part of the filter is not supported.
        """
        refuse_unsupported("count_rows", **kwargs)
        if filter is None and self.recorded_rows is not None:
            return self.recorded_rows
        return LanceScanner(self._source(), columns=[], filter=filter).count_rows()

    def scanner(  # noqa: D417  # the reference's signature; arguments without effect are summed up
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        fragments: Iterable[LanceFragment] | None = None,
        index_segments: Any = None,
        full_text_query: Any = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        scan_stats_callback: Any = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        row_addr_allowlist: bytes | None = None,
        row_addr_blocklist: bytes | None = None,
    ) -> LanceScanner:
        """Plan a scan.

        Args:
            columns: names or dotted paths; None for every column of the table. Row columns can be selected too:
                ``_rowid``, ``_rowaddr``, ``_rowoffset``, ``_row_created_at_version``, ``_row_last_updated_at_version``.
            filter: selects rows, as SQL text or an Arrow expression; None for all. It may use all row columns except
                ``_rowoffset``. Limit and offset count the selected rows.
            limit: rows to return; None for all.
            offset: rows to skip; None for 0.
            batch_size: at most this many rows in a batch; None for 8192.
            fragments: scan only these, in this order.
            with_row_id: the column ``_rowid`` is appended.
            with_row_address: the column ``_rowaddr`` is appended last.
            use_stats: skip rows that the statistics of 0.1 files rule out; True by default.
            blob_handling: what blob columns return: "all_binary" their values, "blobs_descriptions" (the default) and
                "all_descriptions" their descriptors.

        The arguments for read-ahead, buffers and indices have no effect; the others are refused.

        Raises:
            InvalidInputError: an unknown column, a number out of range, or an invalid filter.
            NotSupportedError: an argument, or a part of the filter, that is not supported.
        """
        refuse_unsupported(
            "scanner",
            nearest=nearest,
            batch_size_bytes=batch_size_bytes,
            index_segments=index_segments,
            full_text_query=full_text_query,
            include_deleted_rows=include_deleted_rows,
            scan_stats_callback=scan_stats_callback,
            strict_batch_size=strict_batch_size,
            order_by=order_by,
            row_addr_allowlist=row_addr_allowlist,
            row_addr_blocklist=row_addr_blocklist,
        )
        source = self._source(None if fragments is None else [fragment.fragment_id for fragment in fragments])
        return LanceScanner(
            source,
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            use_stats=use_stats,
        )

    def to_table(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        fast_search: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        include_deleted_rows: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
    ) -> pa.Table:
        """Read rows into memory; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            full_text_query=full_text_query,
            blob_handling=blob_handling,
            include_deleted_rows=include_deleted_rows,
            order_by=order_by,
        ).to_table()

    def to_batches(
        self,
        columns: list[str] | dict[str, str] | None = None,
        filter: Any = None,
        limit: int | None = None,
        offset: int | None = None,
        nearest: Any = None,
        batch_size: int | None = None,
        batch_size_bytes: int | None = None,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        scan_in_order: bool | None = None,
        *,
        prefilter: bool | None = None,
        with_row_id: bool | None = None,
        with_row_address: bool | None = None,
        use_stats: bool | None = None,
        full_text_query: Any = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        blob_handling: str | None = None,
        use_scalar_index: bool | None = None,
        strict_batch_size: bool | None = None,
        order_by: Any = None,
        disable_scoring_autoprojection: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows, fragment by fragment; see :meth:`scanner`."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            nearest=nearest,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            use_stats=use_stats,
            full_text_query=full_text_query,
            blob_handling=blob_handling,
            strict_batch_size=strict_batch_size,
            order_by=order_by,
            **kwargs,
        ).to_batches()

    def head(self, num_rows: int, **kwargs: Any) -> pa.Table:
        """The first rows; ``kwargs`` as for :meth:`scanner`."""
        return self.scanner(**{**kwargs, "limit": num_rows}).to_table()

    def slice(self, start: int, end: int, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Rows ``[start, end)``.

        Raises:
            InvalidInputError: the range is invalid.
        """
        if not 0 <= start <= end:
            raise InvalidInputError(f"rows [{start}, {end}) are not a valid range")
        return self.scanner(offset=start, limit=end - start, columns=columns).to_table()

    def take(self, indices: Sequence[int] | pa.Array, columns: list[str] | dict[str, str] | None = None) -> pa.Table:
        """Single rows by position, in the requested order, with repetition.

        Raises:
            InvalidInputError: a position is out of range.
        """
        return take_rows(self._source(), indices, columns)

    def _take_rows(
        self,
        row_ids: Sequence[int] | pa.Array,
        columns: list[str] | dict[str, str] | None = None,
        *,
        ignore_deletions: bool = False,
        **kwargs: Any,
    ) -> pa.Table:
        """Single rows by row id, in the order asked, repetition allowed; ids of deleted rows are left out.

        Where row ids are stable, so are ids that were never given; else an id is an address, and one that no row has
        is refused.

        Args:
            row_ids: which rows.
            columns: names or dotted paths, row columns too; None for every column of the table.
            ignore_deletions: take deleted rows too, where an address names them.
            **kwargs: no effect, as in the reference.

        Raises:
            RowOutOfRangeError: an address that no row has.
            InvalidInputError: an unknown column.
            CorruptDataError: two rows have the same id.
        """
        return take_rows_by_id(
            self._source(), self._row_lookup(), row_ids, columns, ignores_deletions=bool(ignore_deletions)
        )
