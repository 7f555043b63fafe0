"""Removes the root of a branch, but not the roots of branches below that root.

``tree/a`` and ``tree/a/b`` may both be roots. Versions are removed first, so that an interrupted removal leaves no
table. If an external manifest store records the versions, the branch's rows in that store are removed last: as long as
a row exists, no other branch with the same name can be created, and an interrupted removal can be continued by
repeating it. pylance does not remove the rows, so the name of a removed branch cannot be reused.

During a removal, other writers may create the same branch, a tag for one of its versions, or a branch from it.
Therefore, the root is marked first::

    tree/{branch}/_versions/.tmp_removal    a text line that identifies the removal, and then the content of the record

The mark is written before the last check for uses of the branch; a writer that uses the branch publishes its reference
before it checks for the mark. Therefore, the removal sees the reference, or the writer sees the mark, or both; the
process that sees the other's file gives up. A removal also stops if another removal has replaced the mark.
"""

from __future__ import annotations

import posixpath
import uuid
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import CorruptDataError, NotFoundError, RefConflictError, RefNotFoundError
from lance_core.io.object_store import has_object
from lance_core.refs.branch_uses import refuse_when_used
from lance_core.table.branches import (
    BranchRecord,
    branch_names,
    branch_of_file,
    branch_path,
    branch_root,
    list_branches,
)
from lance_core.table.commit_protocols.external import ExternalCommit
from lance_core.table.lines import read_record
from lance_core.table.paths import VERSIONS_DIRECTORY
from lance_core.table.ref_creation import create_ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.table.version_log import VersionLog

__all__ = [
    "has_rows",
    "own_files",
    "remove_branch_root",
    "require_same_branch",
    "require_unmarked",
    "withdraw_record",
]

_MARK: Final = f"{VERSIONS_DIRECTORY}/.tmp_removal"


def require_unmarked(main: VersionLog, branch: str) -> None:
    """Raise ``RefConflictError`` if the root of a branch is being removed."""
    if has_object(main.store, _mark_path(main, branch)):
        raise RefConflictError(
            f"branch {branch!r} is being deleted; if the deletion was interrupted, complete it with branches.delete",
            branch=branch,
        )


def require_same_branch(main: VersionLog, record: BranchRecord) -> None:
    """Check, after publishing a reference to a branch, that the branch is still the one that ``record`` describes.

    After this check, the caller must check that the versions of the branch exist.

    Raises:
        RefConflictError: the branch was deleted, is being deleted, or was recreated.
        CorruptDataError: the record of the branch is damaged.
    """
    require_unmarked(main, record.name)
    try:
        found = read_record(main, record.name)
    except RefNotFoundError as error:
        raise RefConflictError(
            f"branch {record.name!r} was deleted during this operation", branch=record.name
        ) from error
    if (found.forks, found.created_at) != (record.forks, record.created_at):
        raise RefConflictError(
            f"branch {record.name!r} was deleted and recreated during this operation", branch=record.name
        )


def own_files(main: VersionLog, branch: str) -> list[str]:
    """Return the paths below the root of a branch, except paths that belong to a branch below or above that root.

    For the arguments, see :func:`remove_branch_root`.
    """
    root = branch_root(main.store, main.root, branch)
    paths = [info.path[len(root) :].lstrip("/") for info in main.store.list_recursive(root)]
    known = branch_names(main.store, main.root) | {branch}
    below = tuple(f"{name}/" for name in known if name.startswith(f"{branch}/"))
    return [path for path in paths if _is_own(branch, f"{branch}/{path}", known, below)]


def _is_own(branch: str, path: str, known: frozenset[str], below: tuple[str, ...]) -> bool:
    owner = branch_of_file(path, known)
    # A file that is in no directory of a root is removed with the enclosing branch.
    return owner == branch or (owner is None and not path.startswith(below))


def has_rows(main: VersionLog, branch: str) -> bool:
    """Return whether a manifest store contains versions of a branch; for arguments, see :func:`remove_branch_root`."""
    protocol = main.protocol
    return isinstance(protocol, ExternalCommit) and protocol.knows(main.at(branch_root(main.store, main.root, branch)))


