"""The history of maintenance: entries survive a round trip and concurrent writers, and the history maintains itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError, InvalidInputError
from lance_pipelines.maintenance import history
from lance_pipelines.maintenance.effect import Contents, Effect
from lance_pipelines.maintenance.history import (
    MAX_FRAGMENTS,
    HistoryEntry,
    append_history,
    read_history,
    render_history,
)

TIME = datetime(2024, 3, 15, 12, tzinfo=UTC)


def entry(number: int, dataset: str = "events", job: str = "compact") -> HistoryEntry:
    return HistoryEntry(
        time=TIME + timedelta(seconds=number),
        run_id=f"{dataset}-{number}",
        dataset=dataset,
        uri=f"/lake/{dataset}.lance",
        job=job,
        outcome="changed",
        version_before=number,
        version_after=number + 2,
        fragments_before=20,
        fragments_after=1,
        bytes_before=4096,
        bytes_after=1024,
        bytes_reclaimed=2048 * number,
        cpu_seconds=1.25,
        seconds=3.5,
        message=f"compact {number}",
        details="{}",
    )


def test_a_history_entry_has_the_statistics_of_its_operation() -> None:
    effect = Effect(
        op="cleanup",
        version_before=7,
        version_after=7,
        before=Contents(files=9, num_bytes=900),
        after=Contents(files=4, num_bytes=400),
        bytes_reclaimed=500,
    )
    made = HistoryEntry.of(
        effect,
        run_id="r",
        dataset="events",
        uri="/lake",
        message="cleanup: -3 versions",
        cpu_seconds=1.5,
        seconds=None,
        details={"lance/versions_removed": 3},
    )
    assert abs(datetime.now(UTC) - made.time) < timedelta(minutes=1)
    assert (made.job, made.outcome, made.version_before, made.version_after) == ("cleanup", "changed", 7, 7)
    assert (made.files_before, made.files_after, made.bytes_before, made.bytes_after) == (9, 4, 900, 400)
    assert (made.fragments_before, made.rows_after, made.seconds, made.bytes_reclaimed) == (None, None, None, 500)
    assert made.details == '{"lance/versions_removed": 3}'
    idle = HistoryEntry.of(
        Effect.none("cleanup", 7, Contents()),
        run_id="r",
        dataset="events",
        uri="/lake",
        message="",
        cpu_seconds=0.0,
        seconds=1.0,
        details={},
    )
    assert idle.outcome == "nothing to do"


def test_entries_are_read_back_with_the_latest_first(uri) -> None:
    failed = HistoryEntry.of_failure(run_id="f", dataset="users", job="cleanup", message="no such 'bucket'")
    for each in (entry(2), entry(1), failed, entry(3, "o'brien", "cleanup")):
        append_history(uri, each)
    assert read_history(uri) == [failed, entry(3, "o'brien", "cleanup"), entry(2), entry(1)]
    assert read_history(uri, limit=2) == [failed, entry(3, "o'brien", "cleanup")]
    assert read_history(uri, dataset="events") == [entry(2), entry(1)]
    assert read_history(uri, dataset="o'brien", job="cleanup") == [entry(3, "o'brien", "cleanup")]
    assert read_history(uri, job="restore") == []
    assert lance.dataset(uri).to_table(filter="outcome = 'failed'")["message"].to_pylist() == ["no such 'bucket'"]


def test_columns_of_a_newer_release_are_ignored(uri) -> None:
    append_history(uri, entry(1))
    lance_core.dataset(uri).add_columns({"added": "1"})
    assert read_history(uri) == [entry(1)]


def test_reading_a_missing_history_raises_dataset_not_found(uri) -> None:
    with pytest.raises(DatasetNotFoundError, match="no dataset exists"):
        read_history(uri)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1]}, "is not a maintenance history: column 'time' does not exist"),
        ({"time": ["now"]}, "is not a maintenance history: column 'time' has type string instead of timestamp"),
    ],
)
def test_reading_a_dataset_that_is_not_a_history_raises_invalid_input(uri, columns, message) -> None:
    lance_core.write_dataset(pa.table(columns), uri)
    with pytest.raises(InvalidInputError, match=message):
        read_history(uri, job="compact")


@pytest.mark.slow
def test_concurrent_writers_lose_no_entry_and_the_history_compacts_itself(uri) -> None:
    writers, entries = 4, 14
    start = threading.Barrier(writers)

    def write(number: int) -> None:
        start.wait()
        for each in range(entries):
            append_history(uri, entry(each, f"dataset{number}"))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    expected = {f"dataset{number}-{each}" for number in range(writers) for each in range(entries)}
    found = [each.run_id for each in read_history(uri)]
    assert len(found) == len(expected)
    assert set(found) == expected
    append_history(uri, entry(0))
    assert len(lance_core.dataset(uri).get_fragments()) <= MAX_FRAGMENTS
    lance.dataset(uri).validate()


def test_a_history_of_many_fragments_is_compacted_when_an_entry_is_added(uri, monkeypatch) -> None:
    monkeypatch.setattr(history, "MAX_FRAGMENTS", 3)
    for number in range(3):
        append_history(uri, entry(number))
    assert len(lance_core.dataset(uri).get_fragments()) == 3
    append_history(uri, entry(3))
    assert len(lance_core.dataset(uri).get_fragments()) == 1
    assert read_history(uri) == [entry(number) for number in (3, 2, 1, 0)]


def test_the_history_removes_its_old_versions(uri) -> None:
    append_history(uri, entry(0))
    config = lance_core.dataset(uri).config()
    assert config["lance.auto_cleanup.older_than"] == "1day"
    dataset = lance_core.dataset(uri)
    dataset.update_config({"lance.auto_cleanup.older_than": "0s", "lance.auto_cleanup.min_age": "0s"})
    for number in range(1, 21):
        append_history(uri, entry(number))
    assert len(lance_core.dataset(uri).versions()) < 20
    assert len(read_history(uri)) == 21


def test_a_history_with_other_columns_is_not_changed(uri) -> None:
    lance_core.write_dataset(pa.table({"id": [1]}), uri)
    with pytest.raises(lance_core.errors.SchemaMismatchError):
        append_history(uri, entry(1))
    assert lance_core.dataset(uri).version == 1


def test_the_rendered_history_shows_changes_failures_and_sums() -> None:
    failed = HistoryEntry.of_failure(run_id="f", dataset="users", job="cleanup", message="no such bucket")
    header, first, second, total = render_history([entry(1), failed]).splitlines()
    assert header.split("  ")[0] == "time (UTC)"
    shown = "2024-03-15 12:00:01 events compact changed 1 → 3 20 → 1 4 KiB → 1 KiB 2 KiB 1.2 3.5"
    assert " ".join(first.split()) == shown
    assert second.split()[2:] == ["users", "cleanup", "failed:", "no", "such", "bucket"]
    assert total == "2 runs: 2 KiB reclaimed, 1.2 CPU seconds"
