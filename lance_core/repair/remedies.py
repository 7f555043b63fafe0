"""Remedies: one for each kind of finding. Each may be applied again, and does nothing when there is nothing left."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError
from lance_core.refs.branch_removal import remove_branch_root
from lance_core.repair.diagnosis import diagnose
from lance_core.repair.findings import Ailment, Finding
from lance_core.repair.unrecorded import is_known_file
from lance_core.table.branches import branch_root
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.migration import migrate_to_v2_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_core.table.version_log import VersionLog

__all__ = ["mend"]


def mend(log: VersionLog, finding: Finding) -> bool:
    """Mend what was found, after another look at it.

    Args:
        log: the versions of the main line of the table.
        finding: as the diagnosis told it; it must be ripe.

    Returns:
        Whether it was mended; False when it no longer exists, or not as it was: a writer has gone on with it.

    Raises:
        InvalidInputError: it is not ripe.
        CorruptDataError: a migration found two manifests of one version that differ.
        StorageError: a storage operation failed; mending it again goes on.
    """
    if not finding.is_ripe:
        why = finding.reason or "it is too young"
        raise InvalidInputError(f"{finding.ailment} {finding.place} must not be mended: {why}")
    if not any(map(finding.is_same, diagnose(log))):
        return False
    line = log.at(branch_root(log.store, log.root, finding.branch)) if finding.branch else log
    _REMEDIES[finding.ailment](line, finding)
    return True


def _remove_file(log: VersionLog, finding: Finding) -> None:
    log.store.delete(log.store.join(log.root, *finding.place.split("/")))


def _remove_branch(log: VersionLog, finding: Finding) -> None:
    remove_branch_root(log, finding.place, only=is_known_file)


def _finish_migration(log: VersionLog, finding: Finding) -> None:
    migrate_to_v2_names(log)


def _remove_row(log: VersionLog, finding: Finding) -> None:
    if isinstance(log.protocol, ExternalCommit):
        log.protocol.withdraw(log, int(finding.place))


_REMEDIES: Final[Mapping[Ailment, Callable[[VersionLog, Finding], None]]] = MappingProxyType(
    {
        Ailment.TEMPORARY_FILE: _remove_file,
        Ailment.STAGED_MANIFEST: _remove_file,
        Ailment.ABANDONED_MANIFEST: _remove_file,
        Ailment.UNRECORDED_BRANCH: _remove_branch,
        Ailment.MIXED_NAMES: _finish_migration,
        Ailment.EMPTY_MANIFEST: _remove_file,
        Ailment.LOST_VERSION: _remove_row,
    }
)
