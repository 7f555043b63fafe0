"""Streams are ingested exactly once, by runs that each ingest what has arrived since the last one."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_core.errors import DatasetNotFoundError, InvalidInputError, LanceError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import StreamSource
from lance_pipelines.ingest.write_report import WriteReport
from lance_pipelines.spark.stream_ingest import ingest_available

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, name STRING"


class Landing:
    """A directory in which JSON files arrive, and the dataset that ingests them."""

    def __init__(self, tmp_path: Path, spark: SparkSession) -> None:
        self.directory = tmp_path / "landing"
        self.directory.mkdir()
        self.uri = str(tmp_path / "events.lance")
        self.spark = spark
        self.files = 0

    def arrive(self, *rows: dict[str, Any]) -> None:
        self.files += 1
        hidden = self.directory / f".{self.files}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.directory / f"{self.files}.json")

    def declaration(self, *, sql: str | None = None, **fields: Any) -> DatasetDeclaration:
        source = StreamSource(
            format="json", path=self.directory, schema=SCHEMA, options={"maxFilesPerTrigger": "1"}, sql=sql
        )
        return DatasetDeclaration(key="events", uri=self.uri, source=source, **fields)

    def ingest(self, declaration: DatasetDeclaration | None = None, run_id: str = "run") -> WriteReport | None:
        return ingest_available(declaration or self.declaration(), self.spark, run_id=run_id, step_key="step")

    def forget_last_epoch(self) -> None:
        """As if the run had been killed after its last commit, before Spark recorded the micro-batch."""
        commits = Path(f"{self.uri}.checkpoint", "commits")
        last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def rows(self) -> dict[int, str]:
        found = lance.dataset(self.uri).to_table().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row["name"] for row in found}


@pytest.fixture
def landing(tmp_path: Path, spark: SparkSession) -> Landing:
    return Landing(tmp_path, spark)


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").glob("*.lance")}


@pytest.mark.slow
def test_run_ingests_the_files_that_arrived_since_the_last_run_and_reports_its_versions(landing) -> None:
    assert landing.ingest() is None
    landing.arrive({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    landing.arrive({"id": 3, "name": "c"})
    first = landing.ingest(run_id="first")
    assert (first.rows_written, first.versions_written, first.rows_total) == (3, 2, 3)
    assert first.headline() == f"append: +3 rows in 2 versions, v{first.version}"
    landing.arrive({"id": 4, "name": "d"})
    second = landing.ingest()
    assert (second.rows_written, second.versions_written, second.fragments_total) == (1, 1, 3)
    nothing = landing.ingest()
    assert (nothing.committed, nothing.version) == (False, second.version)
    assert landing.rows() == {1: "a", 2: "b", 3: "c", 4: "d"}
    transactions = [lance_core.dataset(landing.uri).read_transaction(v) for v in range(1, first.version + 1)]
    assert {each.transaction_properties["dagster.run_id"] for each in transactions} == {"first"}
    assert transactions[-1].transaction_properties["lance-pipelines.epoch"] == "1"


@pytest.mark.slow
def test_repeated_micro_batch_is_not_ingested_again(landing) -> None:
    landing.arrive({"id": 1, "name": "a"})
    landing.arrive({"id": 2, "name": "b"})
    version = landing.ingest().version
    files = data_files(landing.uri)
    landing.forget_last_epoch()
    repeated = landing.ingest()
    assert (repeated.committed, repeated.version) == (False, version)
    assert data_files(landing.uri) == files
    landing.forget_last_epoch()
    landing.arrive({"id": 3, "name": "c"})
    assert landing.ingest().rows_written == 1
    assert landing.rows() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.slow
def test_upserted_stream_keeps_the_latest_row_of_each_key(landing) -> None:
    latest = "SELECT id, max_by(name, name) AS name FROM source GROUP BY id"
    upserted = landing.declaration(mode="upsert", upsert_by="id", sql=latest)
    landing.arrive({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "c"})
    landing.arrive({"id": 2, "name": "d"})
    report = landing.ingest(upserted)
    assert (report.rows_written, report.rows_replaced, report.rows_total) == (3, 1, 2)
    landing.forget_last_epoch()
    landing.arrive({"id": 3, "name": "e"})
    report = landing.ingest(upserted)
    assert (report.rows_written, report.rows_replaced) == (1, 0)
    assert landing.rows() == {1: "c", 2: "d", 3: "e"}


@pytest.mark.slow
def test_failed_micro_batch_raises_its_typed_error_and_is_ingested_by_a_later_run(landing) -> None:
    landing.arrive({"id": 1, "name": "a"})
    landing.arrive({"id": 2, "name": "b"}, {"id": 2, "name": "c"})
    with pytest.raises(InvalidInputError, match="several source rows have the key id = 2"):
        landing.ingest(landing.declaration(mode="upsert", upsert_by="id"))
    assert landing.rows() == {1: "a"}
    latest = "SELECT id, max_by(name, name) AS name FROM source GROUP BY id"
    assert landing.ingest(landing.declaration(mode="upsert", upsert_by="id", sql=latest)).rows_written == 1
    assert landing.rows() == {1: "a", 2: "c"}


def test_stream_adds_columns_if_the_schema_mode_allows_it(landing) -> None:
    landing.arrive({"id": 1, "name": "a"})
    landing.ingest()
    landing.arrive({"id": 2, "name": "b"})
    longer = "SELECT *, length(name) AS size FROM source"
    with pytest.raises(LanceError, match="size"):
        landing.ingest(landing.declaration(sql=longer))
    landing.ingest(landing.declaration(sql=longer, schema_mode="add"))
    assert lance_core.dataset(landing.uri).to_table(columns=["id", "size"]).to_pylist() == [
        {"id": 1, "size": None},
        {"id": 2, "size": 1},
    ]


@pytest.mark.slow
def test_stream_is_not_continued_after_its_dataset_was_deleted_without_its_checkpoint(landing) -> None:
    landing.arrive({"id": 1, "name": "a"})
    landing.ingest()
    lance_core.LanceDataset.drop(landing.uri)
    landing.arrive({"id": 2, "name": "b"})
    with pytest.raises(
        DatasetNotFoundError, match=r"no dataset exists at .*, but the checkpoint .*\.checkpoint records"
    ):
        landing.ingest()
    assert not Path(landing.uri).exists()
    shutil.rmtree(f"{landing.uri}.checkpoint")
    landing.ingest()
    assert landing.rows() == {1: "a", 2: "b"}


@pytest.mark.slow
def test_stream_of_a_lance_table_follows_its_appends(tmp_path: Path, spark: SparkSession) -> None:
    source, uri = str(tmp_path / "source.lance"), str(tmp_path / "copy.lance")
    declaration = DatasetDeclaration(key="copy", uri=uri, source=StreamSource(format="lance", path=source))
    lance_core.write_dataset(pa.table({"id": [1, 2]}), source)
    assert ingest_available(declaration, spark, run_id="run", step_key="step").rows_written == 2
    lance_core.write_dataset(pa.table({"id": [3]}), source, mode="append")
    lance_core.dataset(source).optimize.compact_files()
    assert ingest_available(declaration, spark, run_id="run", step_key="step").rows_written == 1
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.slow
def test_stream_of_a_lance_table_is_not_continued_with_another_table(tmp_path: Path, spark: SparkSession) -> None:
    source, other = str(tmp_path / "source.lance"), str(tmp_path / "other.lance")
    for number in range(3):
        lance_core.write_dataset(pa.table({"id": [number]}), source, mode="append")
        lance_core.write_dataset(pa.table({"id": [10 + number]}), other, mode="append")
    declaration = DatasetDeclaration(
        key="copy", uri=str(tmp_path / "copy.lance"), source=StreamSource(format="lance", path=source)
    )
    ingest_available(declaration, spark, run_id="run", step_key="step")
    lance_core.write_dataset(pa.table({"id": [20]}), other, mode="append")
    changed = dataclasses.replace(declaration, source=StreamSource(format="lance", path=other))
    with pytest.raises(InvalidInputError, match=r"has read .*source\.lance, and cannot continue with .*other\.lance"):
        ingest_available(changed, spark, run_id="run", step_key="step")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (StreamSource(format="json", path="/nowhere/at/all", schema=SCHEMA), "cannot .*/nowhere/at/all"),
        (StreamSource(format="json", path="/tmp", schema="id BIGNT"), "cannot read the json stream /tmp"),
        (StreamSource(format="kafka", options={"subscribe": "t"}), "cannot read the kafka stream: .*kafka"),
        (StreamSource(format="lance", path="/nowhere/at/all.lance"), "no dataset exists at /nowhere/at/all.lance"),
    ],
    ids=["path", "schema", "kafka", "lance"],
)
def test_stream_that_cannot_be_read_raises_a_typed_error(spark, tmp_path, source, message) -> None:
    declaration = DatasetDeclaration(key="events", uri=str(tmp_path / "events.lance"), source=source)
    with pytest.raises(LanceError, match=message) as raised:
        ingest_available(declaration, spark, run_id="run", step_key="step")
    assert not re.search(r"Traceback|\n\s+at ", str(raised.value))
