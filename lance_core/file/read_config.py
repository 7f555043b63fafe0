"""ReadConfig: how rows are read, passed as one value from the arguments of a scan to the decoding threads.

The defaults are defined here. A scan creates the value from its arguments once and passes it on as a whole.

Source: ``batch_size`` and ``use_stats`` as in pylance 14.0.2; the rest is our own design, see
``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_core.errors import InvalidInputError

__all__ = ["ReadConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """How rows are read.

    Attributes:
        batch_rows: number of rows in every batch except the last.
        use_stats: skip rows that the statistics of a file rule out.
        ahead_bytes: maximum encoded size of segments that are fetched and decoded before the consumer requests them.
        ahead_segments: maximum number of segments that are read ahead. Encoded bytes may decode to a thousand times as
            many, which is known only after decoding, so ``ahead_bytes`` alone is not enough.
        inline_bytes: maximum encoded size of a read that uses no threads and one request: up to this size, threads cost
            more than they save.
        decoded_bytes: limit of the decoded bytes of all columns of a stream. While the next ranges are decoded,
            the consumer still references a batch of the previous ranges, so twice as much may be in memory. With pages
            of the usual 8 MiB, eight columns are read page by page.

    Raises:
        InvalidInputError: the number of rows is not positive.
    """

    batch_rows: int = 8192
    use_stats: bool = True
    ahead_bytes: int = 32 * 1024 * 1024
    ahead_segments: int = 8
    inline_bytes: int = 1024 * 1024
    decoded_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check the number of rows."""
        if self.batch_rows < 1:
            raise InvalidInputError(f"batch_rows must be positive, found {self.batch_rows}")
