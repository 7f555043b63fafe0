"""Branches: each has its own dataset root below ``tree/`` in the main root, and a small JSON file that records it.

::

    tree/{branch}/…                             versions, data, … of the branch; "/" separates directories
    _refs/branches/{branch, "/" as %2F}.json    {"parentBranch": null, "identifier": {"version_mapping": [[3, "…"]]},
                                                 "parentVersion": 3, "createAt": 1769860800, "manifestSize": 391,
                                                 "metadata": {}}

When a branch is created, its manifest is written before its record; when it is removed, the record is removed first.
Therefore, a branch that has a record always has versions. All records are in the main root. ``version_mapping``
describes the path from the main branch to the branch. For each fork on this path, it contains the version at which the
fork was created, and an identity that does not depend on the branch name.

Source: files that pylance 14.0.2 writes, and files that it rejects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, unquote

from lance_core.errors import InvalidRefError, InvalidTypeError
from lance_core.table.paths import BRANCH_ROOTS_DIRECTORY, BRANCHES_DIRECTORY, ROOT_DIRECTORIES, VERSIONS_DIRECTORY
from lance_core.table.ref_files import REF_SUFFIX, RefDocument, ref_files, ref_json
from lance_core.table.tags import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = [
    "BranchRecord",
    "Fork",
    "branch_at",
    "branch_names",
    "branch_of_file",
    "branch_path",
    "branch_root",
    "check_branch_name",
    "check_new_branch_name",
    "list_branches",
    "main_root",
    "nested_roots",
]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_READ_NAME: Final = re.compile(r"[\w.-]+")
_VERSIONS_BELOW: Final = f"/{VERSIONS_DIRECTORY}/"


@dataclass(frozen=True, slots=True)
class Fork:
    """One fork on the path from the main branch to a branch.

    Attributes:
        version: the version at which the fork was created; 0 if unknown.
        identity: the identity of the fork, 32 hexadecimal digits.
    """

    version: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRecord:
    """The record of a branch.

    Attributes:
        name: the name of the branch; its root is ``tree/{name}``.
        parent: the branch from which this branch was created; None for the main branch.
        parent_version: the version from which this branch was created.
        forks: the forks on the path from the main branch; empty if the file does not record them.
        created_at: creation time in seconds since the epoch.
        manifest_size: size of the branch's first manifest in bytes.
        metadata: user-defined strings.
    """

    name: str
    parent: str | None = None
    parent_version: int
    forks: tuple[Fork, ...] = ()
    created_at: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, data: pa.Buffer | bytes, path: str) -> Self:
        """Parse the file of a branch.

        Raises:
            CorruptDataError: the file is not a branch record; the message contains the path and the key.
        """
        document = RefDocument.parse(data, path)
        return cls(
            name=name,
            parent=document.text("parentBranch"),
            parent_version=document.number("parentVersion"),
            forks=_forks(document.values),
            created_at=document.number("createAt", 0),
            manifest_size=document.number("manifestSize", 0),
            metadata=document.texts("metadata"),
        )

    @property
    def forked_from(self) -> int | None:
        """The version of the main branch at which the path to this branch begins; None if it was not recorded."""
        return self.forked_at(0)

    def forked_at(self, depth: int) -> int | None:
        """Return the version at which the fork with index ``depth`` was created; None if it was not recorded."""
        # The reference writes 0 for an unknown version.
        if depth < len(self.forks) and self.forks[depth].version > 0:
            return self.forks[depth].version
        return self.parent_version if self.parent is None and depth == 0 else None

    def to_json(self) -> bytes:
        """Return the content of the file.

        Raises:
            InvalidInputError: a metadata string cannot be encoded as UTF-8.
        """
        document = {
            "parentBranch": self.parent,
            "identifier": {"version_mapping": [[fork.version, fork.identity] for fork in self.forks]},
            "parentVersion": self.parent_version,
            "createAt": self.created_at,
            "manifestSize": self.manifest_size,
            "metadata": dict(self.metadata),
        }
        return ref_json(document, "branch")


def check_new_branch_name(name: str) -> None:
    """Check the name of a new branch.

    Raises:
        InvalidTypeError: the name is not a string.
        InvalidRefError: :func:`check_branch_name` rejects the name, the name contains a non-ASCII letter, or the root
            of the branch would be inside a directory of another branch's root. For example, ``tree/a/data`` contains
            the data files of branch ``a``.
    """
    check_branch_name(name)
    segments = name.split("/")
    reserved = sorted(ROOT_DIRECTORIES.intersection(segments[1:]))
    if not all(map(_NAME.fullmatch, segments)):
        rule = "may contain only the letters a-z and A-Z, digits, '.', '-', '_', and '/' between segments"
    elif reserved:
        rule = (
            f"must not contain {reserved[0]!r} after the first segment, because every branch has a directory with "
            "this name"
        )
    else:
        return
    raise InvalidRefError(f"invalid branch name {name!r}: it {rule}", branch=name)


def check_branch_name(name: str) -> None:
    """Check the name of an existing branch.

    Raises:
        InvalidTypeError: the name is not a string.
        InvalidRefError: the name is reserved, contains an invalid character, or has dots or slashes in invalid
            positions.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a branch name must be a string, found {name!r}")
    segments = name.split("/")
    if not name:
        rule = "must not be empty"
    elif name == MAIN_BRANCH:
        rule = "must not be the name of the main branch"
    elif "" in segments:
        rule = "must not begin or end with a slash, or contain two consecutive slashes"
    elif ".." in name or "." in segments:
        rule = "must not contain two consecutive dots or a segment '.'"
    elif not all(map(_READ_NAME.fullmatch, segments)):
        rule = "may contain only letters, digits, '.', '-', '_', and '/' between segments"
    elif name.endswith(".lock"):
        rule = "must not end with .lock"
    else:
        return
    raise InvalidRefError(f"invalid branch name {name!r}: it {rule}", branch=name)


