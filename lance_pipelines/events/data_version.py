"""The data version that Dagster records for a version of a dataset.

Not every version changes rows. A compaction creates two versions that do not. Building an index creates one such
version, and so does a delete by another program if no row matches. Dagster must not treat such versions as new data;
otherwise, everything downstream would run again.

Therefore, the data version of version ``v`` consists of the number of the last version up to ``v`` that changed rows
and the beginning of that version's transaction UUID. The number alone would repeat after the dataset was deleted and
recreated.
"""

from typing import Final

import lance_core
from lance_core import LanceOperation
from lance_core.errors import VersionNotFoundError
from lance_core.metadata import MAY_CHANGE_ROWS, Manifest, VersionLog
from lance_pipelines.maintenance.content import has_previous_content

__all__ = [
    "CHANGES_ROWS",
    "changes_rows",
    "data_version_at",
    "data_version_of",
    "is_change",
    "is_unknown",
]

CHANGES_ROWS: Final = MAY_CHANGE_ROWS
"""Maps the name of each operation to whether the operation may change what readers see."""

_UNKNOWN: Final = "unknown"


def changes_rows(operation: LanceOperation.BaseOperation) -> bool:
    """Return whether an operation may change what readers see. An unknown operation counts as a change."""
    return CHANGES_ROWS.get(operation.arm, True)


def is_change(log: VersionLog, manifest: Manifest, operation: str | None) -> bool:
    """Return whether a version changed rows or columns.

    A version changed them if its operation can do so and its content differs from the content of the previous version.

    Args:
        log: the dataset's versions.
        manifest: manifest of the version.
        operation: name of the operation, as in its attribute ``arm``; None if it is no longer recorded. An
            operation that is unknown or no longer recorded counts as a change.

    Raises:
        StorageError: a storage operation failed.
    """
    may_change = None if operation is None else CHANGES_ROWS.get(operation)
    return True if may_change is None else may_change and not has_previous_content(log, manifest)


def data_version_of(version: int, transaction_uuid: str | None) -> str:
    """Return the data version of a version that changed rows; a placeholder if its transaction is unknown."""
    return f"{version}-{transaction_uuid[:8] if transaction_uuid else _UNKNOWN}"


def is_unknown(data_version: str) -> bool:
    """Return whether a data version is a placeholder for one that could not be determined."""
    return data_version.endswith(f"-{_UNKNOWN}")


def data_version_at(uri: str, version: int | None, *, storage_options: dict[str, str] | None = None) -> str:
    """Return the data version of one version of the dataset, as ``"{version}-{8 hex digits}"``.

    The function walks back to the last version that changed rows. If that version was cleaned up, the result is a
    placeholder that contains the number of the oldest remaining version; the event log may contain more information
    (see ``recorded_versions.py``).

    Args:
        uri: the dataset's location.
        version: the version; if None, the latest version.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        VersionNotFoundError: the dataset has no such version.
    """
    dataset = lance_core.dataset(uri, version=version, storage_options=storage_options)
    for candidate in range(dataset.version, 0, -1):
        try:
            transaction = dataset.read_transaction(candidate)
        except VersionNotFoundError:
            return data_version_of(candidate + 1, None)
        if transaction is None:
            return data_version_of(candidate, None)
        manifest = dataset.checkout_version(candidate).manifest
        if is_change(dataset.log, manifest, transaction.operation.arm):
            return data_version_of(candidate, transaction.uuid)
    return data_version_of(1, None)
