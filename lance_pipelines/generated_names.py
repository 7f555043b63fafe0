"""Checks generated names before Dagster receives them.

Dagster requires assets, jobs, and ops to have different names. The names of jobs and ops contain the names of the
datasets, so a single dataset named ``compact``, or a dataset named ``compact_trips`` beside ``trips``, would have the
same name as a job. Dagster reports such a conflict when it loads the definitions, but its message does not contain the
name of the dataset. The names of sensors are fixed, and the names of schedules have a distinct suffix; neither can
collide.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.definitions.utils import is_valid_name

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import DATASET_TAG

__all__ = ["check_dataset_names", "check_generated_names"]

_JOB_OF_ALL_ASSETS: Final = "__ASSET_JOB"
"""Dagster itself creates a job with this name."""

_Job: TypeAlias = dg.JobDefinition | UnresolvedAssetJobDefinition


def check_dataset_names(declarations: Sequence[DatasetDeclaration]) -> None:
    """Reject invalid and repeated dataset names.

    Raises:
        InvalidInputError: a name is invalid or repeated.
    """
    counts = Counter(declaration.name for declaration in declarations)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise InvalidInputError(f"duplicate dataset names: {repeated}")
    for name in counts:
        if name == _JOB_OF_ALL_ASSETS or not is_valid_name(name):
            raise InvalidInputError(f"invalid dataset name {name!r}: it is reserved by Python or Dagster")


def check_generated_names(assets: Sequence[dg.AssetsDefinition], jobs: Sequence[_Job]) -> None:
    """Reject a dataset name that is also the name of a job or an op.

    Args:
        assets: the asset of each dataset.
        jobs: all jobs of the datasets.

    Raises:
        InvalidInputError: two objects would have the same name; the message contains the name and the datasets.
    """
    bearers: defaultdict[str, set[str]] = defaultdict(set)
    for name, bearer in [*_of_assets(assets), *_of_jobs(jobs)]:
        bearers[name].add(bearer)
    for name, found in bearers.items():
        if len(found) > 1:
            raise InvalidInputError(
                f"{' and '.join(sorted(found))} would have the same name {name!r}; rename the dataset"
            )


def _of_assets(assets: Sequence[dg.AssetsDefinition]) -> Iterator[tuple[str, str]]:
    for asset in assets:
        dataset = asset.key.to_user_string()
        yield dataset, f"the asset of dataset {dataset!r}"
        if isinstance(asset.node_def, dg.GraphDefinition):
            yield from _of_ops(asset.node_def, dataset)


def _of_jobs(jobs: Sequence[_Job]) -> Iterator[tuple[str, str]]:
    for job in jobs:
        dataset = (job.tags or {})[DATASET_TAG]
        yield job.name, f"a job of dataset {dataset!r}"
        if isinstance(job, dg.JobDefinition):
            yield from _of_ops(job.graph, dataset)


def _of_ops(graph: dg.GraphDefinition, dataset: str) -> Iterator[tuple[str, str]]:
    for node in graph.nodes:
        yield node.definition.name, f"an op of dataset {dataset!r}"
