"""The op that verifies a dataset: it examines files, manifests, tags, branches, and indices."""

from datetime import timedelta
from itertools import islice
from typing import Final

import dagster as dg

import lance_core
from lance_core.errors import CorruptDataError
from lance_core.metadata import open_version_log
from lance_core.repair import Fault, find_faults
from lance_pipelines.events.commit_events import dataset_observation
from lance_pipelines.events.recorded_versions import find_data_version
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.ops.maintenance_config import VerifyConfig, configured_uri
from lance_pipelines.ops.output import duration, say
from lance_pipelines.ops.progress import progress_lines
from lance_pipelines.ops.run_entry import begin_run
from lance_pipelines.progress import Progress
from lance_pipelines.reads.held_leases import HeldLeases

__all__ = ["build_verify_op"]

_LEASE: Final = timedelta(hours=1)
_MAX_FAULTS: Final = 1000
_NAMED: Final = 3


def build_verify_op(declaration: DatasetDeclaration) -> dg.OpDefinition:
    """Return the op that verifies one dataset. If anything is wrong, the step fails and names the first faults."""

    @dg.op(
        name=f"{declaration.name}__verify_files",
        description=f"Examines the files of one version of {declaration.name}, the manifests of all versions, and "
        "tags, branches, and indices.",
        config_schema=config_field(VerifyConfig, {"pages": False}),
        out=dg.Out(dg.Nothing),
    )
    def verify_dataset(context: dg.OpExecutionContext) -> None:
        begin_run(context)
        config = VerifyConfig(**context.op_config)
        with reported_as_failure(declaration.name, context.log):
            line = _verify(context, declaration, config)
        say(context, declaration.name, line)

    return verify_dataset


def _verify(context: dg.OpExecutionContext, declaration: DatasetDeclaration, config: VerifyConfig) -> str:
    uri, storage_options = configured_uri(declaration, config.uri), declaration.resolved_storage_options()
    dataset = lance_core.dataset(uri, version=config.version, storage_options=storage_options)
    lines = progress_lines(context, declaration.name)
    leases = HeldLeases(_LEASE)
    leases.take(dataset, f"verification by run {context.run_id}")
    try:
        found = find_faults(
            open_version_log(uri, storage_options),
            dataset.version,
            reads_pages=config.pages,
            on_fragment=lambda done, total: lines.report(
                Progress(stage="verifying files", tasks=done, total_tasks=total, unit="fragments")
            ),
            storage_options=storage_options,
        )
        faults = list(islice(found, _MAX_FAULTS))
    finally:
        leases.release()
    if faults:
        raise CorruptDataError(f"{uri}: {_describe(faults)}", uri=uri, version=dataset.version)
    examined = f"{amount(len(dataset.get_fragments()), 'fragment')}{', all values' if config.pages else ''}"
    figures: dict[str, int | float | str] = {
        "lance/summary": f"verify: no faults, v{dataset.version}",
        "lance/pages_read": config.pages,
    }
    event = dataset_observation(
        dataset=declaration.key,
        uri=uri,
        op="verify",
        report_metadata=figures | duration(context),
        version=dataset.version,
        data_version=find_data_version(
            context.instance, declaration.key, uri, dataset.version, storage_options=storage_options
        ),
        policy=declaration.maintenance,
        column_descriptions=declaration.column_descriptions,
        storage_options=storage_options,
    )
    context.log_event(event)
    return f"{uri} version {dataset.version}: no faults ({examined})"


def _describe(faults: list[Fault]) -> str:
    number = f"at least {_MAX_FAULTS} faults" if len(faults) == _MAX_FAULTS else amount(len(faults), "fault")
    named = "; ".join(f"{fault.place}: {fault.message}" for fault in faults[:_NAMED])
    return f"{number}: {named}{'; …' if len(faults) > _NAMED else ''}"
