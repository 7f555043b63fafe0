"""Removing the root of a branch: its own files, and none of the branches whose names go on from its name.

``tree/a`` and ``tree/a/b`` may both be roots. Versions go first: what is left of a removal that died is no table. Where
an external manifest store keeps the versions, its rows go last: as long as there is one, no other branch of that name
can be made, and removing again goes on. The reference leaves the rows, so that the name cannot be used again.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from lance_core.table.branches import branch_names, branch_of_file, branch_root
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.paths import VERSIONS_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_core.table.version_log import VersionLog

__all__ = ["has_rows", "nested_roots", "own_files", "remove_branch_root"]

_VERSIONS_BELOW: Final = f"/{VERSIONS_DIRECTORY}/"


def nested_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """The roots, each with a slash at its end, that lie below a root, by the paths of all files below it."""
    return tuple({f"{path.partition(_VERSIONS_BELOW)[0]}/" for path in paths if _VERSIONS_BELOW in path})


def own_files(main: VersionLog, branch: str) -> list[str]:
    """The paths below the root of a branch that belong to no branch below or above it; arguments as below."""
    root = branch_root(main.store, main.root, branch)
    paths = [info.path[len(root) :].lstrip("/") for info in main.store.list_recursive(root)]
    known = branch_names(main.store, main.root) | {branch}
    below = tuple(f"{name}/" for name in known if name.startswith(f"{branch}/"))
    return [path for path in paths if _is_own(branch, f"{branch}/{path}", known, below)]


def _is_own(branch: str, path: str, known: frozenset[str], below: tuple[str, ...]) -> bool:
    owner = branch_of_file(path, known)
    # What lies in no directory of a root goes with the branch around it.
    return owner == branch or (owner is None and not path.startswith(below))


def has_rows(main: VersionLog, branch: str) -> bool:
    """Whether an external manifest store has versions of a branch; arguments as below."""
    protocol = main.protocol
    return isinstance(protocol, ExternalCommit) and protocol.knows(main.at(branch_root(main.store, main.root, branch)))


def remove_branch_root(main: VersionLog, branch: str, *, only: Callable[[str], bool] | None = None) -> None:
    """Remove the files of a branch.

    Args:
        main: the versions of the main line.
        branch: its name.
        only: told the path of a file below its root, says whether it goes; None for all.

    Raises:
        StorageError: the outside world failed; calling it again goes on.
    """
    store = main.store
    root = branch_root(store, main.root, branch)
    own = [path for path in own_files(main, branch) if only is None or only(path)]
    for path in sorted(own, key=lambda path: (not path.startswith(f"{VERSIONS_DIRECTORY}/"), path)):
        store.delete(store.join(root, *path.split("/")))
    directories = {parent for path in own for parent in _parents(path)}
    for directory in sorted(directories, key=len, reverse=True):
        store.remove_empty_directory(store.join(root, *directory.split("/")))
    if isinstance(main.protocol, ExternalCommit):
        main.protocol.forget(main.at(root))
    names = branch.split("/")
    for depth in range(len(names), 0, -1):
        store.remove_empty_directory(branch_root(store, main.root, "/".join(names[:depth])))


def _parents(path: str) -> list[str]:
    parents = []
    while path := posixpath.dirname(path):
        parents.append(path)
    return parents
