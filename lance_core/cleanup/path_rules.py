"""Classifies files below a table's root by their directory and name.

=============================  ===========================================================================
location                       what may be removed
=============================  ===========================================================================
``_versions/``                 manifests of removed versions; ``.tmp…``, including holds that restores create;
                               *residue*: ``{manifest}#{n}``
``_transactions/``             ``*.txn``; *residue*: ``.tmp…``
``data/``                      ``*.lance``, ``.tmp…``, ``{stem}/*.blob``
``_blobs/``                    ``*.blob``
``_indices/``, ``_fri/``       everything
``_deletions/``                ``*.arrow``, ``*.bin``; *residue*: ``.tmp…``
``_refs/*/``                   *residue*: ``.tmp…``, ``{name}.json#{n}``, expired leases
=============================  ===========================================================================

Residue consists of leftovers of crashed writers: files whose names are used only during one call, and never by readers.
A manifest is staged as ``{manifest}#{n}`` and then linked to its final name, so such a name may be a link to the
manifest of a kept version; only the link is removed.

Source: cleanup of pylance 14.0.2, which does not remove residue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.records import FileKind
from lance_core.table.paths import (
    BLOBS_DIRECTORY,
    BRANCHES_DIRECTORY,
    DATA_DIRECTORY,
    DELETIONS_DIRECTORY,
    INDICES_DIRECTORY,
    REFS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    TAGS_DIRECTORY,
    TRANSACTIONS_DIRECTORY,
    VERSION_HINT_NAME,
    VERSIONS_DIRECTORY,
    is_detached_manifest_name,
    is_staged_manifest_name,
)
from lance_core.table.ref_files import is_unfinished_ref

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UNRECOGNIZED", "PathState", "Settled", "rule_for"]

_TEMPORARY: Final = ".tmp"
_SIDECAR_DEPTH: Final = 3


class PathState(StrEnum):
    """What a cleanup does with a file."""

    KEPT = "kept"
    REMOVABLE = "removable"
    PROTECTED = "protected"
    """Not referenced by any version, but possibly part of a write that has not been committed yet."""

    POSSIBLY_NEEDED = "possibly needed"
    """Left behind by a crashed writer, but kept, because another process may still publish or read the file."""

    UNRECOGNIZED = "unrecognized"
    """Not recognized as part of a table."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A classification that follows from the path of a file alone."""

    state: PathState
    reason: str


UNRECOGNIZED: Final = Settled(PathState.UNRECOGNIZED, "unrecognized file")
_STAGED: Final = Settled(PathState.POSSIBLY_NEEDED, "staged manifest")
_TEMPORARY_LEFT: Final = Settled(PathState.POSSIBLY_NEEDED, "temporary file")


def rule_for(directory: str, rest: str) -> FileKind | Settled:
    """Classify a file by its path. Does not apply to manifests or to files of branches."""
    rule = _RULES.get(directory)
    return UNRECOGNIZED if rule is None or not rest else rule(rest)


def _in_versions(rest: str) -> FileKind | Settled:
    if rest.startswith(_TEMPORARY):
        return FileKind.TEMPORARY_MANIFEST
    if rest == VERSION_HINT_NAME:
        return Settled(PathState.KEPT, "hint for finding the latest version")
    if is_detached_manifest_name(rest):
        return Settled(PathState.KEPT, "detached version")
    if is_staged_manifest_name(rest):
        # A name without ``#`` may be a pending version in a store where another service publishes versions.
        return FileKind.RESIDUE if "#" in rest else _STAGED
    return UNRECOGNIZED


def _in_data(rest: str) -> FileKind | Settled:
    is_sidecar = rest.count("/") == _SIDECAR_DEPTH - 2 and _has_ending(rest, ".blob")
    if _file_name(rest).startswith(_TEMPORARY) or _has_ending(rest, ".lance") or is_sidecar:
        return FileKind.DATA
    return UNRECOGNIZED


def _in_refs(rest: str) -> FileKind | Settled:
    directory, _, name = f"{REFS_DIRECTORY}/{rest}".rpartition("/")
    if directory not in (TAGS_DIRECTORY, BRANCHES_DIRECTORY):
        return UNRECOGNIZED
    if is_unfinished_ref(name):
        return FileKind.RESIDUE
    if not name.endswith(".json"):
        return UNRECOGNIZED
    return Settled(PathState.KEPT, "tag" if directory == TAGS_DIRECTORY else "record of a branch")


def _by_ending(
    kind: FileKind, *endings: str, temporary: FileKind | Settled = _TEMPORARY_LEFT
) -> Callable[[str], FileKind | Settled]:
    def rule(rest: str) -> FileKind | Settled:
        if any(_has_ending(rest, ending) for ending in endings):
            return kind
        if rest.startswith(_TEMPORARY) and "/" not in rest:
            return temporary
        return _TEMPORARY_LEFT if _file_name(rest).startswith(_TEMPORARY) else UNRECOGNIZED

    return rule


def _always(kind: FileKind) -> Callable[[str], FileKind | Settled]:
    return lambda rest: kind


def _file_name(rest: str) -> str:
    return rest.rpartition("/")[2]


def _has_ending(rest: str, ending: str) -> bool:
    return rest.endswith(ending) and _file_name(rest) != ending


_RULES: Final[dict[str, Callable[[str], FileKind | Settled]]] = {
    VERSIONS_DIRECTORY: _in_versions,
    TRANSACTIONS_DIRECTORY: _by_ending(FileKind.TRANSACTION, ".txn", temporary=FileKind.RESIDUE),
    DATA_DIRECTORY: _in_data,
    BLOBS_DIRECTORY: _by_ending(FileKind.DATA, ".blob"),
    INDICES_DIRECTORY: _always(FileKind.INDEX),
    DELETIONS_DIRECTORY: _by_ending(FileKind.DELETION, ".arrow", ".bin", temporary=FileKind.RESIDUE),
    REUSE_MAPS_DIRECTORY: _always(FileKind.INDEX),
    REFS_DIRECTORY: _in_refs,
}
