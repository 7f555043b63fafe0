"""Checks the files of a change before the change becomes part of a table.

:func:`check_storage` selects the checks that an operation requires, and performs them once, against the version that
the first attempt of the commit builds on.

Every data file must exist with the recorded size. Of all files with the same fields, only one is opened: the field ids
in its schema must have the same names and types as in the table, and its number of rows must equal the recorded number.
If field ids referred to different columns, wrong values would be read without an error.

A new deletion file must list every row that the fragment's current deletion file lists; otherwise, deleted rows would
reappear.

An overlay file must exist, contain at least one value for each row that it covers, and have columns of the table's
types. The reference implementation accepts any file, and fails when the overlaid cells are read.

Row ids must be the ids of the rows that the change moves. If an id were lost or duplicated, or had never been assigned,
indices and ``take`` would no longer work on the table.

=========  ==================================================================================
rewrite    the ids of all rows that it replaces, each exactly once
update     only ids of rows in the fragments that it changes; it deletes these rows from their old fragments
=========  ==================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.errors import InvalidInputError, NotFoundError, SchemaMismatchError, VersionNotFoundError
from lance_core.file.families import requires_every_field
from lance_core.file.reader import FileReader
from lance_core.scan.early_fragments import with_row_counts
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.table.base_files import missing_from_bases
from lance_core.table.base_paths import BasePath, FileLocator
from lance_core.table.data_file import DataFile, stored_fields
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment import Fragment
from lance_core.table.overlay_files import coverage
from lance_core.table.row_ids import live_rows
from lance_core.table.row_lineage import RowLineage
from lance_core.transactions.restoring import check_restore
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from lance_core.proto import pb_table
    from lance_core.schema.field import Field, Schema
    from lance_core.table.base_paths import Location
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.operations.parts import OverlayGroup, RewriteGroup
    from lance_core.transactions.options import CommitOptions
    from lance_core.transactions.transaction import Transaction

__all__ = ["check_data_files", "check_not_part_of", "check_storage"]

_MAX_SEARCHES: Final = 20
"""Maximum number of paths that are searched for in a manifest's bytes; for more paths, parsing the manifest is
faster."""


def check_storage(log: VersionLog, transaction: Transaction, options: CommitOptions, current: Manifest) -> None:
    """Check the files that a transaction adds.

    Args:
        log: the dataset's versions.
        transaction: the transaction to commit.
        options: the options of the commit.
        current: the version to build on.

    Raises:
        InvalidInputError: a fragment or file is incompatible with the dataset.
        NotFoundError: a file is missing.
        CorruptDataError: a file is damaged.
    """
    operation = transaction.operation
    if operation.restored_version is not None:
        check_restore(log, operation.restored_version, options.storage_options)
    _check_moved_bases(operation, current, log, options)
    bases = current.base_paths
    if operation.makes_tables:
        bases += tuple(map(BasePath.from_proto, operation.added_bases()))
    locator = FileLocator(log.store, log.root, bases, options.storage_options)
    schema, new = operation.new_schema(), operation.added_fragments()
    if schema is not None:
        _check_fragments(new, [schema], locator, options)
    elif new:
        if options.checks_files:
            check_not_part_of(new, current)
        _check_with_older_schema(
            current, log, transaction, lambda schemas: _check_fragments(new, schemas, locator, options)
        )
    if not options.checks_files:
        return
    _check_overlays(operation.laid_overlays(), current.schema, locator)
    _check_row_ids(operation, current, locator)
    added = operation.added_files(current)
    if schema is not None:
        check_data_files(added, locator, [schema])
    elif added:
        _check_with_older_schema(current, log, transaction, lambda schemas: check_data_files(added, locator, schemas))
    deletions = operation.changed_deletions()
    if deletions and options.affected_rows is None:
        _check_deletion_files(deletions, with_row_counts(current, locator), locator)


def _check_moved_bases(operation: Operation, current: Manifest, log: VersionLog, options: CommitOptions) -> None:
    """Check that the files of the table are below the new locations of its base paths.

    Raises:
        NotFoundError: a file is missing.
    """
    added = {base.id: base for base in map(BasePath.from_proto, operation.added_bases())}
    present = {base.id: base for base in current.base_paths}
    moved = {base_id for base_id in added.keys() & present.keys() if added[base_id] != present[base_id]}
    if operation.is_first_of_its_root or not moved:
        return
    locator = FileLocator(log.store, log.root, {**present, **added}.values(), options.storage_options)
    missing = missing_from_bases(current, locator, moved)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        new_paths = ", ".join(f"{base_id} to {added[base_id].path!r}" for base_id in sorted(moved))
        raise NotFoundError(
            f"base paths cannot be moved ({new_paths}): version {current.version} references files that do not exist "
            f"in the new locations: {missing[0]}{more}; copy the files first",
            path=missing[0],
        )


def _check_with_older_schema(
    current: Manifest, log: VersionLog, transaction: Transaction, check: Callable[[Sequence[Schema]], None]
) -> None:
    """Check new files; columns may have been dropped or renamed since the files were written."""
    try:
        check([current.schema])
    except SchemaMismatchError:
        older = _schema_of(log, transaction.read_version)
        if older is None or transaction.read_version == current.version:
            raise
        check([current.schema, older])


def _check_fragments(
    fragments: Sequence[Fragment], schemas: Sequence[Schema], locator: FileLocator, options: CommitOptions
) -> None:
    _check_fields(fragments, schemas)
    if options.checks_files:
        check_data_files(fragments, locator, schemas)


def _schema_of(log: VersionLog, version: int) -> Schema | None:
    """Return the schema of an older version, or None if the version no longer exists."""
    try:
        return log.read_version(version).schema
    except VersionNotFoundError:
        return None


def _check_fields(fragments: Iterable[Fragment], schemas: Sequence[Schema]) -> None:
    """Check that new fragments contain the required columns of the table and no unknown columns.

    Args:
        fragments: the new fragments.
        schemas: the table's current schema and, if needed, an older schema for which the fragments may have been
            written.

    Raises:
        SchemaMismatchError: a field is unknown, or a required field is missing.
    """
    known = {field.id for schema in schemas for field in schema.walk()}
    required = [leaf for top in schemas[0].fields if not top.nullable for leaf in top.leaves() if not leaf.nullable]
    every = schemas[0].leaves()
    for index, fragment in enumerate(fragments):
        found = fragment.live_field_ids()
        unknown = sorted(found - known)
        if unknown:
            raise SchemaMismatchError(
                f"the new fragment at index {index} contains field ids {unknown}, which the table does not have"
            )
        needs_all = any(requires_every_field(file.file_version) for file in fragment.files)
        missing = next((leaf for leaf in (every if needs_all else required) if leaf.id not in found), None)
        if missing is not None:
            reason = "files in format 0.1 must contain every field" if needs_all else "the field is not nullable"
            raise SchemaMismatchError(
                f"the new fragment at index {index} lacks field {missing.name!r} (id {missing.id}); {reason}"
            )


def check_not_part_of(fragments: Iterable[Fragment], current: Manifest) -> None:
    """Check that fragments to append are not already in the table; otherwise their rows would be duplicated.

    Raises:
        InvalidInputError: a data file belongs to a fragment of the table.
    """
    fragments = tuple(fragments)
    if not _are_mentioned(fragments, current):
        return
    present = {(file.base_id, file.path) for fragment in current.message.fragments for file in fragment.files}
    for fragment in fragments:
        for file in fragment.message.files:
            if (file.base_id, file.path) in present:
                raise InvalidInputError(
                    f"data file {file.path} of a new fragment is already part of version {current.version}",
                    path=file.path,
                    version=current.version,
                )


def _are_mentioned(fragments: Sequence[Fragment], current: Manifest) -> bool:
    """Return whether the encoded manifest may contain the path of a data file; False means that it does not."""
    paths = [file.path.encode() for fragment in fragments for file in fragment.message.files]
    if len(paths) > _MAX_SEARCHES:
        return True
    data = current.message.SerializeToString()
    return any(path in data for path in paths)


def _check_deletion_files(fragments: Iterable[Fragment], current: Manifest, locator: FileLocator) -> None:
    """Check the deletion files of a delete; see the module docstring.

    Args:
        fragments: the changed fragments, as recorded in the delete.
        current: the version to build on.
        locator: locates the files of ``fragments`` and ``current``.

    Raises:
        NotFoundError: a file is missing.
        InvalidInputError: a new deletion file lacks a row that is already deleted.
        CorruptDataError: a file is damaged, or the number of rows that it lists differs from the recorded number.
    """
    changed = {fragment.id: fragment for fragment in fragments}
    if not changed:
        return
    present = {message.id: Fragment(message) for message in current.message.fragments if message.id in changed}
    for fragment in changed.values():
        after = read_deletion_offsets(fragment, locator)
        found = present.get(fragment.id)
        if found is None or found.deletion_file in (None, fragment.deletion_file):
            continue
        returning = np.setdiff1d(read_deletion_offsets(found, locator), after, assume_unique=True)
        if returning.size:
            raise InvalidInputError(
                f"fragment {fragment.id}: the row at offset {int(returning[0])} is deleted in version "
                f"{current.version}, but not in the new record of the fragment, so it would reappear",
                version=current.version,
            )


def check_data_files(fragments: Iterable[Fragment], locator: FileLocator, schemas: Sequence[Schema]) -> None:
    """Check the data files of new fragments; see the module docstring.

    Args:
        fragments: the new fragments.
        locator: locates the files of ``fragments``.
        schemas: the table's current schema and, if needed, an older schema for which the fragments may have been
            written.

    Raises:
        NotFoundError: a file is missing.
        InvalidInputError: the size, the format, or the number of rows of a file differs from the recorded value, or a
            file lacks the column that is recorded for a field.
        SchemaMismatchError: a field id refers to different columns in a file and in the table.
        CorruptDataError: a file is damaged.
    """
    opened: set[tuple[object, ...]] = set()
    leaf_ids = {leaf.id for schema in schemas for leaf in schema.leaves()}
    for fragment in fragments:
        for file in fragment.files:
            _check_has_columns(file, leaf_ids)
            location = locator.data_file(file)
            num_bytes = _check_size(file, location)
            kind = (file.field_ids, file.column_indices, file.file_version)
            if kind not in opened:
                opened.add(kind)
                _check_content(file, fragment.physical_rows, num_bytes, location, schemas)


def _check_has_columns(file: DataFile, leaf_ids: set[int]) -> None:
    """Check that every field without children has a column; otherwise its values would be read as null."""
    without = {field_id for field_id, column in zip(file.field_ids, file.column_indices, strict=False) if column < 0}
    if not without.isdisjoint(leaf_ids):
        raise InvalidInputError(
            f"data file {file.path} of a new fragment: the fragment records no column for field "
            f"{min(without & leaf_ids)}",
            path=file.path,
        )


def _check_size(file: DataFile, location: Location) -> int:
    try:
        found = location.store.head(location.path).num_bytes
    except NotFoundError as error:
        raise NotFoundError(
            f"data file {file.path} of a new fragment does not exist at {location.uri}", path=location.path
        ) from error
    if file.known_num_bytes not in (None, found):
        raise InvalidInputError(
            f"data file {file.path} of a new fragment has {counted(found, 'byte')}, but the fragment records "
            f"{file.num_bytes}",
            path=location.path,
            expected=file.num_bytes,
            found=found,
        )
    return found


def _check_content(
    file: DataFile, physical_rows: int, num_bytes: int, location: Location, schemas: Sequence[Schema]
) -> None:
    reader = FileReader.open(location.store, location.path, num_bytes=num_bytes, field_ids=file.field_ids)
    if reader.version is not file.file_version:
        raise InvalidInputError(
            f"data file {file.path} of a new fragment has format {reader.version.value}, but the fragment records "
            f"{file.file_version.value}",
            path=location.path,
            expected=file.file_version.value,
            found=reader.version.value,
        )
    if reader.num_rows != physical_rows:
        raise InvalidInputError(
            f"data file {file.path} of a new fragment has {counted(reader.num_rows, 'row')}, but the fragment records "
            f"{physical_rows}",
            path=location.path,
            expected=physical_rows,
            found=reader.num_rows,
        )
    columns = file.columns()
    owners = _column_owners(reader.schema, file)
    for field_id, column in columns.items():
        stored = owners.get(column)
        if stored is None:
            raise InvalidInputError(
                f"data file {file.path} of a new fragment has {counted(len(owners), 'column')}, but the "
                "fragment records column "
                f"index {column} for field {field_id} (columns are numbered from 0)",
                path=location.path,
            )
        expected = [leaf for schema in schemas if (leaf := schema.find(field_id)) is not None]
        if expected and all((leaf.name, leaf.logical_type) != (stored.name, stored.logical_type) for leaf in expected):
            raise SchemaMismatchError(
                f"data file {file.path} of a new fragment: field {field_id} is {stored.name!r} of type "
                f"{stored.logical_type!r}, but in the table it is {expected[0].name!r} of type "
                f"{expected[0].logical_type!r}",
                path=location.path,
                field=field_id,
            )


def _column_owners(stored: Schema, file: DataFile) -> dict[int, Field]:
    """Map each column of a file to the field that owns it, according to the file's own schema."""
    if file.file_version.is_legacy:
        return {field.id - file.field_ids[0]: field for field in stored.walk()}
    return dict(enumerate(stored_fields(stored.fields, file.file_version)))


