"""Random nested tables of the types that a format version can store, and the values that the version preserves."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TEMPORAL = [
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.duration("ms")),
]
FIXED = [*INTEGERS, *FLOATS, *TEMPORAL, pa.bool_(), pa.decimal128(20, 3), pa.decimal256(40, 1), pa.binary(3)]
STRINGS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
VECTORS = [
    *(pa.list_(pa.float32(), 3), pa.list_(pa.bool_(), 5), pa.list_(pa.list_(pa.int16(), 2), 2)),
    *(pa.list_(pa.binary(2), 3), pa.list_(pa.float64(), 40)),
]
DICTIONARIES = [pa.dictionary(pa.int16(), pa.string()), pa.dictionary(pa.int8(), pa.int64())]
COMPRESSIONS = ["zstd", "lz4", "none", "fsst"]
SCALARS = [*FIXED, *STRINGS]
LEAVES = [*SCALARS, *STRINGS, *STRINGS, *VECTORS, *DICTIONARIES, pa.null()]
HIGHEST = {
    "date32[day]": 200_000,
    "date64[ms]": 20_000,
    "time32[s]": 86_399,
    "time32[ms]": 86_399_999,
    "time64[us]": 86_399_999_999,
    "time64[ns]": 86_399_999_999_999,
}


class RandomTable:
    """One table of a seed, as batches.

    Args:
        seed: everything follows from it.
        version: format version, "0.1" to "2.2"; decides which types and nulls appear.
        is_lossless: only content that the version keeps as it is.

    Attributes:
        schema: its schema.
        batches: one to four batches with these rows; between 1 and 3,000 rows in all.
        choose: the source of further decisions.
    """

    def __init__(self, seed: int, version: str, *, is_lossless: bool = True) -> None:
        self.choose = random.Random(f"{version} {seed}")
        self.rng = np.random.default_rng([seed, int(float(version) * 10)])
        self.version = version
        self.is_lossless = is_lossless
        self.schema = pa.schema([self.top_level_field(number) for number in range(self.choose.randint(1, 3))])
        most = self.choose.choice([5, 60, 400, 1100, 3000])
        num_batches = self.choose.choice([1, 1, 2, 3, 4])
        counts = [self.choose.randint(1, max(1, most // num_batches)) for _ in range(num_batches)]
        self.batches = [
            pa.record_batch(
                [self.array(field.type, count, nullable=field.nullable) for field in self.schema], schema=self.schema
            )
            for count in counts
        ]

    @property
    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.batches, self.schema)

    # ── types ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def top_level_field(self, number: int) -> pa.Field:
        dtype = self.dtype(3, is_top=True)
        nullable = pa.types.is_null(dtype) or self.choose.random() < 0.85
        metadata = {}
        if dtype in STRINGS and self.choose.random() < 0.3:
            metadata["lance-encoding:compression"] = self.choose.choice(COMPRESSIONS)
        if dtype in FLOATS[1:] and self.choose.random() < 0.3:
            metadata = {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"}
        if self.version >= "2.1" and self.choose.random() < 0.15 and not has_any(dtype, is_kept_in_small_chunks):
            metadata["lance-encoding:structural-encoding"] = self.choose.choice(["fullzip", "miniblock"])
        if metadata.get("lance-encoding:compression") == "fsst" and (self.version == "2.0" or dtype not in STRINGS[:2]):
            # The reference cannot write it for every type and page.
            metadata = {}
        return pa.field(f"c{number}", dtype, nullable=nullable, metadata=metadata or None)

    def dtype(self, depth: int, *, is_top: bool = False) -> pa.DataType:
        kind = self.choose.random()
        if depth == 0 or kind < 0.35:
            return self.choose.choice([leaf for leaf in LEAVES if self.is_storable(leaf, is_top)])
        if kind < 0.6:
            return pa.struct([self.member(f"f{i}", depth - 1) for i in range(self.choose.randint(1, 3))])
        if kind < 0.85 or self.version != "2.2":
            make = self.choose.choice([pa.list_, pa.list_, pa.large_list])
            return make(self.dtype(depth - 1))
        if kind < 0.94 or not is_top:
            return pa.map_(self.choose.choice([pa.string(), pa.int32()]), self.dtype(depth - 1))
        members = [pa.field(f"p{i}", self.choose.choice(SCALARS)) for i in range(self.choose.randint(1, 2))]
        return pa.list_(pa.struct(members), self.choose.randint(1, 3))

    def is_storable(self, leaf: pa.DataType, is_top: bool) -> bool:
        # In 0.1, a field has only one dictionary, that of its first batch.
        return self.version != "0.1" or not pa.types.is_dictionary(leaf) or is_top

    def member(self, name: str, depth: int) -> pa.Field:
        dtype = self.dtype(depth)
        return pa.field(name, dtype, nullable=pa.types.is_null(dtype) or self.choose.random() < 0.85)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def keeps_nulls(self, dtype: pa.DataType) -> bool:
        """Whether the version has nulls of this type (0.1 has none but of strings; 2.0 none of structs)."""
        if self.version == "2.0":
            return not pa.types.is_struct(dtype)
        if self.version == "0.1":
            if pa.types.is_dictionary(dtype):
                return False
            return not self.is_lossless or dtype in STRINGS
        return True

    def array(self, dtype: pa.DataType, num_rows: int, *, nullable: bool = True) -> pa.Array:
        """Return an array, in one of five cases a slice of a longer one."""
        extra = 10 if self.choose.random() < 0.2 else 0
        rate = self.choose.choice([0.0, 0.0, 0.1, 0.5, 0.95, 1.0])
        has_nulls = nullable and rate > 0 and self.keeps_nulls(dtype)
        mask = self.rng.random(num_rows + extra) < rate if has_nulls else None
        built = self.build(dtype, num_rows + extra, mask, nullable)
        return built[extra // 3 : extra // 3 + num_rows]

    def build(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None, nullable: bool) -> pa.Array:
        if pa.types.is_null(dtype):
            return pa.nulls(num_rows)
        if pa.types.is_struct(dtype):
            members = [self.array(field.type, num_rows, nullable=field.nullable) for field in dtype]
            return pa.StructArray.from_arrays(members, fields=list(dtype), mask=arrow_mask(mask))
        if pa.types.is_fixed_size_list(dtype):
            # Items in 0.1 may be null only if lost nulls are permitted.
            items = self.array(dtype.value_type, num_rows * dtype.list_size)
            return pa.FixedSizeListArray.from_arrays(items, type=dtype, mask=arrow_mask(mask))
        if pa.types.is_map(dtype):
            return self.maps(dtype, num_rows, mask)
        if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
            return self.lists(dtype, num_rows, mask)
        if pa.types.is_dictionary(dtype):
            return self.dictionary(dtype, num_rows, mask)
        if dtype in STRINGS:
            return self.strings(dtype, num_rows, mask, may_be_empty=not (self.version == "0.1" and nullable))
        return self.fixed(dtype, num_rows, mask)

    def maps(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None) -> pa.Array:
        offsets = np.append(0, np.cumsum(self.lengths(num_rows)))
        count = int(offsets[-1])
        keys = self.build(dtype.key_type, count, None, False)
        entries = pa.StructArray.from_arrays(
            [keys, self.array(dtype.item_type, count)], fields=[dtype.key_field, dtype.item_field]
        )
        buffers = [bitmap_of(mask), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(dtype, num_rows, buffers, children=[entries])

    def lists(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None) -> pa.Array:
        # The first two and the last three items belong to no list, and null lists may hide items.
        offsets = np.append(0, np.cumsum(self.lengths(num_rows)))
        items = self.array(dtype.value_type, int(offsets[-1]) + 5, nullable=dtype.value_field.nullable)
        is_large = pa.types.is_large_list(dtype)
        make = pa.LargeListArray if is_large else pa.ListArray
        positions = pa.array(offsets + 2, pa.int64() if is_large else pa.int32())
        return make.from_arrays(positions, items, type=dtype, mask=arrow_mask(mask))

    def lengths(self, num_rows: int) -> np.ndarray:
        match self.choose.randrange(6):
            case 0:
                return np.zeros(num_rows, np.int64)
            case 1:
                return np.full(num_rows, 2)
            case 2:
                lengths = np.zeros(num_rows, np.int64)
                lengths[: min(num_rows, 2)] = self.choose.choice([10, 500, 3000])
                return lengths
            case 3:
                return np.where(self.rng.random(num_rows) < 0.97, 0, 2)
            case _:
                return self.rng.integers(0, 4, num_rows)

    def dictionary(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None) -> pa.Array:
        # Every batch has the same dictionary.
        values = pa.array(["x", "yy", "long" * 5] if dtype.value_type == pa.string() else [5, -7, 1 << 40])
        keys = pa.array(self.rng.integers(0, 3, num_rows)).cast(dtype.index_type)
        if mask is not None:
            keys = pc.if_else(pa.array(mask), pa.scalar(None, dtype.index_type), keys)
        return pa.DictionaryArray.from_arrays(keys, values)

    def strings(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None, *, may_be_empty: bool) -> pa.Array:
        match self.choose.randrange(5):
            case 0:
                values = ["same"] * num_rows
            case 1:
                values = [f"category {number}" for number in self.rng.integers(0, 5, num_rows)]
            case 2:
                values = [f"https://example.com/{number}/é" for number in self.rng.integers(0, 10**9, num_rows)]
            case _:
                width = self.choose.choice([0, 3, 20, 20, 400])
                sizes = (self.rng.random(num_rows) * width).astype(int)
                values = [str(number) * size for number, size in enumerate(sizes)]
        if not may_be_empty:
            values = [value or "-" for value in values]
        if self.is_lossless and self.version == "0.1" and mask is not None:
            # A null in 0.1 is an empty string.
            values = ["" if null else value for value, null in zip(values, mask, strict=True)]
        array = pa.array(values, pa.string()).cast(dtype)
        # Unlike pa.array(..., mask=), this keeps the bytes of null values.
        return pa.Array.from_buffers(dtype, num_rows, [bitmap_of(mask), *array.buffers()[1:]])

    def fixed(self, dtype: pa.DataType, num_rows: int, mask: np.ndarray | None) -> pa.Array:
        if pa.types.is_boolean(dtype):
            array = pa.array(self.rng.random(num_rows) < self.choose.choice([0.5, 1.1, 0.01]))
        elif pa.types.is_decimal(dtype):
            numbers = self.rng.integers(-(10**9), 10**9, num_rows)
            array = pa.array([decimal.Decimal(int(number)).scaleb(-1) for number in numbers], dtype)
        elif pa.types.is_fixed_size_binary(dtype):
            array = pa.array([self.rng.bytes(dtype.byte_width) for _ in range(num_rows)], dtype)
        elif pa.types.is_floating(dtype):
            special = self.rng.choice([0.0, -0.0, np.nan, np.inf, 1.5], num_rows)
            values = special if self.choose.random() < 0.3 else self.rng.random(num_rows)
            array = pa.array(values.astype(f"f{dtype.bit_width // 8}"))
        else:
            array = self.numbers(dtype, num_rows)
        return pa.Array.from_buffers(dtype, num_rows, [bitmap_of(mask), array.buffers()[1]])

    def numbers(self, dtype: pa.DataType, num_rows: int) -> pa.Array:
        largest = HIGHEST.get(str(dtype), 1 << 50 if pa.types.is_temporal(dtype) else (1 << (dtype.bit_width - 1)) - 1)
        high = min(largest, self.choose.choice([1, 2, 100, 127, 1 << 30, 1 << 62]))
        signed = pa.types.is_signed_integer(dtype) or pa.types.is_timestamp(dtype)
        low = -high if signed and self.choose.random() < 0.3 else 0
        values = self.rng.integers(low, high + 1, num_rows)
        if self.choose.random() < 0.2:
            values = np.repeat(values, 60)[:num_rows]
        if pa.types.is_date64(dtype):
            values = values * 86_400_000
        sign = "u" if pa.types.is_unsigned_integer(dtype) else "i"
        return pa.array(values.astype(f"{sign}{dtype.bit_width // 8}"))


def arrow_mask(mask: np.ndarray | None) -> pa.Array | None:
    return None if mask is None else pa.array(mask)


def bitmap_of(mask: np.ndarray | None) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(~mask, bitorder="little"))


def has_any(dtype: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Return whether the type, or a type inside it, passes the test."""
    return test(dtype) or any(has_any(dtype.field(number).type, test) for number in range(dtype.num_fields))


