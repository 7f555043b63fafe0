"""Determines how new rows are written, based on their target: an existing table or a new one.

Appended rows are written with the table's field ids, and in the table's format unless a different one is requested.
Columns are matched by name, and nullable columns may be missing. Files in format 0.1 cannot be mixed with files of
other formats, and must contain all columns. The fields of a new table, or of a table whose content is replaced, are
numbered depth first from 0; a table whose content is replaced keeps its format unless a different one is requested.

Source: behavior of pylance 14.0.2, except that two base paths with the same name or path are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError, SchemaMismatchError
from lance_core.file.families import requires_every_field
from lance_core.file.prepared_input import PreparedInput
from lance_core.places.uris import recorded_root
from lance_core.schema.blob_fields import complete_schema, declared_schema
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.schema.prepared_blobs import in_given_shape
from lance_core.schema.projection import check_compatible
from lance_core.schema.storable import check_storable
from lance_core.table.feature_flags import require_writable
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lance_core.table.base_paths import BasePath, DataPlace, FileLocator
    from lance_core.table.manifest import Manifest

__all__ = ["Mode", "WriteTarget", "data_places", "known_dictionaries", "version_for"]


class Mode(StrEnum):
    """What a write does with existing rows."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a mode; raise ``InvalidTypeError`` if it is not a string, ``InvalidInputError`` if it is unknown."""
        if not isinstance(text, str):
            raise InvalidTypeError(f"mode must be a str, found {text!r}", argument="mode")
        try:
            return cls(text.lower())
        except ValueError as error:
            raise InvalidInputError(f"mode {text!r} is not one of {[mode.value for mode in cls]}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The requirements for the data files of a write.

    Attributes:
        manifest: the version that the write is planned on; None if the table does not exist.
        appends: whether existing rows are kept.
        table_schema: the schema of the table after the write.
        file_schema: the part of the table schema that the data contains, in table order.
        file_version: the format of the data files.
        prepared: converts the rows to the types that the table declares.
    """

    manifest: Manifest | None
    appends: bool
    table_schema: Schema
    file_schema: Schema
    file_version: LanceFileVersion
    prepared: PreparedInput

    @classmethod
    def plan(
        cls, manifest: Manifest | None, mode: Mode, data_schema: pa.Schema, asked: LanceFileVersion | None
    ) -> Self:
        """Plan a write.

        Args:
            manifest: the latest version; None if the table does not exist.
            mode: the mode; an append creates the table if it does not exist.
            data_schema: the schema of the rows.
            asked: the requested format of the files; None for the table's format, or the default format if the
                table does not exist.

        Raises:
            SchemaMismatchError: the rows to append are incompatible with the table.
            UnsupportedVersionError: this library does not write files of the format, or the format does not support a
                type; in the latter case, the message recommends a format that supports it.
            NotSupportedError: a type cannot be stored, or files of the format cannot be mixed with the table's files.
        """
        file_version = asked or DEFAULT_VERSION
        if manifest is not None:
            require_writable(manifest.message)
            file_version = version_for(manifest, mode, asked)
        file_version.require_writable()
        if manifest is not None and mode is Mode.APPEND:
            table_schema = manifest.schema
            prepared = PreparedInput(data_schema, table=table_schema)
            data_schema = prepared.schema
            given = _as_given(table_schema, data_schema)
            check_compatible(complete_schema(given), data_schema)
            if requires_every_field(file_version):
                _check_complete(table_schema, data_schema)
            names = set(data_schema.names)
            present = [top for top in given.fields if top.name in names]
            if not present:
                raise SchemaMismatchError("the rows to append have no columns")
            file_schema = Schema(fields=tuple(present), metadata=table_schema.metadata)
        else:
            prepared = PreparedInput(data_schema, upgrades_blobs=file_version >= LanceFileVersion.V2_2)
            table_schema = declared_schema(schema_from_arrow(prepared.schema))
            file_schema = _as_given(table_schema, prepared.schema)
        check_storable(file_schema, file_version)
        return cls(
            manifest=manifest,
            appends=manifest is not None and mode is Mode.APPEND,
            table_schema=table_schema,
            file_schema=file_schema,
            file_version=file_version,
            prepared=prepared,
        )

    @property
    def read_version(self) -> int:
        """The version that the write is planned on; 0 if the table does not exist."""
        return 0 if self.manifest is None else self.manifest.version


def data_places(
    locator: FileLocator, target_bases: Sequence[str] | None, *, target_all_bases: bool | None
) -> list[DataPlace]:
    """Return the directories for new data files, to be used in turn; an empty list means the table's own root.

    Args:
        locator: locates the bases of the table.
        target_bases: names or paths of the bases to use.
        target_all_bases: whether to use the root and all bases in turn.

    Raises:
        InvalidInputError: no base has a requested name or path, or both arguments are given.
        InvalidTypeError: ``target_bases`` is not a list of strings.
    """
    if target_all_bases and target_bases:
        raise InvalidInputError("target_all_bases cannot be given together with target_bases")
    if target_all_bases:
        ids = sorted(base.id for base in locator.base_paths)
        return [locator.data_place(base_id) for base_id in (None, *ids)]
    if target_bases is None:
        return []
    if not isinstance(target_bases, (list, tuple)) or not all(isinstance(name, str) for name in target_bases):
        raise InvalidTypeError(f"target_bases must be a list of names or paths, found {target_bases!r:.80}")
    return [locator.data_place(_find(locator.base_paths, name).id) for name in target_bases]


def _find(bases: Sequence[BasePath], name: str) -> BasePath:
    for base in bases:
        if base.name == name or base.path == name or base.path == _recorded(name):
            return base
    known = sorted(base.name or base.path for base in bases)
    raise InvalidInputError(
        f"unknown target base {name!r}; the table has: {known or 'no bases'}", argument="target_bases"
    )


def _recorded(name: str) -> str | None:
    try:
        return recorded_root(name)
    except InvalidInputError:
        return None


def known_dictionaries(manifest: Manifest) -> Mapping[int, pa.Array]:
    """Return, by field id, the dictionary values that each new file of the table must start with.

    Raises:
        NotSupportedError: the manifest lacks the dictionary of a column that data files contain.
    """
    if manifest.file_version.is_legacy and manifest.message.fragments:
        fields = [field for field in manifest.schema.walk() if field.is_dictionary]
        missing = next((field for field in fields if field.id not in manifest.dictionaries), None)
        if missing is not None:
            raise NotSupportedError(
                f"version {manifest.version}: the manifest lacks the dictionary of column {missing.name!r} (id "
                f"{missing.id}), so rows cannot be added; overwrite the table instead",
                field=missing.id,
            )
    return manifest.dictionaries


def version_for(manifest: Manifest, mode: Mode, asked: LanceFileVersion | None) -> LanceFileVersion:
    """Return the format of new files: the requested one, if the table can contain such files; by default, the table's.

    Raises:
        NotSupportedError: files of the format cannot be mixed with the table's files.
    """
    own = manifest.file_version
    if asked is None:
        return own
    if mode is Mode.APPEND and not asked.mixes_with(own):
        raise NotSupportedError(
            f"data files in format {asked.value} cannot be added to a table in format {own.value}, because files of "
            "format 0.1 cannot be mixed with files of other formats; overwrite the table to change its format",
            expected=own.value,
            found=asked.value,
        )
    if mode is not Mode.APPEND and asked.is_legacy and manifest.mixes_file_versions:
        raise NotSupportedError(
            f"a table that has contained data files of several formats cannot be changed to format {asked.value}",
            found=asked.value,
        )
    return asked


def _as_given(table_schema: Schema, data_schema: pa.Schema) -> Schema:
    """Return the table's schema, with blob columns in the form in which the rows contain them."""
    names = data_schema.names
    tops = [
        in_given_shape(top, data_schema.field(names.index(top.name)).type) if top.name in names else top
        for top in table_schema.fields
    ]
    return Schema(fields=tuple(tops), metadata=table_schema.metadata)


def _check_complete(table_schema: Schema, data_schema: pa.Schema) -> None:
    """Check that no column is missing: format 0.1 cannot represent a column that a file lacks."""
    expected = schema_to_arrow(table_schema)
    for field in expected:
        if field.name not in data_schema.names:
            raise SchemaMismatchError(
                f"column {field.name!r} is missing; rows appended to a table in format 0.1 must have every column",
                column=field.name,
            )
        if _num_fields(field.type) != _num_fields(data_schema.field(field.name).type):
            raise SchemaMismatchError(
                f"column {field.name!r} lacks fields; rows appended to a table in format 0.1 must have every field",
                column=field.name,
            )


def _num_fields(data_type: pa.DataType) -> int:
    """Return the number of fields below a type, at any depth."""
    return sum(1 + _num_fields(data_type.field(index).type) for index in range(data_type.num_fields))