def remove_branch_root(
    main: VersionLog, branch: str, *, record: bytes | None = None, only: Callable[[str], bool] | None = None
) -> None:
    """Remove the files of a branch without a record, unless the branch is needed.

    Args:
        main: the version log of the main branch.
        branch: name of the branch.
        record: content of the branch's record, which the caller has removed; if the branch must be kept, the record
            is restored.
        only: takes the path of a file below the root and returns whether to remove the file; if None, all files are
            removed.

    Raises:
        RefConflictError: the branch is needed, was recreated, or is being removed by another writer.
        CorruptDataError: it is unknown whether the branch is needed, because the manifest of another branch is damaged.
        StorageError: a storage operation failed; calling the function again continues the removal.
    """
    removal = _Removal.begin(main, branch, record)
    try:
        removal.refuse_when_needed()
    except (RefConflictError, CorruptDataError):
        removal.give_up()
        raise
    store = main.store
    root = branch_root(store, main.root, branch)
    own = [path for path in own_files(main, branch) if path != _MARK and (only is None or only(path))]
    for path in sorted(own, key=lambda path: (not path.startswith(f"{VERSIONS_DIRECTORY}/"), path)):
        if path.startswith(f"{VERSIONS_DIRECTORY}/"):
            # Only these files have names that a recreated branch would reuse.
            removal.require_own_mark()
        store.delete(store.join(root, *path.split("/")))
    if isinstance(main.protocol, ExternalCommit):
        removal.require_own_mark()
        main.protocol.forget(main.at(root))
    removal.end()
    directories = {parent for path in (*own, _MARK) for parent in _parents(path)}
    for directory in sorted(directories, key=len, reverse=True):
        store.remove_empty_directory(store.join(root, *directory.split("/")))
    names = branch.split("/")
    for depth in range(len(names), 0, -1):
        store.remove_empty_directory(branch_root(store, main.root, "/".join(names[:depth])))


class _Removal:
    """One removal of a root, identified by its mark.

    Args:
        main: the version log of the main branch.
        branch: name of the branch.
        record: content of the branch's record; None if unknown.
    """

    def __init__(self, main: VersionLog, branch: str, record: bytes | None) -> None:
        self._main = main
        self._branch = branch
        self._record = record
        self._data = uuid.uuid4().hex.encode() + b"\n" + (record or b"")

    @classmethod
    def begin(cls, main: VersionLog, branch: str, record: bytes | None) -> Self:
        """Mark the root. If a crashed removal left a mark behind, take the record from that mark."""
        if record is None:
            record = (_read_mark(main, branch) or b"").partition(b"\n")[2] or None
        removal = cls(main, branch, record)
        main.store.put(_mark_path(main, branch), removal._data)
        return removal

    def refuse_when_needed(self) -> None:
        """Check for uses of the branch one last time. Raises ``RefConflictError`` or ``CorruptDataError``."""
        records = list_branches(self._main.store, self._main.root)
        if self._branch in records:
            raise RefConflictError(
                f"branch {self._branch!r} was recreated or changed while it was being deleted", branch=self._branch
            )
        if self._record is not None:
            records[self._branch] = BranchRecord.parse(self._branch, self._record, self._record_path)
        refuse_when_used(self._main, self._branch, records)

    def require_own_mark(self) -> None:
        """Check that no other removal has replaced the mark. Raises ``RefConflictError``."""
        if not self._is_own_mark():
            raise RefConflictError(f"another writer is deleting branch {self._branch!r}", branch=self._branch)

    def give_up(self) -> None:
        """Restore the record, and remove the mark."""
        if self._record is not None:
            create_ref(self._main.store, self._record_path, self._record, self._main.create_file)
        if self._is_own_mark():
            self.end()
        elif self._record is not None and not self._main.at(self._root).newer_than(0):
            # A concurrent removal did not see the record.
            withdraw_record(self._main, self._branch, self._record)

    def end(self) -> None:
        """Remove the mark."""
        self._main.store.delete(_mark_path(self._main, self._branch))

    def _is_own_mark(self) -> bool:
        return _read_mark(self._main, self._branch) == self._data

    @property
    def _root(self) -> str:
        return branch_root(self._main.store, self._main.root, self._branch)

    @property
    def _record_path(self) -> str:
        return branch_path(self._main.store, self._main.root, self._branch)


def withdraw_record(main: VersionLog, branch: str, record: bytes) -> None:
    """Remove a record, unless it has already been removed or replaced."""
    path = branch_path(main.store, main.root, branch)
    try:
        is_same = bytes(main.store.get(path)) == record
    except NotFoundError:
        return
    if is_same:
        main.store.delete(path)


def _mark_path(main: VersionLog, branch: str) -> str:
    return main.store.join(branch_root(main.store, main.root, branch), *_MARK.split("/"))


def _read_mark(main: VersionLog, branch: str) -> bytes | None:
    try:
        return bytes(main.store.get(_mark_path(main, branch)))
    except NotFoundError:
        return None


def _parents(path: str) -> list[str]:
    parents = []
    while path := posixpath.dirname(path):
        parents.append(path)
    return parents
