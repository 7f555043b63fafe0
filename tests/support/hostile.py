"""Damaged data files: their contents, how they are damaged, and the permitted outcomes of reading them.

Whatever the bytes, reading ends with a table of the wanted schema that Arrow finds valid, or with a ``LanceError``: no
other exception, no hang, and no memory that the size of the file does not justify.
"""

from __future__ import annotations

import contextlib
import io
import resource
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.file.families import open_writer
from lance_core.file.read_config import ReadConfig
from lance_core.file.reader import FileReader
from lance_core.file.v2_0.assignment import assigned_columns
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_file
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.versions import LanceFileVersion

PATH = "hostile.lance"
NUM_ROWS = 40
SECONDS_PER_CASE = 30
ALLOWANCE_BYTES = 1 << 30
"""Address space on top of what is in use: threads and allocators reserve far more than they touch."""

RESIDENT_BYTES = 64 << 20
RESIDENT_PER_FILE_BYTE = 4


def _struct_values(name: str, *, nulls: bool) -> list[Any]:
    return [
        None if nulls and i % 7 == 0 else {"name": None if i % 5 == 0 else f"n{i}", "tags": [i, None][: i % 3]}
        for i in range(NUM_ROWS)
    ]


PERSON = pa.struct([("name", pa.string()), ("tags", pa.list_(pa.int16()))])
PACKED = pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.int64(), nullable=False)])


def _nested(*, nulls: bool) -> dict[str, pa.Array]:
    return {"p": pa.array(_struct_values("p", nulls=nulls), PERSON)}


def _maps() -> pa.Array:
    return pa.array([[("k", i), ("l", None)][: i % 3] for i in range(NUM_ROWS)], pa.map_(pa.string(), pa.int32()))