def is_kept_in_small_chunks(dtype: pa.DataType) -> bool:
    """Return whether the reference refuses some ``lance-encoding:structural-encoding`` for the type."""
    return pa.types.is_fixed_size_list(dtype) or pa.types.is_dictionary(dtype)


# ── values in 0.1 ────────────────────────────────────────────────────────────────────────────────────────────────────


def as_kept_by_0_1(array: pa.Array, *, nullable: bool = True) -> pa.Array:
    """What a file in format 0.1 keeps of an array: there is no validity, and empty strings are the nulls."""
    dtype, count = array.type, len(array)
    if pa.types.is_null(dtype) or pa.types.is_dictionary(dtype):
        return array
    if pa.types.is_boolean(dtype):
        return array.fill_null(False)
    if dtype in STRINGS:
        bare = pa.Array.from_buffers(dtype, count, [None, *array.buffers()[1:]], offset=array.offset)
        if not nullable:
            return bare
        lengths = pc.binary_length(bare)
        return pc.if_else(pc.equal(lengths, 0), pa.scalar(None, dtype), bare)
    if pa.types.is_struct(dtype):
        members = [array.field(number) for number in range(dtype.num_fields)]
        kept = [as_kept_by_0_1(member, nullable=field.nullable) for member, field in zip(members, dtype, strict=True)]
        return pa.StructArray.from_arrays(kept, fields=list(dtype))
    if pa.types.is_fixed_size_list(dtype):
        first, stop = array.offset * dtype.list_size, (array.offset + count) * dtype.list_size
        items = as_kept_by_0_1(array.values[first:stop])
        return pa.FixedSizeListArray.from_arrays(items, type=dtype)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        make = pa.LargeListArray if pa.types.is_large_list(dtype) else pa.ListArray
        items = as_kept_by_0_1(array.values, nullable=dtype.value_field.nullable)
        return make.from_arrays(array.offsets, items, type=dtype)
    return pa.Array.from_buffers(dtype, count, [None, array.buffers()[1]], offset=array.offset)