def _check_overlays(groups: Iterable[OverlayGroup], schema: Schema, locator: FileLocator) -> None:
    """Check the overlay files that an operation adds.

    Args:
        groups: the overlays, grouped by fragment.
        schema: the schema of the table.
        locator: locates the files.

    Raises:
        NotFoundError: a file is missing.
        InvalidInputError: the size of a file differs from the recorded size, or a file has too few values for the rows
            that it covers.
        SchemaMismatchError: the type of a column differs from the table's.
        CorruptDataError: a file or a list of covered rows is damaged.
    """
    for group in groups:
        for overlay in group.overlays:
            _check_overlay(overlay, f"fragment {group.fragment_id}", schema, locator)


def _check_overlay(overlay: pb_table.DataOverlayFile, what: str, schema: Schema, locator: FileLocator) -> None:
    file = DataFile.from_proto(overlay.data_file)
    location = locator.data_file(file)
    try:
        found = location.store.head(location.path).num_bytes
    except NotFoundError as error:
        raise NotFoundError(f"{what}: overlay {location.uri} does not exist", path=location.path) from error
    if file.known_num_bytes not in (None, found):
        raise InvalidInputError(
            f"{what}: overlay {file.path} has {counted(found, 'byte')}, but the fragment records {file.num_bytes}",
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
                f"{what}: overlay {file.path} has {counted(reader.num_rows, 'value')}, but covers "
                f"{counted(len(covered), 'row')}",
                path=location.path,
                expected=len(covered),
                found=reader.num_rows,
            )
        leaf, here = schema.find(field_id), stored.get(column)
        if leaf is not None and (here is None or here.logical_type != leaf.logical_type):
            state = "is missing" if here is None else f"has type {here.logical_type!r}"
            raise SchemaMismatchError(
                f"{what}: the column of field {leaf.name!r} in overlay {file.path} {state}; "
                f"expected type {leaf.logical_type!r}",
                path=location.path,
                field=field_id,
            )


