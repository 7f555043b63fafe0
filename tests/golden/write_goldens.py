"""Write the golden files of one release of pylance. Run in an environment of that release, not by the tests.

    python3.11 -m venv /tmp/old && /tmp/old/bin/pip install pylance==0.18.2 'pyarrow<18' 'numpy<2'
    /tmp/old/bin/python tests/golden/write_goldens.py /tmp/written
    python tests/golden/record_goldens.py /tmp/written        # with the Python of this project

Each case has the files ``<output>/<release>/<case>/table.lance`` (a dataset) or ``file.lance`` (one data file),
``source.arrow`` (the rows in insertion order) and ``how.json``. Columns that the release refuses are omitted, and
``how.json`` lists them."""

import decimal
import json
import os
import shutil
import subprocess
import sys
import tempfile

import lance
import numpy as np
import pyarrow as pa

RELEASE = lance.__version__
NUMBERS = tuple(int(part) for part in RELEASE.split(".")[:3])
NUM_ROWS = 30
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])


def every_third(values):
    """The values with nulls."""
    return [None if index % 3 == 1 else value for index, value in enumerate(values)]


def plain_columns(count=NUM_ROWS):
    """Every type without children: name → (type, values without nulls)."""
    rng = np.random.default_rng(7)
    integers = [int(value) for value in rng.integers(0, 100, count)]
    columns = {}
    for bits in (8, 16, 32, 64):
        high, low = (1 << (bits - 1)) - 1, -(1 << (bits - 1))
        columns[f"int{bits}"] = (getattr(pa, f"int{bits}")(), [high, low, -1, *integers][:count])
        columns[f"uint{bits}"] = (getattr(pa, f"uint{bits}")(), [2 * high + 1, 0, 1, *integers][:count])
    floats = [0.0, -0.0, float("inf"), float("-inf"), 1.5, -2.25, *(value / 8 for value in integers)][:count]
    columns["half"] = (pa.float16(), [np.float16(value) for value in floats])
    columns["float"] = (pa.float32(), floats)
    columns["double"] = (pa.float64(), floats)
    columns["bool"] = (pa.bool_(), [value % 3 == 0 for value in integers])
    columns["date32"] = (pa.date32(), integers)
    columns["date64"] = (pa.date64(), [86_400_000 * value for value in integers])
    for unit in ("s", "ms"):
        columns[f"time32_{unit}"] = (pa.time32(unit), integers)
    for unit in ("us", "ns"):
        columns[f"time64_{unit}"] = (pa.time64(unit), integers)
    for unit in ("s", "ms", "us", "ns"):
        columns[f"timestamp_{unit}"] = (pa.timestamp(unit), [1_600_000_000 + value for value in integers])
        columns[f"duration_{unit}"] = (pa.duration(unit), integers)
    columns["timestamp_utc"] = (pa.timestamp("us", "UTC"), integers)
    columns["timestamp_offset"] = (pa.timestamp("us", "+05:30"), integers)
    decimals = [decimal.Decimal(value - 50).scaleb(-2) for value in integers]
    columns["decimal128"] = (pa.decimal128(20, 2), decimals)
    columns["decimal256"] = (pa.decimal256(50, 2), decimals)
    columns["fixed_binary"] = (pa.binary(3), [bytes([value, 0, 255]) for value in integers])
    words = ["", "a", "zwölf", "x" * 70, *(f"word {value}" for value in integers)][:count]
    columns["string"] = (pa.string(), words)
    columns["large_string"] = (pa.large_string(), words)
    columns["binary"] = (pa.binary(), [word.encode() for word in words])
    columns["large_binary"] = (pa.large_binary(), [word.encode() for word in words])
    columns["null"] = (pa.null(), [None] * count)
    columns["vector"] = (pa.list_(pa.float32(), 3), [[value, 0.5, -value] for value in integers])
    columns["flags"] = (pa.list_(pa.bool_(), 3), [[True, value % 2 == 0, False] for value in integers])
    columns["matrix"] = (pa.list_(pa.list_(pa.int8(), 2), 2), [[[value, 1], [2, 3]] for value in integers])
    columns["dictionary"] = (pa.dictionary(pa.int8(), pa.string()), [f"k{value % 4}" for value in integers])
    columns["dictionary_int"] = (pa.dictionary(pa.int16(), pa.int64()), [value % 4 for value in integers])
    return columns


