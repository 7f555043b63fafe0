"""``LanceDataset.sql`` returns the same rows and schemas, and refuses the same queries, as in pylance.

One difference is documented in ``docs/concepts/predicates.md``: a condition that DataFusion does not pass to the scan
distinguishes -0.0 from a literal zero.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import sys
import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NUM_ROWS = 60

QUERIES = """
select * from dataset order by k
select `Name` from dataset order by k
select st.x, st['Y'] y from dataset where st.x = 1 order by k
select st from dataset where st['Y'] = 'y3'
select l[1], array_length(l) from dataset order by k
select unnest(l) z from dataset order by z
select json_get_int(j,'n') n, json_extract(j,'$.a') a, json_exists(j,'$.n') from dataset order by k
select json_array_length(j,'a'), json_array_contains(j,'a','2') from dataset order by k
select j from dataset order by k
select j jj, count(*) from dataset group by j order by min(k)
select * from dataset where json_get_int(j,'n') > 50 order by k
select json_get(j,'a') g from dataset order by k
select sum(k), avg(k), count(*), count(x), min("Name"), max(dec), sum(dec), avg(dec) from dataset
select stddev(k), median(k), bool_and(b), array_agg(k) from dataset
select d, count(*) c, sum(k) from dataset group by d order by d
select "Name", d, count(*) from dataset group by "Name", d having count(*) > 2 order by 1, 2
select distinct d from dataset order by d
select count(distinct "Name") from dataset
select a.k, b.k kk from dataset a join dataset b on a.k = b.k + 1 order by a.k limit 5
select a.k, b.k kk from dataset a left join dataset b on a.k = b.k + 30 order by a.k
select count(*) from dataset a full join dataset b on a."Name" = b."Name"
select count(*) from dataset a, dataset b where a.k < b.k
select a.k from dataset a where exists (select 1 from dataset b where b.k = a.k + 10) order by 1
select a.k from dataset a where a.k not in (select k from dataset where k > 3) order by 1
select k, row_number() over (partition by d order by k desc) r from dataset order by k
select k, sum(k) over (order by k rows between 1 preceding and current row) s from dataset order by k
select k, lag(k) over (order by k) p from dataset order by k
select k, rank() over (order by "Name") r from dataset order by k
with x as (select k from dataset where k > 50) select * from x where k in (select k + 1 from x) order by k
select k from dataset where k < 3 union all select k from dataset where k > 57 order by k
select k from dataset where k < 3 union select k from dataset where k < 4 order by k
select k from dataset where k < 6 intersect select k from dataset where k > 3 order by k
select k from dataset where k < 6 except select k from dataset where k > 3 order by k
select k from dataset order by k limit 3 offset 2
select k from dataset order by x desc nulls last, k
select k from dataset order by "Name" nulls first, k limit 4
select k from dataset where k > 100
select x, k from dataset where x = 0.0 order by k
select x, k from dataset where x > 0 order by k
select x, k from dataset where x = -0.0 order by k
select f, k from dataset where f = 0 order by k
select f, k from dataset where f > 0.1 order by k
select f, k from dataset where f = 0.1 order by k
select x, k from dataset where x < 'nan' order by k
select x, k from dataset where x <> 1.5 order by k
select x, k from dataset where x in (0.0, 1.5) order by k
select x, k from dataset where x not in (0.0, 1.5) order by k
select k from dataset where f = x order by k
select k from dataset where d = 'u' order by k
select k from dataset where d in ('u','w') order by k
select k from dataset where d > 'u' order by k
select k from dataset where d like 'u%' order by k
select k from dataset where d <> 'u' order by k
select k from dataset where dec > 3.5 order by k
select k from dataset where dec = 3 order by k
select k from dataset where dec between 1 and 2.25 order by k
select k from dataset where dec in (1, 2.25) order by k
select k from dataset where ts > timestamp '2020-01-02' order by k
select k from dataset where ts > '2020-01-02' order by k
select k from dataset where tz > timestamp '2020-01-02' order by k
select k from dataset where tz > timestamptz '2020-01-02T00:00:00Z' order by k
select k from dataset where day = date '2020-01-03' order by k
select k from dataset where day = '2020-01-03' order by k
select k from dataset where day in (date '2020-01-03', date '2020-01-04') order by k
select k from dataset where b order by k
select k from dataset where not b order by k
select k from dataset where b is not true order by k
select k from dataset where b = true order by k
select k from dataset where b is null order by k
select k from dataset where bin = X'7831' order by k
select k from dataset where bin > X'7831' order by k
select k from dataset where u > 18446744073709551614 order by k
select k from dataset where u = 3 order by k
select k from dataset where i8 > 200 order by k
select k from dataset where i8 = 3 order by k
select k from dataset where i8 = 1.5 order by k
select k from dataset where i8 in (1, 2, 300) order by k
select k from dataset where k = 1.5 order by k
select k from dataset where "Name" = 'a1' order by k
select k from dataset where "Name" like 'a%' and "Name" <> 'a1' order by k
select k from dataset where "Name" ilike 'A1' order by k
select k from dataset where "Name" like '_1' order by k
select k from dataset where big = 'L3' order by k
select k from dataset where big > 'L3' and big < 'L5' order by k
select k from dataset where "Name" between 'a1' and 'a3' order by k
select k from dataset where "Name" is null or x is null order by k
select k from dataset where "Name" is distinct from 'a1' order by k
select k from dataset where "Name" is not distinct from null order by k
select k from dataset where k in (select 3) order by k
select k from dataset where l is null order by k
select k from dataset where l = make_array(1) order by k
select k from dataset where array_has(l, 4) order by k
select k from dataset where v is null order by k
select k from dataset where j is null order by k
select k from dataset where st is null order by k
select k from dataset where st.x is null order by k
select k from dataset where tm = '00:00:00' order by k
select k from dataset where du is null order by k
select k from dataset where k % 7 = 3 and x > 0 order by k
select k from dataset where k + 1 = 4 or k - 1 = 4 order by k
select k from dataset where -k = -3 order by k
select k from dataset where abs(k) = 3 order by k
select k from dataset where cast(k as double) > 55.5 order by k
select k from dataset where case when k > 50 then true else false end order by k
select k from dataset where coalesce("Name", 'z') = 'z' order by k
select k from dataset where regexp_like("Name", '^a[12]') order by k
select k from dataset where false
select k from dataset where null
select k from dataset where true order by k
select 1
select 1 as a, 1.5 as b, 'x' as c
values (1),(2)
select * from generate_series(1,3)
describe dataset
select cast(k as varchar) c, k::string s, upper("Name") u, "Name" || 'x' from dataset order by k
select round(dec,1) r, dec * 2 m, k / 7 i, k / 7.0 fl, x / 0 z from dataset order by k
select ts - lag(ts) over (order by k) from dataset order by k
select case when k > 3 then 'big' else 'small' end c from dataset order by k
select coalesce("Name", 'none') from dataset order by k
select max(k) filter (where k < 10) from dataset
select d, "Name", sum(k) from dataset group by grouping sets ((d), ("Name"), ()) order by 1, 2, 3
select approx_distinct(k) from dataset
select string_agg("Name", ',' order by k) from dataset
select first_value(k order by k desc) from dataset
select corr(k, dec) from dataset
select struct(k, x) s from dataset order by k limit 2
select named_struct('a', k) s from dataset order by k limit 2
select array_agg(j order by k) from dataset
select arrow_typeof(j), arrow_typeof("Name"), arrow_typeof(d) from dataset limit 1
select arrow_cast(k, 'Int8') from dataset order by k limit 2
select * exclude (j, st) from dataset order by k limit 1
select * except (j, st) from dataset order by k limit 1
select v from dataset order by k
select v[1] from dataset order by k
select t.* from (select k, x from dataset) t order by k limit 2
select count(*) from dataset where k > 10 limit 1
select (select max(k) from dataset) m, k from dataset order by k limit 2
select k from dataset where k = (select max(k) from dataset)
"""

REFUSED = """
explain select k from dataset where k > 5 and nope
selec 1
select name from dataset
select _rowid from dataset
select nope from dataset
select * from nope
select 1; select 2
insert into dataset values (1)
delete from dataset where k = 1
update dataset set k = 1
begin
show tables
select * from information_schema.tables
select * from '/etc/passwd'
select * from dataset where k > 'abc'
select k/0 from dataset
select cast('a' as int)
select cast("Name" as int) from dataset
select j->>'n' from dataset
select sum("Name") from dataset
select k from dataset group by d
select unknown_function(k) from dataset
select st.nope from dataset
select "K" from dataset
select k from dataset where array_has(nope, 1)
"""

ONLY_HERE_REFUSED = """
create table x as select 1
create view x as select 1
create external table x stored as csv location '/etc/passwd'
copy (select 1) to '{directory}/copy.csv'
set datafusion.execution.batch_size = 5
drop table dataset
prepare p as select 1
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("sql") / "t.lance")
    lance.write_dataset(_rows(), path, max_rows_per_file=20).delete("k in (5, 25)")
    return path


