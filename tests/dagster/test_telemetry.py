"""Traces and metrics of runs: with the SDK's receivers in memory, and over the network to a receiver of OTLP."""

from __future__ import annotations

import gzip
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import lance_core
from lance_pipelines import telemetry
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FunctionSource
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.maintenance.policy import CompactionPolicy, MaintenancePolicy
from lance_pipelines.ops import rewrite_fragments
from tests.dagster.conftest import CommandLine
from tests.support.local_rewriting import write_fragments
from tests.support.no_spark import NoSpark, rewrite_without_session

HANDLER = {"handlers": {"opentelemetry": {"class": "lance_pipelines.telemetry.TelemetryHandler"}}}
SETTINGS = {"python_logs": {"dagster_handler_config": HANDLER}}

pytestmark = pytest.mark.filterwarnings("ignore:Handling yaml-defined logging configuration")


@dataclass
class Exported:
    """The spans and metrics of this process."""

    instance: dg.DagsterInstance
    spans: InMemorySpanExporter
    reader: InMemoryMetricReader

    def by_name(self) -> dict[str, ReadableSpan]:
        spans = self.spans.get_finished_spans()
        found = {span.name: span for span in spans}
        assert len(found) == len(spans)
        return found

    def metrics(self) -> dict[str, dict[str, int | float]]:
        """Return the sum of each counter by the asset, or by the outcome of a run."""
        data = self.reader.get_metrics_data()
        found: dict[str, dict[str, int | float]] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points:
                labels = [point.attributes.get(name) for name in ("lance.asset", "dagster.outcome")]
                label = next(str(value) for value in labels if value is not None)
                if hasattr(point, "value"):
                    sums = found.setdefault(metric.name, {})
                    sums[label] = sums.get(label, 0) + point.value
        return found


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    monkeypatch.setattr(telemetry, "_exporters", lambda environment: (SimpleSpanProcessor(spans), reader))
    telemetry._telemetry.cache_clear()
    with dg.DagsterInstance.ephemeral(settings=SETTINGS) as instance:
        yield Exported(instance, spans, reader)
    telemetry._telemetry.cache_clear()


def declared(uri: str, rows: int = 3) -> DatasetDeclaration:
    return DatasetDeclaration(
        key="lake/events",
        uri=uri,
        source=FunctionSource(function=lambda _: pa.table({"id": range(rows)})),
        maintenance=MaintenancePolicy(compaction=CompactionPolicy(target_rows_per_fragment=100)),
    )


def run(uri: str, instance: dg.DagsterInstance, operation: str, **config: Any) -> dg.ExecuteInProcessResult:
    job = build_definitions([declared(uri)], spark=NoSpark()).resolve_job_def(job_name(operation, "lake__events"))
    given = {} if operation == "ingest" else request_config(operation, **config)
    return job.execute_in_process(run_config=given, instance=instance, raise_on_error=False)


def test_an_ingest_is_one_trace_with_a_span_for_each_step(exported, tmp_path) -> None:
    uri = str(tmp_path / "events.lance")
    result = run(uri, exported.instance, "ingest")
    assert result.success
    spans = exported.by_name()
    root = spans.pop("lake__events__ingest")
    assert root.parent is None
    assert root.context.trace_id == uuid.UUID(result.run_id).int
    assert root.attributes == {
        "dagster.run_id": result.run_id,
        "dagster.job": "lake__events__ingest",
        "dagster.outcome": "success",
        "lance.dataset": "lake__events",
        "lance.op": "ingest",
    }
    assert {"lake__events.write_fragments", "lake__events.commit_fragments"} <= spans.keys()
    for name, span in spans.items():
        assert span.parent == root.context
        assert span.context.trace_id == root.context.trace_id
        assert span.attributes["dagster.step"] == name
        assert root.start_time <= span.start_time <= span.end_time <= root.end_time
        assert span.status.status_code is StatusCode.OK
    (commit,) = spans["lake__events.commit_fragments"].events
    assert (commit.attributes["lance.asset"], commit.attributes["lance.version"]) == ("lake/events", 1)
    assert commit.attributes["lance.commit.attempts"] == 1
    assert commit.attributes["lance.rows.written"] == 3


