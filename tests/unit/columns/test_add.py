"""Adding columns: fields, ids, files, and conflicts. All datasets are in memory."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.columns.batch_udf import BatchUDF, BatchUDFCheckpoint
from lance_core.errors import (
    InvalidInputError,
    InvalidSchemaError,
    InvalidTypeError,
    LanceError,
    NotSupportedError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_core.predicate.engine import SqlExpressions
from tests.support.counting_store import CountingStore

ROWS = pa.table({"a": [1, 2, 3, 4], "s": [{"x": 1}] * 4})
NEW = pa.schema([("b", pa.int8())])


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of four rows in two fragments."""
    return lance_core.write_dataset(ROWS, uri, max_rows_per_file=2)


def test_add_columns_adds_nulls_to_every_row_and_writes_no_data_file(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    files = {info.path for info in store.inner.list("table/data")}
    before = dataset.get_fragments()
    dataset.add_columns(pa.field("b", pa.string()))
    assert dataset.version == 2
    assert dataset.to_table()["b"].to_pylist() == [None] * 4
    assert {info.path for info in store.inner.list("table/data")} == files
    assert [each.metadata for each in dataset.get_fragments()] == [each.metadata for each in before]
    assert isinstance(dataset.read_transaction(2).operation, lance_core.LanceOperation.Merge)
    dataset.validate()


def test_rows_with_or_without_an_added_column_can_be_appended(dataset: lance_core.LanceDataset, uri: str) -> None:
    dataset.add_columns([pa.field("b", pa.int64()), pa.field("c", pa.list_(pa.int8()))])
    lance_core.write_dataset(pa.table({"a": [5], "s": [{"x": 1}], "b": [9]}), uri, mode="append")
    latest = lance_core.dataset(uri)
    assert latest.to_table(columns=["a", "b"]).to_pydict() == {"a": [1, 2, 3, 4, 5], "b": [None] * 4 + [9]}
    assert latest.count_rows("b is null") == 4
    assert latest.to_table(columns=["c"])["c"].null_count == 5


def test_added_column_does_not_get_the_id_of_a_dropped_column_with_the_same_name(
    dataset: lance_core.LanceDataset, uri: str
) -> None:
    kept = dataset.lance_schema.__class__(fields=dataset.lance_schema.fields[1:])
    lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Project(kept), read_version=1)
    latest = lance_core.dataset(uri)
    latest.add_columns(pa.field("a", pa.int64()))
    assert latest.to_table()["a"].null_count == 4
    assert latest.lance_schema.fields[-1].id == 3


def test_adding_a_struct_with_the_name_of_an_existing_struct_adds_its_members(dataset: lance_core.LanceDataset) -> None:
    dataset.add_columns(pa.schema([pa.field("s", pa.struct([pa.field("y", pa.int8())]))], metadata={"k": "v"}))
    assert dataset.to_table()["s"].to_pylist() == [{"x": 1, "y": None}] * 4
    assert dataset.schema_metadata == {"k": "v"}


