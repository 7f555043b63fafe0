"""Taking items from a source while the ones before are being worked on."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

__all__ = ["read_ahead"]

_T = TypeVar("_T")
_END: Final = object()


def read_ahead(source: Iterator[_T], depth: int) -> Iterator[_T]:
    """The items of a source, in order; up to ``depth`` of them are taken early, in a thread.

    Args:
        source: only used in that thread.
        depth: at least 1.

    Raises:
        Exception: what the source raises, when its place in the order is reached.
    """
    with ThreadPoolExecutor(max_workers=1) as executor:
        pending: deque[Future[object]] = deque(executor.submit(next, source, _END) for _ in range(depth))
        try:
            while True:
                item = pending.popleft().result()
                if item is _END:
                    return
                pending.append(executor.submit(next, source, _END))
                yield item  # type: ignore[misc]  # anything but the end is from the source
        finally:
            for future in pending:
                future.cancel()
