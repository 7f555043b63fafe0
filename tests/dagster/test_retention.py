"""The job ``retention`` deletes the rows that have expired by the declared rule."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest
import yaml

import lance_core
from lance_core.delete import delete as delete_module
from lance_core.errors import InvalidInputError
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import request_config
from lance_pipelines.maintenance.retention_rule import RetentionRule
from lance_pipelines.ops import delete_rows
from tests.dagster.test_components import declared
from tests.dagster.test_maintenance_jobs import executed, headline, numbers
from tests.support.local_rewriting import ids
from tests.support.no_spark import NoSpark

AS_OF = datetime(2026, 11, 28, 12, tzinfo=UTC)
RULE = RetentionRule(predicate="event_time < now() - interval '90 days'")


def materialization(result: dg.ExecuteInProcessResult) -> dg.AssetMaterialization:
    """Return the materialization of the dataset; the asset of its maintenance has another one."""
    key = dg.AssetKey("events")
    (event,) = [each for each in result.get_asset_materialization_events() if each.asset_key == key]
    return event.materialization


def events(first: int, *ages: float) -> pa.Table:
    """Return rows that are so many days old."""
    return pa.table(
        {
            "id": range(first, first + len(ages)),
            "event_time": pa.array([AS_OF - timedelta(days=age) for age in ages], pa.timestamp("us", "UTC")),
        }
    )


@dataclass
class Lake:
    """A dataset ``events`` of three fragments, and its retention job."""

    uri: str
    instance: dg.DagsterInstance
    rule: RetentionRule = RULE

    def declaration(self) -> DatasetDeclaration:
        return DatasetDeclaration(key="events", uri=self.uri, retention=self.rule)

    def definitions(self) -> dg.Definitions:
        return build_definitions([self.declaration()], spark=NoSpark())

    def run(self, **config: Any) -> dg.ExecuteInProcessResult:
        return (
            self.definitions()
            .resolve_job_def("events__retention")
            .execute_in_process(
                run_config=request_config("retention", **{"as_of": "2026-11-28T12:00:00Z", **config}),
                instance=self.instance,
                raise_on_error=False,
            )
        )

    def version(self) -> int:
        return lance_core.dataset(self.uri).version


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Lake:
    lake = Lake(str(tmp_path / "lake" / "events.lance"), instance)
    lance_core.write_dataset(events(0, 200, 180, 91), lake.uri)
    lance_core.write_dataset(events(3, 90.001, 90, 89.999), lake.uri, mode="append")
    lance_core.write_dataset(events(6, 1, 0), lake.uri, mode="append")
    return lake


def test_retention_deletes_the_expired_rows_and_records_a_materialization_with_the_evaluation_time(lake) -> None:
    result = lake.run()
    assert result.success
    assert executed(result) == ["plan_retention", "delete_rows"]
    assert ids(lake.uri) == [4, 5, 6, 7]
    lance.dataset(lake.uri).validate()
    found = materialization(result)
    assert found.description == "retention: -4 rows where event_time < now() - interval '90 days', v4"
    assert found.tags["lance/op"] == "retention"
    metadata = numbers(found)
    assert (metadata["lance/rows_deleted"], metadata["lance/version"]) == (4, 4)
    assert metadata["lance/predicate"] == RULE.predicate
    assert metadata["lance/as_of"] == "2026-11-28T12:00:00.000000Z"
    made_by = lance_core.dataset(lake.uri).read_transaction(4)
    assert made_by.transaction_properties["lance_pipelines.op"] == "retention"


def test_retention_without_expired_rows_creates_no_version(lake, capsys) -> None:
    assert lake.run().success
    capsys.readouterr()
    result = lake.run()
    assert executed(result) == ["plan_retention"]
    assert lake.version() == 4
    assert "version 4: nothing to do (no row matches event_time < now()" in capsys.readouterr().out


def test_retention_uses_the_time_of_its_plan_by_default(lake) -> None:
    now = datetime.now(UTC)
    recent = pa.array([now - timedelta(days=90, minutes=1), now - timedelta(days=90) + timedelta(hours=1)])
    lance_core.write_dataset(
        pa.table({"id": [8, 9], "event_time": recent.cast(pa.timestamp("us", "UTC"))}), lake.uri, mode="overwrite"
    )
    result = lake.run(as_of=None)
    assert result.success
    assert ids(lake.uri) == [9]
    recorded = datetime.fromisoformat(numbers(materialization(result))["lance/as_of"])
    assert now <= recorded <= datetime.now(UTC)


def test_dry_run_of_retention_prints_a_forecast_whose_digest_a_later_run_can_require(lake, capsys) -> None:
    assert executed(lake.run(dry_run=True)) == ["plan_retention"]
    shown = capsys.readouterr().out
    assert "4 of 8 rows will be deleted from 2 of 3 fragments (where event_time < now() - interval '90 days')" in shown
    assert "Evaluated: event_time < arrow_cast('2026-08-30T12:00:00.000000Z'" in shown
    assert lake.version() == 3
    digest = shown.partition("Plan digest: ")[2].split()[0]
    # The digest depends on the rows that have expired, not on the time itself.
    assert lake.run(dry_run=True, plan_digest=digest, as_of="2026-11-28T11:59:00Z").success
    assert "expected " + digest in headline(lake.run(plan_digest=digest, as_of="2026-11-29T12:00:00Z"))
    lance_core.write_dataset(events(8, 0), lake.uri, mode="append")
    message = headline(lake.run(plan_digest=digest))
    assert message.startswith(f"events: {lake.uri}: the plan for version 4 has the digest ")
    assert message.endswith("Start another dry run and review its plan. [InvalidInputError]")
    assert ids(lake.uri) == list(range(9))


def append_expired(uri: str) -> None:
    lance.write_dataset(events(8, 300), uri, mode="append")


def delete_another(uri: str) -> None:
    lance.dataset(uri).delete("id = 4")


def update_another(uri: str) -> None:
    lance.dataset(uri).update({"id": "50"}, where="id = 5")


def delete_one(uri: str) -> None:
    lance.dataset(uri).delete("id = 3")


def delete_all(uri: str) -> None:
    lance.dataset(uri).delete("id <= 3")


def renew_one(uri: str) -> None:
    lance.dataset(uri).update({"event_time": "TIMESTAMP '2026-11-28 00:00:00Z'"}, where="id = 3")


def compact(uri: str) -> None:
    append_expired(uri)
    assert lance.dataset(uri).optimize.compact_files().fragments_removed


def recreate(uri: str) -> None:
    lance.write_dataset(events(0, 200, 180, 91), uri, mode="overwrite")


PLACES = {"before the step": (delete_rows, "commit_delete"), "before the commit": (delete_module, "commit_change")}


def commit_between(monkeypatch: pytest.MonkeyPatch, lake: Lake, place: str, change: Callable[[str], None]) -> None:
    """Have another writer commit once, between the plan of a run and its delete."""
    module, name = PLACES[place]
    real, pending = getattr(module, name), [change]

    def late(*arguments: Any, **options: Any) -> Any:
        while pending:
            pending.pop()(lake.uri)
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, late)


def reviewed(lake: Lake, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the digest of a dry run."""
    assert lake.run(dry_run=True).success
    return capsys.readouterr().out.partition("Plan digest: ")[2].split()[0]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("change", "left"),
    [(append_expired, [4, 5, 6, 7, 8]), (delete_another, [5, 6, 7]), (update_another, [4, 6, 7, 50])],
)
def test_reviewed_delete_removes_exactly_the_reviewed_rows_even_if_other_writers_commit_meanwhile(
    lake, capsys, monkeypatch, place, change, left
) -> None:
    digest = reviewed(lake, capsys)
    commit_between(monkeypatch, lake, place, change)
    result = lake.run(plan_digest=digest)
    assert result.success
    assert (sorted(ids(lake.uri)), numbers(materialization(result))["lance/rows_deleted"]) == (left, 4)
    lance.dataset(lake.uri).validate()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", [delete_one, delete_all, renew_one, compact])
