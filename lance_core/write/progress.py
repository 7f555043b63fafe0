"""Reports which fragments a write starts and completes.

Source: ``lance.progress`` of pylance 14.0.2, which does not report that the last fragment of a write is complete.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["FileSystemFragmentWriteProgress", "FragmentWriteProgress", "NoopFragmentWriteProgress"]


class FragmentWriteProgress(ABC):
    """Receives the progress of ``write_dataset`` or ``write_fragments``. If a method raises an error, the write fails.

    The ids of the fragments are 0, because the commit assigns them.
    """

    @abstractmethod
    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Called before a fragment is written.

        Args:
            fragment: the fragment, still without files.
            **kwargs: not used; reserved for later releases.
        """

    @abstractmethod
    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Called when the data file of a fragment is complete.

        Args:
            fragment: the fragment with its file and its number of rows.
            **kwargs: not used; reserved for later releases.
        """


class NoopFragmentWriteProgress(FragmentWriteProgress):
    """Ignores the progress."""

    def begin(self, fragment: FragmentMetadata, **kargs: Any) -> None:
        """Do nothing."""

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Do nothing."""


class FileSystemFragmentWriteProgress(FragmentWriteProgress):
    """Writes two JSON files for each fragment: its metadata, and a marker that exists while it is being written.

    Args:
        base_uri: the directory, as a URI or an absolute path of a file system of pyarrow; created if necessary.
        metadata: values to store in the marker, such as the name of the worker.
    """

    PROGRESS_EXT: ClassVar[str] = ".in_progress"
    """Suffix of the name of the file that exists while a fragment is being written."""

    def __init__(self, base_uri: str, metadata: Mapping[str, str] | None = None) -> None:
        """Connect to the file system."""
        from pyarrow.fs import FileSystem

        self._files, self._base_path = FileSystem.from_uri(base_uri)
        self._metadata = dict(metadata or {})

    def begin(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Write the metadata and the marker."""
        self._files.create_dir(self._base_path, recursive=True)
        self._write(self._in_progress(fragment), {"fragment_id": fragment.id, "metadata": self._metadata})
        self._write(f"{self._base_path}/fragment_{fragment.id}.json", fragment.to_json())

    def complete(self, fragment: FragmentMetadata, **kwargs: Any) -> None:
        """Remove the marker of the fragment."""
        self._files.delete_file(self._in_progress(fragment))

    def _in_progress(self, fragment: FragmentMetadata) -> str:
        return f"{self._base_path}/fragment_{fragment.id}{self.PROGRESS_EXT}"

    def _write(self, path: str, document: Mapping[str, Any]) -> None:
        with self._files.open_output_stream(path) as stream:
            stream.write(json.dumps(document).encode())
