"""Malformed input, invalid row numbers, abandoned writers, interrupts, and forks."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.buffers.byte_cache import ByteCache
from lance_core.errors import InvalidInputError, InvalidTypeError, RowOutOfRangeError
from lance_core.file import scan
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from lance_core.file.read_config import ReadConfig
from tests.support.hidden_garbage import with_hidden_garbage


def _offsets(*numbers: int) -> pa.Buffer:
    return pa.py_buffer(np.array(numbers, np.int32))


def _table_of(dtype: pa.DataType, buffers: list[pa.Buffer | None], num_rows: int) -> pa.RecordBatch:
    # Arrow checks arrays that it builds from buffers, but not arrays imported through the C interface.
    good = pa.Array.from_buffers(dtype, num_rows, buffers)
    return pa.record_batch([good], ["c"])


def _malformed() -> dict[str, pa.RecordBatch]:
    indices = pa.array([0, 9], pa.int32())
    outside = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    unsorted = _table_of(pa.string(), [None, _offsets(0, 3, 1, 3), pa.py_buffer(b"abc")], 3)
    not_text = _table_of(pa.string(), [None, _offsets(0, 1, 2), pa.py_buffer(b"\xff\xfe")], 2)
    split = _table_of(pa.string(), [None, _offsets(0, 1, 2), pa.py_buffer("é".encode())], 2)
    nested = pa.record_batch([pa.StructArray.from_arrays([outside], ["d"])], ["c"])
    return {
        "dictionary": pa.record_batch([outside], ["c"]),
        "offsets": unsorted,
        "text": not_text,
        "split character": split,
        "struct": nested,
    }


@pytest.mark.parametrize("name", list(_malformed()))
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_malformed_batches_are_refused(tmp_path: Path, name: str, version: str) -> None:
    batch = _malformed()[name]
    good = batch.schema.empty_table()
    with LanceFileWriter(tmp_path / "f", batch.schema, version=version) as writer:
        with pytest.raises(InvalidInputError, match="malformed"):
            writer.write_batch(batch)
        writer.write_batch(good)
    assert LanceFileReader(tmp_path / "f").num_rows() == 0


_LEAVES = {
    "dictionary": pa.array(["a", "b", "c", "d"]).dictionary_encode(),
    "text": pa.array(["a", "bc", "", "def"]),
    "large text": pa.array(["a", "bc", "", "def"], pa.large_string()),
    "decimal128": pa.array([1, 2, 3, 4], pa.decimal128(3, 0)),
    "decimal256": pa.array([1, 2, 3, 4], pa.decimal256(3, 0)),
}
_HIDDEN = pa.array([False, True, True, False])


def _below_nulls(leaf: pa.Array, parent: str) -> pa.Array:
    """Return four values, of which two are hidden by nulls."""
    if parent == "struct":
        return pa.StructArray.from_arrays([leaf], ["f"], mask=_HIDDEN)
    if parent == "struct with required member":
        return pa.StructArray.from_arrays([leaf], fields=[pa.field("f", leaf.type, nullable=False)], mask=_HIDDEN)
    if parent == "struct in struct":
        return pa.StructArray.from_arrays([pa.StructArray.from_arrays([leaf], ["g"])], ["f"], mask=_HIDDEN)
    if parent in ("list", "struct in list"):
        items = pa.StructArray.from_arrays([leaf], ["g"]) if parent == "struct in list" else leaf
        return pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), items, mask=_HIDDEN)
    if parent == "large list":
        return pa.LargeListArray.from_arrays(pa.array(range(5), pa.int64()), leaf, mask=_HIDDEN)
    if parent == "list in struct":
        lists = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), leaf)
        return pa.StructArray.from_arrays([lists], ["f"], mask=_HIDDEN)
    if parent == "null struct in list":
        return pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4], pa.int32()), _below_nulls(leaf, "struct"))
    if parent == "map":
        dtype = pa.map_(pa.string(), leaf.type)
        entries = pa.StructArray.from_arrays([pa.array(list("wxyz")), leaf], fields=[dtype.key_field, dtype.item_field])
        return pa.Array.from_buffers(dtype, 4, [pa.py_buffer(b"\x09"), _offsets(0, 1, 2, 3, 4)], children=[entries])
    items = pa.StructArray.from_arrays([leaf], ["f"]) if parent == "fixed-size list of structs" else leaf
    return pa.FixedSizeListArray.from_arrays(items, 1, mask=_HIDDEN)


_PARENTS = {
    "2.0": ["list", "large list", "fixed-size list"],
    "2.1": ["list", "large list", "fixed-size list", "struct", "struct with required member", "struct in struct"],
    "2.2": ["struct in list", "list in struct", "null struct in list", "map", "fixed-size list of structs"],
}
_PARENTS["2.1"] += _PARENTS["2.2"][:3]
_PARENTS["2.2"] += _PARENTS["2.1"][:6]


@pytest.mark.parametrize(("parent", "version"), [(each, version) for version in _PARENTS for each in _PARENTS[version]])
@pytest.mark.parametrize("leaf", list(_LEAVES))
@pytest.mark.sampled(24)
def test_malformed_values_hidden_by_nulls_are_ignored(tmp_path: Path, leaf: str, parent: str, version: str) -> None:
    if parent == "fixed-size list" and not leaf.startswith("decimal"):
        pytest.skip("fixed-size lists hold values of fixed width only")
    expected = _below_nulls(_LEAVES[leaf], parent)
    written = with_hidden_garbage(expected)
    with pytest.raises(pa.ArrowInvalid):
        written.validate(full=True)
    table = pa.table({"c": written})
    for start, stop in ((0, 4), (1, 4), (1, 3), (0, 2)):
        part, wanted = table[start:stop], expected[start:stop].to_pylist()
        lance_core.write_dataset(part, tmp_path / "t", data_storage_version=version, mode="overwrite")
        assert lance_core.dataset(tmp_path / "t").to_table()["c"].to_pylist() == wanted
        assert lance.dataset(tmp_path / "t").to_table()["c"].to_pylist() == wanted
        with LanceFileWriter(tmp_path / "f", part.schema, version=version) as writer:
            writer.write_batch(part)
        assert LanceFileReader(tmp_path / "f").read_all().to_table()["c"].to_pylist() == wanted


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_null_structs_with_members_of_empty_dictionaries_are_written(tmp_path: Path, version: str) -> None:
    array = pa.array([None, None], pa.struct([("f", pa.dictionary(pa.int16(), pa.string()))]))
    lance_core.write_dataset(pa.table({"c": array}), tmp_path / "t", data_storage_version=version)
    for library in (lance, lance_core):
        assert library.dataset(tmp_path / "t").to_table()["c"].to_pylist() == [None, None]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
def test_descending_offsets_hidden_by_nulls_are_refused(tmp_path: Path, version: str) -> None:
    text = pa.Array.from_buffers(pa.string(), 3, [None, _offsets(0, 3, 1, 3), pa.py_buffer(b"abc")])
    array = pa.StructArray.from_arrays([text], ["f"], mask=pa.array([True] * 3))
    with LanceFileWriter(tmp_path / "f", pa.schema([("c", array.type)]), version=version) as writer:
        with pytest.raises(InvalidInputError, match="malformed"):
            writer.write_batch(pa.record_batch([array], ["c"]))
        writer.write_batch(pa.schema([("c", array.type)]).empty_table())


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "f")
    with LanceFileWriter(place) as writer:
        writer.write_batch(pa.table({"a": [0, 1, 2]}))
    return place


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([1 << 70], RowOutOfRangeError),
        ([1 << 63], RowOutOfRangeError),
        (["x"], InvalidTypeError),
        ([1.5], InvalidTypeError),
        ([None], InvalidTypeError),
        ([[0], [1, 2]], InvalidInputError),
        ([[0]], InvalidInputError),
    ],
)
def test_take_of_invalid_row_positions_is_refused(
    path: str, tmp_path: Path, rows: list[object], error: type[Exception]
) -> None:
    reader = LanceFileReader(path)
    dataset = lance_core.write_dataset(pa.table({"a": [0, 1, 2]}), tmp_path / "t")
    for take in (reader.take_rows, dataset.take, dataset.get_fragments()[0].take):
        with pytest.raises(error):
            take(rows)


def test_read_range_with_invalid_arguments_is_refused(path: str) -> None:
    reader = LanceFileReader(path)
    for start, num_rows in (("x", 1), (0, 1.5), (1 << 70, 1), (0, 1 << 70)):
        with pytest.raises(InvalidInputError):
            reader.read_range(start, num_rows)
    with pytest.raises(InvalidTypeError):
        reader.read_all(batch_size=1.5)


def test_garbage_collected_writer_leaves_no_file(tmp_path: Path) -> None:
    writer = LanceFileWriter(tmp_path / "f")
    writer.write_batch(pa.table({"a": [1]}))
    assert os.listdir(tmp_path)
    del writer
    gc.collect()
    assert not os.listdir(tmp_path)


class _Source:
    """A source that decodes only when permitted."""

    field = None

    def __init__(self) -> None:
        self.started, self.may_end, self.ended = threading.Event(), threading.Event(), threading.Event()

    def decode(self, segment: object, read: object) -> pa.Array:
        self.started.set()
        self.may_end.wait(60)
        self.ended.set()
        return pa.array([1])


class _Segment:
    start, stop, num_bytes = 0, 1, 1 << 30


def test_interrupted_scan_waits_for_its_running_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    source = _Source()
    seen = []

    def interrupted(future: object, timeout: object = None) -> None:
        raise KeyboardInterrupt

    def waited(futures: list[object]) -> None:
        seen.extend(futures)

    monkeypatch.setattr(scan, "wait", waited)
    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    monkeypatch.setattr("concurrent.futures.Future.cancel", lambda _: False)
    ahead = scan._ReadAhead([scan.FieldPlan(source, [_Segment()])], lambda ranges: [], ReadConfig())
    with pytest.raises(KeyboardInterrupt), ahead:
        ahead.next(0)
    source.may_end.set()
    assert len(seen) == 1


_hooks: list[threading.Event] = []
os.register_at_fork(before=lambda: [event.set() for event in _hooks])


class _SlowKey(tuple):
    """A key whose lookup lasts until a fork begins."""

    started, forks = threading.Event(), threading.Event()

    def __hash__(self) -> int:
        self.started.set()
        self.forks.wait(60)
        return 1


def test_a_forked_process_can_use_an_inherited_cache() -> None:
    cache: ByteCache[tuple[int, int], str] = ByteCache(100)
    cache.put((0, 0), "a", 1)
    _hooks.append(_SlowKey.forks)
    thread = threading.Thread(target=cache.get, args=(_SlowKey((1, 1)),))
    thread.start()
    assert _SlowKey.started.wait(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        os._exit(0 if cache.get((0, 0)) == "a" else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


_LOADING = """
import os, signal, sys, threading
from lance_core.encodings.kernels import loading
started, forks = threading.Event(), threading.Event()
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numba" and not started.is_set():
            started.set(); forks.wait(60)
sys.meta_path.insert(0, Finder())
os.register_at_fork(before=forks.set)
thread = threading.Thread(target=loading.load_now, args=("fastlanes",)); thread.start()
started.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    module = loading.load_now("fastlanes")
    os._exit(0 if hasattr(module, "unpack") else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_fork_waits_for_kernels_that_are_being_loaded() -> None:
    subprocess.run([sys.executable, "-c", _LOADING], check=True, timeout=120)
