"""Location: where a table is, and how its versions are opened, on the driver and in tasks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Self

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.metadata import lease_version

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Location", "pin_version"]

_CHOICES = ("version", "tag", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A table, or a branch of it.

    Attributes:
        uri: location of the table.
        branch: name of the branch; None means the main branch.
        storage_options: credentials and settings of the table's store; not shown by ``repr``.
    """

    uri: str
    branch: str | None = None
    storage_options: dict[str, str] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any], storage_options: Mapping[str, str]) -> Self:
        """Return the location that parsed options describe.

        Args:
            options: from :func:`~lance_pipelines.spark.data_source.options.parse_options`.
            storage_options: those of the session; options replace them.
        """
        return cls(
            uri=options["path"], branch=options.get("branch"), storage_options={**storage_options, **options["storage"]}
        )

    def open(self, version: int | None = None) -> lance_core.LanceDataset:
        """Open a version; None means the latest.

        Raises:
            DatasetNotFoundError: the table does not exist.
            VersionNotFoundError: the version does not exist.
            RefNotFoundError: the branch does not exist.
        """
        if self.branch is None:
            return lance_core.dataset(self.uri, version=version, storage_options=self.storage_options)
        opened = lance_core.dataset(self.uri, storage_options=self.storage_options)
        return opened.checkout_version((self.branch, version))


def pin_version(location: Location, options: Mapping[str, Any]) -> lance_core.LanceDataset:
    """Open the version that the options of a read select, and lease it if they request a lease.

    Raises:
        InvalidInputError: the options contradict each other.
        DatasetNotFoundError: the table does not exist.
        VersionNotFoundError: the version does not exist, or no version had been committed by the given time.
        RefNotFoundError: the tag or the branch does not exist.
    """
    chosen = [name for name in _CHOICES if name in options]
    if len(chosen) > 1 or (location.branch is not None and chosen not in ([], ["version"])):
        names = [*chosen, *(["branch"] if location.branch is not None else [])]
        raise InvalidInputError(f"options {names[0]!r} and {names[-1]!r} cannot be combined", option=names[-1])
    if "tag" in options:
        dataset = lance_core.dataset(location.uri, version=options["tag"], storage_options=location.storage_options)
    elif "timestamp" in options:
        moment = options["timestamp"]
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        with suppress(OverflowError):
            # A version that was committed at this very time was the latest at this time.
            moment += timedelta(microseconds=1)
        dataset = lance_core.dataset(location.uri, asof=moment, storage_options=location.storage_options)
    else:
        dataset = location.open(options.get("version"))
    if "leaseSeconds" in options:
        lease_version(dataset, holder="Spark", duration=options["leaseSeconds"])
    return dataset
