"""The methods of a dataset that change its config, metadata or current version.

Each creates a new version, even when nothing changes, and the handle then shows it.

Source: names, arguments and results of pylance 14.0.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from lance_core.commit.commit import commit
from lance_core.commit.options import CommitOptions
from lance_core.errors import DatasetNotFoundError, InvalidTypeError, SchemaMismatchError
from lance_core.public.arguments import checked_text
from lance_core.scan.dataset_handle import DatasetHandle
from lance_core.transactions.operations.map_update import map_update
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.settings import CommitProgress
from lance_core.transactions.transaction import Transaction

__all__ = ["DatasetSettings"]


class DatasetSettings(DatasetHandle):
    """The methods that change the settings of a dataset."""

    def restore(self) -> None:
        """Restore the version that this handle shows as a new, latest version.

        The versions in between are kept. Fragment and row ids keep increasing.

        Raises:
            IncompatibleTransactionError: the metadata of the schema or a field was changed at the same time.
            NotFoundError: a file of the version is missing.
            TooMuchWriteContentionError: other writers were faster at every attempt.
        """
        latest = self.log.latest()
        if latest is None:
            raise DatasetNotFoundError(f"dataset '{self.log.root}' no longer exists", path=self.log.root)
        self._commit(Transaction(read_version=latest.version, operation=Restore(version=self.manifest.version)))

    def update_config(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the table config.

        Args:
            values: new values; None removes the key.
            replace: drop every other entry.

        Returns:
            The config afterwards.

        Raises:
            InvalidTypeError: a key is not a string, or a value is neither a string nor None.
            IncompatibleTransactionError: another writer set one of the keys since the version shown.
        """
        self._update(UpdateConfig(config=map_update("values", values, replace=replace)))
        return dict(self.manifest.message.config)

    def delete_config_keys(self, keys: list[str]) -> None:
        """Remove keys from the table config; missing keys are ignored. Raises the same errors as above."""
        given: object = keys
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidTypeError(f"keys must be a list of strings, found {given!r:.80}", argument="keys")
        self.update_config({checked_text("a key", key): None for key in keys})

    def update_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the table metadata; arguments, result and errors as for :meth:`update_config`."""
        self._update(UpdateConfig(table_metadata=map_update("values", values, replace=replace)))
        return dict(self.manifest.message.table_metadata)

    def update_schema_metadata(self, values: dict[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the metadata of the schema; arguments and result as for :meth:`update_config`.

        Raises:
            InvalidTypeError: a key is not a string, or a value is neither a string nor None.
            RetryableCommitConflictError: another writer changed the schema since the version shown.
            IncompatibleTransactionError: another writer changed this metadata, or replaced the content.
        """
        self._update(UpdateConfig(schema_metadata=map_update("values", values, replace=replace)))
        return self.schema_metadata

    def update_field_metadata(self, field_updates: dict[str, dict[str, str | None]], *, replace: bool = False) -> None:
        """Change the metadata of fields.

        Args:
            field_updates: by path of the field (``"a"``, ``"s.x"``): new values; None removes the key.
            replace: drop every other entry of these fields.

        Raises:
            SchemaMismatchError: there is no such field.
            InvalidSchemaError: a primary or clustering key is already declared, has an invalid value, or an unsuitable
                column.
            RetryableCommitConflictError: another writer changed the schema since the version shown.
            IncompatibleTransactionError: another writer changed metadata of one of the fields, or replaced the content.
        """
        if not isinstance(field_updates, dict):
            raise InvalidTypeError(f"field_updates must map paths to updates, found {type(field_updates).__name__}")
        updates = {
            self._field_id(path): map_update(f"field_updates[{path!r}]", values, replace=replace)
            for path, values in field_updates.items()
        }
        self._update(UpdateConfig(field_metadata=updates))

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Set the whole metadata of the schema. Deprecated in the reference: see :meth:`update_schema_metadata`."""
        _warn("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self._update(UpdateConfig(schema_metadata=map_update("new_metadata", new_metadata, replace=True)))

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Set the whole metadata of a field. Deprecated in the reference: see :meth:`update_field_metadata`."""
        _warn("replace_field_metadata", "update_field_metadata with field paths and replace=True")
        update = map_update("new_metadata", new_metadata, replace=True)
        self._update(UpdateConfig(field_metadata={self._field_id(field_name): update}))

    def _field_id(self, path: object) -> int:
        found = self.lance_schema.find(path) if isinstance(path, str) else None
        if found is None:
            raise SchemaMismatchError(
                f"the dataset has no field {path!r}; top-level fields: {self.lance_schema.names}", field=path
            )
        return found.id

    def _update(self, operation: UpdateConfig) -> None:
        self._commit(Transaction(read_version=self.manifest.version, operation=operation))

    def _commit(self, transaction: Transaction) -> None:
        options = CommitOptions(
            storage_options=self.storage_options, is_first_try=True, progress=CommitProgress(line=self.line)
        )
        self.show(commit(self.log, transaction, options, known=self.manifest))


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"{name} is deprecated; use {instead} instead", DeprecationWarning, stacklevel=3)
