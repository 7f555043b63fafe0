"""Describes data files that exist already, so that an operation can add them to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.file.reader import FileReader
from lance_core.io.object_keys import is_plain_path
from lance_core.public.arguments import checked_text
from lance_core.public.data_file_metadata import DataFile
from lance_core.schema.blob_fields import stored_field
from lance_core.schema.field import suggestion
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.projection import same_type
from lance_core.table.data_file import stored_fields

if TYPE_CHECKING:
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import FileLocator

__all__ = ["describe_data_file"]


def describe_data_file(
    schema: Schema, locator: FileLocator, path: str, base_id: int | None = None
) -> tuple[DataFile, int]:
    """Describe an existing data file that contains columns of a table.

    Args:
        schema: schema of the table.
        locator: locates the files of the table.
        path: path of the file, relative to ``data/``.
        base_id: id of the base path that contains the file; None for the table's own root.

    Returns:
        The description, and the number of rows in the file.

    Raises:
        InvalidInputError: the path does not refer to a file below ``data/``, or the base path does not exist.
        NotFoundError: the file does not exist.
        SchemaMismatchError: the table does not have one of the columns, or has it with another type.
        CorruptDataError: the file is not a data file, or is damaged.
        StorageError: a storage operation failed.
    """
    if not is_plain_path(checked_text("path", path)):
        raise InvalidInputError(f"expected the path of a file below data/, found {path!r:.200}", argument="path")
    if base_id is not None and base_id not in {base.id for base in locator.base_paths}:
        raise InvalidInputError(f"the table has no base path with id {base_id}", argument="base_id")
    place = locator.data_place(base_id)
    where = place.store.join(place.directory, path)
    num_bytes = place.store.head(where).num_bytes
    reader = FileReader.open(place.store, where, num_bytes=num_bytes)
    columns = {top.name: top for top in schema.fields}
    tops = []
    for stored in reader.schema.fields:
        top = columns.get(stored.name)
        if top is None:
            raise SchemaMismatchError(
                f"data file {path!r} has the column {stored.name!r}, which the table does not have"
                f"{suggestion(stored.name, schema.names)}",
                column=stored.name,
            )
        wanted, given = (arrow_type(stored_field(each)) for each in (top, stored))
        if not same_type(wanted, given):
            raise SchemaMismatchError(
                f"column {top.name!r} of data file {path!r}: expected type {wanted}, found {given}",
                column=top.name,
                expected=str(wanted),
                found=str(given),
            )
        tops.append(top)
    field_ids = [each.id for each in stored_fields(tops, reader.version)]
    major, minor = reader.version.manifest_pair
    described = DataFile(
        path=path,
        fields=field_ids,
        column_indices=[] if reader.version.is_legacy else list(range(len(field_ids))),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=num_bytes,
        base_id=base_id,
    )
    return described, reader.num_rows
