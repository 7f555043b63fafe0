"""CountingStore: counts the requests of an object store."""

from collections import Counter

from tests.support.faulty_store import FaultyStore


class CountingStore(FaultyStore):
    """A store that never fails by itself and tells how often each method was called."""

    def counts(self) -> dict[str, int]:
        """Method -> number of calls since the last :meth:`reset`."""
        return dict(Counter(call.method for call in self.calls))

    def reset(self) -> None:
        """Start counting anew."""
        self.calls.clear()
