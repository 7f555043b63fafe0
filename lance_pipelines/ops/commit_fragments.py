"""The op that verifies and commits a staged write, and reports the materialization."""

import warnings
from collections.abc import Mapping
from functools import partial

import dagster as dg
from dagster import BetaWarning

import lance_core
from lance_pipelines.events.asset_metadata import VERSION_KEY, folded, materialization_metadata, version_metadata
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.write_commit import commit_staged
from lance_pipelines.ingest.write_report import WriteReport, report_write
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.output import duration, say
from lance_pipelines.runs.dead_runs import stop_watching
from lance_pipelines.spark.leftovers import discard_files

__all__ = ["build_commit_op"]


def build_commit_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the commit op of one dataset. Its output is the asset's materialization."""

    @dg.op(
        name=f"{declaration.name}__commit_fragments",
        description=f"Checks the staged fragments of {declaration.name} and commits them as the next version.",
        ins={"staged_write": dg.In(str, description="The staged write, as JSON.")},
        out=dg.Out(dg.Nothing),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def commit_fragments(context: dg.OpExecutionContext, staged_write: str) -> dg.Output[None]:
        stop_watching(context.run_id)
        staged = StagedWrite.from_json(staged_write)
        with reported_as_failure(declaration.name, context.log):
            storage_options = declaration.resolved_storage_options()
            discard = partial(discard_files, storage_options=storage_options)
            outcome = commit_staged(staged, discard=discard, storage_options=storage_options)
            report = report_write(staged, outcome, storage_options=storage_options)
            # A repeated commit may be outdated: downstream readers see the current content of the dataset.
            data_version = data_version_at(
                report.uri, report.version if outcome.committed_now else None, storage_options=storage_options
            )
            statistics = version_metadata(
                lance_core.dataset(report.uri, version=report.version, storage_options=storage_options),
                declaration.maintenance,
            )
        say(context, declaration.name, report.summary())
        took = {key: dg.MetadataValue.float(value) for key, value in duration(context).items()}
        return _materialization(report, data_version, {**statistics, **took})

    return commit_fragments


def _materialization(
    report: WriteReport, data_version: str, statistics: Mapping[str, dg.MetadataValue]
) -> dg.Output[None]:
    tags = {VERSION_KEY: str(report.version)}
    if report.transaction_uuid is not None:
        tags["lance/txn"] = report.transaction_uuid
    with warnings.catch_warnings():
        # Dagster 1.13 calls the data_version of an output beta.
        warnings.simplefilter("ignore", BetaWarning)
        return dg.Output(
            None,
            metadata=folded({**statistics, **materialization_metadata(report)}),
            data_version=dg.DataVersion(data_version),
            tags=tags,
        )
