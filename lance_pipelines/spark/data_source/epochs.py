"""Tracks which epochs of a streaming query are in a table, so that each is committed once, even if Spark repeats it.

Spark repeats an epoch if the query ended after the commit, but before Spark recorded the commit. The number of the
epoch is recorded twice:

* The transaction that adds the rows has the properties ``lance-pipelines.query`` and ``lance-pipelines.epoch``, and a
  UUID that is derived from both.
* Before that, the table's configuration is updated: ``lance-pipelines.stream.{query id}`` is ``{epoch} {version}``,
  which means that the commit of the epoch may follow this version, and that all earlier epochs are committed.

::

    version 7                   8                                    9
            config: "4 7"       append, query=…, epoch=4             config: "5 9" …
            "epoch 4 may begin after version 7"

When an epoch is to be committed, its number is compared with the recorded one:

=============  =====================================================================================================
the recorded   action
=============  =====================================================================================================
none, smaller  the epoch is new, because an attempt would have recorded it: record it, and commit
greater        the epoch is committed, because a later one has begun: do nothing
equal          look for its transaction in the versions after the recorded one, newest first; do nothing if it is there
=============  =====================================================================================================

The configuration is part of every version, so it is not lost in cleanups, and it has one entry for each query. A
cleanup matters only if the query ended between the two commits of its last epoch, and its versions were removed before
it was restarted; the epoch is then rejected. If two drivers run the same query, both find the same record, and of two
commits with the same UUID only one creates a version.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from lance_core import LanceOperation, Transaction
from lance_core.errors import CommitOutcomeUnknownError, CorruptDataError, VersionNotFoundError
from lance_core.metadata import commit_transaction, read_transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core import LanceDataset

__all__ = ["begin_epoch", "epoch_properties", "epoch_uuid"]

_RECORD_PREFIX: Final = "lance-pipelines.stream."
_QUERY: Final = "lance-pipelines.query"
_EPOCH: Final = "lance-pipelines.epoch"
_NAMESPACE: Final = uuid.UUID("0f0e3a0a-5d0b-4c57-9a53-6f6a2f0f6b1e")


def epoch_uuid(query_id: str, epoch: int) -> str:
    """Return the UUID of the transaction of an epoch."""
    return str(uuid.uuid5(_NAMESPACE, f"{query_id} {epoch}"))


def epoch_properties(query_id: str, epoch: int) -> dict[str, str]:
    """Return the properties of the transaction of an epoch."""
    return {_QUERY: query_id, _EPOCH: str(epoch)}


def begin_epoch(dataset: LanceDataset, query_id: str, epoch: int, properties: Mapping[str, str] | None = None) -> bool:
    """Return whether an epoch is still to be committed; if it is new, record it before its commit.

    Args:
        dataset: a handle to the latest version; it is moved to the version from which the commit must be planned.
        query_id: the streaming query.
        epoch: the number of the micro-batch.
        properties: properties of the transaction that records the epoch.

    Raises:
        CommitOutcomeUnknownError: the versions in which the epoch would have been committed no longer exist.
        StorageError: a storage operation failed.
    """
    key = _RECORD_PREFIX + query_id
    recorded, version = _parse(dataset, key)
    if recorded < epoch:
        updates = LanceOperation.UpdateMap({key: f"{epoch} {dataset.version}"})
        record = LanceOperation.UpdateConfig(config_updates=updates)
        transaction = Transaction(dataset.version, record, transaction_properties=dict(properties or {}))
        commit_transaction(dataset, transaction)
        dataset.checkout_latest()
        return True
    if recorded > epoch:
        return False
    return not _is_committed(dataset, query_id, epoch, version)


def _parse(dataset: LanceDataset, key: str) -> tuple[int, int]:
    """Return the recorded epoch, -1 if there is none, and the version after which it may have been committed."""
    text = dataset.config().get(key)
    if text is None:
        return -1, 0
    epoch, _, version = text.partition(" ")
    if not (epoch.isascii() and epoch.isdecimal() and version.isascii() and version.isdecimal()):
        raise CorruptDataError(
            f"{dataset.uri}: the entry {key!r} of the table's configuration is {text!r}; expected an epoch and a "
            "version"
        )
    return int(epoch), int(version)


def _is_committed(dataset: LanceDataset, query_id: str, epoch: int, after: int) -> bool:
    wanted = epoch_properties(query_id, epoch)
    missing = None
    for version in range(dataset.version, after, -1):
        try:
            made_by = read_transaction(dataset.log, dataset.log.read_version(version))
        except VersionNotFoundError:
            missing = version
            continue
        if made_by is not None and wanted.items() <= made_by.properties.items():
            return True
    if missing is None:
        return False
    raise CommitOutcomeUnknownError(
        f"{dataset.uri}: it is unknown whether epoch {epoch} of streaming query {query_id} was committed, because "
        f"version {missing} no longer exists. Set the entry {_RECORD_PREFIX + query_id!r} of the table's configuration "
        f"to '{epoch + 1} {dataset.version}' if the rows of this epoch are in the table, or to "
        f"'{epoch} {dataset.version}' if they are not.",
        version=missing,
    )
