"""CountingStore: counts the requests of an object store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_core.io.byte_range import ByteRange
from tests.support.faulty_store import FaultyStore


@dataclass
class CountingStore(FaultyStore):
    """A store that counts the calls of each method and records the ranges that were read."""

    reads: list[list[ByteRange]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return method -> number of calls since the last :meth:`reset`."""
        return dict(Counter(call.method for call in self.calls))

    def num_bytes_read(self) -> int:
        """Return the number of bytes in all ranges since the last :meth:`reset`."""
        return sum(extent.num_bytes for ranges in self.reads for extent in ranges)

    def note_ranges(self, path: str, ranges: Sequence[ByteRange]) -> None:
        """Record the ranges of one read."""
        self.reads.append(list(ranges))

    def reset(self) -> None:
        """Reset all counts."""
        self.calls.clear()
        self.reads.clear()
