"""Reading and writing single ``.lance`` data files.

The public names of pylance's ``lance.file`` can be imported from this package; each is loaded on first use. They are
implemented in ``lance_file``, ``lance_file_writer`` and ``lance_session``.

Inside the library, ``data_file_writer`` writes a data file and ``reader`` reads one, for all format versions.
``families`` selects the package for a format: ``structural`` for 2.1 and 2.2, ``v2_0``, or ``v0_1``; ``file_format``
defines the functions that each package provides. ``layout``, ``footer``, ``global_buffers``, and ``column_metadata``
describe the parts of a file that are the same in formats 2.0 and later. ``write_config`` and ``read_config`` contain
the settings, ``scan`` divides the decoded rows into batches, and ``session`` caches information about open files.
Modules whose names start with ``blob_`` handle values that are stored outside the pages.
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
