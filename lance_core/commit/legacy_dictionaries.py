"""Handles dictionary columns in tables of format 0.1, in which all data files share one list of values.

Every data file contains a copy of the values, the manifest contains another copy, and readers may use either.
Therefore, all copies must agree: each is a prefix of the longest copy, which is the one in the manifest. The dictionary
of appended rows starts with the table's values and adds new values at the end, so older files remain correct.

Source: behavior of pylance 14.0.2, which reads every file with the manifest's values and appends only rows whose
dictionary equals them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lance_core.errors import CorruptDataError, NotSupportedError, SchemaMismatchError
from lance_core.file.reader import FileReader
from lance_core.schema.convert import fields_from_proto
from lance_core.schema.logical_types import arrow_type
from lance_core.table.base_paths import BasePath, FileLocator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.version_log import VersionLog

__all__ = ["DictionaryAmendment", "known_dictionaries"]


def known_dictionaries(manifest: Manifest) -> Mapping[int, pa.Array]:
    """Return, by field id, the dictionary values that each new file of the table must start with.

    Raises:
        NotSupportedError: the manifest lacks the dictionary of a column that data files contain.
    """
    if manifest.file_version.is_legacy and manifest.message.fragments:
        fields = _dictionary_fields(manifest.schema)
        missing = next((each for each in fields if each.id not in manifest.dictionaries), None)
        if missing is not None:
            raise NotSupportedError(
                f"version {manifest.version}: the manifest lacks the dictionary of column {missing.name!r} (id "
                f"{missing.id}), so rows cannot be added; overwrite the table instead",
                field=missing.id,
            )
    return manifest.dictionaries


class DictionaryAmendment:
    """Adds the dictionary values of new data files to the manifest of a table of format 0.1.

    Args:
        log: the table's versions.
        fragments: the new fragments.
        replaces: whether the new fragments replace the table's content.
        storage_options: options for the stores of base paths.
    """

    def __init__(
        self,
        log: VersionLog,
        fragments: Sequence[Fragment],
        *,
        replaces: bool,
        storage_options: Mapping[str, str] | None,
    ) -> None:
        """Initialize without reading anything."""
        self._log = log
        self._fragments = fragments
        self._replaces = replaces
        self._storage_options = storage_options
        self._found: dict[int, list[pa.Array]] | None = None

    def __call__(self, draft: ManifestDraft) -> None:
        """Add the dictionary values to a draft that already contains the new fragments.

        Raises:
            SchemaMismatchError: the dictionary values of a file differ from those of the table.
            CorruptDataError: a file is damaged.
        """
        if not draft.file_version.is_legacy:
            return
        fields = _dictionary_fields(fields_from_proto(draft.message.fields))
        if not fields:
            return
        if self._found is None:
            bases = map(BasePath.from_proto, draft.message.base_paths)
            locator = FileLocator(self._log.store, self._log.root, bases, self._storage_options)
            self._found = self._read(fields, locator)
        merged = dict(draft.dictionaries)
        for field in fields:
            copies = [*([merged[field.id]] if field.id in merged else []), *self._found.get(field.id, ())]
            if copies:
                merged[field.id] = _longest(field, copies)
            elif self._replaces:
                # A table without rows: the reference cannot open it without a dictionary, which may be empty.
                merged[field.id] = pa.array([], arrow_type(field).value_type)
        draft.set_dictionaries(merged)

    def _read(self, fields: Iterable[Field], locator: FileLocator) -> dict[int, list[pa.Array]]:
        found: dict[int, list[pa.Array]] = {}
        for fragment in self._fragments:
            for file in fragment.files:
                location = locator.data_file(file)
                reader = FileReader.open(
                    location.store, location.path, num_bytes=file.known_num_bytes, field_ids=file.field_ids
                )
                for field in fields:
                    if field.id in file.field_ids:
                        found.setdefault(field.id, []).append(_values(reader, field))
        return found


def _dictionary_fields(schema: Schema) -> list[Field]:
    return [field for field in schema.walk() if field.is_dictionary]


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
