"""The jobs of each declared dataset, and their run configurations.

A job is named after its dataset and its operation: ``trips__ingest``, ``lake__events__compact`` … The name does not
depend on which other datasets are declared. Every job is tagged with its dataset and operation.

==========================  ===================================================================
Job                         Steps
==========================  ===================================================================
``compact``                 ``plan_rewrites`` → ``rewrite_fragments`` → ``commit_rewrites``
``materialize_deletions``   ``plan_rewrites`` → ``rewrite_fragments`` → ``commit_rewrites``
``cleanup``                 ``plan_cleanup`` → ``remove_old_versions``
``delete_rows``             ``plan_delete`` → ``delete_rows``
``retention``               ``plan_retention`` → ``delete_rows``
``restore``                 ``plan_restore`` → ``restore_version``
``verify``                  ``verify_dataset``, which changes nothing and holds no pool slot
``build_index``             ``plan_indices`` → ``build_indices`` → ``commit_indices``
``optimize_indices``        ``plan_indices`` → ``build_indices`` → ``commit_indices``
==========================  ===================================================================

The first step receives the configuration, and its plan determines whether the other steps run. The last step holds the
pool slot of the dataset.
"""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lance_pipelines.events.commit_events import DATASET_TAG, OPERATION_TAG
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts, published_key
from lance_pipelines.ops.change_indices import build_index_commit_op, build_indices_op
from lance_pipelines.ops.commit_rewrites import build_rewrite_commit_op
from lance_pipelines.ops.delete_rows import build_delete_op, build_delete_plan_op, build_retention_plan_op
from lance_pipelines.ops.maintenance_record import build_failure_hook
from lance_pipelines.ops.plan_indices import build_index_build_plan_op, build_index_update_plan_op
from lance_pipelines.ops.plan_rewrites import build_compaction_plan_op, build_materialization_plan_op
from lance_pipelines.ops.remove_old_versions import build_cleanup_op, build_cleanup_plan_op
from lance_pipelines.ops.restore_version import build_restore_op, build_restore_plan_op
from lance_pipelines.ops.rewrite_fragments import build_rewrite_op
from lance_pipelines.ops.verify_dataset import build_verify_op

__all__ = [
    "DATASET_TAG",
    "build_check_jobs",
    "build_ingest_jobs",
    "build_maintenance_jobs",
    "build_promotion_jobs",
    "check_config",
    "job_name",
    "job_tags",
    "operation_config",
    "request_config",
]

_CONFIGURED_STEPS: Final = MappingProxyType(
    {
        "compact": "plan_rewrites",
        "materialize_deletions": "plan_rewrites",
        "cleanup": "plan_cleanup",
        "delete_rows": "plan_delete",
        "retention": "plan_retention",
        "restore": "plan_restore",
        "verify": "verify_dataset",
        "build_index": "plan_indices",
        "optimize_indices": "plan_indices",
        "check": "{}__run_checks",
        "promote": "{}__publish",
    }
)
"""Maps each operation to the step or the graph of its job that receives the configuration. ``{}`` stands for the name
of the dataset."""

_DESCRIPTIONS: Final = MappingProxyType(
    {
        "compact": "Merge small fragments of {} into fewer large ones. The rows do not change.",
        "materialize_deletions": "Rewrite fragments of {} with many deleted rows to drop those rows.",
        "cleanup": "Remove old versions of {}, the files that only they use, and leftovers of crashed writers. "
        "Versions that a tag, branch, or lease refers to are kept.",
        "delete_rows": "Delete the rows of {} for which a predicate is true.",
        "retention": "Delete the rows of {} that have expired according to the declared retention rule.",
        "restore": "Restore the content of an older version of {} as a new version.",
        "verify": "Examine the files of a version of {}, and all manifests, tags, branches, and indices.",
        "build_index": "Build the declared indices of {}. The rows do not change.",
        "optimize_indices": "Bring the indices of {} up to date, and build declared ones that are missing. The rows "
        "do not change.",
    }
)


def build_ingest_jobs(declarations: Sequence[DatasetDeclaration]) -> list[UnresolvedAssetJobDefinition]:
    """Return the ingest job of each dataset."""
    return [
        dg.define_asset_job(
            name=job_name("ingest", declaration.name),
            selection=dg.AssetSelection.assets(dg.AssetKey(key_parts(declaration.key))),
            description=(
                f"Read the source of {declaration.name}, write its rows as fragments, and commit the next version."
            ),
            tags=job_tags("ingest", declaration.name),
        )
        for declaration in declarations
    ]


def build_check_jobs(declarations: Sequence[DatasetDeclaration]) -> list[UnresolvedAssetJobDefinition]:
    """Return, for each dataset with checks, the job that evaluates all of them, including the expensive ones."""
    return [
        dg.define_asset_job(
            name=job_name("check", declaration.name),
            selection=dg.AssetSelection.checks_for_assets(dg.AssetKey(key_parts(declaration.key))),
            description=f"Evaluate all checks of {declaration.name} on its latest version.",
            tags=job_tags("check", declaration.name),
        )
        for declaration in declarations
        if declaration.checks.names
    ]


