"""ReadConfig: the settings for reading rows, passed as one object from a scan to the decoding threads.

The defaults are defined in this module. A scan creates one object from its arguments and passes it on as a whole.

Source: ``batch_size`` and ``use_stats`` as in pylance 14.0.2; the rest is specific to this library; see
``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_core.errors import InvalidInputError

__all__ = ["ReadConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """The settings for reading rows.

    Attributes:
        batch_rows: number of rows in every batch except the last.
        batch_bytes: approximate maximum decoded size of a batch in bytes: if rows are large, batches have fewer rows
            than ``batch_rows``. None means no maximum, as when the caller has chosen the number of rows.
        use_stats: whether to skip rows that cannot match according to the file's statistics.
        ahead_bytes: maximum total encoded size, in bytes, of the segments that are read ahead of the consumer.
        remote_ahead_bytes: the same limit for bytes that are requested from an object store. It is larger, so that
            enough requests are in flight while each of them waits for a response.
        ahead_segments: maximum number of segments that are read ahead of the consumer. Needed in addition to
            ``ahead_bytes``, because the decoded size is known only after decoding and may be a thousand times larger.
        keeps_dictionaries: whether a column of strings or binaries whose pages all have dictionaries, or the same value
            in all rows, is returned as an Arrow dictionary. Its type may then differ from file to file.
        inline_bytes: maximum encoded size, in bytes, of a scan that uses one request and no threads: up to this size,
            threads cost more than they save.
        decoded_bytes: maximum decoded size of all columns of a stream together, in bytes. While the next ranges are
            decoded, the consumer still references a batch of the previous ranges, so up to twice as much may be in
            memory. With the default, up to eight columns are decoded one whole page at a time if their pages have
            8 MiB, as writers produce by default.

    Raises:
        InvalidInputError: ``batch_rows`` is less than 1.
    """

    batch_rows: int = 8192
    batch_bytes: int | None = None
    use_stats: bool = True
    keeps_dictionaries: bool = False
    ahead_bytes: int = 32 * 1024 * 1024
    remote_ahead_bytes: int = 64 * 1024 * 1024
    ahead_segments: int = 8
    inline_bytes: int = 1024 * 1024
    decoded_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check ``batch_rows``."""
        if self.batch_rows < 1:
            raise InvalidInputError(f"batch_rows must be at least 1, found {self.batch_rows}")
