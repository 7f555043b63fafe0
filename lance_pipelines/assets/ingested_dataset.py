"""ingested_dataset: the asset of a declared dataset, which writes fragments with Spark and then commits them.

A stream is ingested by one step that writes and commits every micro-batch, after a step that prepares the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import dagster as dg

from lance_pipelines.events.asset_metadata import STORAGE_KIND, asset_metadata
from lance_pipelines.ingest.declaration import DatasetDeclaration, DatasetKey, dataset_name, key_parts, required_source
from lance_pipelines.ingest.sources import AssetSource, StreamSource
from lance_pipelines.ops.commit_fragments import build_commit_op
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.ingest_config import TargetConfig, config_class, declared_config
from lance_pipelines.ops.ingest_stream import build_stream_op, build_stream_preparation_op
from lance_pipelines.ops.write_fragments import build_write_op
from lance_pipelines.partitions import check_partitions

__all__ = ["build_dataset_asset"]

_OUTPUT: Final = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One of the two steps of an asset.

    Attributes:
        name: the name of the step in the graph.
        op: the op.
        input: name of the input that receives the output of the other step.
        is_configured: whether the step receives the configuration of the asset.
    """

    name: str
    op: dg.OpDefinition
    input: str = ""
    is_configured: bool = False


def build_dataset_asset(declaration: DatasetDeclaration) -> dg.AssetsDefinition:
    """Return the asset of one dataset; materializing it writes fragments and commits them as a new version."""
    check_partitions(declaration)
    spec = _spec(declaration)
    upstream = _input_names([dep.asset_key for dep in spec.deps])
    first, last = _steps(declaration, tuple(upstream))
    graph = dg.GraphDefinition(
        name=declaration.name,
        description=declaration.description,
        node_defs=[first.op, last.op],
        dependencies={
            dg.NodeInvocation(first.op.name, first.name): {},
            dg.NodeInvocation(last.op.name, last.name): {last.input: dg.DependencyDefinition(first.name)},
        },
        input_mappings=[
            dg.InputMapping(graph_input_name=name, mapped_node_name=first.name, mapped_node_input_name=name)
            for name in upstream
        ],
        output_mappings=[
            dg.OutputMapping(graph_output_name=_OUTPUT, mapped_node_name=last.name, mapped_node_output_name=_OUTPUT)
        ],
        config=dg.ConfigMapping(
            config_fn=partial(_flat_config, config_class(declaration), (last if last.is_configured else first).name),
            config_schema=config_field(config_class(declaration), declared_config(declaration)),
        ),
    )
    asset = dg.AssetsDefinition.from_graph(
        graph,
        keys_by_input_name=upstream,
        keys_by_output_name={_OUTPUT: spec.key},
        partitions_def=declaration.partitions,
        # A backfill of many partitions is one run, and one commit.
        backfill_policy=None if declaration.partitions is None else dg.BackfillPolicy.single_run(),
    )
    return asset.map_asset_specs(lambda _: spec)


def _steps(declaration: DatasetDeclaration, upstream: Sequence[str]) -> tuple[_Step, _Step]:
    """Return the first step, which waits for the upstream assets, and the last one."""
    if isinstance(declaration.source, StreamSource):
        return (
            _Step(name="prepare_stream", op=build_stream_preparation_op(declaration, upstream=upstream)),
            _Step(name="ingest_stream", op=build_stream_op(declaration), input="prepared", is_configured=True),
        )
    return (
        _Step(name="write_fragments", op=build_write_op(declaration, upstream=upstream), is_configured=True),
        _Step(name="commit_fragments", op=build_commit_op(declaration), input="staged_write"),
    )


def _flat_config(config_type: type[TargetConfig], step: str, config: Mapping[str, Any]) -> dict[str, object]:
    """Return the configuration of the steps; one of them gets the configuration of the asset."""
    given = config_type(**config)
    return {step: {"config": given.model_dump(mode="json", by_alias=True, exclude_none=True)}}


def _spec(declaration: DatasetDeclaration) -> dg.AssetSpec:
    """Return what Dagster shows about the dataset, and its place in the asset graph."""
    source = required_source(declaration)
    return dg.AssetSpec(
        dg.AssetKey(key_parts(declaration.key)),
        deps=_deps(declaration),
        description=declaration.description,
        metadata=asset_metadata(declaration),
        group_name=declaration.group,
        owners=declaration.owners,
        tags=declaration.tags,
        kinds={STORAGE_KIND, *({"spark"} if source.needs_spark else ()), *declaration.kinds},
        freshness_policy=declaration.freshness,
        automation_condition=declaration.automation_condition,
        partitions_def=declaration.partitions,
    )


def _deps(declaration: DatasetDeclaration) -> Sequence[dg.AssetDep]:
    """Return the declared dependencies, and the dependency on the asset that is the source."""
    deps = [_dep(dep) for dep in declaration.deps]
    source = declaration.source
    if isinstance(source, AssetSource):
        key = dg.AssetKey(key_parts(source.key))
        if all(dep.asset_key != key for dep in deps):
            deps.append(dg.AssetDep(key))
    return deps


def _dep(declared: DatasetKey | dg.AssetKey | dg.AssetDep | dg.AssetsDefinition) -> dg.AssetDep:
    if isinstance(declared, dg.AssetDep):
        return declared
    if isinstance(declared, dg.AssetsDefinition):
        return dg.AssetDep(declared)
    return dg.AssetDep(dg.AssetKey(key_parts(declared)))


def _input_names(keys: Sequence[dg.AssetKey]) -> dict[str, dg.AssetKey]:
    """Map the input names of the write step to the assets that it waits for; names that would be equal get a number."""
    names: dict[str, dg.AssetKey] = {}
    for key in dict.fromkeys(keys):
        name = f"after_{dataset_name(key)}"
        names[name if name not in names else f"{name}_{len(names)}"] = key
    return names
