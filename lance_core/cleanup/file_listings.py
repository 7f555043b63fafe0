"""Listings of a dataset's files: the files that its versions refer to, and all stored files.

Source: schemas and file types of ``tracked_files`` and ``all_files`` in pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.cleanup.inventory import list_files
from lance_core.errors import VersionNotFoundError
from lance_core.places.uris import recorded_root
from lance_core.table.base_paths import FileLocator
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_file import DeletionFile
from lance_core.table.index_directories import index_directories
from lance_core.table.index_rules import decode_index_section
from lance_core.table.paths import (
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSIONS_DIRECTORY,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["all_files", "tracked_files"]

_URIS: Final = pa.dictionary(pa.int32(), pa.string())
_ALL: Final = pa.schema(
    [
        pa.field("base_uri", _URIS, nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
_TRACKED: Final = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("base_uri", _URIS, nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_BATCH_FILES: Final = 8192
_MICROSECONDS: Final = 1_000_000


def all_files(log: VersionLog, uri: str) -> pa.RecordBatchReader:
    """Return every file below a root.

    Args:
        log: the version log at the root.
        uri: URI of the root.
    """
    base = recorded_root(uri, log)

    def batches() -> Iterator[pa.RecordBatch]:
        files = list_files(log)
        for start in range(0, len(files), _BATCH_FILES):
            part = files[start : start + _BATCH_FILES]
            moments = (np.array([file.modified_at for file in part]) * _MICROSECONDS).astype(np.int64)
            columns = [
                _dictionary([base] * len(part), _URIS),
                pa.array([file.path for file in part], pa.string()),
                pa.array([file.num_bytes for file in part], pa.int64()),
                pa.array(moments).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            ]
            yield pa.record_batch(columns, schema=_ALL)

    return pa.RecordBatchReader.from_batches(_ALL, batches())


def tracked_files(
    log: VersionLog,
    uri: str,
    storage_options: Mapping[str, str] | None,
    *,
    min_version: int | None,
    progress: Callable[[int, int | None], object] | None,
) -> pa.RecordBatchReader:
    """Return the files that versions refer to: one row per version and file.

    Args:
        log: the version log of the branch to list; the main branch counts as a branch.
        uri: URI of the root of that branch.
        storage_options: options for the stores of base paths.
        min_version: skip older versions.
        progress: called after each manifest with the number of manifests read so far and their total number.
    """
    base = recorded_root(uri, log)

    def batches() -> Iterator[pa.RecordBatch]:
        names = log.newer_than(0 if min_version is None else min_version - 1)
        for count, name in enumerate(reversed(names), 1):
            try:
                manifest = log.read(name)
            except VersionNotFoundError:
                # A cleanup has removed the version since it was listed.
                continue
            locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
            manifest_file = log.path(name).rpartition("/")[2]
            rows = [(base, f"{VERSIONS_DIRECTORY}/{manifest_file}", "manifest"), *_files(manifest, base, locator)]
            if progress is not None:
                progress(count, len(names))
            yield _tracked(manifest.version, rows)

    return pa.RecordBatchReader.from_batches(_TRACKED, batches())


def _files(manifest: Manifest, root: str, locator: FileLocator) -> Iterator[tuple[str, str, str]]:
    """Yield (base URI, path relative to it, kind) for every file except the manifest itself."""
    bases = {base.id: base for base in manifest.base_paths}

    def place(base_id: int | None, directory: str, name: str) -> tuple[str, str]:
        if base_id is None:
            return root, f"{directory}/{name}"
        base = bases[base_id]
        return base.path.rstrip("/"), f"{directory}/{name}" if base.is_table_root else name

    message = manifest.message
    if message.transaction_file:
        yield root, f"{TRANSACTIONS_DIRECTORY}/{message.transaction_file}", "transaction file"
    for fragment in message.fragments:
        for each in (*fragment.files, *(overlay.data_file for overlay in fragment.overlays)):
            file = DataFile.from_proto(each)
            locator.data_file(file)
            yield *place(file.base_id, DATA_DIRECTORY, file.path), "data file"
        if fragment.HasField("deletion_file"):
            deletion = DeletionFile.from_proto(fragment.deletion_file)
            locator.deletion_file(fragment.id, deletion)
            yield *place(deletion.base_id, DELETIONS_DIRECTORY, deletion.name(fragment.id)), "deletion file"
    recorded = [[file.path for file in index.files] for index in decode_index_section(manifest.index_section)]
    for (name, base_id), listed in zip(index_directories(manifest.index_section).items(), recorded, strict=True):
        directory = locator.index_directory(name, base_id)
        paths = listed or [
            info.path[len(directory.path) + 1 :] for info in directory.store.list_recursive(directory.path)
        ]
        for path in paths:
            yield *place(base_id, INDICES_DIRECTORY, f"{name}/{path}"), "index file"


def _tracked(version: int, rows: Sequence[tuple[str, str, str]]) -> pa.RecordBatch:
    uris, paths, kinds = zip(*rows, strict=True)
    columns = [
        pa.array(np.full(len(rows), version, np.int64)),
        _dictionary(uris, _URIS),
        pa.array(paths, pa.string()),
        _dictionary(kinds, _TRACKED.field("type").type),
    ]
    return pa.record_batch(columns, schema=_TRACKED)


def _dictionary(values: Sequence[str], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode().cast(kind)