def test_the_metrics_of_runs_count_commits_rows_and_bytes_once(exported, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)
    uri = str(tmp_path / "events.lance")
    for operation in ("ingest", "ingest", "compact", "compact"):
        assert run(uri, exported.instance, operation).success
    assert run(uri, exported.instance, "cleanup", older_than="0", min_age="0", retain_versions=1).success
    metrics = exported.metrics()
    (file,) = lance_core.dataset(uri).get_fragments()[0].metadata.files
    observed = exported.instance.fetch_observations(dg.AssetKey(["lake", "events"]), limit=1).records[0]
    freed = observed.asset_observation.metadata["lance/bytes_reclaimed"].value
    assert metrics["lance.rows.written"]["lake/events"] == 6
    assert metrics["lance.rows.rewritten"]["lake/events"] == 6
    assert metrics["lance.bytes.rewritten"]["lake/events"] > 0
    assert metrics["lance.bytes.reclaimed"]["lake/events"] == freed > file.file_size_bytes
    assert metrics["lance.maintenance.cpu"]["maintenance/lake/events"] > 0
    data = exported.reader.get_metrics_data().resource_metrics[0]
    points = {
        (metric.name, point.attributes.get("lance.op")): point
        for metric in data.scope_metrics[0].metrics
        for point in metric.data.data_points
        if "dagster.step" not in point.attributes
    }
    assert points["lance.commits", "compact"].value == 1
    assert points["lance.commits", "cleanup"].value == 1
    assert points["lance.commit.attempts", "compact"].value == 1
    assert points["lance.runs", "ingest"].value == points["lance.runs", "compact"].value == 2
    assert points["lance.run.duration", "compact"].count == 2
    assert data.resource.attributes["service.name"] == "lance-pipelines"


def test_the_spans_of_a_failed_run_have_its_message(exported, tmp_path) -> None:
    uri = str(tmp_path / "missing.lance")
    assert not run(uri, exported.instance, "compact").success
    spans = exported.by_name()
    step, root = spans["plan_rewrites"], spans["lake__events__compact"]
    assert step.status.status_code is root.status.status_code is StatusCode.ERROR
    assert step.status.description == f"lake__events: no dataset exists at {uri} [DatasetNotFoundError]"
    assert root.attributes["dagster.outcome"] == "failure"


def test_each_attempt_of_a_step_is_a_span(exported) -> None:
    attempts = []

    @dg.op(retry_policy=dg.RetryPolicy(max_retries=1))
    def fails_once() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise dg.Failure("at first", allow_retries=True)

    @dg.job
    def retried() -> None:
        fails_once()

    assert retried.execute_in_process(instance=exported.instance).success
    first, second, root = exported.spans.get_finished_spans()
    assert [first.attributes["dagster.outcome"], second.attributes["dagster.outcome"]] == ["retry", "success"]
    assert first.name == second.name == "fails_once"
    assert first.end_time <= second.start_time
    assert first.parent == second.parent == root.context


@pytest.mark.parametrize(
    ("environment", "exports"),
    [
        ({}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"}, (True, True)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_SDK_DISABLED": "true"}, (False, False)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:1"}, (True, False)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_METRICS_EXPORTER": "none"}, (True, False)),
        ({"OTEL_TRACES_EXPORTER": "console"}, (True, False)),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, (False, True)),
    ],
)
def test_environment_variables_determine_whether_traces_and_metrics_are_exported(environment, exports) -> None:
    processor, reader = telemetry._exporters(environment)
    assert (processor is not None, reader is not None) == exports
    for made in (processor, reader):
        if made is not None:
            made.shutdown()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER must be otlp, console, or none, found 'zipkin'"),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "the protocol must be http/protobuf, found 'grpc'",
        ),
    ],
)
def test_an_unsupported_exporter_causes_a_warning_and_nothing_is_exported(environment, message, caplog) -> None:
    assert telemetry._exporters(environment) == (None, None)
    (record,) = caplog.records
    assert message in record.getMessage()


def test_an_invalid_setting_of_opentelemetry_causes_a_warning_and_nothing_is_exported(monkeypatch, caplog) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    telemetry._telemetry.cache_clear()
    try:
        assert telemetry._telemetry() is None
    finally:
        telemetry._telemetry.cache_clear()
    (record,) = caplog.records
    assert record.getMessage() == "traces and metrics are not exported: schedule_delay_millis must be positive."


