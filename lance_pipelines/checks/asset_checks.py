"""The asset checks of a declared dataset: one op evaluates all of them on one version, which it opens once."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from lance_core.errors import InvalidInputError
from lance_pipelines.checks.evaluation import evaluate_checks, version_of_this_run
from lance_pipelines.checks.rules import RULES
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts
from lance_pipelines.jobs import job_name
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.run_entry import tag_check

__all__ = ["CheckConfig", "build_asset_checks"]


class CheckConfig(dg.Config):
    """The configuration of one evaluation."""

    only: list[str] | None = Field(default=None, description="Names of the checks to evaluate; by default, all.")
    version: int | None = Field(default=None, description="The version to check; by default, the latest one.")
    uri: str | None = Field(
        default=None,
        description="Location of the Lance dataset; by default, the declared location. A relative path is resolved "
        "against the working directory.",
    )


def build_asset_checks(declaration: DatasetDeclaration) -> dg.AssetChecksDefinition:
    """Return the checks of one dataset.

    In a run that also ingests the dataset, only the cheap checks are evaluated; the job ``<name>__check`` evaluates
    all of them.
    """
    key = dg.AssetKey(key_parts(declaration.key))

    @dg.multi_asset_check(
        name=f"{declaration.name}__run_checks",
        description=f"Opens one version of {declaration.name} and evaluates the selected checks on it.",
        specs=[
            dg.AssetCheckSpec(name, asset=key, description=RULES[name].description) for name in declaration.checks.names
        ],
        can_subset=True,
        retry_policy=COMMIT_RETRIES,
    )
    def run_checks(context: dg.AssetCheckExecutionContext, config: CheckConfig) -> Iterator[dg.AssetCheckResult]:
        step = context.op_execution_context
        tag_check(step, declaration.key)
        is_after_ingest = key in step.job_def.asset_layer.executable_asset_keys
        chosen = _chosen(declaration, config, {selected.name for selected in context.selected_asset_check_keys})
        if is_after_ingest and config.only is None:
            later = [name for name in chosen if not RULES[name].is_cheap]
            chosen = [name for name in chosen if RULES[name].is_cheap]
            if later:
                # Dagster logs that outputs are missing, even though every output of these checks is optional.
                step.log.info(
                    "These checks are not evaluated after an ingest, because their cost grows with the size of the "
                    "dataset: %s. The job %s evaluates them.",
                    ", ".join(later),
                    job_name("check", declaration.name),
                )
        uri, version = config.uri, config.version
        if is_after_ingest:
            ingested_uri, ingested_version = version_of_this_run(step, declaration)
            uri = ingested_uri if uri is None else uri
            version = ingested_version if version is None else version
        yield from evaluate_checks(
            step,
            declaration,
            chosen,
            uri=uri,
            version=version,
            is_printed=not is_after_ingest,
        )

    run_checks.__class__ = _Checks
    return run_checks


class _Checks(dg.AssetChecksDefinition):
    """Dagster's asset checks, without the warning that each one causes if it is declared in a file of a component.

    Dagster 1.13 adds the position in the file to a copy, which is no longer an ``AssetChecksDefinition``, and converts
    it back with an argument that it marks as beta.
    """

    def with_attributes(self, **changes: Any) -> dg.AssetsDefinition:
        """Return a copy with some changes."""
        copied = super().with_attributes(**changes)
        copied.__class__ = type(self)
        return copied


def _chosen(declaration: DatasetDeclaration, config: CheckConfig, selected: set[str]) -> list[str]:
    unknown = sorted(set(config.only or ()) - set(declaration.checks.names))
    if unknown:
        with reported_as_failure(declaration.name):
            raise InvalidInputError(
                f"unknown checks: {', '.join(unknown)}; the dataset has: {', '.join(declaration.checks.names)}"
            )
    wanted = selected if config.only is None else selected & set(config.only)
    return [name for name in declaration.checks.names if name in wanted]
