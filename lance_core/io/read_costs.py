"""ReadCosts: the costs of reading from a store, which determine what is read together, never what is returned.

The storage options ``read_latency_ms`` and ``read_mb_per_second`` describe an object store that is nearer or farther
than usual.

Source: specific to this library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InvalidInputError
from lance_core.io.s3_settings import lowered_options

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MEMORY_COSTS", "REMOTE_COSTS", "ReadCosts"]

_LATENCY: Final = "read_latency_ms"
_BANDWIDTH: Final = "read_mb_per_second"
_MEGABYTE: Final = 1024 * 1024

_DEFAULT_LATENCY_MS: Final = 30.0
_DEFAULT_BANDWIDTH: Final = 100.0
"""Default latency of an object store in milliseconds, and default bandwidth of one request in MiB per second."""

_NEAR_PART: Final = 48
"""Two ranges share a request if reading the bytes between them takes at most 1 / 48 of the latency: other requests are
in flight at the same time, so avoiding a request saves only a fraction of its latency."""

_LINK_REQUESTS: Final = 10
"""Number of concurrent requests that use the full network bandwidth of a machine; 1 GB per second with the defaults."""

_EARLY_PART: Final = 6
"""The first bytes of files are read early, however many files there are, if transferring those of one file takes at
most 1 / 6 of the latency."""

_PARALLEL_REQUESTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCosts:
    """Approximate costs of reading from a store.

    Attributes:
        request_seconds: time until the first byte of a request arrives.
        bytes_per_second: number of bytes of one request that arrive per second.
        near_bytes: maximum number of bytes between two ranges that are read with one request.
        parallel_requests: number of requests that may be in flight at the same time; 1 if more would save no time.
    """

    request_seconds: float
    bytes_per_second: float
    near_bytes: int
    parallel_requests: int = 1

    @classmethod
    def of_object_store(cls, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the costs of an object store.

        Raises:
            InvalidTypeError: an option is not a string.
            InvalidInputError: an option is not a positive number.
        """
        options = lowered_options(storage_options)
        seconds = _positive(options, _LATENCY, _DEFAULT_LATENCY_MS) / 1000
        bytes_per_second = _positive(options, _BANDWIDTH, _DEFAULT_BANDWIDTH) * _MEGABYTE
        return cls(
            request_seconds=seconds,
            bytes_per_second=bytes_per_second,
            near_bytes=round(seconds * bytes_per_second / _NEAR_PART),
            parallel_requests=_PARALLEL_REQUESTS,
        )

    @property
    def is_remote(self) -> bool:
        """Whether requests are dominated by latency, so that several should be in flight at once."""
        return self.parallel_requests > 1

    @property
    def batch_bytes(self) -> int:
        """Number of bytes that a scan reads with one request; their transfer takes ``request_seconds``."""
        return max(1, round(self.request_seconds * self.bytes_per_second))

    def early_bytes(self, num_files: int) -> int:
        """Number of bytes of some files that are read early, although they may not be needed, to avoid later requests.

        Transferring these bytes takes about as long as waiting for the first bytes of the later requests.
        """
        of_link = max(_LINK_REQUESTS * self.batch_bytes, num_files * self.batch_bytes // _EARLY_PART)
        return min(num_files * self.batch_bytes, of_link)


def _positive(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(options.get(name, default))
    except ValueError:
        number = math.nan
    # The message does not contain the value: a secret may have been passed under the wrong name.
    if not 0 < number < math.inf:
        raise InvalidInputError(f"storage option {name!r} must be a positive number, such as '{default:g}'")
    return number


MEMORY_COSTS: Final = ReadCosts(request_seconds=0.0, bytes_per_second=10e9, near_bytes=4096)
"""Costs of reading from memory, or from files in the page cache of the operating system."""

REMOTE_COSTS: Final = ReadCosts.of_object_store()
"""Default costs of an object store."""
