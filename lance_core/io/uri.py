"""From a user's URI to a store and a path in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from lance_core.buffers.fork_lock import fork_lock
from lance_core.errors import InvalidInputError, UnsupportedSchemeError
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.io.object_store import ObjectStore

__all__ = ["resolve"]

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock: Final = fork_lock()


def resolve(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> tuple[ObjectStore, str]:
    """The store that a URI names and the path of the dataset in it.

    Args:
        uri: a local path (relative to the working directory, ``~`` allowed), ``file://…`` or ``file:/…``, or ``memory://name/path``.
        storage_options: credentials and settings of remote stores; none of the stores here takes any.

    Raises:
        InvalidInputError: the URI is empty or malformed.
        UnsupportedSchemeError: no store for this scheme.
    """
    text = os.fspath(uri)
    if not text:
        raise InvalidInputError(f"the path or URI {text!r} is empty")
    if "\0" in unquote(text):
        raise InvalidInputError(f"the dataset URI {text!r} has a NUL")
    scheme = _scheme(text)
    if scheme == "":
        return LocalStore(), os.path.abspath(os.path.expanduser(text))
    parts = urlsplit(text)
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise InvalidInputError(f"file URI {text!r} names a host; expected file:///path")
        return LocalStore(), os.path.abspath(unquote(parts.path))
    if scheme == "memory":
        with _memory_lock:
            store = _memory_stores.setdefault(parts.netloc, MemoryStore())
        return store, parts.path.strip("/") or "dataset"
    raise UnsupportedSchemeError(
        f"no store for scheme {scheme!r} of {scheme}://…: local paths, file:// and memory:// are supported",
        scheme=scheme,
    )


def _scheme(text: str) -> str:
    head, separator, _ = text.partition("://")
    if not separator and text[:6].lower() == "file:/":
        return "file"
    return head.lower() if separator else ""
