"""ingested_dataset: the asset of a declared dataset, which writes fragments with Spark and then commits them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import dagster as dg

from lance_pipelines.events.asset_metadata import STORAGE_KIND, asset_metadata
from lance_pipelines.ingest.declaration import DatasetDeclaration, DatasetKey, dataset_name, key_parts, required_source
from lance_pipelines.ingest.sources import AssetSource
from lance_pipelines.ops.commit_fragments import build_commit_op
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.ingest_config import TargetConfig, config_class, declared_config
from lance_pipelines.ops.write_fragments import build_write_op
from lance_pipelines.partitions import check_partitions

__all__ = ["build_dataset_asset"]

_WRITE: Final = "write_fragments"
_COMMIT: Final = "commit_fragments"
_OUTPUT: Final = "result"


def build_dataset_asset(declaration: DatasetDeclaration) -> dg.AssetsDefinition:
    """Return the asset of one dataset; materializing it writes fragments and commits them as a new version."""
    check_partitions(declaration)
    spec = _spec(declaration)
    upstream = _input_names([dep.asset_key for dep in spec.deps])
    write = build_write_op(declaration, upstream=tuple(upstream))
    commit = build_commit_op(declaration)
    graph = dg.GraphDefinition(
        name=declaration.name,
        description=declaration.description,
        node_defs=[write, commit],
        dependencies={
            dg.NodeInvocation(write.name, _WRITE): {},
            dg.NodeInvocation(commit.name, _COMMIT): {"staged_write": dg.DependencyDefinition(_WRITE)},
        },
        input_mappings=[
            dg.InputMapping(graph_input_name=name, mapped_node_name=_WRITE, mapped_node_input_name=name)
            for name in upstream
        ],
        output_mappings=[
            dg.OutputMapping(graph_output_name=_OUTPUT, mapped_node_name=_COMMIT, mapped_node_output_name=_OUTPUT)
        ],
        config=dg.ConfigMapping(
            config_fn=partial(_flat_config, config_class(declaration)),
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


def _flat_config(config_type: type[TargetConfig], config: Mapping[str, Any]) -> dict[str, object]:
    """Return the configuration of the steps; the write step gets the configuration of the asset."""
    given = config_type(**config)
    return {_WRITE: {"config": given.model_dump(mode="json", by_alias=True, exclude_none=True)}}


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
    """Map an input name of the write step to each asset that it waits for; keys may differ only in a dash."""
    names: dict[str, dg.AssetKey] = {}
    for key in dict.fromkeys(keys):
        name = f"after_{dataset_name(key)}"
        names[name if name not in names else f"{name}_{len(names)}"] = key
    return names
