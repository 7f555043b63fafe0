"""published_dataset: the asset of a dataset's tag, which checks a version and moves the tag to it."""

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from lance_pipelines.checks.audit_version import build_audit_op
from lance_pipelines.events.asset_metadata import STORAGE_KIND, published_metadata
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts, published_key, required_publishing
from lance_pipelines.ops.declared_config import config_field
from lance_pipelines.ops.maintenance_config import PromoteConfig
from lance_pipelines.ops.move_tag import build_tag_op

__all__ = ["build_published_asset"]

_AUDIT: Final = "audit_version"
_MOVE: Final = "move_tag"
_OUTPUT: Final = "result"
_DATASET: Final = "dataset"


def build_published_asset(declaration: DatasetDeclaration) -> dg.AssetsDefinition:
    """Return the asset of the tag; materializing it checks a version of the dataset and moves the tag to it."""
    audit = build_audit_op(declaration, upstream=(_DATASET,))
    move = build_tag_op(declaration)
    graph = dg.GraphDefinition(
        name=f"{declaration.name}__publish",
        node_defs=[audit, move],
        dependencies={
            dg.NodeInvocation(audit.name, _AUDIT): {},
            dg.NodeInvocation(move.name, _MOVE): {"plan": dg.DependencyDefinition(_AUDIT, "plan")},
        },
        input_mappings=[
            dg.InputMapping(graph_input_name=_DATASET, mapped_node_name=_AUDIT, mapped_node_input_name=_DATASET)
        ],
        output_mappings=[
            dg.OutputMapping(graph_output_name=_OUTPUT, mapped_node_name=_MOVE, mapped_node_output_name=_OUTPUT)
        ],
        config=dg.ConfigMapping(config_fn=_flat_config, config_schema=config_field(PromoteConfig, {"dry_run": False})),
    )
    spec = _spec(declaration)
    asset = dg.AssetsDefinition.from_graph(
        graph,
        keys_by_input_name={_DATASET: dg.AssetKey(key_parts(declaration.key))},
        keys_by_output_name={_OUTPUT: spec.key},
    )
    return asset.map_asset_specs(lambda _: spec)


def _flat_config(config: Mapping[str, Any]) -> dict[str, object]:
    """Return the configuration of the steps; the first step gets the configuration of the asset."""
    given = PromoteConfig(**config)
    return {_AUDIT: {"config": given.model_dump(mode="json", exclude_none=True)}}


def _spec(declaration: DatasetDeclaration) -> dg.AssetSpec:
    settings = required_publishing(declaration)
    return dg.AssetSpec(
        dg.AssetKey(published_key(declaration)),
        deps=[dg.AssetKey(key_parts(declaration.key))],
        description=f"The version of {declaration.name} to which the tag {settings.tag} refers. Assets that read the "
        "dataset by this tag read this version. "
        f"Required checks: {', '.join(settings.required_checks(declaration.checks))}.",
        metadata=published_metadata(declaration),
        group_name=declaration.group,
        owners=declaration.owners,
        tags=declaration.tags,
        kinds={STORAGE_KIND},
        freshness_policy=settings.freshness,
        automation_condition=settings.automation_condition,
    )