def to_array(dtype, values):
    if pa.types.is_dictionary(dtype):
        encoded = pa.array(values, dtype.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(dtype.index_type), encoded.dictionary)
    if pa.types.is_temporal(dtype) and all(isinstance(value, (int, type(None))) for value in values):
        return pa.array(values, pa.int32() if dtype.bit_width == 32 else pa.int64()).cast(dtype)
    return pa.array(values, dtype)


def nested_columns(count=NUM_ROWS):
    """Nested types with empties and, where the slot can carry them, nulls: name → (array, array without nulls)."""
    word = pa.struct([("x", pa.int32()), ("y", pa.string())])
    cases = {
        "list": (pa.list_(pa.int32()), lambda i: [None, [], [i], [i, None, 3]][i % 4], lambda i: [i] * (i % 3)),
        "large_list": (pa.large_list(pa.string()), lambda i: [None, [], ["a", None]][i % 3], lambda i: ["b"] * (i % 3)),
        "lists": (
            pa.list_(pa.list_(pa.int16())),
            lambda i: [None, [], [None, [], [i]], [[1, 2], [3]]][i % 4],
            lambda i: [[i]] * (i % 3),
        ),
        "struct": (word, lambda i: {"x": None if i % 4 else i, "y": None if i % 5 == 0 else f"{i}"}, None),
        "null_struct": (word, lambda i: None if i % 4 == 0 else {"x": i, "y": None}, None),
        "structs": (
            pa.list_(word),
            lambda i: [None, [], [{"x": i, "y": None}], [{"x": None, "y": "q"}] * 2][i % 4],
            lambda i: [{"x": i, "y": "z"}] * (i % 3),
        ),
        "struct_of_list": (
            pa.struct([("v", pa.list_(pa.float32(), 2)), ("tags", pa.list_(pa.string()))]),
            lambda i: {"v": [i, 1], "tags": [None, [], ["t", None]][i % 3]},
            lambda i: {"v": [i, 1], "tags": ["t"] * (i % 3)},
        ),
        "vectors": (pa.list_(pa.list_(pa.float32(), 2)), lambda i: [[i, 1]] * (i % 3), None),
        "deep": (
            pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(pa.int64()))])))]),
            lambda i: {"a": [None, [], [{"b": []}, {"b": [i, None]}]][i % 3]},
            lambda i: {"a": [{"b": [i]}] * (i % 2)},
        ),
        "map": (pa.map_(pa.string(), pa.int32()), lambda i: [None, [], [("k", i), ("l", None)]][i % 3], None),
    }
    return {
        name: [pa.array([make(i) for i in range(count)], dtype) for make in (full, plain or full)]
        for name, (dtype, full, plain) in cases.items()
    }


def table_of(columns):
    return pa.table(dict(columns))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def version_arguments(version):
    """How this release is told the format version."""
    if NUMBERS < (0, 12):
        return {} if version == "0.1" else None
    if NUMBERS < (0, 16):
        return {"use_legacy_format": version == "0.1"} if version in ("0.1", "2.0") else None
    name = {"0.1": "legacy"}.get(version, version)
    return {"data_storage_version": name}


def versions():
    """Format versions that this release can be asked for and that have a defined reader."""
    if NUMBERS < (0, 12):
        return ["0.1"]
    if NUMBERS < (0, 38):
        return ["0.1", "2.0"]
    if RELEASE not in ("0.39.0", "14.0.2"):
        # 0.1 has not changed any more.
        return ["2.0", "2.1", "2.2"]
    return ["0.1", "2.0", "2.1", "2.2"]


def write_dataset(table, uri, version, **more):
    return lance.write_dataset(table, uri, max_rows_per_group=12, **version_arguments(version), **more)


def write_file(batches, path, version, **more):
    from lance.file import LanceFileWriter

    if NUMBERS >= (0, 16):
        more["version"] = version
    with LanceFileWriter(path, batches[0].schema, **more) as writer:
        for batch in batches:
            writer.write_batch(batch)


