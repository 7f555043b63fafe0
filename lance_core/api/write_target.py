"""What new rows are written for: a table that exists, or one that is to be made.

Appended rows take the table's field ids and format; columns are matched by name, and nullable ones may be missing. A
new table, or one whose content is replaced, gets ids depth first from 0.

Source: behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError, SchemaMismatchError
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Schema
from lance_core.schema.projection import check_compatible
from lance_core.table.feature_flags import require_writable
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.table.manifest import Manifest

__all__ = ["Mode", "WriteTarget"]


class Mode(StrEnum):
    """What a write does with the rows that are there."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From the argument. Raises ``InvalidInputError``, or ``InvalidTypeError`` for what is no string."""
        if not isinstance(text, str):
            raise InvalidTypeError(f"mode must be a str, found {text!r}", argument="mode")
        try:
            return cls(text.lower())
        except ValueError as error:
            raise InvalidInputError(f"mode {text!r} is not one of {[mode.value for mode in cls]}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """What the data files of a write have to look like.

    Attributes:
        manifest: the version that the write is planned on; None when there is no table.
        appends: whether old rows stay.
        table_schema: the schema of the table afterwards.
        file_schema: the part of it that the data has, in table order.
        file_version: format of the files.
    """

    manifest: Manifest | None
    appends: bool
    table_schema: Schema
    file_schema: Schema
    file_version: LanceFileVersion

    @classmethod
    def plan(
        cls, manifest: Manifest | None, mode: Mode, data_schema: pa.Schema, data_storage_version: str | None
    ) -> Self:
        """Plan a write.

        Args:
            manifest: the latest version; None when there is no table.
            mode: append to an absent table creates it.
            data_schema: of the rows.
            data_storage_version: None for the table's.

        Raises:
            SchemaMismatchError: rows to append do not fit the table.
            UnsupportedVersionError: files of that format are not written here.
            NotSupportedError: a type cannot be stored, or the format is not the table's.
        """
        asked = None if data_storage_version is None else LanceFileVersion.parse(data_storage_version)
        file_version = asked or DEFAULT_VERSION
        if manifest is not None:
            require_writable(manifest.message)
            file_version = _version_for(manifest, mode, asked)
        file_version.require_writable()
        if manifest is not None and mode is Mode.APPEND:
            table_schema = manifest.schema
            check_compatible(table_schema, data_schema)
            present = [top for top in table_schema.fields if top.name in data_schema.names]
            if not present:
                raise SchemaMismatchError("the rows to append have no columns")
            file_schema = Schema(fields=tuple(present), metadata=table_schema.metadata)
        else:
            table_schema = file_schema = schema_from_arrow(data_schema)
        return cls(
            manifest=manifest,
            appends=manifest is not None and mode is Mode.APPEND,
            table_schema=table_schema,
            file_schema=file_schema,
            file_version=file_version,
        )

    @property
    def read_version(self) -> int:
        """The version that the write is planned on; 0 when there is no table."""
        return 0 if self.manifest is None else self.manifest.version


def _version_for(manifest: Manifest, mode: Mode, asked: LanceFileVersion | None) -> LanceFileVersion:
    if asked is None:
        return manifest.file_version
    if mode is Mode.APPEND and asked is not manifest.file_version:
        raise NotSupportedError(
            f"data_storage_version {asked.value} differs from the table's {manifest.file_version.value}; "
            "files of several versions in one table are not written here",
            expected=manifest.file_version.value,
            found=asked.value,
        )
    return asked
