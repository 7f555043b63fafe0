"""Reading and writing single ``.lance`` data files.

The names of ``lance.file`` can be imported from here; each is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lance_core.file.lance_file import (
        LanceBufferDescriptor,
        LanceColumnMetadata,
        LanceFileMetadata,
        LanceFileReader,
        LanceFileStatistics,
        LanceFileWriter,
        LancePageMetadata,
        ReaderResults,
        stable_version,
    )
    from lance_core.file.lance_session import LanceFileSession, ListResult

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ListResult",
    "ReaderResults",
    "stable_version",
]

_OF_SESSIONS: Final = frozenset({"LanceFileSession", "ListResult"})


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "lance_session" if name in _OF_SESSIONS else "lance_file"
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