@pytest.mark.parametrize(
    ("transforms", "error", "text"),
    [
        (pa.field("b", pa.int64(), nullable=False), InvalidInputError, "column 'b' must be nullable"),
        (pa.field("a", pa.int64()), SchemaMismatchError, "column 'a' already exists"),
        (pa.field("s", pa.struct([pa.field("x", pa.int8())])), SchemaMismatchError, "column 's.x' already exists"),
        (
            pa.field("s", pa.struct([pa.field("z", pa.int8(), nullable=False)])),
            InvalidInputError,
            "column 's.z' must be nullable",
        ),
        ([pa.field("b", pa.int8()), pa.field("b", pa.int8())], InvalidSchemaError, "occurs more than once"),
        (pa.field("b.c", pa.int8()), InvalidSchemaError, "must not contain '.'"),
        ({"a": "1"}, SchemaMismatchError, "column 'a' already exists"),
        ({"b": 1}, InvalidTypeError, "must map names to SQL expressions, found 'b': 1"),
        ({"b": "zz + 1"}, InvalidInputError, "zz"),
        ({"b.c": "a"}, InvalidSchemaError, "must not contain '.'"),
        ([], InvalidInputError, "no schema was given"),
        ([1], InvalidTypeError, "a function, or tabular data, found list"),
        (5, InvalidTypeError, "a function, or tabular data, found int"),
        (
            pa.table({"b": [1, 2, 3]}),
            InvalidInputError,
            "fragment 1: the number of values must equal the number of rows; expected 2, found 1",
        ),
        (pa.table({"b": [1] * 5}), InvalidInputError, "more rows than the table"),
        (pa.table({"b": pa.array([1] * 4), "a": [1] * 4}), SchemaMismatchError, "column 'a' already exists"),
        (lambda batch: 1 / 0, InvalidTypeError, "cannot compute columns.*ZeroDivisionError"),
        (lambda batch: 5, InvalidTypeError, "such as a pa.RecordBatch or a pandas DataFrame; found int"),
        (lambda batch: pa.record_batch({"b": [1]}), InvalidInputError, "returned 1 row for a batch of 2 rows"),
        (
            BatchUDF(lambda batch: batch, NEW),
            SchemaMismatchError,
            "differs from output_schema",
        ),
        (
            BatchUDF(lambda batch: 1 / 0, NEW),
            InvalidInputError,
            "ZeroDivisionError",
        ),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else None,
)
def test_columns_that_cannot_be_added_are_refused_and_change_nothing(
    dataset: lance_core.LanceDataset, transforms: Any, error: type[LanceError], text: str
) -> None:
    with pytest.raises(error, match=text):
        dataset.add_columns(transforms)
    assert dataset.latest_version == 1
    assert len(dataset.to_table()) == 4


def test_call_of_add_columns_with_values_that_is_refused_leaves_no_data_file(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    files = {info.path for info in store.inner.list("table/data")}
    with pytest.raises(InvalidInputError, match="fragment 1: the number of values must equal the number of rows"):
        dataset.add_columns(pa.table({"b": [1, 2, 3]}))
    assert {info.path for info in store.inner.list("table/data")} == files


def test_expressions_are_planned_once_and_evaluated_for_several_small_fragments_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"a": range(100)})
    dataset = lance_core.write_dataset(rows, tmp_path / "t", max_rows_per_file=5)
    dataset.delete("a in (0, 4, 21, 22, 23) or (a >= 40 and a < 60)")
    planned, evaluated = [], []
    init, evaluate = SqlExpressions.__init__, SqlExpressions.evaluate
    monkeypatch.setattr(SqlExpressions, "__init__", lambda *given: planned.append(1) or init(*given))
    monkeypatch.setattr(
        SqlExpressions, "evaluate", lambda self, *given: evaluated.append(given[1]) or evaluate(self, *given)
    )
    dataset.add_columns({"b": "a * 2", "c": "1"})
    assert (len(planned), evaluated) == (1, [35, 40])
    table = dataset.to_table()
    assert len(table) == 75
    assert table["b"].to_pylist() == [2 * a for a in table["a"].to_pylist()]
    dataset.validate()