def test_reviewed_delete_is_refused_if_reviewed_rows_were_changed_or_moved_meanwhile(
    lake, capsys, monkeypatch, place, change
) -> None:
    digest = reviewed(lake, capsys)
    commit_between(monkeypatch, lake, place, change)
    assert headline(lake.run(plan_digest=digest)) == (
        f"events: {lake.uri}: other writers have changed or moved rows selected by the reviewed plan, which is based "
        "on version 3; nothing was deleted. Start another dry run and review its plan. [RetryableCommitConflictError]"
    )
    made_by = lance_core.dataset(lake.uri).read_transaction(lake.version())
    assert "lance_pipelines.op" not in (made_by.transaction_properties or {})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("digest", [True, False])
def test_delete_from_a_table_that_was_overwritten_meanwhile_fails_or_is_planned_again(
    lake, capsys, monkeypatch, place, digest
) -> None:
    config = {"plan_digest": reviewed(lake, capsys)} if digest else {}
    commit_between(monkeypatch, lake, place, recreate)
    result = lake.run(**config)
    if digest or place == "before the commit":
        assert headline(result).endswith("[IncompatibleTransactionError]")
        assert sorted(ids(lake.uri)) == [0, 1, 2]
    else:
        assert result.success
        assert ids(lake.uri) == []


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("change", "left", "num_deleted"), [(compact, [4, 5, 6, 7], 5), (delete_one, [4, 5, 6, 7], 3)])
def test_delete_without_a_reviewed_plan_removes_the_rows_that_match_at_its_commit(
    lake, monkeypatch, place, change, left, num_deleted
) -> None:
    commit_between(monkeypatch, lake, place, change)
    result = lake.run()
    assert result.success
    assert (sorted(ids(lake.uri)), numbers(materialization(result))["lance/rows_deleted"]) == (left, num_deleted)


