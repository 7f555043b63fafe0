"""Requirements that a fragment must meet before a commit adds it to a table.

The reference implementation accepts many invalid fragments and fails, or returns wrong rows, when the table is read;
this library rejects such fragments.

Source: behavior of pylance 14.0.2 on tables that each violate one requirement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.io.object_keys import is_plain_path
from lance_core.schema.field import HIDDEN_FIELD_IDS
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.proto import pb_table
    from lance_core.schema.field import Schema
    from lance_core.table.data_file import DataFile
    from lance_core.table.fragment import Fragment
    from lance_core.versions import LanceFileVersion

__all__ = ["check_file", "check_new_fragments", "check_row_count", "check_stored_fields"]


def check_new_fragments(
    fragments: Iterable[Fragment],
    *,
    field_ids: set[int],
    base_ids: set[int],
    file_version: LanceFileVersion,
    carries_row_ids: bool | None = False,
) -> None:
    """Check fragments that are about to become part of a table.

    Args:
        fragments: the new fragments.
        field_ids: ids of all fields of the schema that the table will have.
        base_ids: the ids of the table's base paths.
        file_version: the file version of the table; files of all versions except 0.1 can be mixed.
        carries_row_ids: True if the fragments must contain row ids, because the rows already have ids; False if the
            fragments must not contain row ids; None if both are allowed.

    Raises:
        InvalidInputError: a fragment is incomplete, or contains something that only a committed fragment may have.
        SchemaMismatchError: a data file contains no field of the schema.
    """
    if carries_row_ids is not False:
        # Rows that already have ids may store them in a hidden column, which may have its own file.
        field_ids = field_ids | HIDDEN_FIELD_IDS
    places: set[tuple[int | None, str]] = set()
    for index, fragment in enumerate(fragments):
        where = f"the new fragment at index {index}"
        here = {(file.base_id, file.path) for file in fragment.files}
        if not places.isdisjoint(here):
            raise InvalidInputError(
                f"{where} shares a data file with another new fragment; the rows would be duplicated"
            )
        places |= here
        _check_is_new(fragment, where, carries_row_ids=carries_row_ids)
        seen: set[int] = set()
        for file in fragment.files:
            check_file(file, where, field_ids=field_ids, base_ids=base_ids, file_version=file_version)
            if file.file_version.is_legacy and min(file.live_field_ids) < file.field_ids[0]:
                raise InvalidInputError(
                    f"{where}: data file {file.path} in format 0.1 must list its lowest field id first, found "
                    f"{list(file.field_ids)}",
                    path=file.path,
                )
            repeated = seen.intersection(file.live_field_ids)
            if repeated:
                raise InvalidInputError(f"{where}: field {min(repeated)} is stored in two data files", path=file.path)
            seen.update(file.live_field_ids)


def _check_is_new(fragment: Fragment, where: str, *, carries_row_ids: bool | None) -> None:
    if not fragment.message.files:
        raise InvalidInputError(f"{where} has no data files")
    if fragment.physical_rows < 1:
        raise InvalidInputError(f"{where} has {counted(fragment.physical_rows, 'row')}, expected at least 1")
    if fragment.deletion_file is not None:
        raise InvalidInputError(f"{where} has a deletion file, but a fragment without an id cannot have one")
    if fragment.has_row_ids and carries_row_ids is False:
        raise InvalidInputError(f"{where} has row ids, but row ids are assigned at commit")
    if carries_row_ids and not fragment.has_row_ids:
        raise InvalidInputError(f"{where} has no row ids, but row ids were already assigned to its rows")
    if fragment.has_overlays:
        raise InvalidInputError(f"{where} has data overlays, which only an existing fragment can have")


def check_stored_fields(
    fragment: Fragment, schema: Schema, *, base_ids: set[int], file_version: LanceFileVersion
) -> None:
    """Check an existing fragment whose data files have changed.

    Args:
        fragment: the fragment after the change.
        schema: the schema of the table after the change.
        base_ids: the ids of the table's base paths.
        file_version: the file version of the table.

    Raises:
        InvalidInputError: a field is in two files, or the record of a file is malformed.
        SchemaMismatchError: a non-nullable field is not stored.
    """
    where = f"fragment {fragment.id}"
    field_ids = set(schema.field_ids())
    seen: set[int] = set()
    for file in fragment.files:
        if not file.live_field_ids:
            # The commit drops this file, or it contains only hidden columns.
            continue
        # A file that was already in the table may contain only dropped fields.
        allowed = field_ids.union(file.live_field_ids)
        check_file(file, where, field_ids=allowed, base_ids=base_ids, file_version=file_version)
        repeated = seen.intersection(file.live_field_ids)
        if repeated:
            raise InvalidInputError(f"{where}: field {min(repeated)} is stored in two data files", path=file.path)
        seen.update(file.live_field_ids)
    required = (leaf for top in schema.fields if not top.nullable for leaf in top.leaves() if not leaf.nullable)
    missing = next((leaf for leaf in required if leaf.id not in seen), None)
    if missing is not None:
        raise SchemaMismatchError(
            f"{where} does not store field {missing.name!r} (id {missing.id}), which is not nullable", field=missing.id
        )


def check_file(
    file: DataFile,
    where: str,
    *,
    field_ids: set[int],
    base_ids: set[int],
    file_version: LanceFileVersion,
) -> None:
    """Check the record of a data file. See :func:`check_new_fragments` for arguments and errors."""
    what = f"{where}: data file {file.path}"
    live = file.live_field_ids
    if len(set(live)) != len(live):
        raise InvalidInputError(f"{what} lists a field twice: {list(live)}", path=file.path)
    num_indices = 0 if file.file_version.is_legacy else len(file.field_ids)
    if len(file.column_indices) != num_indices:
        raise InvalidInputError(
            f"{what} lists {counted(len(file.field_ids), 'field')} and "
            f"{counted(len(file.column_indices), 'column index', 'column indices')}; expected "
            f"{counted(num_indices, 'column index', 'column indices')}",
            path=file.path,
        )
    if not file.file_version.mixes_with(file_version):
        raise InvalidInputError(
            f"{what} has format {file.file_version.value}, but the table has format {file_version.value}; files of "
            "format 0.1 cannot be mixed with files of other formats",
            path=file.path,
            expected=file_version.value,
            found=file.file_version.value,
        )
    if not is_plain_path(file.path):
        raise InvalidInputError(f"{where}: data file {file.path!r:.200} is outside its base path", path=file.path)
    if file.base_id is not None and file.base_id not in base_ids:
        raise InvalidInputError(f"{what} refers to unknown base path {file.base_id}; the table has: {sorted(base_ids)}")
    if field_ids.isdisjoint(file.field_ids):
        raise SchemaMismatchError(
            f"{what} contains no field of the table: its field ids are {list(file.field_ids)}", path=file.path
        )


def check_row_count(old: pb_table.DataFragment, physical_rows: int, version: int) -> None:
    """Check that a fragment keeps its number of rows, if the table records it (early releases did not record it).

    Raises:
        InvalidInputError: the version and the operation record different numbers of rows.
    """
    if old.physical_rows not in (0, physical_rows):
        raise InvalidInputError(
            f"fragment {old.id} has {counted(old.physical_rows, 'row')} in version {version}, but the operation "
            "records "
            f"{physical_rows}",
            expected=old.physical_rows,
            found=physical_rows,
        )
