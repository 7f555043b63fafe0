"""Converts the out-of-memory errors that Python and Arrow raise during reads to ``OutOfMemoryError``."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from lance_core.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["typed_memory_errors", "typed_memory_stream"]


class _Named(Protocol):
    """An object with the path of a file."""

    @property
    def path(self) -> str: ...


P = ParamSpec("P")
R = TypeVar("R", bound=_Named)
T = TypeVar("T")


def typed_memory_errors(
    method: Callable[Concatenate[R, P], T],
) -> Callable[Concatenate[R, P], T]:
    """Decorate a reader method so that it raises ``OutOfMemoryError`` if memory runs out."""

    @wraps(method)
    def guarded(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise _typed(self.path) from error

    return guarded


def typed_memory_stream(path: str, rows: Iterator[T]) -> Iterator[T]:
    """Yield the items of a stream, and raise ``OutOfMemoryError`` if memory runs out."""
    try:
        yield from rows
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise _typed(path) from error


def _typed(path: str) -> OutOfMemoryError:
    return OutOfMemoryError(f"{path}: the rows do not fit into memory; read fewer rows or columns at a time", path=path)
