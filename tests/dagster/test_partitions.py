"""Declared partitions: invalid declarations are refused when definitions are built, and runs know their partitions."""

from typing import Any

import dagster as dg
import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.assets.ingested_dataset import build_dataset_asset
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.partitions import run_partitions

DAYS = dg.DailyPartitionsDefinition(start_date="2024-03-01", end_date="2024-04-30", timezone="America/New_York")
AREAS = dg.StaticPartitionsDefinition(["eu", "us"])
BOTH = dg.MultiPartitionsDefinition({"date": DAYS, "area": AREAS})
SHARDS = dg.DynamicPartitionsDefinition(name="shards")


def _asset(**declared: Any) -> dg.AssetsDefinition:
    source = FileSource(format=SourceFormat.PARQUET, paths=("/x",))
    return build_dataset_asset(DatasetDeclaration(key="t", uri="/t.lance", source=source, **declared))


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"partition_by": "day"}, "dataset t: partition_by requires partitions"),
        ({"partition_by": "day", "mode": WriteMode.OVERWRITE_PARTITION}, "partition_by requires partitions"),
        (
            {"partitions": BOTH, "partition_by": "day"},
            r"one column for each dimension.*dimension 'area', dimension 'date', found no dimension",
        ),
        (
            {"partitions": DAYS, "partition_by": [PartitionColumn(column="d", dimension="x")]},
            "expected no dimension, found dimension 'x'",
        ),
    ],
)
def test_partition_columns_that_do_not_fit_the_partitions_are_refused(declared: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        _asset(**declared)


def test_an_asset_with_partitions_backfills_them_in_a_single_run() -> None:
    asset = _asset(partitions=DAYS, partition_by="day", mode=WriteMode.OVERWRITE_PARTITION)
    assert asset.partitions_def == DAYS
    assert asset.backfill_policy == dg.BackfillPolicy.single_run()
    assert _asset().partitions_def is None
    assert _asset().backfill_policy is None


def _partitions_of_run(definition: Any, instance: dg.DagsterInstance | None = None, **chosen: Any) -> list[Partition]:
    """Return the partitions that an asset's op finds in its context."""
    found: list[Partition] = []

    @dg.op(out=dg.Out(dg.Nothing))
    def note(context: dg.OpExecutionContext) -> None:
        found.extend(run_partitions(context, definition))

    @dg.graph_asset(partitions_def=definition, backfill_policy=dg.BackfillPolicy.single_run())
    def noted() -> Any:
        return note()

    job = dg.Definitions(assets=[noted], jobs=[dg.define_asset_job("j", [noted])]).resolve_job_def("j")
    assert job.execute_in_process(instance=instance, **chosen).success
    return found


def _range(first: str, last: str) -> dict[str, Any]:
    return {"tags": {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}}


def test_a_run_for_daily_partitions_has_their_keys_and_time_windows() -> None:
    (only,) = _partitions_of_run(DAYS, partition_key="2024-03-10")
    place = only[None]
    assert place.key == "2024-03-10"
    assert [moment.isoformat() for moment in place.window or ()] == [
        "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00",
    ]  # fmt: skip
    several = _partitions_of_run(DAYS, **_range("2024-03-10", "2024-03-12"))
    assert [each[None].key for each in several] == ["2024-03-10", "2024-03-11", "2024-03-12"]


def test_a_run_for_several_dimensions_has_keys_or_time_windows_in_each_dimension() -> None:
    (only,) = _partitions_of_run(BOTH, partition_key=dg.MultiPartitionKey({"date": "2024-03-10", "area": "us"}))
    assert (only["area"].key, only["area"].window, only["date"].key) == ("us", None, "2024-03-10")
    assert only["date"].window is not None


def test_a_run_for_dynamic_partitions_has_their_keys() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("shards", ["a|b", "c"])
        (only,) = _partitions_of_run(SHARDS, instance, partition_key="a|b")
        assert (only[None].key, only[None].window) == ("a|b", None)


def test_a_run_without_partitions_has_no_partition_keys() -> None:
    assert _partitions_of_run(None) == []
