"""BlobFile behaves like a regular file over its byte range of an object, and like the BlobFile of pylance."""

import io

import pyarrow as pa
import pytest

from lance_core.blobs.files import BlobColumn, BlobFile, BlobPlace
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.io.memory_store import MemoryStore

CONTENT = bytes(range(256)) * 4
PLACE_START, PLACE_SIZE = 100, 700


class _Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def get_ranges(self, path, ranges):
        self.reads += [part.num_bytes for part in ranges]
        return super().get_ranges(path, ranges)


@pytest.fixture
def store() -> _Counting:
    store = _Counting()
    store.put("object", CONTENT)
    return store


def _open(store: _Counting, buffer_size: int = 64) -> BlobFile:
    return BlobFile(BlobPlace(store, "object", PLACE_START, PLACE_SIZE), buffer_size)


@pytest.mark.parametrize("buffer_size", [0, 1, 64, 10_000])
def test_blob_file_reads_and_seeks_like_a_regular_file(store: _Counting, buffer_size: int) -> None:
    file, twin = _open(store, buffer_size), io.BytesIO(CONTENT[PLACE_START : PLACE_START + PLACE_SIZE])
    steps = [
        lambda f: f.read(10),
        lambda f: f.tell(),
        lambda f: f.seek(5, io.SEEK_CUR),
        lambda f: f.read(100),
        lambda f: f.seek(-20, io.SEEK_END),
        lambda f: f.read(),
        lambda f: f.read(),
        lambda f: f.seek(10_000),
        lambda f: f.read(5),
        lambda f: f.seek(0),
        lambda f: f.read(0),
        lambda f: f.read(None),
        lambda f: f.seek(650),
        lambda f: f.read(100),
    ]
    for step in steps:
        assert step(file) == step(twin)
    assert file.size() == PLACE_SIZE
    assert file.readable()
    assert file.seekable()
    assert repr(file) == "<BlobFile size=700>"
    assert b"".join(_open(store, buffer_size)) == twin.getvalue()


def test_blob_file_reads_ahead_but_not_beyond_its_end(store: _Counting) -> None:
    file = _open(store, 512)
    for _ in range(7):
        file.read(100)
    assert store.reads == [512, 200]


def test_read_range_does_not_move_the_position_of_a_blob_file(store: _Counting) -> None:
    file = _open(store)
    file.seek(3)
    assert file.read_range(1, 4) == CONTENT[101:105]
    assert file.read_ranges([(0, 2), (698, 2), (5, 0)]) == [CONTENT[100:102], CONTENT[798:800], b""]
    assert file.tell() == 3
    for offset, length in ((699, 2), (-1, 1), (0, -1), (701, 0)):
        with pytest.raises(InvalidInputError, match="is not within the blob"):
            file.read_range(offset, length)


def test_readinto_of_a_blob_file_fills_the_buffer(store: _Counting) -> None:
    file = _open(store)
    buffer = bytearray(8)
    assert file.readinto(buffer) == 8
    assert bytes(buffer) == CONTENT[100:108]
    with pytest.raises(InvalidTypeError):
        file.readinto(memoryview(b"read only"))
    file.seek(-3, io.SEEK_END)
    assert file.readinto1(buffer) == 3
    assert io.BufferedReader(_RawView(_open(store))).read() == CONTENT[100:800]


class _RawView(io.RawIOBase):
    def __init__(self, file: BlobFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        return self._file.readinto(buffer)


def test_closed_blob_file_refuses_reads(store: _Counting) -> None:
    with _open(store) as file:
        assert file.read(1)
    assert file.closed
    assert file.size() == PLACE_SIZE
    for call in (file.read, file.readall, file.tell, lambda: file.seek(0), lambda: file.read_range(0, 1)):
        with pytest.raises(InvalidInputError, match="on a closed blob file"):
            call()


def test_blob_file_refuses_invalid_sizes_and_positions(store: _Counting) -> None:
    for size, error in ((-1, InvalidInputError), (True, InvalidTypeError), (1.5, InvalidTypeError)):
        with pytest.raises(error):
            _open(store, size)
    file = _open(store)
    with pytest.raises(InvalidInputError, match="negative"):
        file.seek(-1)
    with pytest.raises(InvalidInputError, match="whence"):
        file.seek(0, 9)


def test_blob_column_yields_one_file_object_per_value() -> None:
    column = BlobColumn(pa.chunked_array([[b"ab", None], [b""]], pa.large_binary()))
    assert [None if file is None else file.read() for file in column] == [b"ab", None, b""]
    for wrong in ([b"ab"], pa.array([1])):
        with pytest.raises(InvalidInputError):
            BlobColumn(wrong)