def test_reviewed_delete_from_a_recreated_dataset_is_refused(lake, capsys, monkeypatch) -> None:
    """The new dataset has a version with the number of the reviewed one."""

    def recreate_from_version_one(uri: str) -> None:
        shutil.rmtree(uri)
        for _ in range(4):
            lance.write_dataset(events(0, 200), uri, mode="append")

    digest = reviewed(lake, capsys)
    commit_between(monkeypatch, lake, "before the step", recreate_from_version_one)
    assert "nothing was deleted" in headline(lake.run(plan_digest=digest))
    assert ids(lake.uri) == [0] * 4


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("evnt_time < now()", "column 'evnt_time' does not exist; did you mean 'event_time'?"),
        ("id + 1", "predicate 'id + 1': expected a condition, found type int64"),
        ("id < 'x'", "the literal 'x' is not a valid value of type int64"),
        ("event_time <", "event_time <"),
        ("event_time < interval '90 days'", "INTERVAL is not supported"),
    ],
)
def test_retention_with_a_predicate_that_does_not_fit_the_dataset_fails_before_anything_changes(
    lake, predicate, message
) -> None:
    lake.rule = replace(RULE, predicate=predicate)
    found = headline(lake.run())
    assert message in found
    assert "\n" not in found
    assert lake.version() == 3


def test_retention_with_a_malformed_time_fails_with_a_one_line_error(lake) -> None:
    assert headline(lake.run(as_of="yesterday")) == (
        "events: 'yesterday' is not a time; expected ISO 8601, such as 2026-11-28T12:00:00Z [InvalidInputError]"
    )


def test_delete_rows_evaluates_its_predicate_at_the_given_time(lake) -> None:
    config = request_config("delete_rows", predicate=RULE.predicate, as_of="2026-11-28T12:00:00Z")
    job = lake.definitions().resolve_job_def("events__delete_rows")
    assert job.execute_in_process(run_config=config, instance=lake.instance).success
    assert ids(lake.uri) == [4, 5, 6, 7]


