"""TelemetryHandler: exports runs as OpenTelemetry traces and metrics.

Dagster passes every event of a run to the log handlers of its instance. This handler converts them, so no other module
reports anything, and nothing is imported unless ``dagster.yaml`` names the handler::

    RUN_START ─▶ … ─▶ RUN_SUCCESS | RUN_FAILURE | RUN_CANCELED            one span, the root of the trace
    STEP_START ─▶ … ─▶ STEP_SUCCESS | STEP_FAILURE | STEP_UP_FOR_RETRY    one span below it for each attempt
    ASSET_MATERIALIZATION | ASSET_OBSERVATION                             an event of the step's span, and metrics

The steps of a run can be executed by several processes, of which none knows the spans of the others. Therefore, the id
of the trace is the run's id, and the id of its root span is derived from it.

The environment variables of OpenTelemetry switch the export on and configure it (:func:`_exporters`). Without them, or
without the optional extra ``opentelemetry``, the handler does nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from multiprocessing.util import Finalize
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from dagster import DagsterEventType as EventType
from dagster._core.execution.plan.objects import StepFailureData

from lance_pipelines.events.asset_metadata import VERSION_KEY, event_value
from lance_pipelines.events.commit_events import DATASET_TAG, OPERATION_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

__all__ = ["TelemetryHandler"]

_NAME: Final = "lance_pipelines"
_DISTRIBUTION: Final = "lance-pipelines"
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SPAN_ID_BYTES: Final = 8
_NANOSECONDS: Final = 1_000_000_000

_STARTS: Final = frozenset({EventType.RUN_START, EventType.STEP_START, EventType.STEP_RESTARTED})
_OUTCOMES: Final[Mapping[EventType, str]] = MappingProxyType(
    {
        EventType.RUN_SUCCESS: "success",
        EventType.RUN_FAILURE: "failure",
        EventType.RUN_CANCELED: "canceled",
        EventType.STEP_SUCCESS: "success",
        EventType.STEP_FAILURE: "failure",
        EventType.STEP_UP_FOR_RETRY: "retry",
    }
)
"""Maps each event that ends a span to the outcome of the span."""

_OF_RUNS: Final = frozenset({EventType.RUN_START, EventType.RUN_SUCCESS, EventType.RUN_FAILURE, EventType.RUN_CANCELED})
_COMMITS: Final = frozenset({EventType.ASSET_MATERIALIZATION, EventType.ASSET_OBSERVATION})

_RUN_TAGS: Final = MappingProxyType({"lance.dataset": DATASET_TAG, "lance.op": OPERATION_TAG})
"""Maps attributes of spans to tags of runs."""

_SUMS: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "lance/commit_attempts": ("lance.commit.attempts", "{attempt}", "Attempts to commit a version"),
        "lance/conflicts": ("lance.commit.conflicts", "{conflict}", "Conflicts with other writers"),
        "lance/rows_written": ("lance.rows.written", "{row}", "Rows written by ingests"),
        "lance/rows_deleted": ("lance.rows.deleted", "{row}", "Rows deleted"),
        "lance/rows_rewritten": ("lance.rows.rewritten", "{row}", "Rows rewritten by maintenance"),
        "lance/bytes_written": ("lance.bytes.written", "By", "Bytes written by ingests"),
        "lance/bytes_rewritten": ("lance.bytes.rewritten", "By", "Bytes of data files written by maintenance"),
        "lance/index_bytes_written": ("lance.bytes.indexed", "By", "Bytes of index files written"),
        "lance/bytes_reclaimed": ("lance.bytes.reclaimed", "By", "Bytes of removed files"),
    }
)
"""Maps each metadata key of commit events to the counter that adds up its values: name, unit, description."""

_CPU_KEY: Final = "lance/cpu_seconds"
"""Metadata key that only events of maintenance assets have.