def without_hidden_values(array: pa.Array, hidden: np.ndarray | None = None) -> pa.Array:
    """The array with zeros, empty strings and empty lists where it, or a struct around it, is null.

    Args:
        array: any of the types of format 0.1.
        hidden: (len(array),) mask of the slots that a null around the array hides.
    """
    dtype, count = array.type, len(array)
    if pa.types.is_null(dtype) or pa.types.is_dictionary(dtype):
        return array
    absent = array.is_null().to_numpy(zero_copy_only=False)
    absent = absent if hidden is None else absent | hidden
    if pa.types.is_struct(dtype):
        members = [without_hidden_values(array.field(number), absent) for number in range(dtype.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(dtype))
    if pa.types.is_fixed_size_list(dtype):
        first, stop = array.offset * dtype.list_size, (array.offset + count) * dtype.list_size
        items = without_hidden_values(array.values[first:stop], np.repeat(absent, dtype.list_size))
        return pa.FixedSizeListArray.from_arrays(items, type=dtype)
    if pa.types.is_boolean(dtype):
        return pa.array(array.fill_null(False).to_numpy(zero_copy_only=False) & ~absent)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lengths = np.where(absent, 0, pc.list_value_length(array).fill_null(0).to_numpy())
        starts = array.offsets.to_numpy()[:-1]
        offsets = np.append(0, np.cumsum(lengths))
        rows = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        make = pa.LargeListArray if pa.types.is_large_list(dtype) else pa.ListArray
        positions = pa.array(offsets, pa.int64() if pa.types.is_large_list(dtype) else pa.int32())
        return make.from_arrays(positions, without_hidden_values(array.values.take(pa.array(rows))), type=dtype)
    if dtype in STRINGS:
        values = pa.array([b"" if gone else value for gone, value in zip(absent, plain_bytes(array), strict=True)])
        return values.cast(dtype)
    width = dtype.bit_width // 8
    start = array.offset * width
    data = np.frombuffer(array.buffers()[1], np.uint8)[start : start + count * width].reshape(count, width).copy()
    data[absent] = 0
    return pa.Array.from_buffers(dtype, count, [None, pa.py_buffer(data)])


def plain_bytes(array: pa.Array) -> list[bytes]:
    return array.cast(pa.large_binary()).to_pylist()


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def difference(left: pa.Array, right: pa.Array, where: str = "") -> str | None:
    """Return where two arrays differ, or None if they are bit-identical: NaN equals itself, -0.0 does not equal 0.0."""
    if left.type != right.type:
        return f"{where}: {left.type} and {right.type}"
    if len(left) != len(right):
        return f"{where}: {len(left)} and {len(right)} values"
    if not left.is_valid().equals(right.is_valid()):
        row = np.flatnonzero(left.is_valid().to_numpy(False) != right.is_valid().to_numpy(False))[0]
        return f"{where}: validity of value {row} of {len(left)}, {left[int(row)]} and {right[int(row)]}"
    dtype = left.type
    if pa.types.is_struct(dtype):
        pairs = zip(left.flatten(), right.flatten(), dtype, strict=True)
        found = [difference(one, other, f"{where}.{field.name}") for one, other, field in pairs]
        return next((text for text in found if text), None)
    if pa.types.is_map(dtype):
        return difference(map_as_list(left), map_as_list(right), where)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lengths = [pc.list_value_length(array).fill_null(0) for array in (left, right)]
        if not lengths[0].equals(lengths[1]):
            return f"{where}: lengths of lists"
        return difference(left.flatten(), right.flatten(), f"{where}[]")
    if pa.types.is_fixed_size_list(dtype):
        return difference(left.flatten(), right.flatten(), f"{where}[]")
    if pa.types.is_dictionary(dtype):
        return difference(left.dictionary_decode(), right.dictionary_decode(), where)
    if pa.types.is_floating(dtype):
        bits = getattr(pa, f"uint{dtype.bit_width}")()
        left, right = left.view(bits), right.view(bits)
    if left.equals(right):
        return None
    row = next(row for row in range(len(left)) if not left[row].equals(right[row]))
    return f"{where}: value {row} of {len(left)}, {left[row]!r} and {right[row]!r}"


def map_as_list(array: pa.Array) -> pa.Array:
    dtype = array.type
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=[dtype.key_field, dtype.item_field])
    buffers = [array.buffers()[0], array.buffers()[1]]
    return pa.Array.from_buffers(
        pa.list_(pa.field("entries", entries.type, nullable=False)),
        len(array),
        buffers,
        offset=array.offset,
        children=[entries],
    )


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, if its batches share their dictionaries."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def column_difference(column: pa.ChunkedArray, expected: pa.Array, where: str = "") -> str | None:
    """As :func:`difference`, chunk by chunk: every chunk may have dictionaries of its own."""
    if len(column) != len(expected):
        return f"{where}: {len(column)} and {len(expected)} rows"
    if column.type != expected.type:
        return f"{where}: {column.type} and {expected.type}"
    start = 0
    for chunk in column.chunks:
        found = difference(chunk, expected[start : start + len(chunk)], f"{where}[{start}:]")
        if found:
            return found
        start += len(chunk)
    return None
