"""Checks on storage before overlays become part of a table.

Their files must exist, with as many values as covered rows, in columns of the table's types. The reference accepts
anything, and fails when the cells are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, NotFoundError, SchemaMismatchError
from lance_core.file.reader import FileReader
from lance_core.table.data_file import DataFile, stored_fields
from lance_core.table.overlay_files import coverage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.proto import pb_table
    from lance_core.schema.field import Schema
    from lance_core.table.base_paths import FileLocator
    from lance_core.transactions.operations.parts import OverlayGroup

__all__ = ["check_overlays"]


def check_overlays(groups: Iterable[OverlayGroup], schema: Schema, locator: FileLocator) -> None:
    """Check the files that an operation lays over fragments.

    Args:
        groups: the overlays, by fragment.
        schema: of the table.
        locator: finds the files.

    Raises:
        NotFoundError: a file is missing.
        InvalidInputError: a file has another size than recorded, or fewer values than it covers.
        SchemaMismatchError: a file holds another type than the table.
        CorruptDataError: a file, or a coverage, is damaged.
    """
    for group in groups:
        for overlay in group.overlays:
            _check(overlay, f"fragment {group.fragment_id}", schema, locator)


def _check(overlay: pb_table.DataOverlayFile, what: str, schema: Schema, locator: FileLocator) -> None:
    file = DataFile.from_proto(overlay.data_file)
    location = locator.data_file(file)
    try:
        found = location.store.head(location.path).num_bytes
    except NotFoundError as error:
        raise NotFoundError(f"{what}: overlay {location.path} does not exist", path=location.path) from error
    if file.known_num_bytes not in (None, found):
        raise InvalidInputError(
            f"{what}: overlay {file.path} has {found} bytes, but the fragment records {file.num_bytes}",
            path=location.path,
            expected=file.num_bytes,
            found=found,
        )
    reader = FileReader.open(location.store, location.path, num_bytes=found, field_ids=file.field_ids)
    stored = dict(enumerate(stored_fields(reader.schema.fields, reader.version)))
    for field_id, column in file.columns().items():
        covered = coverage(overlay, {field_id}, what)
        if covered is not None and len(covered) > reader.num_rows:
            raise InvalidInputError(
                f"{what}: overlay {file.path} has {reader.num_rows} values, but covers {len(covered)} rows",
                path=location.path,
                expected=len(covered),
                found=reader.num_rows,
            )
        leaf, here = schema.find(field_id), stored.get(column)
        if leaf is not None and (here is None or here.logical_type != leaf.logical_type):
            raise SchemaMismatchError(
                f"{what}: overlay {file.path} holds {'nothing' if here is None else repr(here.logical_type)} for field "
                f"{leaf.name!r} of type {leaf.logical_type!r}",
                path=location.path,
                field=field_id,
            )
