"""CompactionPlan and CompactionTask: planned work that can be sent to other processes; make_plan creates it.

A plan is made once, its tasks are executed anywhere and in any order, and their results are committed together. Plans,
tasks, and results are value objects: they can be compared, pickled, and converted to JSON in pylance's format, so that
either library can execute or commit what the other has planned.

``make_plan`` plans the compaction of a version; :mod:`~lance_core.compaction.grouping` decides which fragments are
rewritten together. Files are read only to determine numbers that the manifest does not contain.

Source: JSON of pylance 14.0.2 (``CompactionPlan.json``, ``CompactionTask.json``); the statistics are an addition.
"""

from __future__ import annotations

import json as json_text
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.execution import execute_task
from lance_core.compaction.grouping import FragmentFigures, plan_tasks
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan_figures import PlanFigures
from lance_core.compaction.result import VERSION
from lance_core.errors import NotSupportedError
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.public.fragment_metadata import read_fragment
from lance_core.public.json_document import entries, listed, mapping, nullable, parse_document, whole
from lance_core.public.overlay_metadata import with_coverage
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.index_metadata import parse_index_section

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyroaring import BitMap

    from lance_core.compaction.result import RewriteResult
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.public.json_document import JsonObject
    from lance_core.scan.table_view import Handle, TableView
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["CompactionPlan", "CompactionTask", "make_plan", "survey"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """One task of a compaction: fragments that are rewritten together.

    Attributes:
        read_version: the version on which the plan is based.
        fragments: the fragments as recorded in that version.
        options: the options of the compaction.
    """

    read_version: int
    fragments: list[FragmentMetadata]
    options: CompactionSettings

    def execute(self, dataset: Handle, *, file_token: str | None = None) -> RewriteResult:
        """Write the rows of the fragments to new files. No version is created.

        Args:
            dataset: a handle to any version of the dataset; the task always reads ``read_version``.
            file_token: 16 hexadecimal digits with which every new file name ends, before the extension, to identify the
                files of a job.

        Raises:
            VersionNotFoundError: ``read_version`` has been removed.
            InvalidInputError: the fragments do not match that version.
            NotSupportedError: this library cannot rewrite the table.
            CorruptDataError: a file is damaged.
            StorageError: a storage operation failed; the written files were removed.
        """
        return self.run(dataset.view, file_token=file_token)

    def run(self, view: TableView, *, file_token: str | None = None) -> RewriteResult:
        """Execute the task like :meth:`execute`, but with a view of any version instead of a dataset."""
        return execute_task(view, self.read_version, self.fragments, self.options, file_token)

    def json(self) -> str:
        """Return this object as a JSON document in pylance's format."""
        return json_text.dumps(
            {
                "task": _fragments_document(self.fragments),
                "read_version": self.read_version,
                "options": self.options.to_document(),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Parse a JSON document; the inverse of :meth:`json`. Documents written by pylance can also be read.

        Raises:
            InvalidInputError: the document is invalid.
            NotSupportedError: the document requires a feature that is not supported.
        """
        document = parse_document("compaction task", json)
        return CompactionTask(
            read_version=document.take("read_version", VERSION),
            fragments=document.take("task", _read_fragments),
            options=_options(document),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The planned work of a compaction.

    Attributes:
        read_version: the version on which the plan is based.
        tasks: the tasks, which are independent of each other; empty if there is nothing to do.
        options: the options of the compaction.
        figures: statistics of the table before and after the compaction.
    """

    read_version: int
    tasks: list[CompactionTask]
    options: CompactionSettings
    figures: PlanFigures

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return this object as a JSON document in pylance's format."""
        return json_text.dumps(
            {
                "tasks": [_fragments_document(task.fragments) for task in self.tasks],
                "read_version": self.read_version,
                "options": self.options.to_document(),
                "figures": asdict(self.figures),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """Parse a JSON document; the inverse of :meth:`json`. Documents written by pylance can also be read.

        Documents written by pylance contain only the fragments that are rewritten, so the statistics cover only these
        fragments.

        Raises:
            InvalidInputError: the document is invalid.
            NotSupportedError: the document requires a feature that is not supported.
        """
        document = parse_document("compaction plan", json)
        read_version = document.take("read_version", VERSION)
        options = _options(document)
        tasks = document.take("tasks", listed(_read_fragments))
        return CompactionPlan(
            read_version=read_version,
            tasks=[CompactionTask(read_version=read_version, fragments=task, options=options) for task in tasks],
            options=options,
            figures=document.take("figures", nullable(entries(_read_figures)), None)
            or PlanFigures.of_tasks(tasks, options),
        )


def _options(document: JsonObject) -> CompactionSettings:
    return CompactionSettings.from_document(document.take("options", mapping))


def _read_figures(document: JsonObject) -> PlanFigures:
    return PlanFigures(**{each.name: document.take(each.name, _COUNT) for each in fields(PlanFigures)})


_COUNT: Final = whole(0, 2**63)
_read_fragments: Final = entries(lambda document: document.take("fragments", listed(read_fragment)))


def _fragments_document(fragments: list[FragmentMetadata]) -> dict[str, Any]:
    return {"fragments": [with_coverage(fragment.to_json()) for fragment in fragments]}


def make_plan(view: TableView, options: Mapping[str, Any], *, only: Collection[int] | None = None) -> CompactionPlan:
    """Plan a compaction of a version. No data file is opened.

    Args:
        view: the version to compact.
        options: see :class:`~lance_core.compaction.options.CompactionOptions`.
        only: ids of the fragments that may be rewritten; if None, all fragments.

    Raises:
        InvalidInputError: an option is unknown or out of range.
        NotSupportedError: an option or the table is not supported.
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
    """Return the statistics of every fragment, in ascending order of fragment id.

    Raises:
        NotSupportedError: an index does not record the fragments that it covers.
        CorruptDataError: an index bitmap or a deletion file is damaged.
    """
    bitmaps = _index_bitmaps(manifest)
    return sorted(
        (_figures_of_record(fragment, locator, bitmaps) for fragment in manifest.fragments),
        key=lambda fragment: fragment.id,
    )


def _index_bitmaps(manifest: Manifest) -> list[BitMap]:
    bitmaps = []
    for index in parse_index_section(manifest.index_section):
        if index.is_system:
            continue
        fragment_ids = index.fragment_ids()
        if fragment_ids is None:
            raise NotSupportedError(
                f"version {manifest.version}: index {index.name!r} does not record the fragments that it covers; "
                "rebuild the index before compacting",
                index=index.name,
            )
        bitmaps.append(fragment_ids)
    return bitmaps


def _figures_of_record(fragment: Fragment, locator: FileLocator, bitmaps: list[BitMap]) -> FragmentFigures:
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
