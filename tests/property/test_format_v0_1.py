"""Files in format 0.1 equal those of pylance 14.0.2 byte for byte, and pruning loses no row."""

import itertools
import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.encodings.v0_1.grouped_statistics import grouped_statistics
from lance_core.encodings.v0_1.statistics import has_statistics, page_statistics, statistics_arrays
from lance_core.file.field_source import ColumnStatistics
from lance_core.file.v0_1.writer import LegacyFileWriter
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.predicate.column_bounds import may_match
from lance_core.predicate.expressions import AllOf, AnyOf, Comparison
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion
from tests.support.random_tables import column_difference, whole

LEAVES = [
    *(pa.int8(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us")),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3), pa.decimal128(20, 3), pa.null()),
]
FIXED = [pa.int16(), pa.float32(), pa.bool_(), pa.binary(2)]


def random_type(choose: random.Random, depth: int) -> pa.DataType:
    kind = choose.random()
    if depth == 0 or kind < 0.5:
        return choose.choice(LEAVES)
    if kind < 0.6:
        return pa.list_(choose.choice(FIXED), choose.randint(1, 4))
    if kind < 0.8:
        make = choose.choice([pa.list_, pa.large_list])
        return make(random_type(choose, depth - 1))
    members = [random_type(choose, depth - 1) for _ in range(choose.randint(1, 3))]
    return pa.struct([pa.field(f"m{index}", member) for index, member in enumerate(members)])


def random_value(choose: random.Random, dtype: pa.DataType) -> object:
    if choose.random() < 0.2 or pa.types.is_null(dtype):
        return None
    if pa.types.is_struct(dtype):
        return {member.name: random_value(choose, member.type) for member in dtype}
    if pa.types.is_fixed_size_list(dtype):
        return [random_value(choose, dtype.value_type) for _ in range(dtype.list_size)]
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [random_value(choose, dtype.value_type) for _ in range(choose.choice([0, 1, 3]))]
    if pa.types.is_boolean(dtype):
        return choose.random() < 0.5
    if pa.types.is_floating(dtype):
        return choose.choice([0.0, -0.0, float("nan"), float("inf"), -1.5, 2.25])
    if pa.types.is_fixed_size_binary(dtype) and not pa.types.is_decimal(dtype):
        return bytes(choose.randrange(256) for _ in range(dtype.byte_width))
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return "".join(choose.choice("aé€😀\x7f\U0010ffff") for _ in range(choose.choice([0, 1, 5, 30, 70])))
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return choose.choice([b"\xff", b"\x00", b"ab"]) * choose.choice([0, 1, 40, 70])
    return choose.randrange(100)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_random_files_in_format_0_1_equal_those_of_pylance(directory: Path, seed: int) -> None:
    choose = random.Random(seed)
    num_rows = choose.choice([1, 7, 40, 300])
    types = [random_type(choose, 3) for _ in range(choose.randint(1, 4))]
    columns = {
        f"c{index}": pa.array([random_value(choose, dtype) for _ in range(num_rows)], dtype)
        for index, dtype in enumerate(types)
    }
    table, group_rows = pa.table(columns), choose.choice([3, 64, 1024])
    uri = str(directory / str(seed))
    lance.write_dataset(table, uri, data_storage_version="legacy", max_rows_per_group=group_rows, mode="overwrite")
    [fragment] = lance.dataset(uri).get_fragments()
    [file] = fragment.metadata.files
    store = MemoryStore()
    writer = LegacyFileWriter(
        store.create("file"),
        schema_from_arrow(table.schema),
        WriteConfig(version=LanceFileVersion.V0_1, max_rows_per_group=group_rows),
    )
    for batch in table.to_batches(max_chunksize=choose.choice([1, 10, 1000])):
        writer.write_batch(batch)
    writer.finish()
    theirs = Path(uri, "data", file.path).read_bytes()
    assert bytes(store.get("file")) == theirs
    expected = lance.dataset(uri).to_table()
    for name, column in zip(columns, lance_core.dataset(uri).to_table().columns, strict=True):
        assert column_difference(column, whole(expected[name]), name) is None


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.one_of(st.integers(-5, 5), st.none()), min_size=1, max_size=40),
    group_rows=st.integers(1, 8),
    comparisons=st.lists(
        st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), st.integers(-6, 6)), min_size=1, max_size=3
    ),
    is_and=st.booleans(),
)
def test_a_row_group_with_a_matching_row_is_never_pruned(
    values: list[int | None], group_rows: int, comparisons: list[tuple[str, int]], is_and: bool
) -> None:
    array = pa.array(values, pa.int32())
    groups = [array[start : start + group_rows] for start in range(0, len(array), group_rows)]
    assert has_statistics(array.type)
    validity = [np.array([value.is_valid for value in group]) for group in groups]
    pages = [page_statistics(group, None if mask.all() else mask) for group, mask in zip(groups, validity, strict=True)]
    _, least, greatest = statistics_arrays(array.type, pages)
    tests = {"=": int.__eq__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__}
    parts = tuple(Comparison(0, operator, pa.scalar(value, pa.int64())) for operator, value in comparisons)
    everywhere = np.ones(len(groups), bool)
    known = {0: ColumnStatistics(least, greatest, everywhere, everywhere)}
    possible = may_match((AllOf if is_and else AnyOf)(parts), known, len(groups))
    combine = all if is_and else any
    for group, allowed in zip(groups, possible, strict=True):
        matches = any(
            combine(tests[operator](value, bound) for operator, bound in comparisons)
            for value in group.drop_null().to_pylist()
        )
        assert allowed or not matches


VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.decimal128(30, 2): st.decimals(-1000, 1000, places=2),
    # Around the 64 bytes at which bounds are truncated, with characters of one to four bytes.
    pa.string(): st.builds(lambda head, tail: "y" * head + tail, st.integers(0, 66), st.text("y\xe9\u20ac\U0001f600")),
    pa.large_binary(): st.builds(lambda head, tail: b"\xff" * head + tail, st.integers(0, 66), st.binary(max_size=4)),
}


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(list(VALUES)), group_rows=st.integers(1, 6), start=st.integers(0, 3))
def test_statistics_computed_for_many_pages_equal_those_computed_for_each_page(
    data: st.DataObject, dtype: pa.DataType, group_rows: int, start: int
) -> None:
    values = data.draw(st.lists(st.none() | VALUES[dtype], min_size=start + 1, max_size=30))
    array = pa.array(values, dtype).slice(start)
    bounds = np.append(np.arange(0, len(array), group_rows), len(array))
    mask = np.array([value.is_valid for value in array])
    found = grouped_statistics(array, None if mask.all() else mask, bounds)
    expected = [
        page_statistics(array[first:stop], None if mask[first:stop].all() else mask[first:stop])
        for first, stop in itertools.pairwise(bounds)
    ]
    # Compared as text, so that zeros of different signs differ.
    assert [repr(page) for page in found] == [repr(page) for page in expected]