def accepted(kind, names, version):
    """The columns that this release writes and reads back.

    Tried one after the other in another process: old releases abort or hang on what they do not support. The process
    prints what worked, and is started again behind the column that killed it.
    """
    kept, left = [], list(names)
    while left:
        task = {"kind": kind, "names": left, "version": version}
        script = [sys.executable, os.path.abspath(__file__), "--task", json.dumps(task)]
        try:
            printed = subprocess.run(script, capture_output=True, timeout=60).stdout
        except subprocess.TimeoutExpired as error:
            printed = error.stdout or b""
        lines = printed.decode(errors="replace").splitlines()
        verdicts = [line.split()[1:] for line in lines if line.startswith("column ")]
        kept += [name for name, verdict in verdicts if verdict == "yes"]
        left = left[len(verdicts) + 1 :]
    return kept


def columns_of(kind, names):
    if kind == "plain":
        return {name: to_array(*plain_columns()[name]) for name in names}
    if kind == "nulls":
        columns = plain_columns()
        return {name: to_array(columns[name][0], every_third(columns[name][1])) for name in names}
    index = 0 if kind == "nested" else 1
    return {name: nested_columns()[name][index] for name in names}


def try_columns(kind, names, version):
    for name in names:
        table = table_of(columns_of(kind, [name]))
        verdict = "yes"
        with tempfile.TemporaryDirectory() as directory:
            uri = os.path.join(directory, "t.lance")
            try:
                write_dataset(table, uri, version)
                assert lance.dataset(uri).to_table().num_rows == table.num_rows
            except BaseException:  # noqa: BLE001 - PanicException is no Exception
                verdict = "no"
        print("column", name, verdict, flush=True)


class Output:
    def __init__(self, root):
        self.root = os.path.join(root, RELEASE)
        shutil.rmtree(self.root, ignore_errors=True)

    def case(self, name, version, source, write, note=""):
        """Run ``write(uri)``; leave nothing behind when the release cannot."""
        directory = os.path.join(self.root, f"{name}-{version}")
        os.makedirs(directory)
        is_file = name.startswith("file-")
        path = os.path.join(directory, "file.lance" if is_file else "table.lance")
        try:
            write(path)
        except BaseException as error:  # noqa: BLE001 - PanicException is no Exception
            shutil.rmtree(directory)
            print(f"{RELEASE} {name} {version}: not written: {str(error)[:120]}")
            return
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, source.schema) as writer:
            writer.write_table(source)
        with open(os.path.join(directory, "source.arrow"), "wb") as target:
            target.write(sink.getvalue())
        how = {
            "release": RELEASE,
            "pyarrow": pa.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "version": version,
            "case": name,
            "note": note,
        }
        with open(os.path.join(directory, "how.json"), "w") as target:
            json.dump(how, target, indent=1)
        print(f"{RELEASE} {name} {version}: ok")


def types_cases(output, version):
    names = list(plain_columns())
    for kind in ("plain", "nulls"):
        kept = accepted(kind, names, version)
        table = table_of(columns_of(kind, kept))
        output.case(kind, version, table, lambda uri, t=table: write_dataset(t, uri, version), left_out(names, kept))
    names = list(nested_columns())
    for kind in ("nested",):
        kept = accepted(kind, names, version)
        if kept:
            table = table_of(columns_of(kind, kept))
            note = left_out(names, kept)
            output.case(kind, version, table, lambda uri, t=table: write_dataset(t, uri, version), note)


def left_out(names, kept):
    missing = [name for name in names if name not in kept]
    return "refused by this release: " + ", ".join(missing) if missing else ""


def simple(start, count):
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "name": pa.array([None if i % 5 == 4 else f"name {i}" for i in range(start, start + count)]),
        }
    )


def merged_case(output, version):
    """Two fragments, a merged-in column in a second file of each, and a deletion where the release has it."""
    source = pa.concat_tables([simple(0, 20), simple(20, 20)])
    extra = pa.table({"id": source.column("id"), "score": pa.array([i / 4 for i in range(40)], pa.float64())})

    def write(uri):
        write_dataset(simple(0, 20), uri, version)
        write_dataset(simple(20, 20), uri, version, mode="append")
        lance.dataset(uri).merge(extra, "id")

    output.case("merged", version, source.append_column("score", extra.column("score")), write)


