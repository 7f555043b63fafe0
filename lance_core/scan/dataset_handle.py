"""DatasetHandle: one version of a dataset, as the functions of the other packages use it.

A handle shows one version: its location, its manifest, and the locations of its files. It has no verbs, so that the
functions behind the verbs depend only on the handle, and never on the class with all verbs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.places.location import open_log, uri_text
from lance_core.places.references import open_version, planned_line, read_manifest
from lance_core.places.uris import line_uri
from lance_core.scan.early_fragments import with_row_counts
from lance_core.scan.output_schema import OutputSchema
from lance_core.scan.row_id_lookup import RowIdLookup
from lance_core.scan.scanner import ScanSource
from lance_core.schema.json_columns import shown_json_schema
from lance_core.table.base_paths import FileLocator
from lance_core.table.fragment import Fragments
from lance_core.table.fragment_totals import FragmentTotals

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from lance_core.places.location import CommitLock
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["DatasetHandle"]

_NOT_ASKED: Final = object()
"""Placeholder for the identity of a branch, until a change is planned on it."""


class DatasetHandle:
    """One version of a dataset."""

    def __init__(
        self,
        uri: str | Path,
        version: int | str | None = None,
        *,
        storage_options: dict[str, str] | None = None,
        commit_lock: CommitLock | None = None,
    ) -> None:
        """Read one manifest."""
        text = uri_text(uri)
        opened = open_log(text, storage_options, commit_lock)
        log, manifest = open_version(opened, version)
        self._fill(line_uri(text, of=opened, to=log), log, manifest, storage_options)

    @classmethod
    def from_manifest(
        cls,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
        line: Hashable = None,
    ) -> Self:
        """A handle for a manifest that has been read already; ``line`` as for :attr:`line`, where it is known."""
        handle = cls.__new__(cls)
        handle._fill(uri, log, manifest, storage_options, line)
        return handle

    def _fill(
        self,
        uri: str,
        log: VersionLog,
        manifest: Manifest,
        storage_options: dict[str, str] | None,
        line: Hashable = None,
    ) -> None:
        totals = FragmentTotals.of(manifest.message)
        manifest.check_readable(totals)
        self._uri = uri
        self._log = log
        self._locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
        self._manifest = manifest
        self._line = _NOT_ASKED if line is None else line
        self._counted = manifest if totals.counts_every_fragment else None
        self._num_live_rows = totals.num_live_rows
        self._storage_options = storage_options
        self._schema = manifest.schema
        self._lookup: RowIdLookup | None = None

    @property
    def uri(self) -> str:
        """The location of the dataset."""
        return self._uri

    @property
    def version(self) -> int:
        """The version that this handle shows."""
        return self._manifest.version

    @property
    def log(self) -> VersionLog:
        """The dataset's versions."""
        return self._log

    @property
    def line(self) -> Hashable:
        """Identifies the branch of this version, to detect a recreated branch; None on the main branch."""
        if self._line is _NOT_ASKED:
            self._line = planned_line(self._log, self._manifest)
        return self._line

    @property
    def _known_line(self) -> Hashable:
        """:attr:`line`, as far as it has been asked for; None where it has not."""
        return None if self._line is _NOT_ASKED else self._line

    @property
    def manifest(self) -> Manifest:
        """The manifest of this version."""
        return self._manifest

    @property
    def counted_manifest(self) -> Manifest:
        """The manifest with the rows of every fragment; data files tell those that it does not record.

        Raises:
            NotFoundError: a data file is missing.
            CorruptDataError: a data file is damaged.
        """
        if self._counted is None:
            self._counted = with_row_counts(self._manifest, self._locator)
        return self._counted

    @property
    def locator(self) -> FileLocator:
        """Finds the files of this version."""
        return self._locator

    @property
    def storage_options(self) -> dict[str, str] | None:
        """As given when it was opened."""
        return self._storage_options

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return OutputSchema(shown_json_schema(self._schema)).schema

    @property
    def lance_schema(self) -> Schema:
        """The schema with field ids."""
        return self._schema

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have stable ids."""
        return self._manifest.has_stable_row_ids

    @property
    def recorded_rows(self) -> int | None:
        """Rows that are not deleted, if the manifest says so of every fragment; None when files have to be read."""
        return self._num_live_rows

    def checkout_version(self, version: int | str | tuple[str | None, int | None]) -> Self:
        """A handle for another version.

        Args:
            version: a number of the line of this handle (the main branch or a branch), the name of a tag, or (branch,
                number) with None or "main" for the main branch and None for the latest.

        Raises:
            VersionNotFoundError: there is no such version.
            RefNotFoundError: there is no such tag or branch.
            InvalidTypeError: none of these.
        """
        if version is None:
            raise InvalidTypeError("version must be a number, a tag or (branch, number), found None")
        log, manifest = open_version(self._log, version, branch=self._manifest.message.branch)
        uri = line_uri(self._uri, of=self._log, to=log)
        line = self._known_line if log.root == self._log.root else None
        return type(self).from_manifest(uri, log, manifest, self._storage_options, line)

    def show(self, manifest: Manifest) -> None:
        """Make this handle show the version of a manifest, as the reference's handles follow their own commits."""
        self._fill(self._uri, self._log, manifest, self._storage_options, self._known_line)

    def find_fragment(self, fragment_id: int) -> Fragment | None:
        """The record of a fragment; None when there is none."""
        return next((fragment for fragment in self._records() if fragment.id == fragment_id), None)

    def _records(self) -> Sequence[Fragment]:
        return Fragments(self.counted_manifest.message.fragments)

    def checkout_latest(self) -> None:
        """Make this handle show the latest version."""
        self._line = _NOT_ASKED
        self.show(read_manifest(self._log, None))

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The schema metadata."""
        return {key: value.decode("utf-8", "replace") for key, value in self._schema.metadata.items()}

    def _source(self, fragment_ids: list[int] | None = None) -> ScanSource:
        fragments: Sequence[Fragment] = self._records()
        if fragment_ids is not None:
            by_id = {fragment.id: fragment for fragment in fragments}
            missing = [fragment_id for fragment_id in fragment_ids if fragment_id not in by_id]
            if missing:
                raise InvalidInputError(f"version {self.version} has no fragment {missing[0]}")
            fragments = [by_id[fragment_id] for fragment_id in fragment_ids]
        return ScanSource(self._schema, fragments, self._locator, self._records())

    def source_of(self, record: Fragment) -> ScanSource:
        """What is scanned when one fragment is."""
        return ScanSource(self._schema, (record,), self._locator, self._records())

    def _row_lookup(self) -> RowIdLookup:
        if self._lookup is None:
            self._lookup = RowIdLookup(self._records(), self._locator)
        return self._lookup