@pytest.mark.parametrize("fails", ["exporter", "conversion"])
def test_an_error_of_opentelemetry_causes_a_warning_and_the_run_succeeds(fails, monkeypatch, caplog, tmp_path) -> None:
    if fails == "exporter":
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "no_such_provider")
        expected = "traces and metrics are not exported: Requested component 'no_such_provider' not found"
    else:
        # A release whose spans have other arguments.
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
        monkeypatch.setattr("opentelemetry.sdk.trace.ReadableSpan", lambda name: None)
        expected = "event STEP_SUCCESS is not exported: TypeError: "
    telemetry._telemetry.cache_clear()
    try:
        with dg.DagsterInstance.ephemeral(settings=SETTINGS) as instance:
            assert run(str(tmp_path / "events.lance"), instance, "ingest").success
    finally:
        telemetry._telemetry.cache_clear()
    assert any(record.getMessage().startswith(expected) for record in caplog.records)


@pytest.mark.slow
@pytest.mark.parametrize("is_installed", [False, True])
def test_no_module_of_the_opentelemetry_sdk_is_imported_without_the_extra_or_an_environment_variable(
    is_installed,
) -> None:
    program = f"""
    import os, sys, warnings, logging
    if not {is_installed}:
        sys.modules["opentelemetry.exporter"] = None
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://localhost:1"
    import dagster as dg

    @dg.op
    def step(): ...

    @dg.job
    def simple():
        step()

    warnings.simplefilter("ignore")
    with dg.DagsterInstance.ephemeral(settings={SETTINGS!r}) as instance:
        assert simple.execute_in_process(instance=instance).success
    print([name for name in sys.modules if name.startswith("opentelemetry.sdk")])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
    assert ("the optional extra 'opentelemetry' is not installed" in done.stderr) is not is_installed


@dataclass
class Collector:
    """What a receiver of OTLP was sent."""

    url: str
    spans: list[tuple[str, Any]] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, path: str, body: bytes) -> None:
        with self.lock:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    names = {each.key: each.value.string_value for each in resource.resource.attributes}
                    self.spans += [
                        (names["service.instance.id"], span) for scope in resource.scope_spans for span in scope.spans
                    ]
            elif path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        self.metrics |= {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A receiver of OTLP over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.receive(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield received
    server.shutdown()
    thread.join()
    server.server_close()


def execute_cleanup(
    command_line: Callable[..., CommandLine], tmp_path: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a cleanup with one process for each step."""
    uri, home = str(tmp_path / "events.lance"), tmp_path / "home"
    write_fragments(uri, 4)
    dagster = command_line(home, **variables)
    settings = yaml.safe_load((home / "dagster.yaml").read_text()) | SETTINGS
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return dagster.cleanup_in_processes(uri, older_than="0", min_age="0", retain_versions=1)


@pytest.mark.slow
def test_the_spans_of_steps_in_several_processes_arrive_as_one_trace(command_line, tmp_path, collector) -> None:
    done = execute_cleanup(command_line, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert done.returncode == 0, done.stderr
    spans = {span.name: span for _, span in collector.spans}
    assert spans.keys() == {"events__cleanup", "plan_cleanup", "remove_old_versions"}
    assert len({process for process, _ in collector.spans}) == 3
    root = spans.pop("events__cleanup")
    assert not root.parent_span_id
    assert {(span.trace_id, span.parent_span_id) for span in spans.values()} == {(root.trace_id, root.span_id)}
    (commit,) = [event for event in spans["remove_old_versions"].events if event.name == "commit"]
    figures = {each.key: each.value for each in commit.attributes}
    assert figures["lance.asset"].string_value == "events"
    assert figures["lance.bytes.reclaimed"].int_value > 0
    assert {"lance.runs", "lance.run.duration", "lance.step.duration", "lance.commits"} <= collector.metrics.keys()
    (reclaimed,) = collector.metrics["lance.bytes.reclaimed"].sum.data_points
    assert reclaimed.as_int == figures["lance.bytes.reclaimed"].int_value


@pytest.mark.slow
def test_a_receiver_that_cannot_be_reached_does_not_fail_the_run(command_line, tmp_path) -> None:
    done = execute_cleanup(
        command_line, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_EXPORTER_OTLP_TIMEOUT="1"
    )
    assert done.returncode == 0, done.stderr
    assert len(lance_core.dataset(str(tmp_path / "events.lance")).versions()) == 1
