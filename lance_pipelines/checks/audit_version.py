"""The op that evaluates the checks that a version must pass before it is published."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import dagster as dg

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines.checks.evaluation import evaluate_checks, version_of_this_run
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts, required_publishing
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import PromoteConfig, dataset_uri, is_dry_run
from lance_pipelines.ops.plan_outputs import PLAN_OUTPUTS, report_plan
from lance_pipelines.ops.run_entry import begin_run, prepare_for_pool
from lance_pipelines.publish.promotion_plan import PlannedPromotion, PromotionForecast
from lance_pipelines.publish.tag_move import tagged_version, transaction_of

__all__ = ["build_audit_op"]


def build_audit_op(declaration: DatasetDeclaration, *, upstream: Sequence[str] = ()) -> dg.OpDefinition:
    """Return the op that checks one version of a dataset. If a check fails, the step fails, and the tag is not moved.

    Args:
        declaration: the dataset.
        upstream: names of the inputs that make the op wait for the dataset's asset, without a value.
    """

    @dg.op(
        name=f"{declaration.name}__audit_version",
        description=f"Evaluates the checks that a version of {declaration.name} must pass before it is published.",
        config_schema=config_field(PromoteConfig),
        ins={name: dg.In(dg.Nothing) for name in upstream},
        out={"plan": PLAN_OUTPUTS["plan"]},
    )
    def audit_version(context: dg.OpExecutionContext) -> Iterator[dg.Output[str]]:
        begin_run(context)
        config = PromoteConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            output = _audit(context, declaration, config)
        if output is not None:
            yield output

    return audit_version


def _audit(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: PromoteConfig
) -> dg.Output[str] | None:
    settings = required_publishing(declaration)
    dry_run = is_dry_run(declaration, config)
    uri, version = dataset_uri(declaration, config), config.version
    if version is None:
        # What this run has ingested, which may no longer be the latest version.
        ingested_uri, ingested_version = version_of_this_run(context, declaration)
        version = ingested_version if ingested_uri == uri else None
    dataset = lance_core.dataset(uri, version=version, storage_options=declaration.resolved_storage_options())
    published = tagged_version(dataset, settings.tag)
    forecast = PromotionForecast(
        uri=uri,
        tag=settings.tag,
        published=_health(declaration, dataset.checkout_version(published)) if published is not None else None,
        candidate=_health(declaration, dataset),
        is_explicit=config.version is not None,
    )
    if forecast.has_work:
        passed = _passed_checks(context, declaration, uri, dataset.version, published)
        forecast = replace(forecast, passed=passed)
    if not report_plan(context, declaration.name, forecast, is_dry_run=dry_run):
        return None
    context.log.info(forecast.headline())
    prepare_for_pool(context)
    planned = PlannedPromotion(
        uri=uri,
        tag=settings.tag,
        version=dataset.version,
        transaction=transaction_of(dataset),
        published=published,
        is_explicit=forecast.is_explicit,
        passed=forecast.passed,
    )
    return dg.Output(planned.to_json(), "plan", metadata=forecast.metadata())


def _health(declaration: DatasetDeclaration, dataset: lance_core.LanceDataset) -> TableHealth:
    return TableHealth.of(dataset, declaration.maintenance)


def _passed_checks(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, uri: str, version: int, published: int | None
) -> tuple[str, ...]:
    """Evaluate the required checks, and return their names.

    Raises:
        InvalidInputError: a check failed.
    """
    settings = required_publishing(declaration)
    required = settings.required_checks(declaration.checks)
    failed: list[str] = []
    for result in evaluate_checks(context, declaration, required, uri=uri, version=version, is_printed=False):
        evaluation = dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(key_parts(declaration.key)),
            check_name=str(result.check_name),
            passed=result.passed,
            metadata=result.metadata,
            severity=result.severity,
            description=result.description,
            blocking=True,
        )
        context.log_event(evaluation)  # type: ignore[arg-type]  # logged, although it is not declared
        if not result.passed:
            failed.append(f"{result.check_name}: {result.description}")
    if failed:
        stays = "does not exist yet" if published is None else f"still refers to version {published}"
        raise InvalidInputError(
            f"{uri}: version {version} is not published, because it failed {len(failed)} of "
            f"{amount(len(required), 'check')} ({'; '.join(failed)}); tag {settings.tag} {stays}",
            uri=uri,
            version=version,
            tag=settings.tag,
        )
    return required
