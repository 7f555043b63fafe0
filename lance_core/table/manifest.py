"""Manifest: the metadata of one version of a table.

A version *is* its manifest: one file below ``_versions/`` that lists the schema, every fragment, and the table's
settings. The record keeps the parsed message whole, so that a commit inherits everything that the operation does not
mention, including fields that this library does not interpret.

Source: ``lance.table.Manifest``; files of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import CorruptDataError, NotSupportedError, UnsupportedVersionError
from lance_core.proto import pb_table
from lance_core.schema.convert import fields_from_proto
from lance_core.table.base_paths import BasePath
from lance_core.table.feature_flags import FeatureFlag, require_readable
from lance_core.table.fragment import Fragment
from lance_core.table.manifest_file import parse_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.schema.field import Schema

__all__ = ["FILE_FORMAT", "Manifest"]

FILE_FORMAT: Final = "lance"
"""The only data file format there is."""

_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version's metadata.

    Attributes:
        message: the message; never changed.
        naming: how the table names its manifests.
        index_section: serialized ``IndexSection``; None when there is no index.
        transaction: serialized ``Transaction`` kept inline; None when it is only a file, or missing.
    """

    message: pb_table.Manifest
    naming: ManifestNaming
    index_section: bytes | None = None
    transaction: bytes | None = None

    @classmethod
    def parse(cls, buffer: pa.Buffer | bytes, *, path: str, name: ManifestName) -> Self:
        """Parse a manifest file.

        Args:
            buffer: the whole file.
            path: where it was found, for error messages.
            name: what its file name says.

        Raises:
            CorruptDataError: the bytes are no manifest, or one of another version.
            NotSupportedError: the fragments are kept outside the manifest (experimental).
        """
        file = parse_manifest_file(buffer, path)
        if file.message.version != name.version:
            raise CorruptDataError(
                f"manifest {path}: the name says version {name.version}, the content version {file.message.version}",
                path=path,
                expected=name.version,
                found=file.message.version,
            )
        if file.message.HasField("fragment_tree"):
            raise NotSupportedError(f"manifest {path}: fragments outside the manifest are not supported", path=path)
        return cls(
            message=file.message, naming=name.naming, index_section=file.index_section, transaction=file.transaction
        )

    @classmethod
    def empty(
        cls,
        *,
        file_version: LanceFileVersion = DEFAULT_VERSION,
        stable_row_ids: bool = False,
        naming: ManifestNaming = ManifestNaming.V2,
    ) -> Self:
        """The state before the first version: version 0, no fields, no fragments."""
        flags = int(FeatureFlag.STABLE_ROW_IDS) if stable_row_ids else 0
        message = pb_table.Manifest(
            data_format=pb_table.Manifest.DataStorageFormat(file_format=FILE_FORMAT, version=file_version.value),
            reader_feature_flags=flags,
            writer_feature_flags=flags,
        )
        return cls(message=message, naming=naming)

    @property
    def version(self) -> int:
        """The version's number, from 1; 0 before the first."""
        return self.message.version

    @property
    def schema(self) -> Schema:
        """The schema, parsed. Raises what :func:`fields_from_proto` raises."""
        return fields_from_proto(self.message.fields, dict(self.message.schema_metadata))

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The fragments, ascending by id."""
        return tuple(map(Fragment, self.message.fragments))

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """Where some of the files live outside the root."""
        return tuple(map(BasePath.from_proto, self.message.base_paths))

    @property
    def file_version(self) -> LanceFileVersion:
        """The data file version that writes use when none is asked for.

        Raises:
            UnsupportedVersionError: the table's format is not Lance's.
        """
        if not self.message.HasField("data_format"):
            early = self.message.writer_feature_flags & FeatureFlag.EARLY_V2_FORMAT
            return LanceFileVersion.V2_0 if early else LanceFileVersion.V0_1
        data_format = self.message.data_format
        if data_format.file_format != FILE_FORMAT:
            raise UnsupportedVersionError(
                f"version {self.version}: data files are of format {data_format.file_format!r}, not {FILE_FORMAT!r}"
            )
        return LanceFileVersion.parse(data_format.version)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows have stable ids; decided when the table was created."""
        return bool(self.message.reader_feature_flags & FeatureFlag.STABLE_ROW_IDS)

    @property
    def mixes_file_versions(self) -> bool:
        """Whether data files of several format versions may occur."""
        return bool(self.message.reader_feature_flags & FeatureFlag.MIXED_FILE_VERSIONS)

    @property
    def timestamp_ns(self) -> int:
        """Commit time: nanoseconds since the epoch, UTC."""
        return self.message.timestamp.seconds * _NANOSECONDS + self.message.timestamp.nanos

    def check_readable(self) -> None:
        """Check the feature flags and that every data file has the format version of the table.

        Raises:
            UnsupportedFeatureFlagError: a flag that this library does not know.
            CorruptDataError: flags that contradict each other, or a data file of another format version.
        """
        require_readable(self.message)
        if self.mixes_file_versions:
            return
        pairs = {
            (file.file_major_version, file.file_minor_version)
            for fragment in self.message.fragments
            for file in fragment.files
        }
        for pair in sorted(pairs):
            found = LanceFileVersion.from_pair(*pair)
            if found is not self.file_version:
                raise CorruptDataError(
                    f"version {self.version}: a data file is of format {found.value}, the table of "
                    f"{self.file_version.value}",
                    expected=self.file_version.value,
                    found=found.value,
                )
