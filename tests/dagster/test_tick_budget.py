"""A tick leaves datasets for the next one when its time is used up, and every dataset gets its turn."""

from __future__ import annotations

import random

import dagster as dg
import lance

import lance_core
from lance_pipelines.sensors import tick_budget
from lance_pipelines.sensors.tick_budget import LEFT_FOR_NEXT_TICK, examine_in_budget
from tests.support.local_rewriting import write_fragments


class Clock:
    """A clock that advances only while a dataset is examined."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def examine(self, dataset: str) -> str:
        self.seconds += 3
        return f"{dataset} examined"


def test_a_tick_without_remaining_time_examines_no_further_dataset_and_keeps_the_order(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(tick_budget, "time", clock)
    datasets = [f"dataset{number}" for number in range(6)]
    results = examine_in_budget(datasets, clock.examine, lambda dataset: f"{dataset} left")
    assert [result.split()[0] for result in results] == datasets
    assert sum(result.endswith("examined") for result in results) == 2, "after 3 and 6 seconds"


def test_every_dataset_is_eventually_examined_although_each_tick_has_time_for_only_two(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(tick_budget, "time", clock)
    monkeypatch.setattr(tick_budget, "random", random.Random(5))
    datasets = [f"dataset{number}" for number in range(6)]
    examined: set[str] = set()
    for _ in range(20):
        results = examine_in_budget(datasets, clock.examine, lambda _: "left")
        examined |= {result for result in results if result != "left"}
    assert examined == {f"{dataset} examined" for dataset in datasets}


def test_sensors_with_no_time_left_keep_their_state_and_continue_at_the_next_tick(
    project, instance, monkeypatch
) -> None:
    defs = project.definitions()
    write_fragments(project.uri, 20)
    cursors: dict[str, str | None] = {}

    def tick(name: str) -> dg.SensorExecutionData:
        sensor = defs.get_repository_def().get_sensor_def(name)
        with dg.build_sensor_context(instance=instance, cursor=cursors.get(name), definitions=defs) as context:
            data = sensor.evaluate_tick(context)
        cursors[name] = data.cursor
        return data

    assert len(tick("lance_version_sensor").asset_events) == 1
    lance.write_dataset(lance_core.dataset(project.uri).to_table().slice(0, 1), project.uri, mode="append")

    monkeypatch.setattr(tick_budget, "TICK_SECONDS", 0.0)
    for name in ("lance_version_sensor", "lance_compaction_sensor"):
        before = cursors.get(name)
        data = tick(name)
        assert (data.asset_events, data.run_requests) == ([], [])
        assert data.skip_message == f"events: {LEFT_FOR_NEXT_TICK}"
        assert before is None or cursors[name] == before

    monkeypatch.undo()
    assert len(tick("lance_version_sensor").asset_events) == 1
    assert len(tick("lance_compaction_sensor").run_requests) == 1
