"""Reads the files that image URIs refer to.

**Source:** ``ImageURIArray.read_uris`` of pylance 14.0.2. If a web server does not deliver a file, pylance prints a
message; this module warns.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["read_files"]

_WEB: Final = ("http", "https")


def read_files(uris: Iterable[str | None]) -> list[bytes | None]:
    """Return the contents of the files; None for a null, and for a file that a web server did not deliver.

    Raises:
        OSError: a file on another file system cannot be read.
        ValueError: a URI is invalid, or a path is relative.
    """
    return list(map(_read, uris))


def _read(uri: str | None) -> bytes | None:
    if uri is None:
        return None
    if urlsplit(uri).scheme in _WEB:
        return _download(uri)
    file_system, path = fs.FileSystem.from_uri(uri)
    with file_system.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content


def _download(url: str) -> bytes | None:
    try:
        with urlopen(url) as response:
            content: bytes = response.read()
    except URLError as error:
        warnings.warn(f"cannot download {url!r}: {error.reason}; the image is set to null", stacklevel=5)
        return None
    return content
