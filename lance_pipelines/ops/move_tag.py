"""The op that moves the tag of a dataset to a version that passed its checks, and reports the published data."""

import warnings
from collections.abc import Iterator

import dagster as dg
from dagster import BetaWarning

from lance_pipelines.events.asset_metadata import SUMMARY_KEY
from lance_pipelines.events.commit_events import DATA_VERSION_TAG, dataset_materialization, dataset_observation
from lance_pipelines.events.recorded_versions import RecordedVersions, find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration, published_key
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES, commit_pool
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.output import duration, say
from lance_pipelines.publish.promotion_plan import PlannedPromotion
from lance_pipelines.publish.tag_move import PromotionReport, move_tag
from lance_pipelines.runs.dead_runs import stop_watching

__all__ = ["build_tag_op"]


def build_tag_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that moves the tag of one dataset.

    The op's output is the materialization of the published asset; there is none if the tag was not moved. If the new
    version has the same data as the old one, for example after a compaction, an observation is logged instead.
    """

    @dg.op(
        name=f"{declaration.name}__move_tag",
        description=f"Moves the tag of {declaration.name} to the checked version.",
        ins={"plan": dg.In(str, description="The planned promotion, as JSON.")},
        out=dg.Out(dg.Nothing, is_required=False),
        pool=commit_pool(declaration.name),
        retry_policy=COMMIT_RETRIES,
    )
    def move_tag_to_version(context: dg.OpExecutionContext, plan: str) -> Iterator[dg.Output[None]]:
        stop_watching(context.run_id)
        with reported_as_failure(declaration.name, context.log):
            planned = PlannedPromotion.from_json(plan)
            report = move_tag(planned, storage_options=declaration.resolved_storage_options())
            outputs = _outputs(context, declaration, report) if report.has_changed else []
        say(context, declaration.name, report.summary())
        yield from outputs

    return move_tag_to_version


def _outputs(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, report: PromotionReport
) -> list[dg.Output[None]]:
    planned = report.planned
    storage_options = declaration.resolved_storage_options()
    data_version = find_data_version(
        context.instance, declaration.key, planned.uri, planned.version, storage_options=storage_options
    )
    key = published_key(declaration)
    known = RecordedVersions.read(context.instance, key, planned.uri).latest_materialization
    is_new = known is None or known.data_version != data_version
    make = dataset_materialization if is_new else dataset_observation
    event = make(
        dataset=key,
        uri=planned.uri,
        op="promote",
        report_metadata=report.metadata() | duration(context),
        version=planned.version,
        data_version=data_version,
        policy=declaration.maintenance,
        column_descriptions=declaration.column_descriptions,
        storage_options=storage_options,
    )
    if isinstance(event, dg.AssetObservation):
        context.log_event(event)
        return []
    tags = {name: value for name, value in (event.tags or {}).items() if name != DATA_VERSION_TAG}
    metadata = {SUMMARY_KEY: dg.MetadataValue.text(report.headline()), **event.metadata}
    with warnings.catch_warnings():
        # Dagster 1.13 calls the data_version of an output beta.
        warnings.simplefilter("ignore", BetaWarning)
        return [dg.Output(None, metadata=metadata, data_version=dg.DataVersion(data_version), tags=tags)]
