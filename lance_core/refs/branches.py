"""Branches: histories of versions that start from an existing version and share its files until they rewrite them.

A branch is a shallow clone below ``tree/`` of the main root. Its manifest is written before its record in
``_refs/branches``; if two writers create the same branch, the one that creates the record succeeds. A writer that
crashes between these steps leaves behind versions without a record; creating the same branch from the same version
again adds the record, and deleting the branch removes the versions. After publishing a record, the writer checks
whether the branch, or the branch from which it was created, is being deleted.

Names, arguments, and results are the same as in pylance, which lacks these safeguards.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from lance_core.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidTypeError,
    NotFoundError,
    RefAlreadyExistsError,
    RefConflictError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.io.object_store import PutOutcome
from lance_core.places.references import open_version
from lance_core.places.uris import branch_uri, line_uri, recorded_root
from lance_core.public.arguments import order_sign
from lance_core.refs.branch_removal import (
    has_rows,
    own_files,
    remove_branch_root,
    require_same_branch,
    require_unmarked,
    withdraw_record,
)
from lance_core.refs.branch_uses import refuse_when_used
from lance_core.refs.cloning import clone_version
from lance_core.scan.table_view import TableView
from lance_core.table.branches import (
    BranchRecord,
    Fork,
    branch_at,
    branch_path,
    branch_root,
    check_branch_name,
    check_new_branch_name,
    list_branches,
)
from lance_core.table.lines import identity_of, main_line, read_record
from lance_core.table.ref_creation import create_ref, known_to_exist
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.transaction import read_transaction

if TYPE_CHECKING:
    import builtins
    from collections.abc import Hashable

    from lance_core.places.references import Reference
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["Branch", "Branches", "create_branch"]


class Branch(TypedDict):
    """One branch.

    Attributes:
        parent_branch: the branch from which this branch was created; None means the main branch.
        branch_identifier: the forks that lead from the main branch to this branch: the version and identity of each.
        parent_version: the version from which this branch was created.
        create_at: creation time, in seconds since the epoch.
        manifest_size: size of the first manifest of this branch in bytes.
        metadata: metadata set by the user.
    """

    parent_branch: str | None
    branch_identifier: list[tuple[int, str]]
    parent_version: int
    create_at: int
    manifest_size: int
    metadata: dict[str, str]


class Branches:
    """The branches of a dataset.

    Args:
        log: the version log of one branch of the dataset, which may be the main branch.
        manifest: the manifest of a version of that branch.
    """

    def __init__(self, log: VersionLog, manifest: Manifest) -> None:
        """Initialize without reading anything."""
        self._line = log
        self._manifest = manifest
        self._main = main_line(log, manifest.message.branch)

    def list(self) -> dict[str, Branch]:
        """Return all branches, keyed by name.

        Raises:
            CorruptDataError: a file in ``_refs/branches`` is not a branch record.
        """
        return {name: _branch(record) for name, record in self._records().items()}

    def list_ordered(self, order: str | None = None) -> builtins.list[tuple[str, Branch]]:
        """Return all branches ordered by their source version, then by name.

        Args:
            order: "asc" or "desc"; None means "desc".

        Raises:
            InvalidInputError: the order is unknown.
            InvalidTypeError: the order is not a string.
            CorruptDataError: a file in ``_refs/branches`` is not a branch record.
        """
        sign = order_sign(order)
        return sorted(self.list().items(), key=lambda item: (sign * item[1]["parent_version"], item[0]))

    def create(
        self, branch: str, reference: Reference = None, *, root_uri: str, storage_options: dict[str, str] | None = None
    ) -> tuple[VersionLog, Manifest, Hashable]:
        """Create a branch; see ``LanceDataset.create_branch``.

        Args:
            branch: name of the branch.
            reference: the version to create the branch from; if None, the version of this handle.
            root_uri: root of the main branch, in the form that manifests record.
            storage_options: credentials and settings of the store.

        Returns:
            The version log of the branch, its first version, and a value that identifies the branch among branches of
            the same name.
        """
        check_new_branch_name(branch)
        records = self._records()
        if branch in records:
            raise RefAlreadyExistsError(f"branch {branch!r} already exists", branch=branch)
        self._main.require_commits()
        source_line, source = self._source(reference)
        parent = branch_at(source_line.store, self._main.root, source_line.root)
        above = read_record(self._main, parent) if parent else None
        require_unmarked(self._main, branch)
        target = self._main.at(branch_root(self._main.store, self._main.root, branch))
        clone = Clone(
            is_shallow=True,
            ref_name=parent or None,
            ref_version=source.version,
            ref_path=branch_uri(root_uri, parent) if parent else root_uri,
            branch_name=branch,
        )
        try:
            manifest = clone_version(target, clone, source, storage_options)
        except AlreadyExistsError as error:
            manifest = self._left_behind(target, clone, error)
        try:
            source_line.read_version(source.version)
        except VersionNotFoundError:
            # A cleanup that had not seen the branch removed the version from which it was created.
            self._remove_again(branch)
            raise
        try:
            num_bytes = target.manifest_bytes(manifest.version)
        except VersionNotFoundError as error:
            raise RefConflictError(
                f"branch {branch!r} was deleted while it was being created", branch=branch
            ) from error
        record = BranchRecord(
            name=branch,
            parent=parent or None,
            parent_version=source.version,
            forks=(*(above.forks if above is not None else ()), Fork(source.version, uuid.uuid4().hex)),
            created_at=int(time.time()),
            manifest_size=num_bytes,
        )
        if (
            create_ref(self._main.store, self._path(branch), record.to_json(), self._main.create_file)
            is PutOutcome.EXISTS
        ):
            raise RefAlreadyExistsError(f"branch {branch!r} already exists", branch=branch)
        with known_to_exist(f"branch {branch!r}"):
            self._confirm(target, manifest, record)
            if above is not None:
                self._confirm_parent(source_line, above, record)
        return target, manifest, identity_of(record)

    def delete(self, branch: str) -> None:
        """Remove a branch: its record, its files, and its rows in an external manifest store.

        Leftovers of an interrupted creation or deletion of the branch are also removed.

        Raises:
            InvalidRefError: the name is invalid.
            RefNotFoundError: the branch does not exist and has no leftovers.
            RefConflictError: a tag refers to a version of the branch, another branch was created from it, or another
                writer is creating, changing, or deleting it. If the conflict is detected after the record was removed,
                the record is restored.
            CorruptDataError: a record is damaged, or the manifest of a branch without a record is damaged. If the
                branch itself has no record, a damaged manifest of any other branch raises this error too.
        """
        check_branch_name(branch)
        records = self._records()
        record = None
        if branch in records:
            refuse_when_used(self._main, branch, records)
            with suppress(NotFoundError):
                record = bytes(self._main.store.get(self._path(branch)))
            self._main.store.delete(self._path(branch))
        elif not own_files(self._main, branch) and not has_rows(self._main, branch):
            raise RefNotFoundError(f"branch {branch!r} does not exist", branch=branch)
        remove_branch_root(self._main, branch, record=record)

    def replace_metadata(self, branch: str, metadata: Mapping[str, str]) -> None:
        """Replace all metadata of a branch.

        Raises:
            InvalidRefError: the name is invalid.
            RefNotFoundError: the branch does not exist.
            RefConflictError: the branch was deleted during this operation.
            InvalidTypeError: the metadata is not a mapping, or a key or value is not a string.
        """
        check_branch_name(branch)
        texts = _texts(metadata)
        record = replace(read_record(self._main, branch), metadata=texts)
        self._main.store.put(self._path(branch), record.to_json())
        try:
            require_same_branch(self._main, record)
            if self._main.at(branch_root(self._main.store, self._main.root, branch)).latest() is None:
                raise RefConflictError(f"branch {branch!r} was deleted during this operation", branch=branch)
        except RefConflictError:
            withdraw_record(self._main, branch, record.to_json())
            raise

    def _records(self) -> dict[str, BranchRecord]:
        return list_branches(self._main.store, self._main.root)

    def _path(self, branch: str) -> str:
        return branch_path(self._main.store, self._main.root, branch)

    def _source(self, reference: Reference) -> tuple[VersionLog, Manifest]:
        if reference is None:
            return self._line, self._manifest
        return open_version(self._line, reference, branch=self._manifest.message.branch)

    def _left_behind(self, target: VersionLog, clone: Clone, error: AlreadyExistsError) -> Manifest:
        """Return the first version of a branch without a record if an earlier attempt at the same clone created it."""
        names = target.newer_than(0)
        if len(names) == 1:
            with suppress(VersionNotFoundError):
                manifest = target.read(names[0])
                made_by = read_transaction(target, manifest)
                if made_by is not None and made_by.operation == clone:
                    return manifest
        raise RefAlreadyExistsError(
            f"{target.uri} contains versions of branch {clone.branch_name!r}, but the branch has no record in "
            "_refs/branches; remove the branch with branches.delete",
            branch=clone.branch_name,
        ) from error

    def _confirm(self, target: VersionLog, manifest: Manifest, record: BranchRecord) -> None:
        """Withdraw the record if the root is being removed, or if the versions are not those that the record describes.

        The versions differ if they were removed, or if another writer has replaced them.
        """
        try:
            require_same_branch(self._main, record)
            if not _goes_on_from(target, manifest):
                raise RefAlreadyExistsError(
                    f"another writer is creating or deleting branch {record.name!r}", branch=record.name
                )
        except (RefConflictError, RefAlreadyExistsError):
            withdraw_record(self._main, record.name, record.to_json())
            raise

    def _confirm_parent(self, line: VersionLog, parent: BranchRecord, record: BranchRecord) -> None:
        """Withdraw a branch if the branch from which it was created is being deleted."""
        try:
            require_same_branch(self._main, parent)
            line.manifest_bytes(record.parent_version)
        except (RefConflictError, VersionNotFoundError):
            withdraw_record(self._main, record.name, record.to_json())
            self._remove_again(record.name)
            raise

    def _remove_again(self, branch: str) -> None:
        """Remove the new branch, unless it is already in use."""
        with suppress(RefConflictError, CorruptDataError):
            remove_branch_root(self._main, branch)


def _goes_on_from(target: VersionLog, first: Manifest) -> bool:
    """Return whether the versions of a branch started with ``first``, even if a cleanup has since removed it."""
    names = target.newer_than(0)
    if names and names[0].version > first.version:
        # A version of another writer starts a different branch, unless it was built on an existing version.
        latest = target.read_latest()
        theirs = read_transaction(target, latest) if latest is not None else None
        return theirs is not None and not theirs.operation.is_first_of_its_root
    return bool(names) and names[0].version == first.version


def _texts(metadata: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise InvalidTypeError(f"branch metadata must be a mapping, found {metadata!r}", argument="metadata")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidTypeError(f"keys and values of branch metadata must be strings, found {key!r}: {value!r}")
    return dict(metadata)


def create_branch(
    view: TableView, name: str, reference: Reference, storage_options: dict[str, str] | None
) -> TableView:
    """Create a branch, and return a view of its first version. For errors, see ``LanceDataset.create_branch``.

    Args:
        view: a version of the dataset.
        name: name of the branch.
        reference: the version to create the branch from; if None, the version of the view.
        storage_options: credentials and settings of the store; if None, those of the view.
    """
    options = view.storage_options if storage_options is None else storage_options
    root_uri = recorded_root(view.uri, main_line(view.log, view.branch))
    branches = Branches(view.log, view.manifest)
    log, manifest, line = branches.create(name, reference, root_uri=root_uri, storage_options=options)
    return TableView(line_uri(view.uri, of=view.log, to=log), log, manifest, options, line, view.session)


def _branch(record: BranchRecord) -> Branch:
    return Branch(
        parent_branch=record.parent,
        branch_identifier=[(fork.version, fork.identity) for fork in record.forks],
        parent_version=record.parent_version,
        create_at=record.created_at,
        manifest_size=record.manifest_size,
        metadata=dict(record.metadata),
    )
