"""validate(): checks the consistency of a version.

First, the manifest itself is checked. Then every data file and deletion file is opened and compared with the manifest,
and the sidecars of blob columns are compared with the data files. Stable row ids are checked for duplicates.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.errors import CorruptDataError, LanceError, NotFoundError, NotSupportedError
from lance_core.file.blob_values import differing_leaves
from lance_core.file.read_config import ReadConfig
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.scan.output_schema import shown_schema
from lance_core.schema.blob_fields import bytes_schema, stored_schema
from lance_core.schema.field import Schema
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.old_writers import OldDefect, defects_of
from lance_core.table.row_ids import live_rows
from lance_core.table.row_lineage import RowLineage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_core.scan.table_view import Handle
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["VIOLATIONS", "fragment_errors", "validate_fragment", "validate_version", "verify", "version_errors"]

VIOLATIONS: Final = (CorruptDataError, NotFoundError, NotSupportedError)
"""The errors that mean that a file is missing or invalid. Any other error means that a file could not be examined."""


def verify(dataset: Handle, on_fragment: Callable[[int, int], object] = lambda done, total: None) -> None:
    """Check a handle's version and all of its files, as ``LanceDataset.validate`` does.

    Args:
        dataset: an open handle.
        on_fragment: called after every fragment with the number of fragments examined so far and their total number.

    Raises:
        CorruptDataError: the version is inconsistent; the message describes the first violation found.
        NotFoundError: a file is missing.
    """
    validate_version(dataset.view.counted_manifest, dataset.view.locator, on_fragment)


def validate_version(
    manifest: Manifest,
    locator: FileLocator,
    on_fragment: Callable[[int, int], object] = lambda done, total: None,
) -> None:
    """Check a version and all of its files; :func:`verify` describes ``on_fragment``.

    Raises:
        CorruptDataError: the version is inconsistent; the message describes the first violation found.
        NotFoundError: a file is missing.
    """
    for error in version_errors(manifest, locator, on_fragment):
        raise error


def version_errors(
    manifest: Manifest,
    locator: FileLocator,
    on_fragment: Callable[[int, int], object] = lambda done, total: None,
    *,
    reads_pages: bool = False,
    examines_fragments: bool = True,
) -> Iterator[LanceError]:
    """Find everything that is wrong with a version and its files.

    Args:
        manifest: manifest of the version.
        locator: locates its files.
        on_fragment: called after every fragment with the number of fragments examined so far and their total number.
        reads_pages: whether every value is read, too.
        examines_fragments: whether the files of the fragments are examined.

    Raises:
        StorageError: a storage operation failed.
    """
    try:
        # Parsing the schema checks that ids are unique and that parents precede their children.
        schema = manifest.schema
        shown_schema(schema)
        num_fragments = len(manifest.fragments)
        manifest.check_readable()
    except VIOLATIONS as error:
        yield error
        return
    yield from _errors_of(partial(_check_record, manifest), partial(_check_fragment_ids, manifest))
    for done, fragment in enumerate(manifest.fragments if examines_fragments else (), 1):
        yield from fragment_errors(fragment, schema, locator, reads_pages=reads_pages)
        on_fragment(done, num_fragments)
    if manifest.has_stable_row_ids:
        yield from _errors_of(partial(_check_row_ids, manifest, locator))


def _errors_of(*checks: Callable[[], object]) -> Iterator[LanceError]:
    """Perform checks, and yield the violations that they raise."""
    for check in checks:
        try:
            check()
        except VIOLATIONS as error:
            yield error


def _check_fragment_ids(manifest: Manifest) -> None:
    ids = [fragment.id for fragment in manifest.fragments]
    for left, right in pairwise(ids):
        if left >= right:
            raise CorruptDataError(
                f"version {manifest.version}: fragment {right} is listed after fragment {left}; expected strictly "
                "ascending ids"
            )
    highest = manifest.message.max_fragment_id if manifest.message.HasField("max_fragment_id") else None
    if ids and highest is not None and highest < ids[-1]:
        raise CorruptDataError(
            f"version {manifest.version}: max_fragment_id is {highest}, but the highest fragment id is {ids[-1]}"
        )


def _check_record(manifest: Manifest) -> None:
    """Check that the manifest has no defects caused by an old release."""
    if manifest.as_written is None:
        return
    rows = {fragment.id: fragment.physical_rows for fragment in manifest.fragments}
    for defect in defects_of(manifest.as_written, rows):
        # Unreliable coverage of an index is not necessarily wrong.
        if defect.kind is not OldDefect.UNRELIABLE_COVERAGE:
            raise CorruptDataError(
                f"version {manifest.version} has a defect ({defect.kind}): {defect.detail}; the next commit repairs "
                "the defect",
                version=manifest.version,
            )


def validate_fragment(fragment: Fragment, schema: Schema, locator: FileLocator) -> None:
    """Check a fragment and its files; see :func:`validate_version`."""
    for error in fragment_errors(fragment, schema, locator):
        raise error


def fragment_errors(
    fragment: Fragment, schema: Schema, locator: FileLocator, *, reads_pages: bool = False
) -> Iterator[LanceError]:
    """Find everything that is wrong with a fragment and its files; see :func:`version_errors`."""
    try:
        reader = FragmentReader(fragment, locator)
        checks: list[Callable[[], object]] = [
            partial(_check_fields, fragment, schema),
            *reader.checks(),
            partial(_check_blobs, reader, schema),
        ]
    except VIOLATIONS as error:
        yield error
        return
    found = list(_errors_of(*checks))
    if reads_pages and not found:
        found += _errors_of(partial(_read_values, reader, schema))
    yield from found


def _check_fields(fragment: Fragment, schema: Schema) -> None:
    """Check that no field is stored twice."""
    # A struct whose fields are stored in two files occurs in both files.
    shared = {field.id for field in schema.walk() if not field.is_leaf}
    seen: set[int] = set()
    for file in fragment.files:
        stored = file.columns().keys() - shared
        if seen & stored:
            raise CorruptDataError(f"fragment {fragment.id}: field id {min(seen & stored)} is stored in two data files")
        seen |= stored


def _read_values(reader: FragmentReader, schema: Schema) -> None:
    for _ in reader.batches(stored_schema(schema), 0, reader.num_live_rows, ReadConfig()):
        pass


def _check_row_ids(manifest: Manifest, locator: FileLocator) -> None:
    """Check that the ids of rows that are not deleted are distinct, and that every id has been assigned."""
    # Imported only when needed: only tables with stable row ids require it.
    from pyroaring import BitMap64

    hidden = hidden_columns_of(locator)
    seen = BitMap64()
    for fragment in manifest.fragments:
        live = live_rows(fragment, read_deletion_offsets(fragment, locator))
        values = RowLineage(fragment.message, hidden).row_ids().at(live)
        ids = BitMap64(values)
        shared = seen & ids
        if len(ids) != len(live) or shared:
            ordered = np.sort(values)
            repeated = shared.min() if shared else ordered[:-1][ordered[:-1] == ordered[1:]][0]
            raise CorruptDataError(
                f"version {manifest.version}: row id {repeated} of fragment {fragment.id} also belongs to another row"
            )
        seen |= ids
    if seen and seen.max() >= manifest.message.next_row_id:
        raise CorruptDataError(
            f"version {manifest.version}: row id {seen.max()} is in use, but the next row id is "
            f"{manifest.message.next_row_id}"
        )


def _check_blobs(reader: FragmentReader, schema: Schema) -> None:
    """Check that the values to which blob columns refer exist; values outside the table are not checked."""
    columns = tuple(top for top in schema.fields if any(leaf.is_blob for leaf in top.leaves()))
    if not columns:
        return
    declared = Schema(fields=columns)
    stored, shown = stored_schema(declared), bytes_schema(declared)
    for batch in reader.batches(stored, 0, reader.num_live_rows, ReadConfig()):
        for array, before, after in zip(batch.columns, stored.fields, shown.fields, strict=True):
            for descriptors, leaf in differing_leaves(array, before, after):
                reader.blobs(descriptors, leaf.id).check()
