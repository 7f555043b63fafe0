"""From a version and options to a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.figures import PlanFigures
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan import CompactionPlan, CompactionTask
from lance_core.compaction.planning import plan_tasks
from lance_core.compaction.survey import survey
from lance_core.public.fragment_conversion import fragment_from_record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lance_core.scan.table_view import TableView

__all__ = ["make_plan"]


def make_plan(view: TableView, options: Mapping[str, Any], *, only: Collection[int] | None = None) -> CompactionPlan:
    """Plan a compaction of a version. No data file is opened.

    Args:
        view: the version.
        options: see :class:`~lance_core.compaction.options.CompactionOptions`.
        only: fragments that may be rewritten; None for all.

    Raises:
        InvalidInputError: an option is unknown or out of range.
        NotSupportedError: an option, or the table, is not supported.
    """
    manifest = view.counted_manifest
    settings = CompactionSettings.of(options, manifest.message.config)
    settings = replace(settings, data_storage_version=output_version(manifest, settings).value)
    table = survey(manifest, view.locator)
    narrowed = settings
    if only is not None:
        others = {fragment.id for fragment in table}.difference(only)
        narrowed = replace(settings, excluded_fragment_ids=(*settings.excluded_fragment_ids, *sorted(others)))
    tasks = plan_tasks(table, narrowed)
    if tasks:
        check_rewritable(manifest, settings)
    records = {fragment.id: fragment for fragment in manifest.fragments}
    return CompactionPlan(
        read_version=manifest.version,
        tasks=[
            CompactionTask(
                read_version=manifest.version,
                fragments=[fragment_from_record(records[fragment_id]) for fragment_id in task],
                options=settings,
            )
            for task in tasks
        ],
        options=settings,
        figures=PlanFigures.of(table, tasks, settings),
    )
