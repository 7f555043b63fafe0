"""Fetching pages: each page once, although several segments may need parts of it at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from lance_core.file.page_plan import PageSlice
    from lance_core.io.byte_range import ByteRange

__all__ = ["Fetch", "PageFetcher"]

Fetch: TypeAlias = "Callable[[list[ByteRange]], list[pa.Buffer]]"
"""Reads ranges of one file; called from several threads."""

_Buffers: TypeAlias = "list[pa.Buffer]"


class PageFetcher:
    """Hands out the buffers of pages. Safe for use by several threads.

    A page that a segment takes whole is fetched and forgotten. A page that is shared stays until the segment that takes
    its end has it; whoever comes while it is being fetched waits for it.

    Args:
        fetch: reads ranges of the file.
    """

    def __init__(self, fetch: Fetch) -> None:
        """See the class."""
        self._fetch = fetch
        self._lock = threading.Lock()
        self._shared: dict[tuple[str, int], Future[_Buffers]] = {}

    def buffers(self, slices: Sequence[PageSlice]) -> list[_Buffers]:
        """All buffers of every page, fetched with one request."""
        found: list[Future[_Buffers]] = []
        missing: list[tuple[PageSlice, Future[_Buffers]]] = []
        with self._lock:
            for part in slices:
                known = self._shared.get(part.key)
                if known is None:
                    known = Future()
                    missing.append((part, known))
                    if not part.is_whole:
                        self._shared[part.key] = known
                found.append(known)
        if missing:
            self._fill(missing)
        result = [future.result() for future in found]
        with self._lock:
            for part in slices:
                if part.stop == part.page.length:
                    self._shared.pop(part.key, None)
        return result

    def prefetch(self, slices: Sequence[PageSlice]) -> None:
        """Fetch pages with one request and keep each until the segment that takes its end has it."""
        missing: dict[tuple[str, int], tuple[PageSlice, Future[_Buffers]]] = {}
        for part in slices:
            missing.setdefault(part.key, (part, Future()))
        with self._lock:
            self._shared.update({key: future for key, (_, future) in missing.items()})
        if missing:
            self._fill(list(missing.values()))

    def _fill(self, missing: list[tuple[PageSlice, Future[_Buffers]]]) -> None:
        try:
            buffers = iter(self._fetch([buffer for part, _ in missing for buffer in part.page.buffers]))
        except BaseException as error:
            # Those who wait for these pages must not wait for ever.
            for _, future in missing:
                future.set_exception(error)
            raise
        for part, future in missing:
            future.set_result([next(buffers) for _ in part.page.buffers])