def deleted_case(output, version):
    source = pa.concat_tables([simple(0, 20), simple(20, 20)])

    def write(uri):
        write_dataset(simple(0, 20), uri, version)
        write_dataset(simple(20, 20), uri, version, mode="append")
        lance.dataset(uri).delete("id in (3, 5, 21)")

    if hasattr(lance.LanceDataset, "delete"):
        kept = source.filter(pa.array([i not in (3, 5, 21) for i in range(40)]))
        output.case("deleted", version, kept, write)


def strings_case(output, version):
    """Low and high cardinality, long and empty strings; automatic dictionaries and compression where they exist."""
    # From 2.1 on, symbol tables need 32 KiB of text.
    count = 130 if version in ("0.1", "2.0") else 1200
    table = pa.table(
        {
            "category": pa.array([None if i % 7 == 0 else ["red", "green", ""][i % 3] for i in range(count)]),
            "unique": pa.array([f"https://example.com/item/{i}" for i in range(count)]),
            "long": pa.array(["y" * 300 if i % 50 == 0 else "" for i in range(count)], pa.large_string()),
            "same": pa.array(["constant"] * count),
            "bytes": pa.array([bytes([i % 5]) * (i % 4) for i in range(count)], pa.binary()),
        }
    )
    output.case("strings", version, table, lambda uri: write_dataset(table, uri, version))


def numbers_case(output, version):
    """Runs, narrow ranges, constants, an all-null column, floats: what statistics-driven encodings react to."""
    count = 1100 if version == "2.0" else 2500
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "runs": pa.array(np.arange(count) // 300, pa.int64()),
            "narrow": pa.array(rng.integers(0, 9, count), pa.int32()),
            "signed": pa.array(rng.integers(-3, 4, count), pa.int16()),
            "constant": pa.array([42] * count, pa.int64()),
            "constant_or_null": pa.array([None if i % 4 == 0 else 1.5 for i in range(count)], pa.float32()),
            "all_null": pa.nulls(count, pa.int32()),
            "few": pa.array(rng.choice([1 << 40, 1 << 50, 7], count), pa.uint64()),
            "flags": pa.array(rng.random(count) < 0.5),
        }
    )
    output.case("numbers", version, table, lambda uri: write_dataset(table, uri, version))


def compressed_case(output, version):
    count = 600
    key = b"lance-encoding:compression"
    metadata = {"zstd": "zstd", "lz4": "lz4", "fsst": "fsst", "none": "none"}
    fields, arrays = [], []
    for name, scheme in metadata.items():
        fields.append(pa.field(name, pa.string(), metadata={key: scheme.encode()}))
        arrays.append(pa.array([None if i % 9 == 0 else f"some text number {i % 50} " * 3 for i in range(count)]))
    if version != "2.0":
        fields.append(pa.field("planes", pa.float32(), metadata={key: b"lz4", b"lance-encoding:bss": b"on"}))
        arrays.append(pa.array(np.sqrt(np.arange(count)), pa.float32()))
        fields.append(pa.field("zipped", pa.string(), metadata={b"lance-encoding:structural-encoding": b"fullzip"}))
        arrays.append(pa.array([None if i % 5 == 0 else f"value {i}" for i in range(count)]))
        fields.append(
            pa.field("zipped_list", pa.list_(pa.int32()), metadata={b"lance-encoding:structural-encoding": b"fullzip"})
        )
        arrays.append(pa.array([None if i % 5 == 0 else [i] * (i % 3) for i in range(count)], pa.list_(pa.int32())))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    kept = []
    for index in range(len(fields)):
        part = table.select([index])
        with tempfile.TemporaryDirectory() as directory:
            try:
                uri = os.path.join(directory, "t.lance")
                write_dataset(part, uri, version)
                lance.dataset(uri).to_table()
                kept.append(index)
            except BaseException:  # noqa: BLE001 - PanicException is no Exception
                continue
    table = table.select(kept)
    output.case("compressed", version, table, lambda uri: write_dataset(table, uri, version))


