"""Checks that a table can be rewritten, so that errors are raised before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotSupportedError
from lance_core.schema.storable import check_storable
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_metadata import FRAGMENT_REUSE_INDEX, parse_index_section
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from lance_core.compaction.options import CompactionSettings
    from lance_core.table.manifest import Manifest

__all__ = ["check_rewritable", "output_version"]


def output_version(manifest: Manifest, settings: CompactionSettings) -> LanceFileVersion:
    """Return the format of the new files: the requested format or, by default, the table's format.

    Raises:
        NotSupportedError: files of the requested format cannot be mixed with files of the table's format.
    """
    own = manifest.file_version
    if settings.data_storage_version is None:
        return own
    asked = LanceFileVersion.parse(settings.data_storage_version)
    if not asked.mixes_with(own):
        raise NotSupportedError(
            f"data_storage_version is {asked.value}, but the table's files have format {own.value}; files of "
            "format 0.1 cannot be mixed with files of other formats",
            expected=own.value,
            found=asked.value,
        )
    return asked


def check_rewritable(manifest: Manifest, settings: CompactionSettings) -> None:
    """Check that the fragments of a version can be rewritten by this library.

    Raises:
        UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
        UnsupportedVersionError: the format of the new files cannot be written, or does not support a column.
        NotSupportedError: the table defers the remapping of its indices.
    """
    require_writable(manifest.message)
    check_storable(manifest.schema, output_version(manifest, settings).require_writable())
    where = f"version {manifest.version} cannot be compacted"
    names = {index.name for index in parse_index_section(manifest.index_section)}
    if FRAGMENT_REUSE_INDEX in names and len(names) > 1:
        raise NotSupportedError(
            f"{where}: a compaction by pylance deferred the remapping of indices. Rebuild every index with pylance "
            f"(create_index or create_scalar_index, replace=True), then call drop_index({FRAGMENT_REUSE_INDEX!r})"
        )
