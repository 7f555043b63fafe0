"""Finds unrecorded branches: leftovers of an interrupted ``create_branch`` or ``branches.delete`` below ``tree/``.

A directory below ``tree/`` counts as an unrecorded branch only if it contains a file with the name of a manifest, or if
it contains only files that a deletion removes after the manifests. Other directories do not belong to the table.

Source: the order in which :mod:`lance_core.refs.branches` creates and removes files; file locations of pylance 14.0.2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lance_core.cleanup.path_rules import Settled, rule_for
from lance_core.errors import InvalidRefError
from lance_core.table.branches import branch_of_file, check_branch_name
from lance_core.table.paths import (
    BRANCH_ROOTS_DIRECTORY,
    INDICES_DIRECTORY,
    MEM_WAL_DIRECTORY,
    REFS_DIRECTORY,
    REUSE_MAPS_DIRECTORY,
    VERSION_HINT_NAME,
    VERSIONS_DIRECTORY,
    is_detached_manifest_name,
    is_staged_manifest_name,
    parse_manifest_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.cleanup.inventory import StoredFile

__all__ = ["is_branch_name", "is_known_file", "unrecorded_branches"]

_PREFIX: Final = f"{BRANCH_ROOTS_DIRECTORY}/"
_IDENTITY: Final = re.compile(r"[0-9a-f-]{32,36}")
_BY_IDENTITY: Final = frozenset({INDICES_DIRECTORY, MEM_WAL_DIRECTORY, REUSE_MAPS_DIRECTORY})


def unrecorded_branches(files: Iterable[StoredFile], recorded: frozenset[str]) -> dict[str, list[StoredFile]]:
    """Return the files of each unrecorded branch, keyed by branch name.

    Args:
        files: the files below the main root.
        recorded: names of the branches that have a record.
    """
    found: dict[str, list[StoredFile]] = {}
    for file in files:
        if not file.path.startswith(_PREFIX):
            continue
        branch = branch_of_file(file.path.removeprefix(_PREFIX), recorded)
        if branch is not None and branch not in recorded and is_branch_name(branch):
            found.setdefault(branch, []).append(file)
    return {branch: own for branch, own in found.items() if _is_left_of(branch, own)}


def is_known_file(path: str) -> bool:
    """Return whether a path below the root of a branch can be the path of a table file."""
    directory, _, rest = path.partition("/")
    if directory == VERSIONS_DIRECTORY:
        return rest == VERSION_HINT_NAME or _is_manifest(rest) or rest.startswith(".tmp")
    if directory in _BY_IDENTITY:
        identity, _, name = rest.partition("/")
        return bool(name) and _IDENTITY.fullmatch(identity) is not None
    return directory != REFS_DIRECTORY and (
        not isinstance(rule_for(directory, rest), Settled) or rest.startswith(".tmp")
    )


def _is_left_of(branch: str, files: list[StoredFile]) -> bool:
    paths = [file.path.removeprefix(f"{_PREFIX}{branch}/") for file in files]
    versions = f"{VERSIONS_DIRECTORY}/"
    if any(path.startswith(versions) and _is_manifest(path.removeprefix(versions)) for path in paths):
        return True
    return all(map(is_known_file, paths))


def _is_manifest(name: str) -> bool:
    return parse_manifest_name(name) is not None or is_detached_manifest_name(name) or is_staged_manifest_name(name)


def is_branch_name(branch: str) -> bool:
    """Return whether a name is valid for a branch."""
    try:
        check_branch_name(branch)
    except InvalidRefError:
        return False
    return True
