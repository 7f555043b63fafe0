"""Finds problems in the newest version of a branch: defects caused by old releases, and missing files.

Except for mixed formats, these problems do not prevent opening the table. The doctor only reports them; a commit, a
rebuilt index, or restored files repair them.

Source: :mod:`lance_core.table.old_writers`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lance_core.errors import LanceError
from lance_core.repair.problems import Problem, ProblemKind
from lance_core.scan.early_fragments import rows_in_files
from lance_core.table.base_files import missing_from_bases
from lance_core.table.base_paths import FileLocator
from lance_core.table.data_file import DataFile
from lance_core.table.manifest import Manifest
from lance_core.table.old_writers import defects_of
from lance_core.table.paths import DATA_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog

__all__ = ["content_problems"]


def content_problems(log: VersionLog, branch: str, name: ManifestName, files: Collection[str]) -> Iterator[Problem]:
    """Find the problems of a version.

    Args:
        log: the version log of the branch.
        branch: the name of the branch; empty for the main branch.
        name: the name of the version's manifest.
        files: paths of all files below the root of the branch.

    Raises:
        StorageError: a storage operation failed.
    """
    path = log.path(name)
    try:
        manifest = Manifest.parse(log.store.get(path), path=path, name=name)
        found = [
            *_defects(log, manifest),
            *_mixed_formats(manifest),
            *_missing_files(manifest, files),
            *_unreachable_bases(log, manifest),
        ]
    except LanceError:
        # The errors in the manifest are reported when the table is opened.
        return
    for kind, place in found:
        yield Problem(kind, branch, place, None, is_repairable=False)


def _defects(log: VersionLog, manifest: Manifest) -> Iterator[tuple[ProblemKind, str]]:
    if manifest.as_written is None:
        return
    num_rows: dict[int, int] = {}
    locator = FileLocator(log.store, log.root, manifest.base_paths)
    if not manifest.as_written.message.HasField("writer_version"):
        for fragment in manifest.message.fragments:
            # Missing files are reported separately.
            with suppress(LanceError):
                num_rows.update(rows_in_files([fragment], locator))
    for defect in defects_of(manifest.as_written, num_rows):
        yield ProblemKind(defect.kind.value), f"in version {manifest.version} ({defect.detail})"


def _mixed_formats(manifest: Manifest) -> Iterator[tuple[ProblemKind, str]]:
    files = (DataFile.from_proto(file) for fragment in manifest.message.fragments for file in fragment.files)
    formats = sorted({file.file_version.value for file in files})
    if len(formats) > 1 and not manifest.mixes_file_versions:
        yield ProblemKind.MIXED_FORMATS, f"in version {manifest.version} ({', '.join(formats)})"


def _missing_files(manifest: Manifest, files: Collection[str]) -> Iterator[tuple[ProblemKind, str]]:
    """Yield a problem if data files below the root are missing."""
    missing = sorted(
        path
        for fragment in manifest.message.fragments
        for file in fragment.files
        if not file.HasField("base_id") and (path := f"{DATA_DIRECTORY}/{file.path}") not in files
    )
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield ProblemKind.MISSING_DATA_FILE, f"{missing[0]}{more}, used by version {manifest.version}"


def _unreachable_bases(log: VersionLog, manifest: Manifest) -> Iterator[tuple[ProblemKind, str]]:
    """Yield a problem for each base path below which files are missing, or that cannot be read at all."""
    locator = FileLocator(log.store, log.root, manifest.base_paths)
    for base in manifest.base_paths:
        try:
            missing = missing_from_bases(manifest, locator, [base.id])
        except LanceError as error:
            reason = str(error)
        else:
            if not missing:
                continue
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            reason = f"missing: {missing[0]}{more}"
        yield ProblemKind.UNREACHABLE_BASE, f"{base.path} (id {base.id}), used by version {manifest.version} ({reason})"