def _rows() -> pa.Table:
    choose = random.Random(1)

    def column(dtype: pa.DataType, make: Callable[[int], object]) -> pa.Array:
        return pa.array([None if choose.random() < 0.1 else make(row) for row in range(NUM_ROWS)], dtype)

    documents = [f'{{"n":{row},"a":[1,2],"t":"x{row}"}}' if row % 9 else None for row in range(NUM_ROWS)]
    columns = {
        "k": pa.array(range(NUM_ROWS)),
        "Name": column(pa.string(), lambda row: f"a{row % 7}"),
        "x": column(pa.float64(), lambda _: choose.choice([0.0, -0.0, 1.5, float("nan"), -2.5, 1e9])),
        "f": column(pa.float32(), lambda _: choose.choice([0.0, -0.0, 1.5, float("nan"), 0.1])),
        "st": column(pa.struct([("x", pa.int64()), ("Y", pa.string())]), lambda row: {"x": row % 5, "Y": f"y{row}"}),
        "l": column(pa.list_(pa.int64()), lambda row: [row, row + 1][: row % 3]),
        "d": column(pa.string(), lambda _: choose.choice("uvw")).dictionary_encode(),
        "dec": column(pa.decimal128(10, 2), lambda row: Decimal(row) / 4),
        "ts": column(pa.timestamp("us"), lambda row: dt.datetime(2020, 1, 1 + row % 5)),
        "tz": column(pa.timestamp("us", "UTC"), lambda row: dt.datetime(2020, 1, 1 + row % 5)),
        "day": column(pa.date32(), lambda row: dt.date(2020, 1, 1 + row % 5)),
        "b": column(pa.bool_(), lambda row: row % 2 == 0),
        "bin": column(pa.binary(), lambda row: f"x{row}".encode()),
        "u": column(pa.uint64(), lambda row: row),
        "i8": column(pa.int8(), lambda row: row - 30),
        "v": column(pa.list_(pa.float32(), 2), lambda row: [row, 1.0]),
        "big": column(pa.large_string(), lambda row: f"L{row}"),
        "tm": column(pa.time64("us"), lambda row: row),
        "du": column(pa.duration("us"), lambda row: row),
        "j": pa.array(documents, pa.json_()),
    }
    return pa.table(columns).replace_schema_metadata({"a": "b"})


