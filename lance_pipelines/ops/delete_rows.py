"""The ops of a delete: the first counts the matching rows, the second deletes them and reports a materialization.

If the dataset has partitions, and columns that assign rows to them, each partition that has lost rows is materialized.

The predicate is in the run configuration, or it is the declared retention rule.
"""

import uuid
from datetime import UTC, datetime
from typing import TypeVar

import dagster as dg

import lance_core
from lance_core.errors import InvalidInputError, NotFoundError, NotSupportedError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.delete_commit import DeleteReport, commit_delete
from lance_pipelines.maintenance.delete_plan import DeleteForecast, PlannedDelete
from lance_pipelines.maintenance.fixed_time import fixed_predicate, parse_time
from lance_pipelines.maintenance.plan_digest import require_digest
from lance_pipelines.maintenance.retention_rule import RetentionRule
from lance_pipelines.ops.commit_step import build_commit_step, log_commit
from lance_pipelines.ops.maintenance_config import DeleteConfig, DeleteRowsConfig, RetentionConfig
from lance_pipelines.ops.planning_step import Planned, PlanRequest, build_planning_step
from lance_pipelines.partitions import partition_keys_of_rows

__all__ = ["build_delete_op", "build_delete_plan_op", "build_retention_plan_op"]

_Config = TypeVar("_Config", bound=DeleteConfig)


def build_delete_plan_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that counts the rows of one dataset that match a predicate."""
    return build_planning_step(
        declaration,
        "plan_delete",
        description=f"Counts the rows of {declaration.name} for which the predicate is true.",
        config=DeleteRowsConfig,
        plan=lambda request: _plan(declaration, request, "delete_rows", request.config.predicate),
        precedes_commit=True,
    )


def build_retention_plan_op(declaration: DatasetDeclaration, rule: RetentionRule) -> dg.OpDefinition:
    """Return the op that counts the rows of one dataset that have expired by its retention rule."""
    return build_planning_step(
        declaration,
        "plan_retention",
        description=f"Counts the expired rows of {declaration.name}: those where {rule.predicate}.",
        config=RetentionConfig,
        declared={"dry_run": False},
        plan=lambda request: _plan(declaration, request, "retention", rule.predicate),
        precedes_commit=True,
    )


def build_delete_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that deletes rows of one dataset."""

    def commit(context: dg.OpExecutionContext, planned: PlannedDelete) -> DeleteReport:
        storage_options = declaration.resolved_storage_options()
        report = commit_delete(planned, declaration.maintenance, storage_options=storage_options)
        if report.has_changed:
            partitions = _changed_partitions(context.instance, declaration, report)
            log_commit(context, declaration, report, changes_rows=True, partitions=partitions)
        return report

    return build_commit_step(
        declaration,
        "commit_delete",
        description=f"Deletes rows of {declaration.name}: writes deletion files and commits the next version.",
        kind=PlannedDelete,
        commit=commit,
    )


def _changed_partitions(
    instance: dg.DagsterInstance, declaration: DatasetDeclaration, report: DeleteReport
) -> list[str]:
    """Return the keys of the partitions whose rows were deleted; empty if they are not known.

    The deleted rows are those that match in the version that the delete was based on.
    """
    if declaration.partitions is None or not declaration.partition_by:
        return []
    after = lance_core.dataset(
        report.uri, version=report.version, storage_options=declaration.resolved_storage_options()
    )
    try:
        transaction = after.read_transaction(report.version)
        if transaction is None:
            return []
        rows = after.checkout_version(transaction.read_version).scanner(
            columns=[column.column for column in declaration.partition_columns],
            filter=fixed_predicate(report.planned.predicate, report.planned.as_of),
        )
        return partition_keys_of_rows(declaration, rows.to_reader(), instance)
    except (NotFoundError, InvalidInputError, NotSupportedError):
        # The version was removed, or its columns are not those of the partitions. The delete has happened nevertheless.
        return []


def _plan(declaration: DatasetDeclaration, request: PlanRequest[_Config], op: str, predicate: str) -> Planned:
    config = request.config
    as_of = datetime.now(UTC) if config.as_of is None else parse_time(config.as_of)
    forecast = DeleteForecast.of(request.dataset, predicate, declaration.maintenance, op=op, as_of=as_of)
    require_digest(forecast.digest, config.plan_digest, uri=request.uri, version=request.dataset.version)
    return Planned(
        forecast=forecast,
        message=lambda: PlannedDelete(
            delete_id=str(uuid.uuid4()),
            op=op,
            predicate=predicate,
            as_of=as_of,
            before=forecast.before,
            reviewed=None if config.plan_digest is None else forecast.content,
            **request.origin,
        ),
    )
