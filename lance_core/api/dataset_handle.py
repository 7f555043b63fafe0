"""What the verbs of a dataset know of the handle that they are called on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lance_core.schema.field import Schema
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DatasetHandle"]


class DatasetHandle(ABC):
    """One version of a dataset, as its verbs see it."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where the dataset is."""

    @property
    @abstractmethod
    def log(self) -> VersionLog:
        """The dataset's versions."""

    @property
    @abstractmethod
    def manifest(self) -> Manifest:
        """The manifest of the version shown."""

    @property
    @abstractmethod
    def line(self) -> Hashable:
        """Tells the branch of the version from one that was made again under its name; None on the main line."""

    @property
    @abstractmethod
    def counted_manifest(self) -> Manifest:
        """The manifest with the rows of every fragment, which data files tell where it does not record them."""

    @property
    @abstractmethod
    def lance_schema(self) -> Schema:
        """The schema with field ids."""

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, str] | None:
        """As given when the dataset was opened."""

    @abstractmethod
    def show(self, manifest: Manifest) -> None:
        """Make this handle show the version of a manifest."""
