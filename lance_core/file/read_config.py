"""ReadConfig: how rows are read, as one value from a scan's arguments to the threads that decode.

Here are the defaults. A scan makes the value of its arguments once; everything below it is handed the whole value.

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
        use_stats: leave out rows that the statistics of a file rule out.
        ahead_bytes: encoded bytes of segments that may be fetched and decoded before the consumer asks for them.
        ahead_segments: segments that may be ahead: what a few encoded bytes decode to, perhaps a thousandfold, is known
            only afterwards.
        inline_bytes: encoded bytes up to which threads cost more than they save, and one request beats several.
        decoded_bytes: what all columns of a stream together hold decoded. When the next stretches are decoded the
            consumer still holds a batch of the last ones, so that twice as much may be resident. Eight columns with
            pages of the usual 8 MiB are read page by page.

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