def _check_row_ids(operation: Operation, current: Manifest, locator: FileLocator) -> None:
    """Check the row ids in a rewrite or an update; see the module docstring.

    Args:
        operation: the operation; nothing is checked unless it is a rewrite or an update.
        current: the version to build on.
        locator: locates the files of ``operation`` and ``current``.

    Raises:
        InvalidInputError: the row ids differ from those of the moved rows.
        CorruptDataError: the row ids of the table are damaged.
    """
    if not current.has_stable_row_ids:
        return
    _check_rewritten(operation.rewritten_groups(), current, locator)
    if operation.moved_fragments():
        _check_moved(operation, current, locator)


def _check_rewritten(groups: Iterable[RewriteGroup], current: Manifest, locator: FileLocator) -> None:
    """Check that the new fragments of every group have the row ids of the old live rows, in any order."""
    hidden = hidden_columns_of(locator)
    present = {message.id: message for message in current.message.fragments}
    for index, group in enumerate(groups):
        olds = [Fragment(present[old.id]) for old in group.old_fragments if old.id in present]
        expected = _sorted(
            RowLineage(old.message, hidden).row_ids().at(live_rows(old, read_deletion_offsets(old, locator)))
            for old in olds
        )
        found = _sorted(RowLineage(new.message, hidden).given_row_ids().numbers() for new in group.new_fragments)
        if not np.array_equal(expected, found):
            odd = np.setxor1d(expected, found)
            detail = (
                f"row id {odd[0]} occurs only in the {'replaced rows' if odd[0] in expected else 'new fragments'}"
                if odd.size
                else "a row id occurs more than once"
            )
            raise InvalidInputError(
                f"rewrite group {index}: the row ids of the new fragments ({len(found)} in total) differ from "
                f"those of the replaced rows ({len(expected)} in total): {detail}",
                expected=len(expected),
                found=len(found),
            )


