"""The default values of a declaration and the values that it accepts and refuses."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import dagster as dg
import lance
import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode
from lance_pipelines.ingest.partition_rows import PartitionColumn
from lance_pipelines.ingest.sources import AssetSource, FileSource, SourceFormat, SqlSource

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"


def _declared(**values: object) -> DatasetDeclaration:
    source = FileSource(format=SourceFormat.PARQUET, paths=("/x",))
    return DatasetDeclaration(key="t", uri="/t.lance", source=source, **values)


def test_default_file_limits_match_the_guide() -> None:
    declaration = _declared()
    documented = r"`maxRowsPerFile` \(([0-9,]+)\) or `maxBytesPerFile` \((\d+) GiB\)"
    [(rows, gibibytes)] = re.findall(documented, " ".join(GUIDE.read_text().split()))
    assert declaration.max_rows_per_file == int(rows.replace(",", ""))
    assert declaration.max_bytes_per_file == int(gibibytes) * 1024**3
    reference = inspect.signature(lance.write_dataset).parameters
    assert declaration.max_rows_per_file == reference["max_rows_per_file"].default


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"mode": "replace"}, "dataset t: unknown mode 'replace'; expected one of append, overwrite"),
        ({"schema_mode": "merge"}, "dataset t: unknown schema mode 'merge'; expected one of error, add"),
        ({"deps": "landing/trips"}, r"deps of dataset t must be a list, found 'landing/trips'"),
        ({"owners": "team:data"}, r"owners of dataset t must be a list, found 'team:data'; write \['team:data'\]"),
        ({"kinds": "csv"}, "kinds of dataset t must be a list"),
        ({"max_rows_per_file": "5"}, "max_rows_per_file must be a positive whole number, found '5'"),
        ({"upsert_by": 3}, "upsert_by must be a column name or a sequence of column names, found 3"),
    ],
)
def test_malformed_values_in_a_declaration_are_refused_with_the_expected_form(
    values: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        _declared(**values)


def test_modes_formats_keys_and_locations_accept_alternative_forms() -> None:
    declaration = DatasetDeclaration(
        key=dg.AssetKey(["lake", "t"]),  # type: ignore[arg-type]  # not declared, but common
        uri=Path("/lake/t.lance"),  # type: ignore[arg-type]  # likewise
        source=FileSource(format="csv", paths=[Path("/x")]),  # type: ignore[arg-type,list-item]  # likewise
        mode="overwrite",  # type: ignore[arg-type]  # likewise
        schema_mode="overwrite",  # type: ignore[arg-type]  # likewise
        upsert_by="id",
    )
    assert (declaration.key, declaration.uri, declaration.name) == (("lake", "t"), "/lake/t.lance", "lake__t")
    assert (declaration.mode, declaration.schema_mode) == (WriteMode.OVERWRITE, SchemaMode.OVERWRITE)
    assert isinstance(declaration.mode, WriteMode)
    assert (declaration.source.format, declaration.source.paths) == (SourceFormat.CSV, ("/x",))
    assert declaration.upsert_by == ("id",)


def test_malformed_sources_are_refused_with_the_expected_form() -> None:
    with pytest.raises(InvalidInputError, match=r"paths of a file source must be a list, found '/x'; write \['/x'\]"):
        FileSource(format=SourceFormat.CSV, paths="/x")
    with pytest.raises(InvalidInputError, match="unknown source format 'avro'; expected one of parquet, csv"):
        FileSource(format="avro", paths=["/x"])  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(InvalidInputError, match=r"dataset t: the source must be a FileSource, .* found <function"):
        DatasetDeclaration(key="t", uri="/t", source=lambda context: None)  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_bytes_per_file"])
def test_file_limit_of_zero_is_refused(name: str) -> None:
    assert getattr(_declared(**{name: 1}), name) == 1
    with pytest.raises(InvalidInputError, match=f"{name} must be a positive whole number, found 0"):
        _declared(**{name: 0})


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"schema_mode": SchemaMode.OVERWRITE}, "schema_mode overwrite requires mode overwrite or create"),
        ({"schema_mode": SchemaMode.ADD, "mode": WriteMode.OVERWRITE}, "schema_mode add requires mode append"),
        ({"mode": WriteMode.OVERWRITE_PARTITION}, "mode overwrite_partition requires partition_by"),
    ],
)
def test_modes_that_contradict_each_other_are_refused(values: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        _declared(**values)


def test_the_default_schema_mode_follows_the_mode_even_when_the_mode_is_replaced() -> None:
    declaration = _declared()
    assert declaration.effective_schema_mode is SchemaMode.ERROR
    changed = dataclasses.replace(declaration, mode=WriteMode.OVERWRITE)
    assert changed.effective_schema_mode is SchemaMode.OVERWRITE
    assert dataclasses.replace(changed, mode=WriteMode.APPEND).effective_schema_mode is SchemaMode.ERROR


def test_partition_by_is_one_column_or_one_for_each_dimension() -> None:
    columns = (PartitionColumn(column="a", dimension="x"), PartitionColumn(column="b", dimension="y"))
    assert _declared(partition_by="day").partition_columns == (PartitionColumn(column="day"),)
    assert _declared(partition_by=list(columns)).partition_columns == columns
    assert _declared().partition_columns == ()


@pytest.mark.parametrize(
    ("declare", "name"),
    [
        (lambda variable: DatasetDeclaration(key="t", uri=variable), "uri of dataset t"),
        (lambda variable: FileSource(format=SourceFormat.CSV, paths=("/x", variable)), "paths of a file source"),
        (
            lambda variable: FileSource(format=SourceFormat.CSV, paths=("/x",), options={"sep": variable}),
            "options of a file source",
        ),
        (lambda variable: SqlSource(sql=variable), "sql of a SQL source"),
        (lambda variable: AssetSource(key="a", uri=variable), "uri of an asset source"),
    ],
)
def test_environment_variable_in_an_unsupported_place_is_refused(declare, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} cannot be EnvVar\\('LAKE'\\).*get_value"):
        declare(dg.EnvVar("LAKE"))
    declare("/lake")
