"""DraftContent: the content of a draft except its fragments, such as schema, indices, settings, and base paths.

Source: ``lance.table.Manifest``; the content that pylance 14.0.2 keeps when it commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import SchemaMismatchError
from lance_core.proto import pb_table
from lance_core.schema.keys import CLUSTERING_POSITION, PRIMARY_POSITION, is_primary_key, position
from lance_core.table.manifest import FILE_FORMAT
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from lance_core.proto import pb_file
    from lance_core.table.manifest import Manifest

__all__ = ["DraftContent"]


class DraftContent:
    """A copy of a version's content, with methods that change the copy.

    Args:
        content: the version to start from.
        version: the number of the version being built.
    """

    def __init__(self, content: Manifest, version: int) -> None:
        """Copy the content."""
        self._content = content
        self._message = pb_table.Manifest()
        self._message.CopyFrom(content.message)
        self._message.version = version
        # Early manifests do not record the file version; new manifests do.
        self.set_file_version(content.file_version)
        self._index_section = content.index_section
        self._dictionaries = dict(content.dictionaries)

    @property
    def version(self) -> int:
        """The number of the version being built."""
        return self._message.version

    @property
    def message(self) -> pb_table.Manifest:
        """The manifest message of the draft; callers must not change it."""
        return self._message

    @property
    def index_section(self) -> bytes | None:
        """Serialized ``IndexSection``; None if the table has no index."""
        return self._index_section

    def set_index_section(self, section: bytes | None) -> None:
        """Replace the serialized ``IndexSection``; see :mod:`~lance_core.table.index_rules`."""
        self._index_section = section

    def drop_indices(self) -> None:
        """Remove every index."""
        self._index_section = None

    def replace_schema(self, fields: Sequence[pb_file.Field], metadata: Mapping[str, bytes]) -> None:
        """Replace the schema and the schema metadata. The values of dictionary columns are removed."""
        self._dictionaries = {}
        del self._message.fields[:]
        self._message.fields.extend(fields)
        self._message.schema_metadata.clear()
        self._message.schema_metadata.update(metadata)

    @property
    def file_version(self) -> LanceFileVersion:
        """The data file version that later writes use."""
        return LanceFileVersion(self._message.data_format.version)

    def set_file_version(self, version: LanceFileVersion) -> None:
        """Set the data file version that later writes use."""
        self._message.data_format.file_format = FILE_FORMAT
        self._message.data_format.version = version.value

    @property
    def dictionaries(self) -> Mapping[int, pa.Array]:
        """Maps field ids to the values of the dictionary columns of a table in format 0.1."""
        return self._dictionaries

    def set_dictionaries(self, dictionaries: Mapping[int, pa.Array]) -> None:
        """Replace the values of the dictionary columns, keyed by field id."""
        self._dictionaries = dict(dictionaries)

    def keep_dictionaries(self, field_ids: Collection[int]) -> None:
        """Keep the dictionaries of some columns of a table in format 0.1 when its schema changes."""
        kept = self._content.dictionaries
        self._dictionaries = {field_id: kept[field_id] for field_id in field_ids if field_id in kept}

    def count_field_ids(self) -> None:
        """If the table records the highest assigned field id, increase this id to the highest one in the schema."""
        if self._message.HasField("max_allocated_field_id"):
            highest = max((field.id for field in self._message.fields), default=-1)
            self._message.max_allocated_field_id = max(self._message.max_allocated_field_id, highest)

    def update_config(self, values: Mapping[str, str]) -> None:
        """Set some entries of the table config; other entries are kept."""
        self._message.config.update(values)

    def set_config(self, values: Mapping[str, str]) -> None:
        """Replace the table config."""
        self._message.config.clear()
        self._message.config.update(values)

    def set_table_metadata(self, values: Mapping[str, str]) -> None:
        """Replace the table metadata."""
        self._message.table_metadata.clear()
        self._message.table_metadata.update(values)

    def set_schema_metadata(self, values: Mapping[str, bytes]) -> None:
        """Replace the schema metadata."""
        self._message.schema_metadata.clear()
        self._message.schema_metadata.update(values)

    def field_metadata(self, field_id: int) -> dict[str, bytes]:
        """Return the metadata of a field.

        Raises:
            SchemaMismatchError: the field does not exist.
        """
        return dict(self._field(field_id).metadata)

    def set_field_metadata(self, field_id: int, values: Mapping[str, bytes]) -> None:
        """Replace the metadata of a field; raises the same errors as :meth:`field_metadata`."""
        field = self._field(field_id)
        field.metadata.clear()
        field.metadata.update(values)

    def derive_keys(self, field_id: int) -> None:
        """Set the key properties of a field from its metadata; raises the same errors as :meth:`field_metadata`."""
        field = self._field(field_id)
        metadata = dict(field.metadata)
        field.unenforced_primary_key = is_primary_key(metadata)
        field.unenforced_primary_key_position = position(metadata, PRIMARY_POSITION) or 0
        field.unenforced_clustering_key_position = position(metadata, CLUSTERING_POSITION) or 0

    def add_base_paths(self, base_paths: Iterable[pb_table.BasePath]) -> None:
        """Add base paths, keeping their ids."""
        self._message.base_paths.extend(base_paths)

    def set_base_paths(self, base_paths: Iterable[pb_table.BasePath]) -> None:
        """Replace the base paths."""
        replaced = list(base_paths)
        del self._message.base_paths[:]
        self._message.base_paths.extend(replaced)

    def set_branch(self, name: str | None) -> None:
        """Set the branch that the version belongs to; None for the main branch."""
        self._message.ClearField("branch")
        if name is not None:
            self._message.branch = name

    def _field(self, field_id: int) -> pb_file.Field:
        field = next((field for field in self._message.fields if field.id == field_id), None)
        if field is None:
            raise SchemaMismatchError(f"version {self.version - 1} has no field with id {field_id}", field=field_id)
        return field
