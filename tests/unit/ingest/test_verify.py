"""Verification of a staged write before its commit: rows, files, schemas, and the read version."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import IncompatibleTransactionError, SchemaMismatchError
from lance_core.schema.convert import schema_from_arrow
from lance_pipelines.ingest.verify import (
    StagedWriteError,
    verify_files,
    verify_read_version,
    verify_row_counts,
    verify_schema,
)
from lance_pipelines.progress import Progress


def test_row_count_verification_accepts_equal_counts(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1, 2, 3))
    assert len(staged.fragments) == 2
    verify_row_counts(staged)


@pytest.mark.parametrize("change", [{"rows_counted": 4}, {"rows_written": 2}, {"fragments": ()}])
def test_row_count_verification_names_lost_or_duplicated_rows(warehouse, numbers, change) -> None:
    staged = warehouse.stage(numbers(1, 2, 3), **change)
    with pytest.raises(StagedWriteError, match=r"the source has \d rows, the writers report \d") as caught:
        verify_row_counts(staged)
    assert caught.value.context["uri"] == warehouse.uri


def test_file_verification_accepts_complete_files(warehouse, numbers) -> None:
    verify_files(warehouse.stage(numbers(1, 2, 3)))


def test_file_verification_names_a_missing_file(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1, 2, 3))
    gone = warehouse.files(staged.file_token)[1]
    gone.unlink()
    with pytest.raises(StagedWriteError, match=f"data file {gone} is missing"):
        verify_files(staged)


def test_file_verification_names_a_short_file_with_both_sizes(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    (short,) = warehouse.files(staged.file_token)
    full = short.stat().st_size
    short.write_bytes(short.read_bytes()[:-1])
    with pytest.raises(StagedWriteError, match=f"expected {full} bytes, found {full - 1}"):
        verify_files(staged)


def test_file_verification_refuses_a_file_of_a_different_write(warehouse, numbers) -> None:
    mine, other = warehouse.stage(numbers(1)), warehouse.stage(numbers(2))
    with pytest.raises(StagedWriteError, match="does not belong to this write"):
        verify_files(replace(mine, fragments=other.fragments))


def test_schema_verification_accepts_the_schema_of_the_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    verify_schema(warehouse.stage(numbers(2)), schema_from_arrow(numbers().schema))


def test_schema_verification_names_a_column_of_a_different_type(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    other = pa.schema([pa.field("id", pa.int32()), pa.field("name", pa.string())])
    with pytest.raises(SchemaMismatchError, match="'id'"):
        verify_schema(staged, schema_from_arrow(other))


@pytest.mark.parametrize("order", [("name", "id"), ("extra", "id", "name")])
def test_schema_verification_refuses_columns_with_different_field_ids(warehouse, numbers, order) -> None:
    """With the same names and types in another order, files would be read with wrong values."""
    staged = warehouse.stage(numbers(1))
    types = {"id": pa.int64(), "name": pa.string(), "extra": pa.int8()}
    other = pa.schema([pa.field(name, types[name]) for name in order])
    with pytest.raises(
        SchemaMismatchError, match=r"stores field ids \[0, 1\], but the dataset has these columns under"
    ):
        verify_schema(staged, schema_from_arrow(other))


def test_schema_verification_refuses_a_nullable_column_for_a_required_one(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    with pytest.raises(SchemaMismatchError, match="'id' is not nullable in the dataset"):
        verify_schema(staged, schema_from_arrow(required))


def test_schema_verification_refuses_a_file_with_a_missing_column(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    fragments = deepcopy(staged.fragments)
    fragments[0]["files"][0]["fields"] = [0]
    with pytest.raises(SchemaMismatchError, match=r"stores field ids \[0\]"):
        verify_schema(replace(staged, fragments=fragments), schema_from_arrow(staged.schema))


def test_read_version_verification_accepts_later_versions_of_the_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    staged = warehouse.stage(numbers(2))
    warehouse.commit(warehouse.stage(numbers(3)))
    verify_read_version(staged, lance_core.dataset(warehouse.uri))


def test_read_version_verification_refuses_a_recreated_dataset(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    staged = warehouse.stage(numbers(2))
    made_by_another = replace(staged, read_transaction="00000000-0000-4000-8000-000000000000")
    with pytest.raises(IncompatibleTransactionError, match="was replaced in the meantime: version 1"):
        verify_read_version(made_by_another, lance_core.dataset(warehouse.uri))
    planned_later = replace(staged, read_version=9)
    with pytest.raises(IncompatibleTransactionError, match="is at version 1, but the write is based on version 9"):
        verify_read_version(planned_later, lance_core.dataset(warehouse.uri))


def test_file_verification_reports_how_many_files_it_has_checked(warehouse, numbers) -> None:
    reports: list[Progress] = []
    verify_files(warehouse.stage(numbers(1, 2, 3)), report=reports.append)
    assert [(each.tasks, each.total_tasks, each.unit) for each in reports] == [(1, 2, "files"), (2, 2, "files")]