def packed_case(output, version):
    """Packed structs under both names of the key: fixed members, and from 2.2 on members of variable width."""
    members = {"a": pa.int8(), "b": pa.int64()}
    if version != "2.1":
        members["v"] = pa.list_(pa.float32(), 2) if version == "2.0" else pa.string()
    dtype = pa.struct([pa.field(name, member, nullable=False) for name, member in members.items()])
    values = {"a": int, "b": lambda i: -i, "v": (lambda i: [i, 0.5]) if version == "2.0" else "value {}".format}
    array = pa.array([{name: values[name](i) for name in members} for i in range(50)], dtype)
    for key in ("packed", "lance-encoding:packed"):
        field = pa.field("packed", dtype, nullable=False, metadata={key.encode(): b"true"})
        table = pa.Table.from_arrays([array, pa.array(range(50))], schema=pa.schema([field, pa.field("n", pa.int64())]))
        name = key.replace(":", "-")
        output.case(name, version, table, lambda uri, t=table: write_dataset(t, uri, version))


def blob_case(output, version):
    field = pa.field("blob", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})
    values = [b"x" * 10, None, b"", bytes(range(200)), None, b"end"]
    table = pa.Table.from_arrays(
        [pa.array(values, pa.large_binary()), pa.array(range(6))],
        schema=pa.schema([field, pa.field("n", pa.int64())]),
    )
    output.case("file-blob", version, table, lambda path: write_file(table.to_batches(), path, version))


def pages_case(output, version):
    """Several pages per column, with different nulls in each."""
    batches = []
    for number in range(4):
        rate = [0.0, 0.3, 1.0, 0.0][number]
        mask = np.random.default_rng(number).random(120) < rate
        rows = range(number * 120, number * 120 + 120)
        nulls = dict(zip(rows, mask, strict=True))
        batches.append(
            pa.record_batch(
                {
                    "i": pa.array(np.array(rows, np.int32), mask=mask),
                    "s": pa.array([None if nulls[r] else f"s{r % 30}" for r in rows], pa.string()),
                    "l": pa.array([None if nulls[r] else [r] * (r % 3) for r in rows], pa.list_(pa.int16())),
                    "p": pa.array([{"a": r, "b": None if nulls[r] else "b"} for r in rows], PAIR),
                    "v": pa.array([None if nulls[r] else [r, 1.0] for r in rows], pa.list_(pa.float32(), 2)),
                }
            )
        )
    source = pa.Table.from_batches(batches)
    output.case("file-pages", version, source, lambda path: write_file(batches, path, version, data_cache_bytes=1))


def levels_case(output, version):
    """More than 65,535 levels in a chunk: long stretches of empty lists, and a mix that does not run-length encode."""
    runs = pa.array([[]] * 80_000 + [[1, 2]] * 5, pa.list_(pa.int32()))
    rng = np.random.default_rng(1)
    mixed = [None if dice < 0.5 else [] for dice in rng.random(80_000)] + [[1, 2]] * 5
    table = pa.table({"runs": runs, "mixed": pa.array(mixed, pa.list_(pa.int32()))})
    for name in table.column_names:
        part = table.select([name])
        output.case(
            f"file-levels-{name}", version, part, lambda path, t=part: write_file(t.to_batches(), path, version)
        )


def main():
    output = Output(sys.argv[1])
    for version in versions():
        types_cases(output, version)
        merged_case(output, version)
        deleted_case(output, version)
        strings_case(output, version)
        if version == "0.1":
            continue
        numbers_case(output, version)
        if NUMBERS >= (0, 16):
            compressed_case(output, version)
            packed_case(output, version)
            blob_case(output, version)
            pages_case(output, version)
        if version != "2.0" and NUMBERS < (4,):
            levels_case(output, version)


if __name__ == "__main__":
    if sys.argv[1] == "--task":
        wanted = json.loads(sys.argv[2])
        try_columns(wanted["kind"], wanted["names"], wanted["version"])
    else:
        main()
