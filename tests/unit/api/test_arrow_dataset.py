"""A dataset as a ``pyarrow.dataset.Dataset``, through which DuckDB, Polars and pandas read."""

from __future__ import annotations

import copy
import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

import lance_core
from lance_core.errors import InvalidTypeError, NotSupportedError
from tests.support.counting_store import CountingStore

NUM_ROWS = 20_000
WIDE_BYTES = NUM_ROWS * 64 * 8
"""Size of the column that no query needs."""

ARROW_CLASSES = [
    (lance_core.LanceDataset, pyarrow.dataset.Dataset),
    (lance_core.LanceScanner, pyarrow.dataset.Scanner),
    (lance_core.LanceFragment, pyarrow.dataset.Fragment),
]


@pytest.fixture
def table() -> pa.Table:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "k": np.arange(NUM_ROWS),
            "x": random.integers(0, 1 << 40, NUM_ROWS),
            "s": pa.array([None if row % 9 == 0 else f"name {row % 50}" for row in range(NUM_ROWS)]),
            "p": pa.StructArray.from_arrays([np.arange(NUM_ROWS), np.arange(NUM_ROWS) * 0.5], ["a", "b"]),
            "wide": pa.FixedSizeListArray.from_arrays(random.random(NUM_ROWS * 64), 64),
        }
    )


