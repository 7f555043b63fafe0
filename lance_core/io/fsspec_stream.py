"""FsspecWriteStream: collects an object in a local temporary file until ``commit`` sends it."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, Final, Protocol

from lance_core.errors import StorageError
from lance_core.io.object_store import WriteStream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FsspecWriteStream"]

_KEPT_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


class _Target(Protocol):
    """The store to which the object is written."""

    def put(self, path: str, data: pa.Buffer | bytes) -> None: ...

    def send_file(self, local_path: str, path: str) -> None: ...


class FsspecWriteStream(WriteStream):
    """Collects the parts of an object in a temporary file until ``commit`` sends the file."""

    def __init__(self, store: _Target, path: str) -> None:
        """Create the stream without sending anything."""
        self._store = store
        self._path = path
        self._file: Any = tempfile.SpooledTemporaryFile(  # noqa: SIM115  # closed by abort
            max_size=_KEPT_IN_MEMORY_BYTES
        )
        self._position = 0

    @property
    def position(self) -> int:
        """Number of bytes written so far."""
        return self._position

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        """Append bytes."""
        view = memoryview(data).cast("B")
        self._open().write(view)
        self._position += len(view)

    def commit(self, *, durable: bool = True) -> None:
        """Send the collected data; an object that is visible is durable."""
        del durable
        file = self._open()
        if self._position <= _KEPT_IN_MEMORY_BYTES:
            file.seek(0)
            self._store.put(self._path, file.read())
        else:
            with tempfile.NamedTemporaryFile() as named:
                file.seek(0)
                while part := file.read(_KEPT_IN_MEMORY_BYTES):
                    named.write(part)
                named.flush()
                self._store.send_file(named.name, self._path)
        self.abort()

    def abort(self) -> None:
        """Discard the collected data."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> Any:
        if self._file is None:
            raise StorageError(f"cannot write {self._path}: the stream is closed", path=self._path)
        return self._file
