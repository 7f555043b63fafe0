"""CountingStore: counts the requests of an object store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_core.io.byte_range import ByteRange
from tests.support.faulty_store import FaultyStore


@dataclass
class CountingStore(FaultyStore):
    """A store that never fails by itself and tells how often each method was called, and which ranges were read."""

    reads: list[list[ByteRange]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Method -> number of calls since the last :meth:`reset`."""
        return dict(Counter(call.method for call in self.calls))

    def num_bytes_read(self) -> int:
        """Bytes of all ranges since the last :meth:`reset`."""
        return sum(extent.num_bytes for ranges in self.reads for extent in ranges)

    def note_ranges(self, path: str, ranges: Sequence[ByteRange]) -> None:
        """Keep the ranges of one read."""
        self.reads.append(list(ranges))

    def reset(self) -> None:
        """Start counting anew."""
        self.calls.clear()
        self.reads.clear()
