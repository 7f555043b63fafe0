"""The asset checks of a declared dataset: one op evaluates all of them on one version, which it opens once."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import dagster as dg
from pydantic import Field

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError, StorageError
from lance_core.metadata import VersionLease, lease_version
from lance_pipelines.checks.rules import COLUMNS, RULES, Finding, evaluate
from lance_pipelines.checks.subject import CheckedVersion
from lance_pipelines.events.asset_metadata import URI_KEY, VERSION_KEY, event_value
from lance_pipelines.events.data_version import is_unknown
from lance_pipelines.events.recorded_versions import find_data_version, is_event_at
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts
from lance_pipelines.jobs import job_name
from lance_pipelines.maintenance.check_settings import Severity
from lance_pipelines.ops.commit_settings import COMMIT_RETRIES
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.output import print_text
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import tag_check
from lance_pipelines.settings import absolute_uri

__all__ = ["CheckConfig", "build_asset_checks"]

_LEASE: Final = timedelta(hours=12)
_MAX_EVENTS: Final = 20
_COLUMNS_KEY: Final = f"lance/{COLUMNS}"

_SEVERITIES: Final = {Severity.WARN: dg.AssetCheckSeverity.WARN, Severity.ERROR: dg.AssetCheckSeverity.ERROR}


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
        with reported_as_failure(declaration.name, step.log):
            if is_after_ingest:
                config = _of_this_run(step, declaration, config)
            subject = _open(step, declaration, config, chosen)
            lease = None if all(RULES[name].is_cheap for name in chosen) else _lease(step, subject)
        try:
            for name in chosen:
                with reported_as_failure(declaration.name, step.log):
                    finding = evaluate(name, subject)
                result = _result(declaration, subject, name, finding)
                line = f"{name}: {_verdict(result)}: {finding.text}"
                step.log.info(line)
                if not is_after_ingest:
                    print_text(f"{declaration.name}: {line}\n")
                yield result
        finally:
            if lease is not None:
                lease.release()

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
            raise InvalidInputError(f"unknown checks {unknown}; the dataset has {list(declaration.checks.names)}")
    wanted = selected if config.only is None else selected & set(config.only)
    return [name for name in declaration.checks.names if name in wanted]


def _of_this_run(context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: CheckConfig) -> CheckConfig:
    """Return a configuration with the version that this run ingested, at the location that its configuration named."""
    key = dg.AssetKey(key_parts(declaration.key))
    for entry in context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.asset_materialization
        if event is not None and event.asset_key == key:
            found = {"uri": event_value(event, URI_KEY), "version": event_value(event, VERSION_KEY)}
            return CheckConfig(**{**found, **config.model_dump(exclude_none=True)})
    return config


def _open(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: CheckConfig, chosen: list[str]
) -> CheckedVersion:
    uri = declaration.uri if config.uri is None else absolute_uri(config.uri)
    dataset = lance_core.dataset(uri, version=config.version, storage_options=declaration.resolved_storage_options())
    return CheckedVersion(
        dataset=dataset,
        settings=declaration.checks,
        policy=declaration.maintenance,
        recorded_rows=_recorded_rows(context.instance, declaration, uri, dataset.version) if "rows" in chosen else None,
        changed_version=_changed_version(context.instance, declaration, uri, dataset.version)
        if "freshness" in chosen
        else None,
        earlier_columns=_earlier_columns(context.instance, declaration, uri) if "schema" in chosen else None,
        report=progress_lines(context, declaration.name).report,
    )


def _recorded_rows(instance: dg.DagsterInstance, declaration: DatasetDeclaration, uri: str, version: int) -> int | None:
    """Return the number of rows that the latest event of a version records."""
    key = dg.AssetKey(key_parts(declaration.key))
    records = [
        *instance.fetch_materializations(key, limit=_MAX_EVENTS).records,
        *instance.fetch_observations(key, limit=_MAX_EVENTS).records,
    ]
    for record in sorted(records, key=lambda record: record.storage_id, reverse=True):
        event = record.asset_materialization or record.event_log_entry.asset_observation
        if event is not None and is_event_at(event, uri) and event_value(event, VERSION_KEY) == version:
            rows = event_value(event, "dagster/row_count")
            return rows if isinstance(rows, int) else None
    return None


def _changed_version(
    instance: dg.DagsterInstance, declaration: DatasetDeclaration, uri: str, version: int
) -> int | None:
    """Return the last version up to ``version`` that changed rows; None if a cleanup has removed it."""
    data_version = find_data_version(
        instance, declaration.key, uri, version, storage_options=declaration.resolved_storage_options()
    )
    return None if is_unknown(data_version) else int(data_version.partition("-")[0])


def _earlier_columns(
    instance: dg.DagsterInstance, declaration: DatasetDeclaration, uri: str
) -> Mapping[str, str] | None:
    """Return the columns that the latest evaluation of the schema check found."""
    key = dg.AssetCheckKey(dg.AssetKey(key_parts(declaration.key)), "schema")
    for record in instance.event_log_storage.get_asset_check_execution_history(key, limit=_MAX_EVENTS):
        event = None if record.event is None else record.event.dagster_event
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        metadata = event.asset_check_evaluation_data.metadata
        columns, place = metadata.get(_COLUMNS_KEY), metadata.get(URI_KEY)
        if columns is not None and place is not None and place.value == uri and isinstance(columns.value, Mapping):
            return {str(name): str(value) for name, value in columns.value.items()}
    return None


def _lease(context: dg.OpExecutionContext, subject: CheckedVersion) -> VersionLease | None:
    """Protect the version from cleanups; None if nothing can be written to the location."""
    try:
        return lease_version(subject.dataset, holder=f"checks of run {context.run_id}", duration=_LEASE)
    except (StorageError, NotSupportedError) as error:
        context.log.warning("Version %d is not protected while it is checked: %s", subject.version, error)
        return None


def _result(
    declaration: DatasetDeclaration, subject: CheckedVersion, name: str, finding: Finding
) -> dg.AssetCheckResult:
    facts = {f"lance/{key}": value for key, value in finding.facts.items()}
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=dg.AssetKey(key_parts(declaration.key)),
        passed=finding.passed,
        severity=_SEVERITIES[declaration.checks.severity(name)],
        description=finding.text,
        metadata={VERSION_KEY: subject.version, URI_KEY: subject.dataset.uri, **facts},
    )


def _verdict(result: dg.AssetCheckResult) -> str:
    if result.passed:
        return "passed"
    return "warning" if result.severity is dg.AssetCheckSeverity.WARN else "failed"