These events repeat the metrics of commit events, so only their CPU time is counted.
"""

_logger: Final = logging.getLogger(__name__)


class TelemetryHandler(logging.Handler):
    """A handler for ``python_logs`` in ``dagster.yaml``. Dagster creates one for each step; they share all state."""

    def emit(self, record: logging.LogRecord) -> None:
        """Convert the event of a record; other records are ignored."""
        event = getattr(record, "dagster_event", None)
        if not isinstance(event, dg.DagsterEvent):
            return
        try:
            telemetry = _telemetry()
            if telemetry is not None:
                telemetry.convert(event, record)
        except Exception as error:  # noqa: BLE001  # whatever OpenTelemetry raises must not make the run fail
            _logger.warning("event %s is not exported: %s: %s", event.event_type_value, type(error).__name__, error)


@lru_cache(maxsize=1)
def _telemetry() -> _Telemetry | None:
    """Return the state of the process; None if nothing is exported."""
    try:
        processor, reader = _exporters(os.environ)
        return None if processor is None and reader is None else _Telemetry(processor, reader)
    except Exception as error:  # noqa: BLE001  # for an invalid variable, OpenTelemetry raises any kind of error
        _logger.warning("traces and metrics are not exported: %s", error)
        return None


def _exporters(environment: Mapping[str, str]) -> tuple[SpanProcessor | None, MetricReader | None]:
    """Return the exporters that the environment variables of OpenTelemetry select.

    ``OTEL_TRACES_EXPORTER`` and ``OTEL_METRICS_EXPORTER`` are ``otlp``, ``console``, or ``none``; without them, a
    signal is exported by OTLP if its endpoint is set. OpenTelemetry itself reads all other variables.
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None, None
    traces, metrics = (_exporter(environment, signal) for signal in ("TRACES", "METRICS"))
    if traces is None and metrics is None:
        return None, None
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    except ImportError:
        _logger.warning("traces and metrics are not exported: the optional extra 'opentelemetry' is not installed")
        return None, None

    spans = {"otlp": OTLPSpanExporter, "console": ConsoleSpanExporter}
    figures = {"otlp": OTLPMetricExporter, "console": ConsoleMetricExporter}
    return (
        None if traces is None else BatchSpanProcessor(spans[traces]()),
        None if metrics is None else PeriodicExportingMetricReader(figures[metrics]()),
    )


def _exporter(environment: Mapping[str, str], signal: str) -> str | None:
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    default = "otlp" if any(environment.get(name) for name in endpoints) else "none"
    variable, what = f"OTEL_{signal}_EXPORTER", signal.lower()
    name = environment.get(variable) or default
    if name not in ("otlp", "console", "none"):
        _logger.warning("%s are not exported: %s must be otlp, console, or none, found %r", what, variable, name)
        return None
    protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if name == "otlp" and protocol not in (None, "", "http/protobuf"):
        _logger.warning("%s are not exported: the protocol must be http/protobuf, found %r", what, protocol)
        return None
    return None if name == "none" else name


@dataclass(slots=True)
class _Open:
    """A run or an attempt of a step that has started.

    Attributes:
        start: when the run or the attempt started, in nanoseconds since the epoch.
        commits: the time and the attributes of each commit that was reported.
    """

    start: int
    commits: list[tuple[int, dict[str, str | int | float]]] = field(default_factory=list)