def test_an_expression_is_evaluated_for_fragments_that_another_writer_appended(
    dataset: lance_core.LanceDataset, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = []
    evaluate = SqlExpressions.evaluate

    def overtaken(expressions: SqlExpressions, columns: Any, num_rows: int) -> pa.RecordBatch:
        if not evaluated:
            lance_core.write_dataset(ROWS.slice(0, 3), uri, mode="append", max_rows_per_file=2)
        evaluated.append(num_rows)
        return evaluate(expressions, columns, num_rows)

    monkeypatch.setattr(SqlExpressions, "evaluate", overtaken)
    dataset.add_columns({"b": "a * 2"})
    assert dataset.to_table()["b"].to_pylist() == [2, 4, 6, 8, 2, 4, 6]
    # The values of the first two fragments are not computed again.
    assert evaluated == [2, 2, 2, 1]


def test_a_function_is_called_for_rows_that_another_writer_appended(dataset: lance_core.LanceDataset, uri: str) -> None:
    seen: list[int] = []

    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not seen:
            lance_core.write_dataset(ROWS.slice(0, 1), uri, mode="append")
        seen.append(batch.num_rows)
        return pa.record_batch({"b": pc.multiply(batch["a"], 2)})

    dataset.add_columns(lance_core.batch_udf(pa.schema([("b", pa.int64())]))(doubled))
    assert dataset.version == 3
    assert dataset.to_table()["b"].to_pylist() == [2, 4, 6, 8, 2]
    # The values of the first two fragments are not computed again.
    assert seen == [2, 2, 1]


def test_a_stream_of_values_is_not_read_again_after_a_conflict(dataset: lance_core.LanceDataset, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, mode="append")
    with pytest.raises(TooMuchWriteContentionError, match="number of attempts: 1"):
        dataset.add_columns(pa.table({"b": [1, 2, 3, 4]}))
    dataset.checkout_latest()
    dataset.add_columns(pa.table({"b": range(8)}))
    assert dataset.to_table()["b"].to_pylist() == list(range(8))


def test_a_checkpoint_keeps_results_until_they_are_committed(dataset: lance_core.LanceDataset, tmp_path: Path) -> None:
    checkpoint = tmp_path / "results.sqlite"
    schema = pa.schema([("b", pa.int64())])
    seen: list[int] = []

    def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(batch["a"].to_pylist())
        if len(seen) == 3:
            raise RuntimeError("stopped")
        return pa.record_batch({"b": batch["a"]})

    with pytest.raises(InvalidInputError, match="stopped"):
        dataset.add_columns(lance_core.batch_udf(schema, checkpoint)(failing), batch_size=1)
    dataset.add_columns(lance_core.batch_udf(schema, checkpoint)(failing), batch_size=1)
    assert dataset.to_table()["b"].to_pylist() == [1, 2, 3, 4]
    assert seen == [1, 2, 3, 3, 4]
    assert not checkpoint.exists()


@pytest.mark.parametrize("content", [b"no database", None])
def test_an_unusable_checkpoint_raises_storage_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content * 100)
    with pytest.raises(StorageError, match=r"checkpoint .* cannot be used"):
        lance_core.batch_udf(checkpoint_file=path)(lambda batch: batch)


def test_a_damaged_checkpoint_result_raises_storage_error(tmp_path: Path) -> None:
    checkpoint = BatchUDFCheckpoint(tmp_path / "results.sqlite")
    info = BatchUDFCheckpoint.BatchInfo(0, 0)
    checkpoint.insert_batch(info, pa.record_batch({"b": [1]}))
    with closing(sqlite3.connect(checkpoint.path)) as connection, connection:
        connection.execute("UPDATE batches SET result = X'0102'")
    with pytest.raises(StorageError, match="damaged: the result for batch 0 of fragment 0"):
        checkpoint.get_batch(info)


@pytest.mark.parametrize(("version", "column"), [("0.1", "b"), ("2.1", "s")])
def test_adding_null_columns_to_tables_of_formats_that_require_values_is_refused(
    uri: str, version: str, column: str
) -> None:
    dataset = lance_core.write_dataset(ROWS, uri, data_storage_version=version)
    with pytest.raises(NotSupportedError, match="format"):
        dataset.add_columns(pa.field(column, pa.struct([pa.field("y", pa.int8())])))


def test_columns_are_added_after_another_writer_appended_rows(dataset: lance_core.LanceDataset, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, mode="append")
    dataset.add_columns(pa.field("b", pa.int64()))
    assert dataset.version == 3
    assert dataset.count_rows("b is null") == 8


def test_adding_a_column_that_another_writer_added_first_is_refused(dataset: lance_core.LanceDataset, uri: str) -> None:
    lance_core.dataset(uri).add_columns(pa.field("b", pa.int64()))
    with pytest.raises(SchemaMismatchError, match="column 'b' already exists"):
        dataset.add_columns(pa.field("b", pa.string()))
    assert dataset.latest_version == 2


def test_add_columns_gives_up_after_too_many_conflicts(
    dataset: lance_core.LanceDataset, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lance_core.columns import add
    from lance_core.commit import replanning

    planned = add._null_plan

    def overtaken(*arguments: Any) -> Any:
        operation = planned(*arguments)
        lance_core.write_dataset(ROWS, uri, mode="append")
        return operation

    monkeypatch.setattr(add, "_null_plan", overtaken)
    monkeypatch.setattr(replanning.time, "sleep", lambda seconds: None)
    with pytest.raises(TooMuchWriteContentionError, match=r"addition of columns failed.*number of attempts: 11"):
        dataset.add_columns(pa.field("b", pa.int64()))
