"""Handles blob values given as URIs: stores references to them, or copies them.

If a URI is below a registered base path, the reference is stored as the id of the base path and the relative path, so
that it remains valid if the base is moved; base paths that are table roots do not count. Any other reference must be
explicitly allowed, because it makes the table depend on a location outside its bases.

**Source:** arguments ``external_blob_mode`` and ``allow_external_blob_outside_bases`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError
from lance_core.io.byte_range import ByteRange
from lance_core.io.object_keys import is_plain_path
from lance_core.io.uri import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ExternalValues"]


class ExternalValues:
    """Handles URIs in the blob columns of new data files.

    Args:
        directories: the URIs of the table's base paths by id, with a trailing slash.
        ingest: whether to copy the values into the table.
        allow_outside: whether references may refer to locations outside the base paths.
        storage_options: options for the stores of the URIs.
    """

    def __init__(
        self,
        directories: Mapping[int, str],
        *,
        ingest: bool = False,
        allow_outside: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Initialize without reading anything."""
        self._directories = directories
        self._ingest = ingest
        self._allow_outside = allow_outside
        self._storage_options = storage_options

    def place(self, uris: list[str]) -> tuple[list[int], list[str]]:
        """Return, for each URI, the id of a base path and the path below it, or 0 and the URI if no base path matches.

        Raises:
            InvalidInputError: a URI is not absolute, or is outside the base paths while ``allow_outside`` is False.
        """
        places = [self._place(uri) for uri in uris]
        return [base_id for base_id, _ in places], [path for _, path in places]

    def fetch(self, uris: list[str], ranges: list[tuple[int, int] | None]) -> list[bytes] | None:
        """Return the bytes of the values if they are copied; None if references are stored.

        Raises:
            NotFoundError: a file does not exist.
            CorruptDataError: a range extends past the end of its file.
        """
        if not self._ingest:
            return None
        return [self._read(uri, bounds) for uri, bounds in zip(uris, ranges, strict=True)]

    def _place(self, uri: str) -> tuple[int, str]:
        for base_id, directory in self._directories.items():
            if uri.startswith(directory) and is_plain_path(uri[len(directory) :]):
                return base_id, uri[len(directory) :]
        if "://" not in uri:
            raise InvalidInputError(f"external blob URI {uri!r} is not an absolute URI", uri=uri)
        if not self._allow_outside:
            raise InvalidInputError(
                f"external blob URI {uri!r} is outside the registered base paths (which do not include the dataset "
                "root); set allow_external_blob_outside_bases=True to store the URI itself",
                uri=uri,
            )
        return 0, uri

    def _read(self, uri: str, bounds: tuple[int, int] | None) -> bytes:
        store, path = resolve(uri, self._storage_options)
        if bounds is None:
            return bytes(store.get(path))
        start, size = bounds
        [found] = store.get_ranges(path, [ByteRange(start, start + size)])
        return bytes(found)
