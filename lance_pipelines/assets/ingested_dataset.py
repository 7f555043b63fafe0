"""ingested_dataset: the asset of a declared dataset, which writes fragments with Spark and then commits them."""

from typing import Any

import dagster as dg

from lance_pipelines.events.asset_metadata import STORAGE_KIND, asset_metadata
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ops.commit_fragments import build_commit_op
from lance_pipelines.ops.ingest_config import IngestConfig
from lance_pipelines.ops.write_fragments import build_write_op

__all__ = ["build_dataset_asset"]


def build_dataset_asset(declaration: DatasetDeclaration) -> dg.AssetsDefinition:
    """Return the asset of one dataset; materializing it writes fragments and commits them as a new version."""
    write_fragments = build_write_op(declaration).alias("write_fragments")
    commit_fragments = build_commit_op(declaration).alias("commit_fragments")

    @dg.config_mapping
    def flat_config(config: IngestConfig) -> dict[str, object]:
        return {"write_fragments": {"config": config.model_dump(mode="json", by_alias=True, exclude_none=True)}}

    @dg.graph_asset(
        name=declaration.name,
        description=declaration.description,
        config=flat_config,
        metadata=asset_metadata(declaration),
        kinds={STORAGE_KIND, "spark"},
    )
    def ingested_dataset() -> Any:
        return commit_fragments(write_fragments())

    return ingested_dataset
