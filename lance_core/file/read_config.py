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
        batch_rows: rows of every batch but the last.
        use_stats: skip rows that the statistics of a file rule out.
        ahead_bytes: encoded bytes of segments that may be fetched and decoded before the consumer requests them.
        ahead_segments: number of segments that may be read ahead; a few encoded bytes may decode to a thousand times as
            many, which is known only afterwards.
        inline_bytes: encoded bytes up to which threads cost more than they save, and one request is faster than
            several.
        decoded_bytes: decoded bytes that all columns of a stream may hold together. While the next ranges are decoded,
            the consumer still holds a batch of the previous ones, so twice as much may be resident. With pages of the
            usual 8 MiB, eight columns are read page by page.

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
            raise InvalidInputError(f"batch_rows must be positive, it is {self.batch_rows}")
