"""The columns with which rows are written in each schema mode, and the columns that are added first."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import SchemaMismatchError, TooMuchWriteContentionError
from lance_pipelines.ingest import schema_changes
from lance_pipelines.ingest.declaration import SchemaMode, WriteMode
from lance_pipelines.ingest.schema_changes import fit_columns

NUMBER_AND_NAME = pa.schema([("id", pa.int64()), ("name", pa.string())])


def _fit(warehouse, found: pa.Schema, schema_mode: SchemaMode | None = None, mode: WriteMode = WriteMode.APPEND):
    declaration = warehouse.declaration(mode, schema_mode=schema_mode)
    return fit_columns(declaration, schema_changes.plan_write(declaration), found, properties={"by": "test"})


def test_rows_of_a_new_dataset_keep_their_columns(warehouse) -> None:
    plan, target = _fit(warehouse, NUMBER_AND_NAME, SchemaMode.ADD)
    assert (plan.read_version, target) == (0, NUMBER_AND_NAME)


def test_mode_add_commits_new_columns_as_nullable_and_plans_the_write_on_the_new_version(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    found = pa.schema([pa.field("more", pa.int8(), nullable=False, metadata={"comment": "c"}), *NUMBER_AND_NAME])
    plan, target = _fit(warehouse, found, SchemaMode.ADD)
    assert plan.read_version == warehouse.latest_version() == 2
    assert target.names == ["id", "name", "more"]
    assert (target.field("more").nullable, target.field("more").metadata) == (True, {b"comment": b"c"})
    transaction = lance_core.dataset(warehouse.uri).read_transaction(2)
    assert plan.read_transaction == transaction.uuid
    assert transaction.transaction_properties == {"by": "test"}
    assert warehouse.rows() == [{"id": 1, "name": "row 1", "more": None}]
    again, _ = _fit(warehouse, found, SchemaMode.ADD)
    assert again.read_version == 2


def test_mode_add_accepts_missing_columns_and_reads_them_as_null(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    rows = pa.table({"name": ["only a name"]})
    plan, target = _fit(warehouse, rows.schema, SchemaMode.ADD)
    assert target.names == ["name"]
    warehouse.commit(warehouse.stage(rows, plan=plan, schema=target))
    assert warehouse.rows()[-1] == {"id": None, "name": "only a name"}


def test_mode_add_requires_every_column_of_the_dataset_that_is_not_nullable(warehouse) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    lance_core.write_dataset(pa.table({"id": [1], "name": ["a"]}, schema=schema), warehouse.uri)
    with pytest.raises(SchemaMismatchError, match="column 'id' of the dataset is not in the source"):
        _fit(warehouse, pa.schema([("name", pa.string()), ("new", pa.int8())]), SchemaMode.ADD)
    assert warehouse.latest_version() == 1


@pytest.mark.parametrize("mode", [SchemaMode.ADD, SchemaMode.ERROR])
def test_a_changed_type_is_refused_and_changes_nothing(warehouse, numbers, mode: SchemaMode) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    found = pa.schema([("id", pa.string()), ("name", pa.string())])
    with pytest.raises(
        SchemaMismatchError, match="column 'id' has type string in the source, but type int64 in the dataset"
    ):
        _fit(warehouse, found.append(pa.field("x", pa.int8())) if mode is SchemaMode.ADD else found, mode)
    assert warehouse.latest_version() == 1


def test_overwrite_takes_the_columns_of_the_source_unless_the_schema_mode_is_error(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    other = pa.schema([("other", pa.int8())])
    assert _fit(warehouse, other, None, WriteMode.OVERWRITE)[1] == other
    assert _fit(warehouse, NUMBER_AND_NAME, SchemaMode.ERROR, WriteMode.OVERWRITE)[1] == NUMBER_AND_NAME
    with pytest.raises(SchemaMismatchError, match="column 'id' of the dataset is not in the source"):
        _fit(warehouse, other, SchemaMode.ERROR, WriteMode.OVERWRITE)


def test_column_that_a_concurrent_run_adds_first_is_used(warehouse, numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    added = schema_changes.add_columns

    def late(dataset, columns, **more) -> None:
        lance_core.dataset(warehouse.uri).add_columns(pa.field("x", pa.int8()))
        added(dataset, columns, **more)

    monkeypatch.setattr(schema_changes, "add_columns", late)
    plan, target = _fit(warehouse, NUMBER_AND_NAME.append(pa.field("x", pa.int8())), SchemaMode.ADD)
    assert (plan.read_version, target.names) == (2, ["id", "name", "x"])


def test_waiting_for_columns_gives_up_if_they_never_appear(warehouse, numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    monkeypatch.setattr(schema_changes, "add_columns", lambda dataset, columns, **more: None)
    with pytest.raises(TooMuchWriteContentionError, match="giving up after 10 attempts to add columns"):
        _fit(warehouse, NUMBER_AND_NAME.append(pa.field("x", pa.int8())), SchemaMode.ADD)
