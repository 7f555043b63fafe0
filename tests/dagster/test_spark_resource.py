"""The Spark resource: when sessions are started and stopped, and how they are configured."""

from __future__ import annotations

import dagster as dg
import pytest

from lance_core.errors import NotFoundError
from lance_pipelines.resources import spark as spark_module
from lance_pipelines.resources.spark import SparkResource


class Sessions:
    """Replaces the start and stop of real Spark sessions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[dict[str, str]] = []
        self.stopped: list[object] = []
        monkeypatch.setattr(spark_module, "start_session", self.start)
        monkeypatch.setattr(spark_module, "stop_session", self.stopped.append)
        monkeypatch.setattr(spark_module, "_is_running", lambda: False)

    def start(self, settings: dict[str, str]) -> object:
        self.started.append(settings)
        return object()


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    return Sessions(monkeypatch)


def run(resource: SparkResource, *, touches: int, fails: bool = False) -> dg.ExecuteInProcessResult:
    @dg.op
    def use(spark: SparkResource) -> None:
        for _ in range(touches):
            assert spark.spark_session is spark.spark_session
        if fails:
            raise RuntimeError

    @dg.op(ins={"start": dg.In(dg.Nothing)})
    def use_again(spark: SparkResource) -> None:
        assert touches == 0 or spark.spark_session

    @dg.job(resource_defs={"spark": resource}, executor_def=dg.in_process_executor)
    def job() -> None:
        use_again(use())

    return job.execute_in_process(raise_on_error=False)


def test_a_run_that_needs_no_spark_session_does_not_start_one(sessions) -> None:
    assert run(SparkResource(), touches=0).success
    assert (sessions.started, sessions.stopped) == ([], [])


def test_steps_of_a_run_share_one_spark_session_that_is_stopped_after_the_run(sessions) -> None:
    assert run(SparkResource(), touches=2).success
    assert len(sessions.started) == len(sessions.stopped) == 1


def test_spark_session_of_a_failed_run_is_stopped(sessions) -> None:
    assert not run(SparkResource(), touches=1, fails=True).success
    assert len(sessions.started) == len(sessions.stopped) == 1


def test_existing_spark_session_is_used_and_not_stopped_by_a_run(sessions, monkeypatch) -> None:
    monkeypatch.setattr(spark_module, "_is_running", lambda: True)
    assert run(SparkResource(), touches=1).success
    assert len(sessions.started) == 1
    assert sessions.stopped == []


def test_dotted_and_nested_spark_settings_are_both_accepted(sessions) -> None:
    run(SparkResource(spark_config={"spark.master": "local[1]", "spark": {"ui": {"enabled": True}}}), touches=1)
    assert sessions.started == [{"spark.master": "local[1]", "spark.ui.enabled": "true"}]


def test_spark_resource_with_a_remote_url_connects_to_the_given_server(sessions) -> None:
    run(SparkResource(remote="sc://127.0.0.1:15002", spark_config={"spark.app.name": "nightly"}), touches=1)
    assert sessions.started == [{"spark.app.name": "nightly", "spark.remote": "sc://127.0.0.1:15002"}]


def test_spark_session_that_does_not_start_fails_the_step_with_the_reason(project, instance, monkeypatch) -> None:
    def fail(settings):
        raise NotFoundError("Spark needs Java 17 or newer, but none was found")

    monkeypatch.setattr(spark_module, "start_session", fail)
    defs = project.definitions()
    job = dg.Definitions(
        assets=list(defs.assets), jobs=list(defs.jobs), resources={**defs.resources, "lance_spark": SparkResource()}
    ).resolve_job_def("events__ingest")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    (event,) = result.get_step_failure_events()
    description = event.step_failure_data.user_failure_data.description
    assert description == "events: Spark needs Java 17 or newer, but none was found [NotFoundError]"
