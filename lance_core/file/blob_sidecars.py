"""Sidecars: files that hold the large values of a data file, in a directory that is named after it.

::

    data/{stem}.lance
    data/{stem}/{blob id, 32 binary digits, lowest bit first}.blob

A sidecar holds one value (dedicated) or several, one after another (packed). Ids start at 1 within each data file.

**Source:** file names written by pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.io.removal import Leftover, remove_objects_below

if TYPE_CHECKING:
    from lance_core.io.object_store import ObjectStore, WriteStream

__all__ = ["Sidecars", "data_file_leftover", "remove_sidecars", "sidecar_directory", "sidecar_name"]

_ID_BITS: Final = 32
_SUFFIX: Final = ".lance"


def sidecar_name(blob_id: int) -> str:
    """Return the file name of the sidecar with the given id.

    Raises:
        CorruptDataError: the id is invalid; ids start at 1.
    """
    if not 0 < blob_id < 1 << _ID_BITS:
        raise CorruptDataError(f"invalid blob id {blob_id}; expected 1 to 2^{_ID_BITS} - 1", blob_id=blob_id)
    return f"{blob_id:0{_ID_BITS}b}"[::-1] + ".blob"


def sidecar_directory(data_file: str) -> str:
    """Return the directory that contains the sidecars of the data file at ``path``."""
    return data_file.removesuffix(_SUFFIX)


def remove_sidecars(store: ObjectStore, data_file: str) -> None:
    """Remove the sidecars of an unreferenced data file. If a sidecar cannot be removed, a later cleanup removes it."""
    directory = sidecar_directory(data_file)
    if directory == data_file:
        return
    remove_objects_below(store, directory)


def data_file_leftover(store: ObjectStore, data_file: str) -> Leftover:
    """Return an unreferenced data file, to be removed together with its sidecars."""
    directory = sidecar_directory(data_file)
    return Leftover(store, data_file, directory=None if directory == data_file else directory)


class Sidecars:
    """Creates the sidecars of one data file that is being written.

    Args:
        store: the store of the data file.
        data_file: path of the data file.
    """

    def __init__(self, store: ObjectStore, data_file: str) -> None:
        """See the class docstring. Nothing is written until a sidecar is created."""
        self._store = store
        self._data_file = data_file
        self._streams: list[WriteStream] = []

    def create(self) -> tuple[int, WriteStream]:
        """Start the next sidecar.

        Returns:
            The id of the sidecar, and its output stream. The caller commits the stream; :meth:`abort` aborts streams
            that are still open.
        """
        blob_id = len(self._streams) + 1
        if blob_id >= 1 << _ID_BITS:
            raise NotSupportedError(f"{self._data_file}: a data file can have at most {blob_id - 1} sidecars")
        path = self._store.join(sidecar_directory(self._data_file), sidecar_name(blob_id))
        stream = self._store.create(path)
        self._streams.append(stream)
        return blob_id, stream

    def abort(self) -> None:
        """Remove every sidecar. Safe to call after any failure, and more than once."""
        streams, self._streams = self._streams, []
        for stream in streams:
            with suppress(LanceError):
                stream.abort()
        if streams:
            remove_sidecars(self._store, self._data_file)
