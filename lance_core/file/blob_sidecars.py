"""Sidecars: files beside a data file that hold large values of it.

::

    data/{stem}.lance
    data/{stem}/{blob id, 32 binary digits, lowest bit first}.blob

A sidecar holds one value (dedicated) or several, one after the other (packed). Ids count from 1 within the data file.

**Source:** file names written by pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError

if TYPE_CHECKING:
    from lance_core.io.object_store import ObjectStore, WriteStream

__all__ = ["Sidecars", "remove_sidecars", "sidecar_directory", "sidecar_name"]

_ID_BITS: Final = 32
_SUFFIX: Final = ".lance"


def sidecar_name(blob_id: int) -> str:
    """File name of the sidecar of an id.

    Raises:
        CorruptDataError: the id is invalid; ids start at 1.
    """
    if not 0 < blob_id < 1 << _ID_BITS:
        raise CorruptDataError(f"invalid blob id {blob_id}; sidecar ids start at 1", blob_id=blob_id)
    return f"{blob_id:0{_ID_BITS}b}"[::-1] + ".blob"


def sidecar_directory(data_file: str) -> str:
    """The directory of a data file's sidecars, by the path of the file."""
    return data_file.removesuffix(_SUFFIX)


def remove_sidecars(store: ObjectStore, data_file: str) -> None:
    """Remove the sidecars of a data file that no version refers to. What cannot be removed is left to a cleanup."""
    directory = sidecar_directory(data_file)
    if directory == data_file:
        return
    with suppress(LanceError):
        for sidecar in list(store.list(directory)):
            store.delete(sidecar.path)
        store.remove_empty_directory(directory)


class Sidecars:
    """The sidecars of one data file that is being written.

    Args:
        store: the store of the data file.
        data_file: its path.
    """

    def __init__(self, store: ObjectStore, data_file: str) -> None:
        """Nothing is written yet."""
        self._store = store
        self._data_file = data_file
        self._streams: list[WriteStream] = []

    def create(self) -> tuple[int, WriteStream]:
        """Start the next sidecar.

        Returns:
            Its id and where its bytes go. Whoever asked commits the stream; :meth:`abort` ends what is left open.
        """
        blob_id = len(self._streams) + 1
        if blob_id >= 1 << _ID_BITS:
            raise NotSupportedError(f"{self._data_file}: a data file can have at most {blob_id - 1} sidecars")
        path = self._store.join(sidecar_directory(self._data_file), sidecar_name(blob_id))
        stream = self._store.create(path)
        self._streams.append(stream)
        return blob_id, stream

    def abort(self) -> None:
        """Remove every sidecar. Safe after any failure, and twice."""
        streams, self._streams = self._streams, []
        for stream in streams:
            with suppress(LanceError):
                stream.abort()
        if streams:
            remove_sidecars(self._store, self._data_file)
