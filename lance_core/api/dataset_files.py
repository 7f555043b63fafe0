"""The methods of a dataset for its files and stores: listing the files, removing all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.dataset_removal import drop_dataset
from lance_core.api.file_listings import all_files, tracked_files
from lance_core.places.location import uri_text
from lance_core.public.arguments import whole_number
from lance_core.scan.dataset_handle import DatasetHandle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from pyroaring import BitMap


__all__ = ["DatasetFiles"]


class DatasetFiles(DatasetHandle):
    """The methods for the files of a dataset."""

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The options that the dataset was opened with."""
        return self.storage_options

    def latest_storage_options(self) -> dict[str, str] | None:
        """The options in use: those that the dataset was opened with, since options are not refreshed."""
        return self.storage_options

    def fragment_ids(self) -> BitMap:
        """The ids of all fragments of the version shown."""
        # Imported late, as everywhere.
        from pyroaring import BitMap

        return BitMap(fragment.id for fragment in self.manifest.message.fragments)

    def all_files(self) -> pa.RecordBatchReader:
        """Every file below the root of this branch, whether or not a version refers to it; base paths are left out.

        Returns:
            base_uri, path below it, size_bytes, last_modified.

        Raises:
            StorageError: a storage operation failed.
        """
        return all_files(self.log, self.uri)

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[..., Any] | None = None
    ) -> pa.RecordBatchReader:
        """Every file that a version of this branch refers to, in any location, once for each version.

        Args:
            min_version: leave older versions out.
            progress: called after each manifest with how many have been read and how many there are.

        Returns:
            version, base_uri, path below it, type: "manifest", "data file", "deletion file", "transaction file" or
            "index file".

        Raises:
            CorruptDataError: a manifest is damaged.
            StorageError: a storage operation failed.
        """
        lowest = None if min_version is None else whole_number("min_version", min_version)
        return tracked_files(self.log, self.uri, self.storage_options, min_version=lowest, progress=progress)

    @staticmethod
    def drop(
        base_uri: str | Path, storage_options: dict[str, str] | None = None, ignore_not_found: bool | None = None
    ) -> None:
        """Remove a dataset and everything below its root, including unrecognized files.

        Args:
            base_uri: the root; it must have a readable version.
            storage_options: credentials and settings of the store.
            ignore_not_found: whether a missing dataset is ignored.

        Raises:
            DatasetNotFoundError: there is no dataset.
            StorageError: a storage operation failed; the remaining files are no longer a dataset, or can be dropped
                again.
        """
        drop_dataset(uri_text(base_uri), storage_options, ignore_not_found=bool(ignore_not_found))
