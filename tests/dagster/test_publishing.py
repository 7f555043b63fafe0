"""Publishing by a tag: checks, promotions, what readers see, and what remains after failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidRefError, RefConflictError, VersionNotFoundError
from lance_pipelines import (
    CheckSettings,
    DatasetDeclaration,
    FunctionSource,
    LanceIOManager,
    LanceTableResource,
    PublishSettings,
    build_definitions,
)
from lance_pipelines.checks import audit_version
from lance_pipelines.jobs import operation_config
from lance_pipelines.publish.promotion_plan import PlannedPromotion
from lance_pipelines.publish.tag_move import move_tag, transaction_of
from tests.support.no_spark import NoSpark

EVENTS = dg.AssetKey(["lake", "events"])
PROD = dg.AssetKey(["lake", "events", "prod"])
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def append(uri: str, *numbers: int) -> int:
    return lance_core.write_dataset(ids(*numbers), uri, mode="append").version


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "events.lance")


def declaration(uri: str, **settings: Any) -> DatasetDeclaration:
    return DatasetDeclaration(
        key="lake/events",
        uri=uri,
        checks=CheckSettings(key=["id"]),
        publish=PublishSettings(tag="prod", checks=["rows", "key_unique"]),
        **settings,
    )


def promote(instance: dg.DagsterInstance, uri: str, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions([declaration(uri)], spark=NoSpark()).resolve_job_def("lake__events__promote")
    return job.execute_in_process(
        run_config=operation_config("promote", "lake__events", **config) | QUIET,
        instance=instance,
        raise_on_error=False,
    )


def tagged(uri: str) -> int | None:
    tag = lance.dataset(uri).tags.list().get("prod")
    return None if tag is None else tag["version"]


def headline(result: dg.ExecuteInProcessResult) -> str:
    assert not result.success
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.user_failure_data.description


def published(instance: dg.DagsterInstance) -> list[str]:
    records = instance.fetch_materializations(PROD, limit=10).records
    return [record.asset_materialization.tags["dagster/data_version"] for record in records]


def test_a_promotion_moves_the_tag_and_materializes_the_published_asset(uri, instance, capsys) -> None:
    append(uri, 1, 2)
    result = promote(instance, uri)
    assert result.success
    assert tagged(uri) == 1
    (record,) = instance.fetch_materializations(PROD, limit=5).records
    event = record.asset_materialization
    transaction = lance_core.dataset(uri).read_transaction(1)
    assert event.tags["dagster/data_version"] == f"1-{transaction.uuid[:8]}"
    assert event.metadata["lance/summary"].value == "promote: prod v1"
    assert event.metadata["dagster/row_count"].value == 2
    assert not instance.fetch_materializations(EVENTS, limit=1).records
    out = f"lake__events: {uri} version 1: tag prod was created; checks passed: rows, key_unique\n"
    assert capsys.readouterr().out == out
    append(uri, 3)
    assert promote(instance, uri).success
    assert tagged(uri) == 2
    assert "moved from version 1" in capsys.readouterr().out


def test_a_failed_check_keeps_the_tag_and_the_error_names_the_version_and_the_check(uri, instance) -> None:
    append(uri, 1, 2)
    assert promote(instance, uri).success
    append(uri, 2)
    message = headline(promote(instance, uri))
    assert message.startswith(
        f"lake__events: {uri}: version 2 is not published, because it failed 1 of 2 checks (key_unique: 1 row repeats "
        "the key (id) of another row"
    )
    assert message.endswith("tag prod still refers to version 1 [InvalidInputError]")
    assert tagged(uri) == 1
    assert len(published(instance)) == 1
    history = instance.event_log_storage.get_asset_check_execution_history(dg.AssetCheckKey(EVENTS, "key_unique"), 5)
    evaluations = [record.event.dagster_event.asset_check_evaluation_data for record in history]
    assert [(each.passed, each.metadata["lance/version"].value) for each in evaluations] == [(False, 2), (True, 1)]


def test_a_first_version_that_fails_its_check_gets_no_tag(uri, instance) -> None:
    append(uri, 1, 1)
    assert headline(promote(instance, uri)).endswith("tag prod does not exist yet [InvalidInputError]")
    assert tagged(uri) is None


def test_a_dry_run_checks_and_prints_the_plan_without_moving_the_tag(uri, instance, capsys) -> None:
    append(uri, 1, 2)
    assert promote(instance, uri, dry_run=True).success
    assert tagged(uri) is None
    out = capsys.readouterr().out
    first = f"promote {uri} version 1: tag prod will be created for this version\n"
    assert out.startswith(f"lake__events: {first}")
    assert out.endswith("Checks passed: rows, key_unique.\nDry run: nothing was changed.\n")
    append(uri, 2)
    assert "failed 1 of 2 checks" in headline(promote(instance, uri, dry_run=True))


def test_a_published_version_is_not_checked_again(uri, instance, capsys, monkeypatch) -> None:
    append(uri, 1)
    assert promote(instance, uri).success
    monkeypatch.setattr(audit_version, "evaluate_checks", None)
    capsys.readouterr()
    assert promote(instance, uri).success
    out = capsys.readouterr().out
    assert out == f"lake__events: {uri} version 1: nothing to do (tag prod refers to version 1)\n"
    assert len(published(instance)) == 1


def test_an_older_version_requested_by_its_number_is_published_again(uri, instance) -> None:
    for number in (1, 2):
        append(uri, number)
        assert promote(instance, uri).success
    assert promote(instance, uri, version=1).success
    assert tagged(uri) == 1
    first, second, third = published(instance)
    assert first == third != second


def test_a_compacted_version_with_the_same_rows_is_published_as_an_observation(uri, instance) -> None:
    append(uri, 1)
    append(uri, 2)
    assert promote(instance, uri).success
    lance_core.dataset(uri).optimize.compact_files()
    latest = lance_core.dataset(uri).version
    assert promote(instance, uri).success
    assert tagged(uri) == latest > 2
    assert len(published(instance)) == 1
    (record,) = instance.fetch_observations(PROD, limit=5).records
    observation = record.event_log_entry.asset_observation
    assert observation.tags["dagster/data_version"] == published(instance)[0]
    assert observation.description == f"promote: prod v2 → v{latest}"


def test_an_ingest_and_a_promotion_in_one_run_publish_the_ingested_version(uri, instance, monkeypatch) -> None:
    rows = [ids(1), ids(2)]
    source = FunctionSource(function=lambda context: rows.pop(0))
    defs = build_definitions([declaration(uri, source=source)], spark=NoSpark())
    job = defs.resolve_implicit_global_asset_job_def()
    evaluate = audit_version.evaluate_checks

    def overtaken(*arguments: Any, **options: Any) -> Any:
        append(uri, 7)
        return evaluate(*arguments, **options)

    monkeypatch.setattr(audit_version, "evaluate_checks", overtaken)
    result = job.execute_in_process(instance=instance, run_config=QUIET)
    assert result.success
    assert tagged(uri) == 1
    assert lance_core.dataset(uri).version == 2


def test_readers_see_the_published_version_only(uri, instance, tmp_path) -> None:
    append(uri, 1)
    assert promote(instance, uri).success
    append(uri, 1)
    seen = []

    @dg.asset(ins={"rows": dg.AssetIn(PROD)})
    def by_io_manager(rows: pa.Table) -> None:
        seen.append(rows["id"].to_pylist())

    def by_resource(table):
        seen.append(table.read()["id"].to_pylist())

    by_resource.__annotations__ = {"table": LanceTableResource, "return": None}
    resources = {
        "io_manager": LanceIOManager(base_uri=str(tmp_path / "lake")),
        "table": LanceTableResource(asset=PROD.to_user_string(), uri=uri, tag="prod"),
    }
    assets = [by_io_manager, dg.asset(by_resource, deps=[PROD])]
    upstream = build_definitions([declaration(uri)], spark=NoSpark()).resolve_all_asset_specs()
    selection = ["by_io_manager", "by_resource"]
    specs = [spec for spec in upstream if spec.key == PROD]
    result = dg.materialize([*assets, *specs], resources=resources, instance=instance, selection=selection)
    assert result.success
    assert seen == [[1], [1]]
    assert resources["table"].read()["id"].to_pylist() == [1]
    assert lance.dataset(uri).tags.list().keys() == {"prod"}


def test_a_repeated_step_reads_the_tagged_version_of_its_first_attempt(uri, instance) -> None:
    append(uri, 1)
    assert promote(instance, uri).success
    seen = []

    def report(table):
        seen.append(table.read()["id"].to_pylist())
        if len(seen) == 1:
            append(uri, 2)
            assert promote(instance, uri).success
            raise dg.RetryRequested(max_retries=1)

    report.__annotations__ = {"table": LanceTableResource}
    table = LanceTableResource(asset=PROD.to_user_string(), uri=uri, tag="prod")
    dg.materialize([dg.asset(report, deps=[PROD])], resources={"table": table}, instance=instance)
    assert seen == [[1], [1]]
    assert table.read()["id"].to_pylist() == [1, 2]


def test_a_cleanup_keeps_the_published_version(uri, instance) -> None:
    append(uri, 1)
    assert promote(instance, uri).success
    for number in (2, 3):
        append(uri, number)
    job = build_definitions([declaration(uri)], spark=NoSpark()).resolve_job_def("lake__events__cleanup")
    config = {"older_than": "0", "min_age": "0", "retain_versions": 1}
    result = job.execute_in_process(run_config=operation_config("cleanup", "", **config) | QUIET, instance=instance)
    assert result.success
    assert [ref["version"] for ref in lance_core.dataset(uri).version_refs()] == [1, 3]
    assert lance.dataset(uri, version="prod").to_table()["id"].to_pylist() == [1]


# ── Moves of the tag ─────────────────────────────────────────────────────────────────────────────────────────────────


def plan(uri: str, version: int, **changes: Any) -> PlannedPromotion:
    values: dict[str, Any] = {
        "uri": uri,
        "tag": "prod",
        "version": version,
        "transaction": transaction_of(lance_core.dataset(uri, version=version)),
        "published": None,
        "is_explicit": False,
        "passed": ("rows",),
    }
    return PlannedPromotion(**{**values, **changes})


@pytest.fixture
def three_versions(uri: str) -> str:
    for number in (1, 2, 3):
        append(uri, number)
    return uri


def test_a_slow_promotion_does_not_move_the_tag_back(three_versions) -> None:
    slow, fast = plan(three_versions, 2), plan(three_versions, 3)
    assert move_tag(fast).has_changed
    report = move_tag(slow)
    assert (report.has_changed, report.found) == (False, 3)
    assert report.summary().endswith("version 2: nothing to do (tag prod refers to version 3)")
    assert tagged(three_versions) == 3


def test_a_repeated_tag_move_reports_the_move_of_the_first_attempt(three_versions) -> None:
    planned = PlannedPromotion.from_json(plan(three_versions, 2).to_json())
    assert [move_tag(planned).has_changed for _ in range(2)] == [True, True]


def test_a_tag_move_after_another_promotion_reports_the_version_that_had_the_tag(three_versions) -> None:
    slow, fast = plan(three_versions, 3), plan(three_versions, 2)
    move_tag(fast)
    report = move_tag(slow)
    assert report.headline() == "promote: prod v2 → v3"
    assert "version 3: tag prod was moved from version 2; checks passed: " in report.summary()


def test_a_tag_that_was_moved_since_the_plan_is_not_moved_back(three_versions) -> None:
    move_tag(plan(three_versions, 2))
    back = plan(three_versions, 1, published=2, is_explicit=True)
    move_tag(plan(three_versions, 3, published=2))
    with pytest.raises(RefConflictError, match="tag prod was moved to version 3 after the promotion of"):
        move_tag(back)
    assert tagged(three_versions) == 3


def test_a_tag_that_was_deleted_since_the_plan_is_created_again_only_for_the_latest_version(three_versions) -> None:
    move_tag(plan(three_versions, 2))
    requested = plan(three_versions, 1, published=2, is_explicit=True)
    lance_core.dataset(three_versions).tags.delete("prod")
    with pytest.raises(RefConflictError, match="tag prod was deleted after the promotion of version 1 was planned"):
        move_tag(requested)
    assert tagged(three_versions) is None
    assert move_tag(plan(three_versions, 3, published=2)).has_changed
    assert tagged(three_versions) == 3


def test_a_planned_version_is_not_published_after_its_dataset_was_recreated(three_versions, tmp_path) -> None:
    planned = plan(three_versions, 2)
    lance_core.LanceDataset.drop(three_versions)
    for number in (7, 7):
        append(three_versions, number)
    with pytest.raises(VersionNotFoundError, match="version 2 is not the version that was checked"):
        move_tag(planned)
    assert tagged(three_versions) is None


def test_a_tag_of_another_branch_is_not_compared_with_versions_of_the_dataset(three_versions) -> None:
    dataset = lance_core.dataset(three_versions)
    dataset.create_branch("trial", 1).insert(pa.table({"id": [9]}))
    dataset.tags.create("prod", ("trial", None))
    with pytest.raises(InvalidRefError, match=r"tag prod refers to version 2 of another branch \(.*/tree/trial\)"):
        move_tag(plan(three_versions, 3))
    assert dataset.tags.list()["prod"]["branch"] == "trial"


def test_a_tag_of_a_missing_version_is_named_in_an_error_that_says_what_to_do(three_versions) -> None:
    lance_core.dataset(three_versions).tags.create("prod")
    record = next(Path(three_versions).glob("_refs/tags/*"))
    text = record.read_bytes()
    lance_core.LanceDataset.drop(three_versions)
    for number in (7, 7):
        append(three_versions, number)
    record.parent.mkdir(parents=True)
    record.write_bytes(text)
    with pytest.raises(InvalidRefError, match="tag prod refers to a version that does not exist; delete the tag"):
        move_tag(plan(three_versions, 2))


# ── Declarations ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: PublishSettings(tag="a b"), "publish: invalid tag 'a b'"),
        (lambda: PublishSettings(tag="a..b"), "publish: invalid tag 'a..b'"),
        (lambda: PublishSettings(tag="prod", checks="rows"), r"checks must be a list, found 'rows'; write \['rows'\]"),
        (
            lambda: DatasetDeclaration(key="e", uri="/e", publish=PublishSettings(tag="prod", checks=["row"])),
            r"dataset e: publish: unknown checks: row; the dataset has: rows, ",
        ),
        (
            lambda: DatasetDeclaration(key="e", uri="/e", publish=PublishSettings(tag="prod", checks=[])),
            "dataset e: publish: no check is required",
        ),
        (
            lambda: build_definitions(
                [
                    DatasetDeclaration(key="e", uri="/e", publish=PublishSettings(tag="prod")),
                    DatasetDeclaration(key="e/prod", uri="/p"),
                ]
            ),
            "the asset of tag 'prod' would have the key e/prod, which another dataset has; choose another tag",
        ),
    ],
)
def test_a_mistake_in_the_publish_settings_is_named_in_the_error(make: Callable[[], object], expected) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        make()


def test_by_default_the_checks_of_severity_error_are_required() -> None:
    settings = PublishSettings(tag="prod")
    assert settings.required_checks(CheckSettings(key=["id"])) == ("rows", "key_nulls", "key_unique", "verify")


def test_the_published_asset_is_downstream_of_the_dataset_and_has_its_own_automation_condition(uri) -> None:
    settings = PublishSettings(
        tag="prod",
        automation_condition=dg.AutomationCondition.eager(),
        freshness=dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=1)),
    )
    defs = build_definitions([DatasetDeclaration(key="lake/events", uri=uri, publish=settings)])
    dg.Definitions.validate_loadable(defs)
    node = defs.resolve_asset_graph().get(PROD)
    assert node.parent_keys == {EVENTS}
    metadata: Mapping[str, Any] = node.metadata
    assert (metadata["lance/tag"], metadata["dagster/uri"]) == (dg.TextMetadataValue("prod"), dg.TextMetadataValue(uri))
    assert node.automation_condition == settings.automation_condition
    job = defs.resolve_job_def("lake__events__promote")
    pools = {each.name: each.pool for each in job.all_node_defs if isinstance(each, dg.OpDefinition)}
    assert pools["lake__events__move_tag"] == "lance__lake__events"
    assert pools["lake__events__audit_version"] is None
