"""The methods of a dataset for its locations: branches, clones, and base paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lance_core.commit.commit import commit
from lance_core.commit.options import CommitOptions
from lance_core.places.location import open_log, uri_text
from lance_core.places.references import main_line, open_version
from lance_core.places.uris import line_uri, recorded_root
from lance_core.public.dataset_base_path import base_path_from_proto
from lance_core.public.dataset_base_path import new_bases as as_messages
from lance_core.refs.branches import Branches
from lance_core.refs.clones import deep_clone, shallow_clone
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.table.migration import migrate_to_v2_names
from lance_core.table.ref_creation import known_to_exist
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.settings import CommitProgress
from lance_core.transactions.transaction import Transaction, checked_properties

if TYPE_CHECKING:
    from pathlib import Path

    from lance_core.places.references import Reference
    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DatasetPlaces"]


class DatasetPlaces(DatasetHandle):
    """The methods for branches, clones and base paths."""

    @property
    def branches(self) -> Branches:
        """The dataset's branches."""
        return Branches(self.log, self.manifest)

    def create_branch(
        self, branch: str, reference: Reference = None, storage_options: dict[str, str] | None = None
    ) -> Self:
        """Create a branch: a line of versions of its own that starts as a version of this dataset.

        Its first version has the number of the source version. No file is copied.

        Args:
            branch: its name: segments of ASCII letters, digits, '.', '-' and '_', joined by '/'; not "main".
            reference: a version number of this handle's branch, the name of a tag, or (branch, number) with None or
                "main" for the main branch and None for the latest; None for the version of this handle.
            storage_options: credentials and settings of the store; None for those of this handle.

        Returns:
            A handle on the branch.

        Raises:
            InvalidRefError: the name is invalid.
            RefAlreadyExistsError: the branch already exists, or a crashed writer left one that was created
                from another version.
            VersionNotFoundError: there is no such version, or a cleanup removed it while the branch was created.
            RefNotFoundError: there is no such tag or branch.
            StorageError: a storage operation failed.
        """
        options = self.storage_options if storage_options is None else storage_options
        main = main_line(self.log, self.manifest.message.branch)
        root_uri = recorded_root(self.uri, main)
        log, manifest, line = self.branches.create(branch, reference, root_uri=root_uri, storage_options=options)
        uri = line_uri(self.uri, of=self.log, to=log)
        return type(self).from_manifest(uri, log, manifest, options, line)

    def shallow_clone(
        self,
        target_path: str | Path,
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a table that starts as a version of this one and refers to its files.

        The clone needs the files of this table, but a cleanup of this table does not take it into account. Its first
        version has the number of the version that is cloned.

        Args:
            target_path: location of the clone; there must be no dataset.
            reference: the version, as for :meth:`create_branch`; None for that of this handle.
            storage_options: options for the clone; None for those of this handle.
            kwargs: further arguments of ``LanceDataset``, which opens the clone.

        Raises:
            AlreadyExistsError: there is already a dataset.
            VersionNotFoundError: there is no such version.
            RefNotFoundError: there is no such tag or branch.
            StorageError: a storage operation failed.
        """
        options = self.storage_options if storage_options is None else storage_options
        _, source, source_uri = self._referenced(reference)
        target = uri_text(target_path)
        shallow_clone(open_log(target, options), source, source_uri, options)
        return self._opened(target, options, kwargs)

    def deep_clone(
        self,
        target_path: str | Path,
        reference: Reference,
        storage_options: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Create a table that starts as a version of this one and holds copies of all its files.

        Args:
            target_path: location of the clone; there must be no dataset.
            reference: the version, as for :meth:`create_branch`; None for that of this handle.
            storage_options: options for the clone; None for those of this handle.
            kwargs: further arguments of ``LanceDataset``, which opens the clone.

        Raises:
            AlreadyExistsError: there is already a dataset.
            VersionNotFoundError: there is no such version.
            RefNotFoundError: there is no such tag or branch.
            NotSupportedError: two files of different bases have the same name, or values of a blob column refer to
                files below a base path.
            NotFoundError: a file is missing.
            StorageError: a storage operation failed.
        """
        options = self.storage_options if storage_options is None else storage_options
        log, source, source_uri = self._referenced(reference)
        target = uri_text(target_path)
        deep_clone(open_log(target, options), log, source, source_uri, options, self.storage_options)
        return self._opened(target, options, kwargs)

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """The base paths of the version, by id."""
        return {base.id: base_path_from_proto(base) for base in self.manifest.message.base_paths}

    def add_bases(self, new_bases: list[DatasetBasePath], transaction_properties: dict[str, str] | None = None) -> Self:
        """Add base paths, to which files of this table can be written.

        Args:
            new_bases: the base paths; without an id they get the next one.
            transaction_properties: free-form.

        Returns:
            This handle, which shows the new version.

        Raises:
            InvalidInputError: an id, a name or a path is already in use.
            RetryableCommitConflictError: another writer added one with the same id, name or path.
        """
        operation = UpdateBases(new_bases=as_messages(new_bases))
        properties = checked_properties(transaction_properties)
        transaction = Transaction(read_version=self.manifest.version, operation=operation, properties=properties)
        options = CommitOptions(
            storage_options=self.storage_options, is_first_try=True, progress=CommitProgress(line=self.line)
        )
        self.show(commit(self.log, transaction, options, known=self.manifest))
        return self

    def migrate_manifest_paths_v2(self) -> None:
        """Rename every manifest of this branch to its V2 name; does nothing when all of them have it.

        No other operation may run on the dataset until it has returned. If it is interrupted, the dataset cannot be
        opened until the migration is run again, here or by URI (``lance_core.migrate_manifest_paths_v2``).

        Raises:
            NotSupportedError: the dataset uses an external manifest store.
            CorruptDataError: a version has different manifests under both names.
            StorageError: a storage operation failed.
        """
        migrate_to_v2_names(self.log)
        self.show(self.log.read_version(self.manifest.version))

    def _referenced(self, reference: Reference) -> tuple[VersionLog, Manifest, str]:
        """Line and manifest of a reference, and the root as manifests record it."""
        branch = self.manifest.message.branch
        if reference is None:
            return self.log, self.manifest, recorded_root(self.uri, self.log)
        log, manifest = open_version(self.log, reference, branch=branch)
        return log, manifest, recorded_root(self.uri, log)

    def _opened(self, uri: str, storage_options: dict[str, str] | None, kwargs: dict[str, Any]) -> Self:
        with known_to_exist(f"the clone at {uri}"):
            return type(self)(uri, storage_options=storage_options, **kwargs)