@pytest.fixture
def dataset(table: pa.Table, uri: str, store: CountingStore) -> lance_core.LanceDataset:
    lance_core.write_dataset(table, uri, max_rows_per_file=NUM_ROWS // 4)
    dataset = lance_core.dataset(uri)
    store.reset()
    return dataset


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _duckdb(query: str) -> Callable[[Any], pa.Table]:
    def run(rows: Any) -> pa.Table:
        connection = _connection()
        connection.register("rows", rows)
        return connection.sql(query).to_arrow_table()

    return run


def _datafusion(query: str) -> Callable[[Any], pa.Table]:
    def run(rows: Any) -> pa.Table:
        context = datafusion.SessionContext()
        context.register_dataset("rows", rows)
        return context.sql(query).to_arrow_table()

    return run


def _polars(query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Callable[[Any], pa.Table]:
    return lambda rows: query(pl.scan_pyarrow_dataset(rows)).collect().to_arrow()


QUERIES: dict[str, Callable[[Any], pa.Table]] = {
    "duckdb: comparison": _duckdb("SELECT k, x FROM rows WHERE k >= 100 AND k < 120"),
    "duckdb: text": _duckdb("SELECT k FROM rows WHERE s = 'name 7' ORDER BY k"),
    "duckdb: list": _duckdb("SELECT k FROM rows WHERE s IN ('name 7', 'name 8') OR k IN (1, 2, 3) ORDER BY k"),
    "duckdb: negated list": _duckdb("SELECT k FROM rows WHERE s NOT IN ('name 7', 'name 8') ORDER BY k"),
    "duckdb: null": _duckdb("SELECT k FROM rows WHERE s IS NULL ORDER BY k"),
    "duckdb: member of a struct": _duckdb("SELECT k, p.b FROM rows WHERE p.a BETWEEN 3 AND 9"),
    "duckdb: count": _duckdb("SELECT count(*) AS n FROM rows WHERE k % 3 = 1"),
    "duckdb: limit": _duckdb("SELECT sum(k) AS n FROM (SELECT k FROM rows WHERE x > 5 LIMIT 20)"),
    "datafusion: comparison": _datafusion("SELECT k, x FROM rows WHERE k >= 100 AND k < 120 ORDER BY k"),
    "datafusion: text": _datafusion("SELECT sum(k) AS n FROM rows WHERE s = 'name 7'"),
    "polars: comparison": _polars(lambda rows: rows.filter(pl.col("k").is_between(100, 119)).select("k", "x")),
    "polars: text": _polars(lambda rows: rows.filter(pl.col("s").is_in(["name 7", "name 8"])).select("k")),
    "polars: null": _polars(lambda rows: rows.filter(pl.col("s").is_null() & (pl.col("k") > 9_000)).select("k")),
    "polars: head": _polars(lambda rows: rows.select("k", "s").head(7)),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_query_by_another_library_reads_only_needed_columns_and_returns_the_rows_of_the_arrow_table(
    table: pa.Table, dataset: lance_core.LanceDataset, store: CountingStore, query: Callable[[Any], pa.Table]
) -> None:
    expected = query(pyarrow.dataset.dataset(table))
    found = query(dataset)
    assert found.to_pylist() == expected.to_pylist()
    assert 0 < store.num_bytes_read() < WIDE_BYTES / 4


@pytest.mark.parametrize(
    "query",
    [
        _duckdb("SELECT * FROM rows WHERE k = 7777"),
        _datafusion("SELECT * FROM rows WHERE k = 7777"),
        _polars(lambda rows: rows.filter(pl.col("k") == 7777)),
        lambda rows: rows.filter(pc.field("k") == 7777).to_table(),
    ],
    ids=["duckdb", "datafusion", "polars", "filter"],
)
def test_selective_query_of_all_columns_fetches_unfiltered_columns_for_matching_rows_only(
    table: pa.Table, dataset: lance_core.LanceDataset, store: CountingStore, query: Callable[[Any], pa.Table]
) -> None:
    assert query(dataset).to_pylist() == table.slice(7777, 1).to_pylist()
    assert 0 < store.num_bytes_read() < WIDE_BYTES / 4


def test_get_fragments_with_a_filter_returns_every_fragment(dataset: lance_core.LanceDataset) -> None:
    assert len(dataset.get_fragments(pc.field("k") == 7777)) == len(dataset.get_fragments())
    with pytest.raises(InvalidTypeError, match="must be an Arrow expression"):
        dataset.get_fragments("k = 7777")


TYPED_VALUES = {
    "i8": (pa.int8(), "5", "-3"),
    "u8": (pa.uint8(), "5", "7"),
    "i32": (pa.int32(), "5", "7"),
    "u64": (pa.uint64(), "5", "7"),
    "f32": (pa.float32(), "5.0", "7.5"),
    "f64": (pa.float64(), "5.0", "'nan'"),
    "dec": (pa.decimal128(10, 2), "5.00", "7"),
    "flag": (pa.bool_(), "true", "false"),
    "text": (pa.string(), "'5'", "'7'"),
    "large": (pa.large_string(), "'5'", "'7'"),
    "bytes": (pa.binary(), "'5'::BLOB", "'7'::BLOB"),
    "day": (pa.date32(), "DATE '1970-01-06'", "DATE '1970-01-08'"),
    "second": (pa.timestamp("s"), "TIMESTAMP '1970-01-01 00:00:05'", "TIMESTAMP '1970-01-01 00:00:07'"),
    "micro": (pa.timestamp("us"), "TIMESTAMP '1970-01-01 00:00:00.000005'", "TIMESTAMP '1970-01-01'"),
    "nano": (pa.timestamp("ns"), "TIMESTAMP '1970-01-01 00:00:00.000001'", "TIMESTAMP '1970-01-01'"),
    "zoned": (
        pa.timestamp("us", "UTC"),
        "TIMESTAMPTZ '1970-01-01 00:00:00.000005+00'",
        "TIMESTAMPTZ '1970-01-02 00:00:00+00'",
    ),
    "time": (pa.time64("us"), "TIME '00:00:00.000005'", "TIME '10:00:00'"),
}
"""Column -> its type, and two values in SQL."""

CONDITIONS = [
    "{column} = {first}",
    "{column} <> {first}",
    "{column} >= {second}",
    "{column} BETWEEN {first} AND {second}",
    "{column} IN ({first}, {second})",
    "{column} NOT IN ({first}, {second})",
    "{column} IS NULL",
    "{column} IS NOT NULL",
    "{column} IS DISTINCT FROM {first}",
    "({column} = {first} OR {column} IS NULL)",
    "NOT ({column} < {first})",
    "({column} = {first} AND k < 30 OR text = '7')",
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, lance_core.LanceDataset]:
    numbers = pa.array([None if row % 7 == 3 else row % 9 for row in range(60)])
    columns = {name: _converted(numbers, dtype) for name, (dtype, _, _) in TYPED_VALUES.items()}
    table = pa.table({"k": range(60), **columns, "dict": columns["text"].dictionary_encode()})
    return table, lance_core.write_dataset(table, str(tmp_path_factory.mktemp("typed") / "t"), max_rows_per_file=25)


def _converted(numbers: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(dtype) or pa.types.is_binary(dtype):
        return numbers.cast(pa.string()).cast(dtype)
    if pa.types.is_date32(dtype):
        return numbers.cast(pa.int32()).cast(dtype)
    return numbers.cast(dtype)


@pytest.mark.parametrize("column", [*TYPED_VALUES, "dict"])
def test_duckdb_conditions_on_any_type_select_the_same_rows_as_in_the_arrow_table(
    typed: tuple[pa.Table, lance_core.LanceDataset], column: str
) -> None:
    table, dataset = typed
    _, first, second = TYPED_VALUES["text" if column == "dict" else column]
    for condition in CONDITIONS:
        where = condition.format(column=column, first=first, second=second)
        query = _duckdb(f"SELECT k FROM rows WHERE {where} ORDER BY k")
        assert query(dataset).equals(query(pyarrow.dataset.dataset(table))), where


@pytest.mark.parametrize("columns", [None, ["k", "s"]], ids=["dataset", "scanner"])
def test_arrow_streams_deliver_every_row_to_arrow_polars_and_pandas(
    table: pa.Table, dataset: lance_core.LanceDataset, columns: list[str] | None
) -> None:
    source = dataset if columns is None else dataset.scanner(columns=columns)
    expected = table.select(columns or table.column_names)
    assert pa.table(source).equals(expected)
    assert pa.RecordBatchReader.from_stream(source).read_all().equals(expected)
    assert pl.DataFrame(source).to_arrow().num_rows == NUM_ROWS
    assert pa.table(source).to_pandas()["s"].isna().sum() == expected["s"].null_count


def test_pandas_dataframe_from_a_stream_has_the_columns_and_rows_of_the_scan(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    wanted = {"columns": ["s"], "filter": "k < 20"}
    frame = pa.table(dataset.scanner(**wanted)).to_pandas()
    assert 0 < store.num_bytes_read() < WIDE_BYTES / 4
    assert frame["s"].notna().sum() == 17
    assert frame.equals(dataset.to_pandas(**wanted))


@pytest.mark.parametrize(("ours", "arrows"), ARROW_CLASSES)
def test_every_method_of_an_arrow_class_is_overridden(ours: type, arrows: type) -> None:
    # pyarrow's own methods read a C++ object that these instances do not have.
    needed = {name for name in vars(arrows) if not name.startswith("__")} | {"__reduce__"}
    inherited = {name for name in needed if getattr(ours, name) is getattr(arrows, name)}
    assert issubclass(ours, arrows)
    assert inherited <= ({"__reduce__"} if ours is lance_core.LanceScanner else set())


def test_scanning_a_dataset_with_the_scanner_of_arrow_is_refused(dataset: lance_core.LanceDataset) -> None:
    # To Arrow, it is a valid but empty InMemoryDataset, which no code may take for the rows.
    refused: list[Callable[[], object]] = [
        lambda: pyarrow.dataset.Scanner.from_dataset(dataset),
        lambda: pyarrow.dataset.Scanner.from_dataset(dataset.filter(pc.field("k") > 3)),
        lambda: acero.Declaration("scan", acero.ScanNodeOptions(dataset)),
        lambda: pyarrow.dataset.dataset([dataset, dataset]),
        lambda: pyarrow.dataset.UnionDataset(dataset.schema, [dataset]).count_rows(),
    ]
    for call in refused:
        with pytest.raises((NotSupportedError, pa.ArrowException)):
            call()


def test_dataset_can_be_pickled_and_copied_and_equals_only_itself(dataset: lance_core.LanceDataset) -> None:
    for twin in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset), copy.deepcopy(dataset)):
        assert isinstance(twin, pyarrow.dataset.Dataset)
        assert (twin.uri, twin.version, twin.count_rows()) == (dataset.uri, dataset.version, NUM_ROWS)
        assert twin != dataset
    assert len({dataset, dataset}) == 1


def test_forked_process_reads_a_dataset_that_its_parent_read_as_a_stream(tmp_path: Path) -> None:
    rows = pa.table({"k": range(200_000), "text": [str(row) for row in range(200_000)]})
    dataset = lance_core.write_dataset(rows, str(tmp_path / "t"), max_rows_per_file=60_000)
    view = dataset.filter(pc.field("k") < 100_000)
    assert pa.table(dataset).equals(rows)
    assert pa.table(view).num_rows == 100_000
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if pa.table(dataset).equals(rows) and pa.table(view).num_rows == 100_000 else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_filtered_view_combines_conditions_and_reads_like_a_dataset(
    table: pa.Table, dataset: lance_core.LanceDataset
) -> None:
    view = dataset.filter(pc.field("k") >= 10).filter(pc.field("k") < 20)
    expected = table.slice(10, 10)
    assert view.schema.equals(table.schema)
    assert view.to_table().equals(expected)
    assert pa.Table.from_batches(view.to_batches(columns=["k"])).equals(expected.select(["k"]))
    assert view.head(3, columns=["k"])["k"].to_pylist() == [10, 11, 12]
    assert view.take([9, 0], columns=["k"])["k"].to_pylist() == [19, 10]
    assert (view.count_rows(), view.count_rows(pc.field("k") == 15)) == (10, 1)
    assert _duckdb("SELECT k FROM rows WHERE k > 17")(view)["k"].to_pylist() == [18, 19]
    assert pa.table(pickle.loads(pickle.dumps(view))).equals(expected)
    with pytest.raises(NotSupportedError, match="get_fragments"):
        view.get_fragments()
    with pytest.raises(InvalidTypeError, match="must be a pyarrow"):
        view.to_table(filter="k > 3")
    with pytest.raises(InvalidTypeError, match="must be a pyarrow"):
        dataset.filter("k > 3")


def test_sorting_and_joining_return_in_memory_datasets(uri: str) -> None:
    trades = lance_core.write_dataset(pa.table({"t": [1, 5, 9], "g": ["a", "a", "b"]}), uri)
    quotes = pa.table({"t": [1, 4, 9], "g": ["a", "a", "a"], "q": [10, 40, 90]})
    assert trades.sort_by([("t", "descending")]).to_table()["t"].to_pylist() == [9, 5, 1]
    joined = trades.join_asof(pyarrow.dataset.dataset(quotes), on="t", by="g", tolerance=-2).to_table()
    assert joined["q"].to_pylist() == [10, 40, None]
    with pytest.raises(NotImplementedError, match=r"to_table\(\)\.join"):
        trades.join(trades, "t")


def test_arrow_dataset_members_that_pylance_refuses_raise_the_same_error_class(
    dataset: lance_core.LanceDataset,
) -> None:
    fragment, scanner = dataset.get_fragments()[0], dataset.scanner()
    refused: list[Callable[[], object]] = [
        lambda: dataset.partition_expression,
        lambda: dataset.replace_schema(dataset.schema),
        lambda: fragment.partition_expression,
        lambda: fragment.physical_schema,
        lambda: scanner.take([0]),
        lambda: lance_core.LanceScanner.from_dataset(dataset),
        lambda: lance_core.LanceScanner.from_fragment(fragment),
        lambda: lance_core.LanceScanner.from_batches([]),
    ]
    for call in refused:
        with pytest.raises(NotImplementedError):
            call()
