"""WriteRequest: the checked arguments of a write.

Settings for data files are in a :class:`~lance_core.file.write_config.WriteConfig`, which is passed unchanged to the
writers of the data files; settings for the table are separate attributes.

Source: arguments of ``write_dataset`` and ``write_fragments`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self
from warnings import warn

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.file.write_config import (
    DEFAULT_MAX_BYTES_PER_FILE,
    DEFAULT_MAX_PAGE_BYTES,
    DEFAULT_MAX_ROWS_PER_FILE,
    DEFAULT_MAX_ROWS_PER_GROUP,
    WriteConfig,
)
from lance_core.public.arguments import whole_number
from lance_core.versions import LanceFileVersion
from lance_core.write.target import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.write.progress import FragmentWriteProgress

__all__ = ["REFERENCE", "WriteRequest", "requested_version"]

REFERENCE: Final = "reference"
_INGEST: Final = "ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """The settings of a write.

    Attributes:
        mode: what to do with existing rows.
        files: settings for data files, except their format version.
        file_version: the format of the data files; None for the table's format, or the default format if the
            table does not exist.
        initial_bases: locations outside the root in which a new table may store files.
        target_bases: names or paths of the bases to which data files are written in turn.
        target_all_bases: whether to write data files to the root and all bases in turn.
        new_table_config: the table config of a newly created table.
        progress: is notified of every fragment that is started or completed.
    """

    mode: Mode
    files: WriteConfig = field(default_factory=WriteConfig)
    file_version: LanceFileVersion | None = None
    initial_bases: Sequence[DatasetBasePath] | None = None
    target_bases: Sequence[str] | None = None
    target_all_bases: bool | None = None
    new_table_config: Mapping[str, str] = field(default_factory=dict)
    progress: FragmentWriteProgress | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls,
        *,
        mode: str,
        data_storage_version: str | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        data_cache_bytes: int | None = None,
        max_page_bytes: int | None = None,
        max_rows_per_group: int | None = None,
        file_token: str | None = None,
        external_blob_mode: str = REFERENCE,
        allow_external_blob_outside_bases: bool = False,
        blob_pack_file_size_threshold: int | None = None,
        initial_bases: Sequence[DatasetBasePath] | None = None,
        target_bases: Sequence[str] | None = None,
        target_all_bases: bool | None = None,
        new_table_config: Mapping[str, str] | None = None,
        progress: FragmentWriteProgress | None = None,
    ) -> Self:
        """Create a request. The arguments are the same as those of ``write_dataset``; None means the default.

        Raises:
            InvalidInputError: a size is not positive, a mode or the version is unknown, or two arguments contradict
                each other.
            InvalidTypeError: a size is not a whole number, the mode or the version is not a string, or ``progress``
                lacks a method.
        """
        parsed = Mode.parse(mode)
        version = None if data_storage_version is None else LanceFileVersion.parse(data_storage_version)
        if external_blob_mode not in (REFERENCE, _INGEST):
            raise InvalidInputError(
                f"external_blob_mode must be {REFERENCE!r} or {_INGEST!r}, found {external_blob_mode!r}"
            )
        if external_blob_mode == _INGEST and allow_external_blob_outside_bases:
            raise InvalidInputError(
                f"allow_external_blob_outside_bases only applies when external_blob_mode={REFERENCE!r}"
            )
        files = WriteConfig(
            max_rows_per_file=_size("max_rows_per_file", max_rows_per_file) or DEFAULT_MAX_ROWS_PER_FILE,
            max_bytes_per_file=_size("max_bytes_per_file", max_bytes_per_file) or DEFAULT_MAX_BYTES_PER_FILE,
            data_cache_bytes=_size("data_cache_bytes", data_cache_bytes),
            max_page_bytes=_size("max_page_bytes", max_page_bytes) or DEFAULT_MAX_PAGE_BYTES,
            max_rows_per_group=_size("max_rows_per_group", max_rows_per_group) or DEFAULT_MAX_ROWS_PER_GROUP,
            file_token=file_token,
            ingests_external_blobs=external_blob_mode == _INGEST,
            allows_outside_blobs=allow_external_blob_outside_bases,
            blob_pack_bytes=blob_pack_file_size_threshold,
        )
        return cls(
            mode=parsed,
            files=files,
            file_version=version,
            initial_bases=initial_bases,
            target_bases=target_bases,
            target_all_bases=target_all_bases,
            new_table_config=new_table_config or {},
            progress=_progress(progress),
        )


def requested_version(
    data_storage_version: str | None, use_legacy_format: bool | None, stacklevel: int = 3
) -> str | None:
    """Return the data file version that results from both arguments of a public function, as in pylance.

    Args:
        data_storage_version: the argument of this name.
        use_legacy_format: the argument of this name, which is deprecated.
        stacklevel: passed to ``warnings.warn``, so that the warning refers to the call of the public function.
    """
    if use_legacy_format is None:
        return data_storage_version
    warn("use_legacy_format is deprecated; use data_storage_version instead", DeprecationWarning, stacklevel=stacklevel)
    return "legacy" if use_legacy_format else "stable"


def _progress(progress: FragmentWriteProgress | None) -> FragmentWriteProgress | None:
    """Check that an object, if given, can receive progress reports; it may be an instance of pylance's class."""
    if progress is None or (hasattr(progress, "begin") and hasattr(progress, "complete")):
        return progress
    raise InvalidTypeError(
        f"progress must have the methods begin and complete, found {type(progress).__name__}", argument="progress"
    )


def _size(name: str, value: int | None) -> int | None:
    """Check that a size, if given, is at least 1, and return it."""
    if value is None:
        return None
    size = whole_number(name, value)
    if size < 1:
        raise InvalidInputError(f"{name} must be at least 1, found {size}")
    return size
