"""Creation of a plan from a version and options. Files are read only for numbers missing from the manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.figures import PlanFigures
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan import CompactionPlan, CompactionTask
from lance_core.compaction.planning import FragmentFigures, plan_tasks
from lance_core.errors import NotSupportedError
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.index_metadata import parse_index_section

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyroaring import BitMap

    from lance_core.scan.table_view import TableView
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["make_plan", "survey"]


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


def survey(manifest: Manifest, locator: FileLocator) -> list[FragmentFigures]:
    """Figures of every fragment, ascending by id.

    Raises:
        NotSupportedError: which fragments an index answers for is not recorded.
        CorruptDataError: an index bitmap or a deletion file is damaged.
    """
    bitmaps = _index_bitmaps(manifest)
    return sorted(
        (_figures(fragment, locator, bitmaps) for fragment in manifest.fragments), key=lambda fragment: fragment.id
    )


def _index_bitmaps(manifest: Manifest) -> list[BitMap]:
    bitmaps = []
    for index in parse_index_section(manifest.index_section):
        if index.is_system:
            continue
        fragment_ids = index.fragment_ids()
        if fragment_ids is None:
            raise NotSupportedError(
                f"version {manifest.version}: index {index.name!r} does not record its fragments; rebuild it before "
                "compacting",
                index=index.name,
            )
        bitmaps.append(fragment_ids)
    return bitmaps


def _figures(fragment: Fragment, locator: FileLocator, bitmaps: list[BitMap]) -> FragmentFigures:
    message = fragment.message
    has_deletions = message.HasField("deletion_file")
    deleted_rows = message.deletion_file.num_deleted_rows
    if has_deletions and not deleted_rows:
        deleted_rows = len(read_deletion_offsets(fragment, locator))
    files = [*fragment.files, *(DataFile.from_proto(overlay.data_file) for overlay in message.overlays)]
    num_bytes = sum(file.num_bytes for file in files)
    if not all(file.num_bytes for file in files):
        locations = [locator.data_file(file) for file in files]
        num_bytes = sum(location.store.head(location.path).num_bytes for location in locations)
    return FragmentFigures(
        id=fragment.id,
        physical_rows=message.physical_rows,
        deleted_rows=deleted_rows,
        num_bytes=num_bytes,
        num_files=len(message.files) + has_deletions,
        num_overlays=len(message.overlays),
        indices=frozenset(position for position, bitmap in enumerate(bitmaps) if message.id in bitmap),
    )