def build_promotion_jobs(declarations: Sequence[DatasetDeclaration]) -> list[UnresolvedAssetJobDefinition]:
    """Return, for each dataset that is published by a tag, the job that checks a version and moves the tag to it."""
    return [
        dg.define_asset_job(
            name=job_name("promote", declaration.name),
            selection=dg.AssetSelection.assets(dg.AssetKey(published_key(declaration))),
            description=f"Check a version of {declaration.name} and, if it passes, move the tag "
            f"{declaration.publish.tag} to it.",
            tags=job_tags("promote", declaration.name),
        )
        for declaration in declarations
        if declaration.publish is not None
    ]


def build_maintenance_jobs(declarations: Sequence[DatasetDeclaration]) -> list[dg.JobDefinition]:
    """Return the jobs of each dataset that maintain, change, or verify it.

    The job ``build_index`` exists only if indices are declared, and ``retention`` only if a retention rule is.
    """
    return [
        dg.job(
            name=job_name(operation, declaration.name),
            description=_DESCRIPTIONS[operation].format(declaration.name),
            tags=job_tags(operation, declaration.name),
            hooks=set() if operation == "verify" else {build_failure_hook(declaration, operation)},
        )(_in_turn(steps))
        for declaration in declarations
        for operation, steps in _steps(declaration).items()
    ]


def job_name(operation: str, dataset: str) -> str:
    """Return the name of the job that runs an operation on the dataset with this name."""
    return f"{dataset}__{operation}"


def job_tags(operation: str, dataset: str) -> dict[str, str]:
    """Return the tags of the job that runs an operation on a dataset."""
    return {DATASET_TAG: dataset, OPERATION_TAG: operation}


def request_config(operation: str, **values: Any) -> dict[str, Any]:
    """Return the run configuration of a maintenance job, for sensors, schedules, and the command line.

    Args:
        operation: ``compact``, ``materialize_deletions``, ``cleanup``, ``delete_rows``, ``retention``, ``restore``,
            ``verify``, ``build_index``, or ``optimize_indices``.
        values: fields of the operation's configuration; a value of None keeps the declared value.
    """
    return operation_config(operation, "", **values)


def check_config(dataset: str, **values: Any) -> dict[str, Any]:
    """Return the run configuration of a dataset's check job; a value of None keeps the default."""
    return operation_config("check", dataset, **values)


def operation_config(operation: str, dataset: str, **values: Any) -> dict[str, Any]:
    """Return the run configuration of the job of an operation on the dataset with this name.

    Args:
        operation: an operation of :func:`request_config`, ``check``, or ``promote``.
        dataset: the dataset's name.
        values: fields of the operation's configuration; a value of None keeps the declared value.
    """
    given = {name: value for name, value in values.items() if value is not None}
    return {"ops": {_CONFIGURED_STEPS[operation].format(dataset): {"config": given}}}


def _in_turn(steps: Sequence[dg.PendingNodeInvocation[dg.OpDefinition]]) -> Callable[[], None]:
    """Build the body of a job in which the first step's plan is passed through the others."""

    def body() -> None:
        handed_on = steps[0]()
        for number, step in enumerate(steps[1:]):
            handed_on = step(handed_on if number else handed_on.plan)

    return body


def _steps(declaration: DatasetDeclaration) -> dict[str, Sequence[dg.PendingNodeInvocation[dg.OpDefinition]]]:
    """Return the steps of each operation's job."""
    rewrite = build_rewrite_op(declaration).alias("rewrite_fragments")
    commit = build_rewrite_commit_op(declaration).alias("commit_rewrites")
    indices = (
        build_indices_op(declaration).alias("build_indices"),
        build_index_commit_op(declaration).alias("commit_indices"),
    )
    delete = build_delete_op(declaration).alias("delete_rows")
    steps: dict[str, Sequence[dg.PendingNodeInvocation[dg.OpDefinition]]] = {
        "compact": (build_compaction_plan_op(declaration).alias("plan_rewrites"), rewrite, commit),
        "materialize_deletions": (build_materialization_plan_op(declaration).alias("plan_rewrites"), rewrite, commit),
        "cleanup": (
            build_cleanup_plan_op(declaration).alias("plan_cleanup"),
            build_cleanup_op(declaration).alias("remove_old_versions"),
        ),
        "delete_rows": (build_delete_plan_op(declaration).alias("plan_delete"), delete),
        "restore": (
            build_restore_plan_op(declaration).alias("plan_restore"),
            build_restore_op(declaration).alias("restore_version"),
        ),
        "verify": (build_verify_op(declaration).alias("verify_dataset"),),
        "optimize_indices": (build_index_update_plan_op(declaration).alias("plan_indices"), *indices),
    }
    if declaration.indices:
        steps["build_index"] = (build_index_build_plan_op(declaration).alias("plan_indices"), *indices)
    if declaration.retention is not None:
        plan = build_retention_plan_op(declaration, declaration.retention).alias("plan_retention")
        steps["retention"] = (plan, delete)
    return steps
