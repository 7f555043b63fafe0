"""Random tables of the types that format 2.0 can store, and their files, written and read by either library."""

from __future__ import annotations

import decimal
import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_core.file.data_file_writer import WrittenFile
from lance_core.file.families import open_writer
from lance_core.file.file_bytes import FileBytes, run_steps
from lance_core.file.metadata_reader import MetadataReader
from lance_core.file.v2_0.fields import v2_0_sources
from lance_core.file.write_config import WriteConfig
from lance_core.io.local_store import LocalStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field, Schema
from lance_core.schema.logical_types import arrow_type
from lance_core.versions import LanceFileVersion

FIXED = [
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.decimal128(20, 3),
    pa.decimal256(50, 2),
    pa.binary(3),
    pa.date32(),
    pa.timestamp("us", "+05:30"),
    pa.time64("ns"),
    pa.duration("ms"),
]
VARIABLE = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        leaf = rng.random()
        if leaf < 0.5:
            return rng.choice(FIXED)
        if leaf < 0.8:
            return rng.choice(VARIABLE)
        if leaf < 0.9:
            return pa.dictionary(rng.choice([pa.int8(), pa.uint16(), pa.int32()]), rng.choice([*VARIABLE, pa.int64()]))
        return pa.null()
    if kind < 0.55:
        item = rng.choice(FIXED)
        inner = pa.list_(item, rng.randint(1, 3)) if rng.random() < 0.3 else item
        return pa.list_(inner, rng.randint(1, 4))
    if kind < 0.8:
        make = rng.choice([pa.list_, pa.large_list])
        return make(random_type(rng, depth - 1))
    members = [pa.field(f"m{i}", random_type(rng, depth - 1)) for i in range(rng.randint(0, 3))]
    return pa.struct(members)


def random_array(rng: random.Random, dtype: pa.DataType, num_rows: int, may_be_null: bool = True) -> pa.Array:
    """Return rows with nulls anywhere except in structs."""
    share = rng.choice([0.0, 0.0, 0.2, 0.7, 1.0]) if may_be_null else 0.0
    valid = np.array([rng.random() >= share for _ in range(num_rows)], np.bool_)
    if pa.types.is_null(dtype):
        return pa.nulls(num_rows)
    if pa.types.is_struct(dtype):
        members = [random_array(rng, member.type, num_rows) for member in dtype]
        return pa.Array.from_buffers(dtype, num_rows, [None], children=members)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        longest = rng.choice([0, 1, 3, 6])
        # Lists hidden by nulls may contain items.
        sizes = np.array([rng.randint(0, longest) for _ in range(num_rows)], np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        items = random_array(rng, dtype.value_type, int(offsets[-1]))
        width = np.int32 if pa.types.is_list(dtype) else np.int64
        return pa.Array.from_buffers(
            dtype, num_rows, [_bitmap(valid), pa.py_buffer(offsets.astype(width))], children=[items]
        )
    if pa.types.is_fixed_size_list(dtype):
        items = random_array(rng, dtype.value_type, num_rows * dtype.list_size)
        return pa.Array.from_buffers(dtype, num_rows, [_bitmap(valid)], children=[items])
    if pa.types.is_dictionary(dtype):
        items = random_array(rng, dtype.value_type, rng.randint(1, 6), rng.random() < 0.3)
        indices = pa.array([rng.randrange(len(items)) for _ in range(num_rows)], dtype.index_type, mask=~valid)
        return pa.DictionaryArray.from_arrays(indices, items)
    if pa.types.is_temporal(dtype):
        storage = {32: np.int32, 64: np.int64}[dtype.bit_width]
        numbers = np.array([rng.randrange(80000) for _ in range(num_rows)], storage)
        return pa.array(numbers, mask=~valid).view(dtype)
    return pa.array(_leaf_values(rng, dtype, num_rows), dtype, mask=~valid)


def _leaf_values(rng: random.Random, dtype: pa.DataType, num_rows: int) -> object:
    if dtype in VARIABLE:
        distinct = rng.choice([3, 100000])
        words = [f"v{rng.randrange(distinct)}" * rng.randint(0, 2) for _ in range(num_rows)]
        is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
        return np.array(words if is_text else [word.encode() for word in words], object)
    if pa.types.is_boolean(dtype):
        return np.array([rng.random() < 0.5 for _ in range(num_rows)], np.bool_)
    if pa.types.is_decimal(dtype):
        return np.array([decimal.Decimal(rng.randrange(10**6)).scaleb(-dtype.scale) for _ in range(num_rows)], object)
    if pa.types.is_fixed_size_binary(dtype):
        return np.array([rng.randbytes(3) for _ in range(num_rows)], object)
    return np.array([rng.randrange(100) for _ in range(num_rows)]).astype(dtype.to_pandas_dtype())


def _bitmap(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def random_table(rng: random.Random, num_rows: int, num_columns: int = 3, depth: int = 3) -> pa.Table:
    types = [random_type(rng, depth) for _ in range(num_columns)]
    return pa.table({f"c{i}": random_array(rng, dtype, num_rows) for i, dtype in enumerate(types)})


def compact(table: pa.Table) -> pa.Table:
    """The same rows without offsets: the reference panics on slices of nested structs."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def write_theirs(path: Path | str, batches: list[pa.Table], **options: object) -> Path:
    if os.path.exists(path):
        os.remove(path)
    with LanceFileWriter(str(path), batches[0].schema, version="2.0", **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return Path(path)


def write_ours(path: Path | str, batches: list[pa.Table], schema: Schema | None = None, **options: int) -> WrittenFile:
    with LocalStore().create(str(path)) as stream:
        config = WriteConfig(version=LanceFileVersion.V2_0, **options)
        writer = open_writer(stream, schema or schema_from_arrow(batches[0].schema), config)
        for table in batches:
            for batch in table.combine_chunks().to_batches():
                writer.write_batch(batch)
        return writer.finish()


def open_ours(path: Path | str) -> MetadataReader:
    return MetadataReader(FileBytes(LocalStore(), str(path)))


def read_ours(path: Path | str, start: int = 0, stop: int | None = None, fields: list[Field] | None = None) -> pa.Table:
    """Rows through the sources of format 2.0, segment by segment, every array validated."""
    metadata = open_ours(path)
    stop = metadata.num_rows if stop is None else stop
    columns = {}
    for source in v2_0_sources(metadata, fields or metadata.schema.fields):
        dtype = arrow_type(source.field)
        arrays = [source.decode(segment, metadata.read) for segment in source.plan(start, stop)]
        _check_type(arrays, dtype)
        columns[source.field.name] = pa.chunked_array(arrays, dtype)
    return pa.table(columns)


def take_ours(path: Path | str, rows: list[int]) -> pa.Table:
    metadata = open_ours(path)
    columns = {}
    for source in v2_0_sources(metadata, metadata.schema.fields):
        dtype = arrow_type(source.field)
        arrays = run_steps(source.take_steps(np.array(rows, np.int64)), metadata.read)
        _check_type(arrays, dtype)
        columns[source.field.name] = pa.chunked_array(arrays, dtype)
    return pa.table(columns)


def read_theirs(path: Path | str) -> pa.Table:
    return LanceFileReader(str(path)).read_all().to_table()


def _check_type(arrays: list[pa.Array], dtype: pa.DataType) -> None:
    for array in arrays:
        assert array.type == dtype
        array.validate(full=True)