def branch_path(store: ObjectStore, root: str, name: str) -> str:
    """Return the path of a branch record, below the main root."""
    return store.join(root, BRANCHES_DIRECTORY, f"{quote(name, safe='')}{REF_SUFFIX}")


def branch_root(store: ObjectStore, root: str, name: str) -> str:
    """Return the root of a branch, below the main root."""
    return store.join(root, BRANCH_ROOTS_DIRECTORY, *name.split("/"))


def main_root(root: str, branch: str) -> str:
    """Return the main root of a dataset, given the root of one of its branches.

    A copy of a branch in another location is an independent table, whose root is returned unchanged.

    Args:
        root: the root of the branch.
        branch: the branch recorded in the table's manifests; empty for the main branch.
    """
    tail = f"/{BRANCH_ROOTS_DIRECTORY}/{branch}"
    return root.removesuffix(tail) if branch else root


def branch_at(store: ObjectStore, main: str, root: str) -> str:
    """Return the name of the branch whose root is ``root``; empty for the main root and for any other location."""
    prefix = f"{store.join(main, BRANCH_ROOTS_DIRECTORY)}/"
    return root.removeprefix(prefix) if root.startswith(prefix) else ""


def branch_names(store: ObjectStore, root: str) -> frozenset[str]:
    """Return the names of all branches that have a record in the main root, even if the record cannot be read."""
    directory = store.join(root, BRANCHES_DIRECTORY)
    return frozenset(
        unquote(file_name.removesuffix(REF_SUFFIX))
        for file_name in store.list_names(directory)
        if file_name.endswith(REF_SUFFIX)
    )


def branch_of_file(path: str, known: Container[str]) -> str | None:
    """Return the name of the branch whose root contains a file; None if the file does not belong to a root.

    A file belongs to a root if it is in one of the root's standard directories, such as ``data/``. These directories
    may contain the roots of other tables, which are not branches.

    Args:
        path: the path of the file, below ``tree/``.
        known: names of the known branches. The name of an unknown branch is assumed to end before the first path
            segment that is the name of a standard directory.
    """
    segments = path.split("/")
    depths = [depth for depth in range(1, len(segments) - 1) if segments[depth] in ROOT_DIRECTORIES]
    names = ["/".join(segments[:depth]) for depth in depths]
    return next((name for name in reversed(names) if name in known), names[0] if names else None)


def nested_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """Return all table roots below a root, each with a trailing slash, given the paths of all files below the root."""
    return tuple({f"{path.partition(_VERSIONS_BELOW)[0]}/" for path in paths if _VERSIONS_BELOW in path})


def list_branches(store: ObjectStore, root: str) -> dict[str, BranchRecord]:
    """Return the records of all branches, keyed and ordered by name; directories without a record are not branches.

    Raises:
        CorruptDataError: a file is not a branch record.
    """
    return {
        name: BranchRecord.parse(name, data, path) for name, path, data in ref_files(store, root, BRANCHES_DIRECTORY)
    }


def _forks(document: Mapping[str, object]) -> tuple[Fork, ...]:
    """Return the forks in ``identifier.version_mapping``; empty if it is malformed."""
    identifier = document.get("identifier")
    pairs = identifier.get("version_mapping") if isinstance(identifier, dict) else None
    if not isinstance(pairs, list):
        return ()
    forks = []
    for pair in pairs:
        match pair:
            case [int(version), str(identity)]:
                forks.append(Fork(version, identity))
            case _:
                return ()
    return tuple(forks)
