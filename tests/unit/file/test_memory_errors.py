"""Running out of memory while rows are read raises the same typed error wherever it happens."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_core import LanceFileReader, LanceFileWriter
from lance_core.errors import LanceError, OutOfMemoryError
from lance_core.file import reader as reader_module

PATH = "memory://memory-errors/f.lance"


@pytest.fixture
def reader() -> LanceFileReader:
    table = pa.table({"a": range(10)})
    with LanceFileWriter(PATH, table.schema) as writer:
        writer.write_batch(table)
    return LanceFileReader(PATH)


def no_memory(*_: object, **__: object) -> Iterator[object]:
    raise pa.ArrowMemoryError("malloc of size 17179869184 failed")


@pytest.mark.parametrize("error", [MemoryError, pa.ArrowMemoryError, OutOfMemoryError])
def test_allocation_failure_in_a_stream_raises_out_of_memory(
    error: type[MemoryError], reader: LanceFileReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batches(*_: object, **__: object) -> Iterator[int]:
        yield 1
        raise error("no memory")

    monkeypatch.setattr(reader_module, "scan_batches", batches)
    files = reader._reader
    stream = files.read_batches(files.schema.fields)
    assert next(stream) == 1
    with pytest.raises(OutOfMemoryError):
        next(stream)


def test_every_read_method_raises_a_typed_out_of_memory_error(
    reader: LanceFileReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scan_batches", "scan_arrays", "run_steps"):
        monkeypatch.setattr(reader_module, name, no_memory)
    files = reader._reader
    ways = [
        lambda: reader.read_all().to_table(),
        lambda: reader.take_rows([1, 5]).to_table(),
        lambda: files.read_table(files.schema.fields),
        lambda: list(files.read_batches(files.schema.fields)),
    ]
    for read in ways:
        with pytest.raises(LanceError, match="do not fit in memory; read fewer rows") as caught:
            read()
        assert isinstance(caught.value, OutOfMemoryError)
        assert isinstance(caught.value, MemoryError)
