"""The Dagster event of a maintenance run: a materialization of the asset ``maintenance/<dataset>``.

The commit of a run is reported as an observation of the dataset's asset (``commit_events.py``), because no row changed.
The run itself is reported here, on an asset on which no other depends: the statistics of the runs can be plotted over
time, and the asset's freshness policy reports that no maintenance has run for too long. Therefore, a run that finds
nothing to do also materializes the asset; a failed run does not.
"""

from collections.abc import Mapping

import dagster as dg

from lance_pipelines.events.asset_metadata import DETAILS_KEY, SUMMARY_KEY, URI_KEY, VERSION_KEY
from lance_pipelines.events.commit_events import OPERATION_TAG
from lance_pipelines.ingest.declaration import DatasetDeclaration, maintenance_key
from lance_pipelines.maintenance.effect import Effect

__all__ = ["maintenance_materialization"]


def maintenance_materialization(
    declaration: DatasetDeclaration,
    *,
    uri: str,
    summary: str,
    effect: Effect,
    cost: Mapping[str, float],
    details: Mapping[str, int | float | str],
) -> dg.AssetMaterialization:
    """Return the event of one run.

    Args:
        declaration: the dataset.
        uri: the location of the dataset in this run.
        summary: what the run did, in one line.
        effect: statistics of what the run did.
        cost: metadata entries with its duration and its CPU time.
        details: the metadata of its report, which is shown collapsed.
    """
    before, after = effect.before, effect.after
    figures = {
        VERSION_KEY: effect.version_after,
        "lance/fragments_before": before.fragments,
        "lance/fragments_after": after.fragments,
        "lance/files_before": before.files,
        "lance/files_after": after.files,
        "lance/bytes_before": before.num_bytes,
        "lance/bytes_after": after.num_bytes,
        "lance/bytes_saved": effect.bytes_saved,
        "lance/bytes_written": effect.bytes_written,
        "lance/bytes_reclaimed": effect.bytes_reclaimed,
    }
    others = {key.removeprefix("lance/"): value for key, value in details.items() if key not in (SUMMARY_KEY, *figures)}
    return dg.AssetMaterialization(
        dg.AssetKey(maintenance_key(declaration)),
        description=summary,
        metadata={
            URI_KEY: dg.MetadataValue.text(uri),
            **{key: dg.MetadataValue.int(value) for key, value in figures.items() if value is not None},
            **{key: dg.MetadataValue.float(value) for key, value in cost.items()},
            DETAILS_KEY: dg.MetadataValue.json({"has_changed": effect.has_changed, **others}),
        },
        tags={OPERATION_TAG: effect.op},
    )
