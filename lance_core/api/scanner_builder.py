"""ScannerBuilder: collects the arguments of a scan one by one; the names follow pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lance_core.api.fragment import LanceFragment
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.public.arguments import checked_hints, refuse_unsupported
from lance_core.scan.scanner import LanceScanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_core.scan.scan_statistics import ScanStatistics
    from lance_core.scan.table_view import Handle

__all__ = ["ScannerBuilder", "build_scanner"]


class ScannerBuilder:
    """Collects the arguments of a scan. Each method sets one argument and returns the builder.

    The arguments are those of :meth:`LanceDataset.scanner`. The default scan options of the dataset are not used.

    Args:
        ds: the dataset to scan.
    """

    def __init__(self, ds: Handle) -> None:
        """Start with the default of every argument."""
        self.ds = ds
        self._fragments: list[int] | None = None
        self._given: dict[str, Any] = {}

    def apply_defaults(self, default_opts: dict[str, Any]) -> Self:
        """Call the methods with the given names.

        Args:
            default_opts: maps the name of each method to its argument, or to a dictionary of its keyword arguments.

        Raises:
            InvalidInputError: the builder has no method with one of the names.
        """
        for name, value in default_opts.items():
            setter = None if name.startswith("_") else getattr(self, name, None)
            if not callable(setter):
                raise InvalidInputError(f"Unknown option {name}", argument=name)
            if isinstance(value, dict):
                setter(**value)
            else:
                setter(value)
        return self

    def columns(self, cols: list[str] | dict[str, str] | None = None) -> Self:
        """Set the columns to return."""
        return self._with(columns=cols)

    def filter(self, filter: Any) -> Self:
        """Set the filter: SQL text, an Arrow expression, or a dictionary with one of them as ``expr_filter``."""
        if isinstance(filter, dict):
            if filter.get("search_filter") is not None:
                raise NotSupportedError("search filters are not supported")
            filter = filter.get("expr_filter")
        return self._with(filter=filter)

    def limit(self, n: int | None = None) -> Self:
        """Set the maximum number of rows."""
        return self._with(limit=n)

    def offset(self, n: int | None = None) -> Self:
        """Set the number of rows to skip."""
        return self._with(offset=n)

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows in a batch."""
        return self._with(batch_size=batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Set the maximum size of a batch in bytes."""
        return self._with(batch_size_bytes=batch_size_bytes)

    def strict_batch_size(self, strict_batch_size: bool = False) -> Self:
        """Set whether every batch except the last has exactly ``batch_size`` rows."""
        return self._with(strict_batch_size=strict_batch_size)

    def io_buffer_size(self, io_buffer_size: int) -> Self:
        """Set the maximum number of bytes to read ahead of the consumer."""
        return self._with(io_buffer_size=io_buffer_size)

    def batch_readahead(self, nbatches: int | None = None) -> Self:
        """Check the number, which has no effect on the scan."""
        checked_hints(batch_readahead=nbatches)
        return self

    def fragment_readahead(self, nfragments: int | None = None) -> Self:
        """Check the number, which has no effect on the scan."""
        checked_hints(fragment_readahead=nfragments)
        return self

    def scan_in_order(self, scan_in_order: bool = True) -> Self:
        """Do nothing: rows are always returned in order."""
        return self

    def late_materialization(self, late_materialization: bool | list[str]) -> Self:
        """Check the argument, which has no effect on the scan."""
        checked_hints(late_materialization=late_materialization)
        return self

    def with_fragments(self, fragments: Iterable[Any] | None) -> Self:
        """Set the fragments to scan, in the given order.

        Raises:
            InvalidTypeError: an item is not a fragment.
        """
        if fragments is None:
            self._fragments = None
            return self
        items = list(fragments)
        wrong = next((item for item in items if not isinstance(item, LanceFragment)), None)
        if wrong is not None:
            raise InvalidTypeError(f"fragments must contain LanceFragment objects, found {type(wrong).__name__}")
        self._fragments = [item.fragment_id for item in items]
        return self

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether to append the column ``_rowid``."""
        return self._with(with_row_id=with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> Self:
        """Set whether to append the column ``_rowaddr``."""
        return self._with(with_row_address=with_row_address)

    def include_deleted_rows(self, flag: bool) -> Self:
        """Set whether to return deleted rows too."""
        return self._with(include_deleted_rows=flag)

    def blob_handling(self, blob_handling: str | None) -> Self:
        """Set what to return for blob columns."""
        return self._with(blob_handling=blob_handling)

    def use_stats(self, use_stats: bool = True) -> Self:
        """Set whether to skip rows that cannot match according to the statistics of files in format 0.1."""
        return self._with(use_stats=use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> Self:
        """Do nothing: scans do not use indices."""
        return self

    def fast_search(self, flag: bool) -> Self:
        """Do nothing, because scans do not use indices; however, True cannot be combined with :meth:`nearest`."""
        return self._with(fast_search=flag)

    def prefilter(self, prefilter: bool) -> Self:
        """Set whether the filter of a search is applied before the search."""
        return self._with(prefilter=prefilter)

    def disable_scoring_autoprojection(self, disable: bool = True) -> Self:
        """Set whether ``_distance`` is returned only if it is among the columns."""
        return self._with(disable_scoring_autoprojection=disable)

    def order_by(self, orderings: list[Any] | None) -> Self:
        """Set the columns to sort by, as a list of :class:`ColumnOrdering` or names."""
        return self._with(order_by=orderings)

    def nearest(
        self,
        column: str,
        q: Any,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
        search_effort: float | None = None,
    ) -> Self:
        """Search for the rows with the nearest vectors; see ``nearest`` of :meth:`LanceDataset.scanner`."""
        given = {name: value for name, value in locals().items() if name != "self"}
        return self._with(nearest=given)

    def full_text_search(self, query: Any, columns: list[str] | None = None) -> Self:
        """Not supported."""
        refuse_unsupported("scanner", full_text_query=query)
        return self

    def minhash_search(self, query: Any) -> Self:
        """Not supported."""
        refuse_unsupported("scanner", full_text_query=query)
        return self

    def with_index_segments(self, index_segments: Iterable[Any] | None) -> Self:
        """Not supported."""
        refuse_unsupported("scanner", index_segments=index_segments)
        return self

    def row_addr_prefilter(self, allowlist: bytes | None = None, blocklist: bytes | None = None) -> Self:
        """Set the ids of the rows to return, and the ids of rows to omit; see ``serialize_row_addrs``."""
        return self._with(row_addr_allowlist=allowlist, row_addr_blocklist=blocklist)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], None]) -> Self:
        """Set a function that receives statistics after the last batch; see :meth:`LanceDataset.scanner`."""
        return self._with(scan_stats_callback=callback)

    def substrait_aggregate(self, aggregate: bytes) -> Self:
        """Not supported."""
        refuse_unsupported("scanner", substrait_aggregate=aggregate)
        return self

    def to_scanner(self) -> LanceScanner:
        """Plan the scan; see :meth:`LanceDataset.scanner` for the errors."""
        return LanceScanner(self.ds.view.source(self._fragments), **self._given)

    def _with(self, **given: Any) -> Self:
        self._given.update(given)
        return self


def build_scanner(
    ds: Handle,
    defaults: dict[str, Any] | None,
    *,
    nearest: object,
    row_addr_allowlist: bytes | None,
    row_addr_blocklist: bytes | None,
    **given: Any,
) -> LanceScanner:
    """Plan a scan.

    Args:
        ds: the dataset to scan.
        defaults: the default scan options of the dataset; see :meth:`ScannerBuilder.apply_defaults`.
        nearest: the arguments of :meth:`ScannerBuilder.nearest` as a dictionary; None means no search.
        row_addr_allowlist: see :meth:`ScannerBuilder.row_addr_prefilter`.
        row_addr_blocklist: see :meth:`ScannerBuilder.row_addr_prefilter`.
        given: maps names of methods of the builder to their arguments; None means the default.
    """
    builder = ScannerBuilder(ds)
    if defaults:
        builder.apply_defaults(defaults)
    if nearest is not None:
        builder._with(nearest=nearest)
    if row_addr_allowlist is not None or row_addr_blocklist is not None:
        builder.row_addr_prefilter(row_addr_allowlist, row_addr_blocklist)
    for name, value in given.items():
        if value is not None:
            getattr(builder, name)(value)
    return builder.to_scanner()