def _check_moved(operation: Operation, current: Manifest, locator: FileLocator) -> None:
    """Check that the row ids in the new fragments belong to rows that the update moves."""
    hidden = hidden_columns_of(locator)
    moved = np.concatenate(
        [RowLineage(new.message, hidden).given_row_ids().numbers() for new in operation.moved_fragments()]
    )
    changed = {fragment.id: fragment for fragment in operation.changed_fragments()}
    touched = operation.touched_fragments() or frozenset()
    found = np.zeros(len(moved), bool)
    for message in current.message.fragments:
        if message.id not in touched:
            continue
        positions = RowLineage(message, hidden).row_ids().find(moved)
        found |= positions >= 0
        after = changed.get(message.id)
        if after is None:
            continue
        stays = np.isin(positions, live_rows(after, read_deletion_offsets(after, locator)))
        if stays.any():
            raise InvalidInputError(
                f"a new fragment has row id {int(moved[stays][0])}, which is still in use in fragment {message.id}"
            )
    if not found.all():
        raise InvalidInputError(
            f"a new fragment has row id {int(moved[~found][0])}, which occurs in no updated or removed fragment"
        )
    if len(np.unique(moved)) != len(moved):
        raise InvalidInputError("two rows in the new fragments have the same row id")


def _sorted(parts: Iterable[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
