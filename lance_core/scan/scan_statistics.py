"""Statistics about a finished scan, and the callback that receives them.

Source: ``scan_stats_callback`` and ``lance.ScanStatistics`` of pylance 14.0.2.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from lance_core.scan.scan_source import ScanSource

__all__ = ["ScanStatistics", "checked_callback", "reporting"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStatistics:
    """What a scan has read.

    Requests and bytes are counted for the table's store while the scan is running. If other scans read from the same
    store at the same time, their requests are included.

    Attributes:
        iops: number of requests that read data.
        requests: the same number as ``iops``.
        bytes_read: number of bytes that were requested.
        indices_loaded: 0, like the next four attributes: indices are not searched.
        parts_loaded: 0.
        index_comparisons: 0.
        index_cache_hits: 0.
        index_cache_misses: 0.
        all_counts: further numbers; the keys may change.
        all_times: times in nanoseconds; the keys may change.
    """

    iops: int
    requests: int
    bytes_read: int
    indices_loaded: int = 0
    parts_loaded: int = 0
    index_comparisons: int = 0
    index_cache_hits: int = 0
    index_cache_misses: int = 0
    all_counts: dict[str, int] = field(default_factory=dict)
    all_times: dict[str, int] = field(default_factory=dict)


def checked_callback(callback: Any) -> Callable[[ScanStatistics], object] | None:
    """Return the optional argument ``scan_stats_callback``.

    Raises:
        InvalidInputError: the argument cannot be called.
    """
    if callback is None or callable(callback):
        return callback  # type: ignore[no-any-return]  # mypy narrows Any to a callable with any signature
    raise InvalidInputError(f"scan_stats_callback must be callable, found {type(callback).__name__}")


def reporting(
    batches: Iterator[pa.RecordBatch], source: ScanSource, callback: Callable[[ScanStatistics], object]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a scan, and then call the callback. If the callback fails, the error is logged.

    Args:
        batches: the batches.
        source: the fragments of the scan.
        callback: receives the statistics; a scan that is not read to its end does not call it.
    """
    counters = source.locator.counters
    before, started = counters.total(), perf_counter_ns()
    num_rows = num_batches = 0
    for batch in batches:
        num_rows += batch.num_rows
        num_batches += 1
        yield batch
    added = counters.total().since(before)
    statistics = ScanStatistics(
        iops=added.read_iops,
        requests=added.read_iops,
        bytes_read=added.read_bytes,
        all_counts={
            "fragments_scanned": len(source.fragments),
            "output_batches": num_batches,
            "output_rows": num_rows,
        },
        all_times={"elapsed": perf_counter_ns() - started},
    )
    try:
        callback(statistics)
    except Exception:
        _logger.exception("the callback for scan statistics failed")