def _result(dataset: Any, sql: str, with_ids: bool = False) -> object:
    query = dataset.sql(sql)
    batches = (query.with_row_id().with_row_addr() if with_ids else query).build().to_batch_records()
    if not batches:
        return "no rows"
    table = pa.Table.from_batches(batches)
    rows = list(map(repr, table.to_pylist()))
    fields = [(field.name, str(field.type), field.nullable, field.metadata) for field in table.schema]
    return fields, table.schema.metadata, rows if "order by" in sql else sorted(rows)


@pytest.mark.sampled(50)
@pytest.mark.parametrize("sql", lines(QUERIES))
def test_a_query_returns_the_same_rows_and_schema_as_pylance(uri: str, sql: str) -> None:
    assert _result(lance_core.dataset(uri), sql) == _result(lance.dataset(uri), sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from dataset order by k",
        "select _rowid, _rowaddr, k from dataset where _rowid > 30 order by k",
        "select count(*) from dataset where _rowid is null",
        "select max(_rowid) from dataset where _rowaddr < 4294967296",
    ],
)
def test_a_query_can_use_row_ids_and_addresses_on_request(uri: str, sql: str) -> None:
    assert _result(lance_core.dataset(uri), sql, with_ids=True) == _result(lance.dataset(uri), sql, with_ids=True)


@pytest.mark.parametrize("sql", lines(REFUSED))
def test_a_query_that_pylance_refuses_is_refused_with_the_same_builtin_class(uri: str, sql: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the messages are not compared
        lance.dataset(uri).sql(sql).build().to_batch_records()
    with pytest.raises(InvalidInputError):
        lance_core.dataset(uri).sql(sql).build().to_batch_records()


@pytest.mark.parametrize("sql", lines(ONLY_HERE_REFUSED))
def test_a_statement_that_writes_is_refused(uri: str, tmp_path: Path, sql: str) -> None:
    with pytest.raises(InvalidInputError, match="only read-only statements are supported"):
        lance_core.dataset(uri).sql(sql.format(directory=tmp_path)).build().to_batch_records()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "in_sql"), [("foo", "foo"), ("Foo", "FOO"), ("a b", '"a b"'), ("select", '"select"')]
)
def test_the_table_of_a_query_can_be_renamed(uri: str, given: str, in_sql: str) -> None:
    for library in (lance, lance_core):
        query = library.dataset(uri).sql(f"select max(k) as m from {in_sql}").table_name(given).build()
        assert pa.Table.from_batches(query.to_batch_records()).to_pydict() == {"m": [NUM_ROWS - 1]}
    with pytest.raises(InvalidInputError, match="not found"):
        lance_core.dataset(uri).sql("select * from dataset").table_name(given).build().to_batch_records()


