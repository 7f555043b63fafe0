"""Builds the steps that commit maintenance: they read a message, commit, report an event, and print one line."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import dagster as dg

from lance_pipelines.events.asset_metadata import SUMMARY_KEY
from lance_pipelines.events.commit_events import dataset_materialization, dataset_observation
from lance_pipelines.events.recorded_versions import find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_record import record_effect
from lance_pipelines.ops.output import duration, say
from lance_pipelines.runs.dead_runs import stop_watching
from lance_pipelines.step_messages import StepMessage

__all__ = ["CommitReport", "build_commit_step", "log_commit"]

_Message = TypeVar("_Message", bound=StepMessage)


class CommitReport(Protocol):
    """What a step has done, in numbers and in words."""

    @property
    def uri(self) -> str:
        """The dataset's location."""

    @property
    def op(self) -> str:
        """The operation, for example ``compact``."""

    @property
    def version(self) -> int:
        """The version after the operation."""

    @property
    def effect(self) -> Effect:
        """What the operation did, as statistics that all operations have in common."""

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""

    def summary(self) -> str:
        """Return one line for logs and terminals."""


def build_commit_step(
    declaration: DatasetDeclaration,
    name: str,
    *,
    description: str,
    kind: type[_Message],
    commit: Callable[[dg.OpExecutionContext, _Message], CommitReport],
    resources: Iterable[str] = (),
) -> dg.OpDefinition:
    """Return an op that commits a planned or staged operation on one dataset, while it holds the pool slot.

    Args:
        declaration: the dataset.
        name: the name of the step, without the dataset's name, which is added as a prefix.
        description: what the step does.
        kind: the class of the message that the step receives.
        commit: commits the operation, no matter how often it is called, and logs the event.
        resources: the keys of the resources that the step needs.
    """

    @dg.op(
        name=f"{declaration.name}__{name}",
        description=description,
        ins={"message": dg.In(str, description="The message of the previous step, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
        required_resource_keys=set(resources),
    )
    def commit_step(context: dg.OpExecutionContext, message: str) -> None:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            report = commit(context, kind.from_json(message))
        say(context, declaration.name, report.summary())
        effect, details = report.effect, report.metadata()
        summary = str(details[SUMMARY_KEY]) if effect.has_changed else report.summary()
        record_effect(context, declaration, effect, uri=report.uri, summary=summary, details=details)

    return commit_step


def log_commit(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    report: CommitReport,
    *,
    changes_rows: bool,
    data_version: str | None = None,
    partitions: Sequence[str] = (),
) -> None:
    """Log the event of a commit: a materialization if it changed rows, and an observation otherwise.

    Args:
        context: the context of the step.
        declaration: the dataset.
        report: describes the commit.
        changes_rows: whether the commit changed rows.
        data_version: the data version; if None, it is determined from the history.
        partitions: keys of the partitions that the commit changed. Each has an event of its own, because downstream
            partitions react only to those; empty for one event without a partition.
    """
    storage_options = declaration.resolved_storage_options()
    if data_version is None and not changes_rows:
        # The history may have been cleaned up; then the event log has the value.
        data_version = find_data_version(
            context.instance, declaration.key, report.uri, report.version, storage_options=storage_options
        )
    make = dataset_materialization if changes_rows else dataset_observation
    event = make(
        dataset=declaration.key,
        uri=report.uri,
        op=report.op,
        report_metadata=report.metadata() | duration(context),
        version=report.version,
        data_version=data_version,
        policy=declaration.maintenance,
        column_descriptions=declaration.column_descriptions,
        storage_options=storage_options,
    )
    for each in [event._replace(partition=key) for key in partitions] or [event]:
        context.log_event(each)
