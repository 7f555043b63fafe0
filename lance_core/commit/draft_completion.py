"""Completes the drafts of one commit with content that only data files contain; data files are read only once.

===========================  =======================================================================================
Content                      Completed for
===========================  =======================================================================================
hidden columns               operations that move rows whose ids or versions are stored in data files
version of the data files    a table that starts without data files
dictionaries                 tables in format 0.1, see below
row counts of fragments      versions based on a version that an early release wrote; see
                             :mod:`~lance_core.scan.early_fragments`
===========================  =======================================================================================

In a table in format 0.1, every data file contains a copy of the values of a dictionary column, the manifest contains
another copy, and readers may use either. Therefore, all copies must agree: each is a prefix of the longest copy, which
is the one in the manifest. The dictionary of appended rows starts with the table's values and adds new values at the
end, so older files remain correct.

Source: behavior of pylance 14.0.2, which reads every file in format 0.1 with the manifest's values and appends only
rows whose dictionary equals them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lance_core.errors import CorruptDataError, SchemaMismatchError
from lance_core.file.reader import FileReader
from lance_core.scan.early_fragments import rows_in_files, uncounted_fragments
from lance_core.scan.hidden_columns import fetch_hidden_columns
from lance_core.schema.convert import fields_from_proto
from lance_core.schema.logical_types import arrow_type
from lance_core.table.base_paths import BasePath, FileLocator
from lance_core.table.row_lineage import FetchedColumns, HiddenColumnsNeeded, column_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.proto import pb_table
    from lance_core.schema.field import Field
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.row_lineage import ColumnKey
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.detached import DetachedCommit
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.optimistic_commit import OptimisticCommit
    from lance_core.transactions.options import CommitOptions

__all__ = ["DraftCompletion"]


class DraftCompletion:
    """Completes the drafts of one commit; see the module docstring.

    Args:
        log: the table's versions.
        operation: the operation to commit.
        options: the options of the commit.
    """

    def __init__(self, log: VersionLog, operation: Operation, options: CommitOptions) -> None:
        """Initialize without reading anything."""
        self._log = log
        self._operation = operation
        self._options = options
        self._dictionaries: dict[int, list[pa.Array]] | None = None

    def build(self, attempts: OptimisticCommit | DetachedCommit, current: Manifest) -> ManifestDraft:
        """Let a commit build a draft; fetch hidden columns if the draft needs any, which is rare.

        Args:
            attempts: the commit.
            current: the version to build on.

        Raises:
            LanceError: the draft cannot be built, or a data file cannot be read.
        """
        stages = self._stages(current)
        fetched: dict[ColumnKey, npt.NDArray[np.uint64]] = {}
        while True:
            try:
                return attempts.build(FetchedColumns(fetched))
            except HiddenColumnsNeeded as needed:
                locator = FileLocator(
                    self._log.store, self._log.root, current.base_paths, self._options.storage_options
                )
                fetched |= fetch_hidden_columns(next(stages, [needed.fragment]), locator)
                if column_key(needed.fragment, needed.field_id) not in fetched:
                    fetched |= fetch_hidden_columns([needed.fragment], locator)

    def _stages(self, current: Manifest) -> Iterator[Sequence[pb_table.DataFragment]]:
        """Yield the fragments that the operation adds, changes, or refers to, and then all fragments of the version."""
        touched = self._operation.touched_fragments() or frozenset()
        added = (*self._operation.added_fragments(), *self._operation.changed_fragments())
        fragments = current.message.fragments
        yield [*(each.message for each in added), *(each for each in fragments if each.id in touched)]
        yield fragments

    def complete(self, draft: ManifestDraft) -> None:
        """Complete a draft that already contains the new fragments.

        Raises:
            SchemaMismatchError: the dictionary values of a file differ from those of the table.
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        starts_empty = self._operation.makes_tables and not self._operation.added_fragments()
        if starts_empty and self._options.file_version is not None:
            draft.set_file_version(self._options.file_version)
        self._add_dictionaries(draft)
        uncounted = uncounted_fragments(draft.message)
        if uncounted:
            draft.set_row_counts(rows_in_files(uncounted, self._locator(draft)))

    def _add_dictionaries(self, draft: ManifestDraft) -> None:
        """In format 0.1, add the dictionary values of the new data files."""
        if not draft.file_version.is_legacy:
            return
        schema = fields_from_proto(draft.message.fields)
        fields = [field for field in schema.walk() if field.is_dictionary]
        if not fields:
            return
        if self._dictionaries is None:
            self._dictionaries = self._read_dictionaries(fields, self._locator(draft))
        merged = dict(draft.dictionaries)
        for field in fields:
            copies = [*([merged[field.id]] if field.id in merged else []), *self._dictionaries.get(field.id, ())]
            if copies:
                merged[field.id] = _longest(field, copies)
            elif self._operation.replaces_all_files:
                # A table without rows: the reference cannot open it without a dictionary, which may be empty.
                merged[field.id] = pa.array([], arrow_type(field).value_type)
        draft.set_dictionaries(merged)

    def _read_dictionaries(self, fields: Iterable[Field], locator: FileLocator) -> dict[int, list[pa.Array]]:
        found: dict[int, list[pa.Array]] = {}
        for fragment in self._operation.added_fragments():
            for file in fragment.files:
                location = locator.data_file(file)
                reader = FileReader.open(
                    location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
                )
                for field in fields:
                    if field.id in file.field_ids:
                        found.setdefault(field.id, []).append(_values(reader, field))
        return found

    def _locator(self, draft: ManifestDraft) -> FileLocator:
        bases = map(BasePath.from_proto, draft.message.base_paths)
        return FileLocator(self._log.store, self._log.root, bases, self._options.storage_options)


def _values(reader: FileReader, field: Field) -> pa.Array:
    if not reader.version.is_legacy:
        raise CorruptDataError(
            f"{reader.path} has format {reader.version.value}, but the fragment records 0.1", path=reader.path
        )
    return cast("LegacyMetadataReader", reader.any_metadata).dictionary(field)


def _longest(field: Field, copies: Sequence[pa.Array]) -> pa.Array:
    longest = max(copies, key=len)
    for copy in copies:
        if not _bits(longest.slice(0, len(copy))).equals(_bits(copy)):
            raise SchemaMismatchError(
                f"column {field.name!r}: the dictionary of a new data file differs from the table's dictionary. "
                "In format 0.1, all files of a table must have the same dictionary; write the rows with mode 'append'",
                field=field.id,
            )
    return longest


def _bits(values: pa.Array) -> pa.Array:
    """Return the values, with floats reinterpreted as integers with the same bits, so that NaN equals itself."""
    if not pa.types.is_floating(values.type):
        return values
    return values.view({2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}[values.type.byte_width])