def _strings() -> dict[str, pa.Array]:
    return {
        "short": pa.array([None if i % 4 == 0 else "ab" * (i % 6) for i in range(NUM_ROWS)]),
        "long": pa.array([f"{i}" * 300 for i in range(NUM_ROWS)], pa.large_string()),
        "dictionary": pa.array(["x", "y", "z", "x"] * (NUM_ROWS // 4)).dictionary_encode(),
        "same": pa.array(["constant"] * NUM_ROWS),
    }


def _fixed_size_lists() -> dict[str, pa.Array]:
    return {
        "vector": pa.array([[i, i + 1.5] for i in range(NUM_ROWS)], pa.list_(pa.float32(), 2)),
        "items": pa.array([None if i % 3 == 0 else [i, None, 3] for i in range(NUM_ROWS)], pa.list_(pa.int16(), 3)),
        "wide": pa.array([[i] * 100 for i in range(NUM_ROWS)], pa.list_(pa.float64(), 100)),
        "number": pa.array(range(NUM_ROWS), pa.int64()),
        "flag": pa.array([i % 3 == 0 for i in range(NUM_ROWS)]),
    }


def _with_metadata(arrays: Mapping[str, pa.Array], metadata: Mapping[str, Mapping[str, str]]) -> pa.Table:
    fields = [
        pa.field(
            name,
            array.type,
            nullable=not pa.types.is_struct(array.type) or name not in metadata,
            metadata=metadata.get(name),
        )
        for name, array in arrays.items()
    ]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def _encodings() -> pa.Table:
    return _with_metadata(
        {
            "fsst": pa.array([f"https://example.com/{i * 7919 % 10007}" for i in range(2000)]),
            "dictionary": pa.array(["red", "green", "blue", None] * 500),
            "runs": pa.array(np.arange(2000) // 100, pa.int64()),
            "zstd": pa.array(np.arange(2000) % 50, pa.int32()),
            "planes": pa.array(np.sqrt(np.arange(2000)), pa.float32()),
            "lists": pa.array([[i] * (i % 3) if i % 7 else None for i in range(2000)], pa.list_(pa.int32())),
        },
        {
            "zstd": {"lance-encoding:compression": "zstd"},
            "planes": {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"},
        },
    )


def _compressed() -> pa.Table:
    text = pa.array([None if i % 9 == 0 else f"some text {i % 7} " * 3 for i in range(150)])
    return _with_metadata(
        {"zstd": text, "lz4": text, "automatic": pa.array(["red", "green", None] * 50)},
        {
            "zstd": {"lance-encoding:compression": "zstd"},
            "lz4": {"lance-encoding:compression": "lz4"},
        },
    )


def _packed_and_blobs() -> pa.Table:
    return _with_metadata(
        {
            "packed": pa.array([{"a": i, "b": -i} for i in range(NUM_ROWS)], PACKED),
            "blob": pa.array([None if i % 4 == 0 else b"blob" * (i % 5) for i in range(NUM_ROWS)], pa.large_binary()),
            "n": pa.array(range(NUM_ROWS), pa.int32()),
        },
        {"packed": {"lance-encoding:packed": "true"}, "blob": {"lance-encoding:blob": "true"}},
    )


TABLES: dict[str, pa.Table] = {
    "nested-2.2": pa.table({**_nested(nulls=True), "m": _maps()}),
    "strings-2.2": pa.table(_strings()),
    "encodings-2.2": _encodings(),
    "fixed_size_lists-2.2": pa.table(_fixed_size_lists()),
    "packed_and_blobs-2.2": _packed_and_blobs(),
    "nested-2.1": pa.table(_nested(nulls=True)),
    "strings-2.1": pa.table(_strings()),
    "packed_and_blobs-2.1": _packed_and_blobs(),
    "nested-2.0": pa.table({**_nested(nulls=False), "v": _fixed_size_lists()["items"]}),
    "strings-2.0": pa.table(_strings()),
    "compressed-2.0": _compressed(),
    "packed_and_blobs-2.0": _packed_and_blobs(),
    "nested-0.1": pa.table({**_nested(nulls=False), "v": _fixed_size_lists()["vector"]}),
    "strings-0.1": pa.table({**_strings(), "number": pa.array(range(NUM_ROWS), pa.int64())}),
}
"""Name and format version → what is written, in two batches."""


@dataclass(frozen=True)
class Target:
    """An intact file and how a table would ask for its rows.

    Attributes:
        data: the file.
        metadata_start: where the bytes begin that are not values.
        schema: the fields that are read.
        columns: field id → column; None in 0.1.
        field_ids: what a manifest lists for the file.
        expected: its rows.
    """

    data: bytes
    metadata_start: int
    schema: Schema
    columns: Mapping[int, int] | None
    field_ids: Sequence[int]
    expected: pa.Table


def version_of(name: str) -> str:
    return name.rsplit("-", 1)[1]


@cache
def written_by_us(name: str) -> bytes:
    store, table = MemoryStore(), TABLES[name]
    config = WriteConfig(
        version=LanceFileVersion.parse(version_of(name)), data_cache_bytes=0, max_rows_per_group=NUM_ROWS // 2
    )
    writer = open_writer(store.create(PATH), schema_from_arrow(table.schema), config)
    for batch in table.to_batches(max_chunksize=table.num_rows // 2):
        writer.write_batch(batch)
    writer.finish()
    return bytes(store.get(PATH))


def target_of(data: bytes, table: pa.Table) -> Target:
    """Return the target for an intact file."""
    reader = _open(data, None)
    schema = schema_from_arrow(table.schema)
    columns: Mapping[int, int] | None = None
    if reader.version is LanceFileVersion.V0_1:
        position = int.from_bytes(data[-16:-8], "little")
        start = pb_file.Metadata.FromString(data[position + 4 : -16]).page_table_position
    else:
        start = reader.metadata.global_buffer_ranges[0].start
        if reader.version is LanceFileVersion.V2_0:
            columns = dict(assigned_columns(reader.metadata, None))
        else:
            columns = {leaf.id: index for index, leaf in enumerate(schema.leaves())}
    field_ids = [field.id for field in schema.walk()]
    target = Target(data, start, schema, columns, field_ids, table)
    return Target(data, start, schema, columns, field_ids, read(data, target))


def _open(data: bytes, field_ids: Sequence[int] | None) -> FileReader:
    store = MemoryStore()
    store.put(PATH, data)
    return FileReader.open(store, PATH, field_ids=field_ids)


def read(data: bytes, target: Target) -> pa.Table:
    """Read as a dataset does, by the table's own fields and column numbers: at once, as a stream, and single rows."""
    reader = _open(data, target.field_ids)
    fields, columns = target.schema.fields, target.columns
    found = reader.read_table(fields, column_indices=columns)
    batches = reader.read_batches(fields, column_indices=columns, config=ReadConfig(batch_rows=17))
    assert sum(batch.num_rows for batch in batches) == found.num_rows
    if reader.num_rows:
        rows = np.unique([0, reader.num_rows // 3, reader.num_rows - 1])
        assert reader.take(fields, rows, column_indices=columns).num_rows == len(rows)
    return found


def outcome(data: bytes, target: Target) -> str:
    """Return the outcome of reading; raise if it is not permitted."""
    try:
        found = read(data, target)
    except CorruptDataError:
        return "corrupt"
    except NotSupportedError:
        return "not supported"
    except LanceError as error:
        return type(error).__name__
    assert found.schema.equals(schema_to_arrow(target.schema))
    found.validate(full=False)
    # Reads do not check the bytes of strings, which are returned unchanged.
    complaint = _complaint(found)
    assert complaint is None or "UTF8" in complaint or "UTF-8" in complaint, complaint
    return "equal" if found.equals(target.expected) else "other values"


def _complaint(table: pa.Table) -> str | None:
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def sweep(target: Target, bits: Sequence[int], cuts: Sequence[int]) -> Counter[str]:
    """Flip each bit, truncate at each byte, and count the outcomes."""
    outcomes: Counter[str] = Counter()
    with bounded_memory(len(target.data)):
        for bit in bits:
            changed = bytearray(target.data)
            changed[bit // 8] ^= 1 << bit % 8
            outcomes[_checked(bytes(changed), target, f"bit {bit}")] += 1
        for stop in cuts:
            result = _checked(target.data[:stop], target, f"cut at {stop}")
            assert result == "corrupt", f"cut at {stop}: {result}"
            outcomes["cut"] += 1
    return outcomes


def _checked(data: bytes, target: Target, what: str) -> str:
    try:
        with time_limit():
            return outcome(data, target)
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


class HangError(BaseException):
    """Raised when a case takes too long."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise ``HangError`` in a case that does not end; only for the main thread."""

    def ring(signum: int, frame: object) -> None:
        raise HangError(f"no result after {SECONDS_PER_CASE} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    # The time limit of the test continues afterward.
    of_test, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_CASE)
    try:
        yield
    finally:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if of_test:
            signal.setitimer(signal.ITIMER_REAL, max(of_test - (SECONDS_PER_CASE - left), 0.001))


@contextlib.contextmanager
def bounded_memory(file_bytes: int) -> Iterator[None]:
    """Let large allocations fail at once, and check the resident memory behind the last case.

    Raises:
        AssertionError: more than 4 times the file and 64 MB were resident at some moment.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_bytes("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (in_use + ALLOWANCE_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    grown = _status_bytes("VmHWM") - before
    bound = RESIDENT_BYTES + RESIDENT_PER_FILE_BYTE * file_bytes
    assert grown <= bound, f"{grown} bytes more were resident, allowed are {bound}"


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def sampled(whole: range, num_samples: int) -> range:
    # An odd step visits all eight bits of bytes.
    return whole[:: max(1, len(whole) // num_samples) | 1]


def metadata_bits(target: Target) -> range:
    return range(target.metadata_start * 8, len(target.data) * 8)


def value_bits(target: Target) -> range:
    return range(target.metadata_start * 8)


def main(names: Sequence[str], num_bits: int) -> None:
    """Damage the values of some files, and print the outcomes; runs in a separate process."""
    text = io.StringIO()
    for name in names:
        target = target_of(written_by_us(name), TABLES[name])
        text.write(f"{name} {dict(sweep(target, sampled(value_bits(target), num_bits), range(0)))}\n")
    print(text.getvalue(), end="")