def test_query_batches_have_at_most_the_requested_number_of_rows(uri: str) -> None:
    for library in (lance, lance_core):
        query = library.dataset(uri).sql("select k from dataset order by k").batch_size(7).build()
        batches = query.to_batch_records()
        assert max(batch.num_rows for batch in batches) == 7
        assert sum(batch.num_rows for batch in batches) == NUM_ROWS - 2


def test_a_query_can_be_executed_again_and_sees_the_version_of_its_handle(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"k": [1, 2]}), tmp_path / "t.lance")
    query = dataset.sql("select sum(k) as s from dataset").build()
    lance_core.write_dataset(pa.table({"k": [10]}), tmp_path / "t.lance", mode="append")
    for _ in range(2):
        assert query.to_stream_reader().read_all().to_pydict() == {"s": [3]}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"batch_size": 0}, InvalidInputError),
        ({"batch_size": "x"}, InvalidTypeError),
        ({"table_name": 5}, InvalidTypeError),
    ],
)
def test_invalid_query_settings_are_refused_immediately(uri: str, arguments: dict[str, Any], error: type) -> None:
    [(name, value)] = arguments.items()
    with pytest.raises(error):
        getattr(lance_core.dataset(uri).sql("select 1"), name)(value)


def test_sql_queries_return_blobs_as_descriptors_or_values(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"abc", b"d"], pa.large_binary())], schema=pa.schema([field]))
    lance.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.1")
    for library in (lance, lance_core):
        query = library.dataset(tmp_path / "t.lance").sql("select b from dataset")
        assert [row["b"] for row in query.blob_handling("all_binary").build().to_batch_records()[0].to_pylist()] == [
            b"abc",
            b"d",
        ]
    (batch,) = lance_core.dataset(tmp_path / "t.lance").sql("select b from dataset").build().to_batch_records()
    assert batch.column(0)[0].as_py()["size"] == 3


def test_a_scan_error_in_a_query_keeps_its_class(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"k": range(100)}), tmp_path / "t.lance")
    (path,) = (tmp_path / "t.lance" / "data").iterdir()
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(CorruptDataError):
        dataset.sql("select sum(k) from dataset").build().to_batch_records()


def test_sorting_beyond_the_memory_limit_uses_temporary_files(tmp_path: Path, monkeypatch: Any) -> None:
    num_rows = 150_000
    rows = pa.table({"k": range(num_rows), "s": [f"{row * 7919 % num_rows:0200}" for row in range(num_rows)]})
    dataset = lance_core.write_dataset(rows, tmp_path / "t.lance")
    monkeypatch.setenv("LANCE_MEM_POOL_SIZE", str(20 << 20))
    reader = dataset.sql("select s from dataset order by s").build().to_stream_reader()
    expected = 0
    for batch in reader:
        assert batch.column(0).to_pylist() == [f"{row:0200}" for row in range(expected, expected + batch.num_rows)]
        expected += batch.num_rows
    assert expected == num_rows
    joined = dataset.sql("select count(*) from dataset a join dataset b on a.s = b.s and a.k < b.k").build()
    with pytest.raises(InvalidInputError, match="Resources exhausted"):
        joined.to_batch_records()


def test_a_forked_process_refuses_a_query_instead_of_waiting_forever(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    dataset.sql("select 1").build().to_batch_records()
    child = os.fork()
    if child == 0:
        try:
            dataset.sql("select 1").build().to_batch_records()
        except NotSupportedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_failed_and_abandoned_results_can_be_garbage_collected_during_the_scan_of_another_query(uri: str) -> None:
    """The objects of their scans must not be freed by a thread that does not hold the interpreter lock."""
    program = textwrap.dedent(
        """
        import gc, sys
        import lance_core
        from lance_core.scan import sql_table

        dataset = lance_core.dataset(sys.argv[1])
        to_batches = sql_table._Scan.to_batches
        abandoned = []

        def collecting(scan):
            for result in abandoned:
                result.append(result)
            abandoned.clear()
            gc.collect()
            yield from to_batches(scan)

        def start():
            reader = dataset.sql("select a.k from dataset a, dataset b").build().to_stream_reader()
            reader.read_next_batch()
            return reader

        gc.disable()
        for _ in range(3):
            abandoned.extend([[start()], [dataset.sql("select k from dataset").build().to_stream_reader()]])
            sql_table._Scan.to_batches = collecting
            dataset.sql("select count(k) from dataset where k >= 0").build().to_batch_records()
            sql_table._Scan.to_batches = to_batches
        """
    )
    finished = subprocess.run([sys.executable, "-c", program, uri], capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