def test_retention_schedule_follows_the_declared_rule(lake, instance) -> None:
    lake.rule = replace(RULE, cron_schedule="30 5 * * *", running=True)
    definitions = lake.definitions()
    (schedule,) = [
        each for each in definitions.get_repository_def().schedule_defs if each.name == "events__retention_schedule"
    ]
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 5 * * *", "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    with dg.build_schedule_context(instance=instance) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    job = definitions.resolve_job_def("events__retention")
    assert job.execute_in_process(run_config=request.run_config, instance=instance).success
    assert not {0, 1, 2} & set(ids(lake.uri))


def test_dataset_without_a_rule_has_no_retention_job(lake) -> None:
    lake.rule = None
    repository = lake.definitions().get_repository_def()
    assert not [
        name for name in [*repository.job_names, *(s.name for s in repository.schedule_defs)] if "retention" in name
    ]


def test_malformed_cron_schedule_of_a_rule_is_refused_when_definitions_load(lake) -> None:
    lake.rule = replace(RULE, cron_schedule="daily")
    with pytest.raises(InvalidInputError, match="dataset events: retention: invalid cron_schedule 'daily'"):
        lake.definitions()


def test_retention_rule_is_declared_in_yaml() -> None:
    text = "{predicate: \"event_time < now() - interval '90 days'\", cron_schedule: '30 5 * * *', running: true}"
    found = declared(retention=yaml.safe_load(text)).retention
    assert found == replace(RULE, cron_schedule="30 5 * * *", running=True)


def test_error_for_an_invalid_retention_rule_in_yaml_names_the_field() -> None:
    with pytest.raises(ValueError, match=r"retention.*calls random\(\)"):
        declared(retention={"predicate": "random() < 0.5"})


DEFINITIONS = """
from lance_pipelines import DatasetDeclaration, RetentionRule, build_definitions
defs = build_definitions([
    DatasetDeclaration(key="events", uri={uri!r}, retention=RetentionRule(predicate={predicate!r}))
])
"""


def execute(command_line: Any, lake: Lake, config: dict[str, Any], predicate: str) -> tuple[int, str, str]:
    dagster = command_line()
    (dagster.directory / "lake_definitions.py").write_text(DEFINITIONS.format(uri=lake.uri, predicate=predicate))
    path = dagster.directory / "run.yaml"
    path.write_text(yaml.safe_dump({"ops": {"plan_retention": {"config": config}}}))
    process = dagster.start("job", "execute", "-f", "lake_definitions.py", "-j", "events__retention", "-c", str(path))
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


def failed_line(stderr: str) -> str:
    (line,) = [line for line in stderr.splitlines() if line.startswith("FAILED ")]
    return line


@pytest.mark.slow
def test_job_execute_deletes_the_expired_rows(command_line, lake) -> None:
    code, stdout, stderr = execute(command_line, lake, {"as_of": "2026-11-28T12:00:00Z"}, RULE.predicate)
    assert code == 0, stderr
    assert stdout == (
        f"events: {lake.uri} version 4: 4 rows deleted where {RULE.predicate}; 4 rows remaining in 2 fragments\n"
    )
    assert ids(lake.uri) == [4, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "predicate", "message"),
    [
        ({"as_of": "soon"}, RULE.predicate, "FAILED events: 'soon' is not a time"),
        ({"plan_digest": "0" * 16}, RULE.predicate, "expected 0000000000000000"),
        ({"predicate": "true"}, RULE.predicate, 'Received unexpected config entry "predicate"'),
        ({}, "evnt_time < now()", "column 'evnt_time' does not exist"),
        ({}, "id", "expected a condition, found type int64"),
    ],
)
def test_job_execute_of_retention_with_an_invalid_value_prints_a_one_line_error(
    command_line, lake, config, predicate, message
) -> None:
    code, stdout, stderr = execute(command_line, lake, config, predicate)
    assert (code, stdout) == (1, "")
    assert message in failed_line(stderr)
    assert lake.version() == 3
