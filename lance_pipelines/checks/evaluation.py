"""Evaluates checks of a declared dataset on one version, which is opened once, within a step."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import dagster as dg

import lance_core
from lance_core.errors import NotSupportedError, StorageError
from lance_core.metadata import VersionLease, lease_version
from lance_pipelines.checks.rules import COLUMNS, RULES, Finding, evaluate
from lance_pipelines.checks.subject import CheckedVersion
from lance_pipelines.events.asset_metadata import URI_KEY, VERSION_KEY, event_value
from lance_pipelines.events.data_version import is_unknown
from lance_pipelines.events.recorded_versions import find_data_version, is_event_at
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts
from lance_pipelines.maintenance.check_settings import Severity
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import configured_uri
from lance_pipelines.ops.output import print_text
from lance_pipelines.ops.progress import progress_lines

__all__ = ["evaluate_checks", "version_of_this_run"]

_LEASE: Final = timedelta(hours=12)
_MAX_EVENTS: Final = 20
_COLUMNS_KEY: Final = f"lance/{COLUMNS}"

_SEVERITIES: Final = {Severity.WARN: dg.AssetCheckSeverity.WARN, Severity.ERROR: dg.AssetCheckSeverity.ERROR}


def evaluate_checks(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    names: Sequence[str],
    *,
    uri: str | None,
    version: int | None,
    is_printed: bool,
) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check. During expensive checks, a lease protects the version from cleanups.

    Args:
        context: the step.
        declaration: the dataset.
        names: names of the checks.
        uri: the dataset's location; None for the declared one.
        version: the version; None for the latest one.
        is_printed: whether the results are printed to standard output; they are always logged.

    Raises:
        dagster.Failure: the version does not exist, or could not be examined.
    """
    with reported_as_failure(declaration.name, context.log):
        location = configured_uri(declaration, uri)
        subject = _open(context, declaration, location, version, names)
        lease = None if all(RULES[name].is_cheap for name in names) else _lease(context, subject)
    try:
        for name in names:
            with reported_as_failure(declaration.name, context.log):
                finding = evaluate(name, subject)
            result = _result(declaration, subject, name, finding)
            line = f"{name}: {_verdict(result)}: {finding.text}"
            context.log.info(line)
            if is_printed:
                print_text(f"{declaration.name}: {line}\n")
            yield result
    finally:
        if lease is not None:
            lease.release()


def version_of_this_run(
    context: dg.OpExecutionContext, declaration: DatasetDeclaration
) -> tuple[str | None, int | None]:
    """Return the location and the version that this run has ingested; None for each that is not known."""
    key = dg.AssetKey(key_parts(declaration.key))
    for entry in context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.asset_materialization
        if event is not None and event.asset_key == key:
            uri, version = event_value(event, URI_KEY), event_value(event, VERSION_KEY)
            return (uri if isinstance(uri, str) else None, version if isinstance(version, int) else None)
    return None, None


def _open(
    context: dg.OpExecutionContext,
    declaration: DatasetDeclaration,
    uri: str,
    version: int | None,
    chosen: Sequence[str],
) -> CheckedVersion:
    dataset = lance_core.dataset(uri, version=version, storage_options=declaration.resolved_storage_options())
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
    """Return a lease that protects the version from cleanups; None if the location is not writable."""
    try:
        return lease_version(subject.dataset, holder=f"checks by run {context.run_id}", duration=_LEASE)
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
