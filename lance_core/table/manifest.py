"""Manifest: the metadata of one version of a table.

A version *is* its manifest: one file below ``_versions/`` that lists the schema, every fragment, and the table's
settings. The record keeps the whole parsed message, so that a commit inherits everything that the operation does not
change, including fields that this library does not interpret. Values that old releases recorded wrongly are corrected
(:mod:`~lance_core.table.old_writers`).

Source: ``lance.table.Manifest``; files of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedVersionError
from lance_core.io.object_keys import is_plain_path
from lance_core.proto import pb_table
from lance_core.schema.convert import fields_from_proto
from lance_core.table.base_paths import BasePath
from lance_core.table.data_file import DataFile
from lance_core.table.feature_flags import FeatureFlag, require_readable
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_totals import FragmentTotals, VersionPair
from lance_core.table.manifest_file import parse_manifest_file
from lance_core.table.old_writers import AsWritten, corrected
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.schema.field import Schema

__all__ = ["FILE_FORMAT", "Manifest"]

FILE_FORMAT: Final = "lance"
"""Name of the only data file format."""

_NANOSECONDS: Final = 1_000_000_000
_MAX_ROWS: Final = 2**32


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The metadata of one version.

    Attributes:
        message: the protobuf message; never changed.
        naming: the naming scheme of the table's manifests.
        index_section: serialized ``IndexSection``; None if the table has no index.
        transaction: serialized ``Transaction`` if it is stored inline; None otherwise.
        dictionaries: maps field ids to the values of the dictionary columns of a table in format 0.1.
        as_written: the uncorrected content of the file if an old release recorded wrong values; None otherwise.
    """

    message: pb_table.Manifest
    naming: ManifestNaming
    index_section: bytes | None = None
    transaction: bytes | None = None
    dictionaries: Mapping[int, pa.Array] = field(default_factory=dict, compare=False)
    as_written: AsWritten | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, buffer: pa.Buffer | bytes, *, path: str, name: ManifestName) -> Self:
        """Parse a manifest file.

        Args:
            buffer: the whole file.
            path: path of the file, for error messages.
            name: the parsed name of the file.

        Raises:
            CorruptDataError: the bytes are not a manifest, or are the manifest of a different version.
            NotSupportedError: the fragments are stored outside the manifest (experimental).
        """
        file = parse_manifest_file(buffer, path)
        if file.message.version != name.version:
            raise CorruptDataError(
                f"manifest {path}: the file name has version {name.version}, but the content has version "
                f"{file.message.version}",
                path=path,
                expected=name.version,
                found=file.message.version,
            )
        if file.message.transaction_file and not is_plain_path(file.message.transaction_file):
            raise CorruptDataError(
                f"manifest {path}: invalid path of the transaction file: {file.message.transaction_file!r:.200}; "
                "expected a relative path that contains no segment that is empty, '.', or '..'",
                path=path,
            )
        if file.message.HasField("fragment_tree"):
            raise NotSupportedError(
                f"manifest {path}: a fragment list that is stored outside the manifest is not supported", path=path
            )
        written = AsWritten(file.message, file.index_section)
        right = corrected(written)
        return cls(
            message=right.message,
            naming=name.naming,
            index_section=right.index_section,
            transaction=file.transaction,
            dictionaries=file.dictionaries,
            as_written=None if right is written else written,
        )

    @classmethod
    def empty(
        cls,
        *,
        file_version: LanceFileVersion = DEFAULT_VERSION,
        stable_row_ids: bool = False,
        naming: ManifestNaming = ManifestNaming.V2,
    ) -> Self:
        """Return the state before the first version: version 0, without fields or fragments."""
        flags = int(FeatureFlag.STABLE_ROW_IDS) if stable_row_ids else 0
        message = pb_table.Manifest(
            data_format=pb_table.Manifest.DataStorageFormat(file_format=FILE_FORMAT, version=file_version.value),
            reader_feature_flags=flags,
            writer_feature_flags=flags,
        )
        return cls(message=message, naming=naming)

    @property
    def version(self) -> int:
        """The version number: at least 1, or 0 for the state before the first version."""
        return self.message.version

    @property
    def schema(self) -> Schema:
        """The parsed schema. Raises the same errors as :func:`fields_from_proto`."""
        return fields_from_proto(self.message.fields, dict(self.message.schema_metadata))

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments, in ascending order of their ids."""
        return tuple(map(Fragment, self.message.fragments))

    @property
    def serialized_fields(self) -> bytes:
        """The serialized field messages of the schema, concatenated; equal for schemas with the same fields."""
        return b"".join(field.SerializeToString(deterministic=True) for field in self.message.fields)

    @property
    def num_bytes(self) -> int:
        """The size of the manifest message in bytes, without the index section and the inline transaction."""
        return self.message.ByteSize()

    @property
    def data_file_paths(self) -> frozenset[str]:
        """The paths of all data files; see :attr:`Fragment.data_file_paths`."""
        return frozenset(file.path for fragment in self.message.fragments for file in fragment.files)

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """The base paths: locations of files outside the table's root."""
        return tuple(map(BasePath.from_proto, self.message.base_paths))

    @property
    def file_version(self) -> LanceFileVersion:
        """The format version that new data files have by default.

        Early manifests do not record the format version; it is then that of the data files, which is the same for all.

        Raises:
            UnsupportedVersionError: the data files are not in the Lance format, or the format version is unknown.
            CorruptDataError: the version is not recorded, and no release ever wrote the version of the first data file.
        """
        if not self.message.HasField("data_format"):
            return self._version_by_files()
        data_format = self.message.data_format
        if data_format.file_format != FILE_FORMAT:
            raise UnsupportedVersionError(
                f"version {self.version}: data files have format {data_format.file_format!r}, expected {FILE_FORMAT!r}"
            )
        # Only exact version numbers: the meaning of an alias changes with every release.
        found = next((each for each in LanceFileVersion if each.value == data_format.version), None)
        if found is None:
            raise UnsupportedVersionError(
                f"version {self.version}: unknown data file version {data_format.version!r}; "
                f"expected one of {', '.join(each.value for each in LanceFileVersion)}",
                version=data_format.version,
            )
        return found

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have stable ids; this is decided when the table is created."""
        return bool(self.message.reader_feature_flags & FeatureFlag.STABLE_ROW_IDS)

    @property
    def mixes_file_versions(self) -> bool:
        """Whether the table may have data files of several format versions."""
        return bool(self.message.reader_feature_flags & FeatureFlag.MIXED_FILE_VERSIONS)

    @property
    def timestamp_ns(self) -> int:
        """Commit time: nanoseconds since the epoch, UTC."""
        return self.message.timestamp.seconds * _NANOSECONDS + self.message.timestamp.nanos

    @cached_property
    def totals(self) -> FragmentTotals:
        """The totals over all fragments. They are computed only once, which takes milliseconds for a large table."""
        return FragmentTotals.of(self.message)

    def check_readable(self) -> None:
        """Check the feature flags and the format version of every data file.

        Raises:
            UnsupportedFeatureFlagError: a flag is not supported.
            UnsupportedVersionError: the table, or a data file, has an unsupported format version; the message contains
                the file and the version.
            CorruptDataError: the flags are inconsistent, a fragment of a table with stable row ids has no row ids, or a
                data file has a different version from the table although the table does not allow mixed versions.
        """
        require_readable(self.message)
        own = self.file_version.require_readable()
        if self.mixes_file_versions and own.is_legacy:
            raise CorruptDataError(
                f"version {self.version}: a table in format {own.value} must not have the feature flag that allows "
                "data files of different formats"
            )
        self._check_numbers()
        if self.has_stable_row_ids:
            self._check_row_ids()
        for pair in sorted(self.totals.version_pairs()):
            file = DataFile.from_proto(self._first_file_of(pair))
            found = file.file_version
            if found is not own and not (self.mixes_file_versions and found.mixes_with(own)):
                raise CorruptDataError(
                    f"version {self.version}: data file {file.path} has format {found.value}, but the table has format "
                    f"{own.value}{'; restore a version whose data files all have the same format' * own.is_legacy}",
                    path=file.path,
                    expected=own.value,
                    found=found.value,
                )
            if not found.is_readable:
                raise UnsupportedVersionError(
                    f"version {self.version}: data file {file.path} has format {found.value}, which is not supported",
                    path=file.path,
                    version=found.value,
                )

    def _check_row_ids(self) -> None:
        bare = next((each.id for each in self.message.fragments if each.WhichOneof("row_id_sequence") is None), None)
        if bare is not None:
            raise CorruptDataError(
                f"version {self.version}: the table has stable row ids, but fragment {bare} has no row ids",
                version=self.version,
            )

    def _check_numbers(self) -> None:
        """Check that ids and row counts fit in row addresses: 32 bits for the fragment and 32 bits for the row."""
        self.totals.check_ids()
        num_rows = max(self.totals.columns.physical_rows, default=0)
        if num_rows > _MAX_ROWS:
            raise CorruptDataError(
                f"version {self.version}: a fragment has {counted(num_rows, 'row')}; at most {_MAX_ROWS} are allowed",
                expected=_MAX_ROWS,
                found=num_rows,
            )

    def _first_file_of(self, pair: VersionPair) -> pb_table.DataFile:
        for fragment in self.message.fragments:
            for file in fragment.files:
                if (file.file_major_version, file.file_minor_version) == pair:
                    return file
        raise CorruptDataError(f"version {self.version}: a data file records its format version twice")

    def _version_by_files(self) -> LanceFileVersion:
        for fragment in self.message.fragments:
            for file in fragment.files:
                return DataFile.from_proto(file).file_version
        early = self.message.writer_feature_flags & FeatureFlag.EARLY_V2_FORMAT
        return LanceFileVersion.V2_0 if early else LanceFileVersion.V0_1
