"""From what users pass as a dataset's place to its versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lance_core.errors import InvalidTypeError
from lance_core.io.uri import resolve
from lance_core.table.version_log import VersionLog

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["open_log", "uri_text"]


def uri_text(uri: str | Path) -> str:
    """The URI as a string.

    Raises:
        InvalidTypeError: neither a string nor a path.
    """
    if not isinstance(uri, (str, Path)):
        raise InvalidTypeError(f"a dataset URI must be a str or a Path, got {type(uri)}")
    return os.fspath(uri)


def open_log(uri: str, storage_options: Mapping[str, str] | None) -> VersionLog:
    """The versions below a URI; nothing is read yet.

    Raises:
        InvalidInputError: the URI is malformed.
        UnsupportedSchemeError: no store for its scheme.
    """
    store, root = resolve(uri, storage_options)
    return VersionLog(store, root)
