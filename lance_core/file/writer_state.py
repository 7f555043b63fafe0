"""WriterState: open, finished or given up; what the writers of all formats share.

A writer is open until it is finished or aborted, or until a write failed. Leaving its ``with`` block aborts, which does
nothing after it is finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["WriterState"]


class WriterState(ABC):
    """Base of the file writers; they set ``_is_open``."""

    _is_open: bool

    @abstractmethod
    def abort(self) -> None:
        """Abort: remove what was written. Safe after any failure and when repeated."""

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort, which does nothing once the file is finished."""
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError("the file writer is already finished, was aborted, or failed")