class _Telemetry:
    """The spans and metrics of one process.

    Args:
        processor: receives spans; None if they are not exported.
        reader: receives metrics; None if they are not exported.
    """

    def __init__(self, processor: SpanProcessor | None, reader: MetricReader | None) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.trace import TracerProvider

        self._processor = processor
        self._resource = _resource()
        # Only to read the sampler from the environment.
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        self._meters = MeterProvider([] if reader is None else [reader], self._resource, shutdown_on_exit=False)
        meter = self._meters.get_meter(_NAME)
        self._runs = meter.create_counter("lance.runs", "{run}", "Runs that have ended")
        self._commits = meter.create_counter(
            "lance.commits", "{commit}", "Reported commits, cleanups, verifications, and promotions"
        )
        self._cpu = meter.create_counter("lance.maintenance.cpu", "s", "CPU time of maintenance runs")
        self._durations: dict[bool, Histogram] = {
            True: meter.create_histogram("lance.run.duration", "s", "Duration of runs"),
            False: meter.create_histogram("lance.step.duration", "s", "Duration of step attempts"),
        }
        self._sums: dict[str, Counter] = {key: meter.create_counter(*names) for key, names in _SUMS.items()}
        self._open: dict[tuple[str, str | None], _Open] = {}
        # Also runs in child processes, which do not call the functions that are registered with atexit.
        Finalize(None, self._shut_down, exitpriority=0)

    def convert(self, event: dg.DagsterEvent, record: logging.LogRecord) -> None:
        """Start or end a span, or record a commit."""
        known: Mapping[str, Any] = getattr(record, "dagster_meta", {})
        kind, now = event.event_type, int(record.created * _NANOSECONDS)
        place = (str(known.get("run_id")), None if kind in _OF_RUNS else event.step_key)
        if kind in _STARTS:
            self._open[place] = _Open(now)
        elif kind in _OUTCOMES:
            self._end(place, self._open.pop(place, _Open(now)), now, event, known.get("job_tags") or {})
        elif kind in _COMMITS:
            self._note_commit(self._open.get(place), now, event)

    def _end(
        self,
        place: tuple[str, str | None],
        opened: _Open,
        now: int,
        event: dg.DagsterEvent,
        tags: Mapping[str, str],
    ) -> None:
        run_id, step_key = place
        attributes = {"dagster.job": event.job_name, "dagster.outcome": _OUTCOMES[event.event_type]}
        attributes |= {name: tags[tag] for name, tag in _RUN_TAGS.items() if tag in tags}
        if step_key is None:
            self._runs.add(1, attributes)
        else:
            attributes["dagster.step"] = step_key
        self._durations[step_key is None].record((now - opened.start) / _NANOSECONDS, attributes)
        if self._processor is not None:
            span = self._span(run_id, event, opened, now, {**attributes, "dagster.run_id": run_id})
            self._processor.on_end(span)

    def _span(
        self, run_id: str, event: dg.DagsterEvent, opened: _Open, now: int, attributes: Mapping[str, str]
    ) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.sdk.trace.sampling import Decision
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

        digest = hashlib.sha256(run_id.encode()).digest()
        trace_id = int.from_bytes(digest[:16]) if not _UUID.fullmatch(run_id) else uuid.UUID(run_id).int
        decision = self._sampler.should_sample(None, trace_id, event.job_name).decision
        flags = TraceFlags(TraceFlags.SAMPLED if decision is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT)
        root_id = int.from_bytes(digest[-_SPAN_ID_BYTES:])
        root = SpanContext(trace_id, root_id, is_remote=False, trace_flags=flags)
        is_root = event.event_type in _OF_RUNS
        own = root if is_root else SpanContext(trace_id, secrets.randbits(64) or 1, is_remote=False, trace_flags=flags)
        succeeded = attributes["dagster.outcome"] == "success"
        return ReadableSpan(
            event.job_name if is_root else str(event.step_key),
            context=own,
            parent=None if is_root else root,
            resource=self._resource,
            attributes=attributes,
            events=[Event("commit", commit, at) for at, commit in opened.commits],
            status=Status(StatusCode.OK) if succeeded else Status(StatusCode.ERROR, _reason(event)),
            start_time=opened.start,
            end_time=now,
            instrumentation_scope=InstrumentationScope(_NAME, version(_DISTRIBUTION)),
        )

    def _note_commit(self, opened: _Open | None, now: int, event: dg.DagsterEvent) -> None:
        asset = (
            event.asset_observation_data.asset_observation
            if event.event_type is EventType.ASSET_OBSERVATION
            else event.step_materialization_data.materialization
        )
        attributes: dict[str, str | int | float] = {"lance.asset": asset.asset_key.to_user_string()}
        operation = (asset.tags or {}).get(OPERATION_TAG)
        if operation is not None:
            attributes["lance.op"] = operation
        cpu_seconds = _number(event_value(asset, _CPU_KEY))
        if cpu_seconds is not None:
            self._cpu.add(cpu_seconds, attributes)
            return
        commit_version = _number(event_value(asset, VERSION_KEY))
        if commit_version is None:
            return
        self._commits.add(1, attributes)
        numbers = {key: _number(event_value(asset, key)) for key in _SUMS}
        found = {key: number for key, number in numbers.items() if number is not None}
        for key, number in found.items():
            self._sums[key].add(number, attributes)
        if opened is not None:
            figures = {_SUMS[key][0]: number for key, number in found.items()}
            opened.commits.append((now, {**attributes, "lance.version": commit_version, **figures}))

    def _shut_down(self) -> None:
        if self._processor is not None:
            self._processor.shutdown()
        self._meters.shutdown()


def _resource() -> Resource:
    """Return what the spans and metrics of this process have in common."""
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource

    own = {SERVICE_VERSION: version(_DISTRIBUTION), SERVICE_INSTANCE_ID: str(uuid.uuid4())}
    resource = Resource.create(own)
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        # The environment does not set a name.
        return resource.merge(Resource({SERVICE_NAME: _DISTRIBUTION}))
    return resource


def _reason(event: dg.DagsterEvent) -> str:
    """Return the message of a failed step, or of the event."""
    data = event.event_specific_data
    if isinstance(data, StepFailureData) and data.user_failure_data is not None:
        return str(data.user_failure_data.description or event.message)
    return str(event.message)


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
