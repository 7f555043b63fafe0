"""The schema in a data file in format 0.1, stored as a manifest that contains only fields.

Dictionary fields record the location of their values in the file.

**Source:** ``lance.table.Manifest`` and ``lance.file.Dictionary``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.file.map_entries import serialized
from lance_core.file.v0_1.layout import WRITER_LIBRARY, WRITER_VERSION
from lance_core.proto import pb_file, pb_table
from lance_core.schema.convert import fields_from_proto, fields_to_proto
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.schema.field import Schema

__all__ = ["DictionaryPlace", "EmbeddedManifest"]


@dataclass(frozen=True, slots=True)
class DictionaryPlace:
    """Location of a dictionary's values in the file.

    Attributes:
        position: position of the values in the file, or of their offsets if they have variable width.
        num_values: number of values.
    """

    position: int
    num_values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedManifest:
    """The schema of a file and the locations of its dictionaries.

    Attributes:
        schema: the fields, with their table-wide ids.
        dictionaries: locations of the dictionaries, keyed by field id.
    """

    schema: Schema
    dictionaries: Mapping[int, DictionaryPlace] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Parse the message.

        Raises:
            CorruptDataError: the bytes are not a manifest, or the fields do not form a tree.
            NotSupportedError: the schema has a field that this library does not support.
        """
        try:
            message = pb_table.Manifest.FromString(data)
        except DecodeError as error:
            raise CorruptDataError(f"{path}: the embedded manifest cannot be decoded: {error}", path=path) from error
        return cls(
            schema=fields_from_proto(message.fields, dict(message.schema_metadata)),
            dictionaries={
                node.id: DictionaryPlace(node.dictionary.offset, node.dictionary.length)
                for node in message.fields
                if node.HasField("dictionary")
            },
        )

    def serialize(self) -> bytes:
        """Return the serialized message."""
        fields = fields_to_proto(self.schema)
        for node in fields:
            place = self.dictionaries.get(node.id)
            if place is not None:
                node.dictionary.CopyFrom(pb_file.Dictionary(offset=place.position, length=place.num_values))
        message = pb_table.Manifest(
            fields=fields,
            schema_metadata=dict(self.schema.metadata),
            version=1,
            writer_version=pb_table.Manifest.WriterVersion(library=WRITER_LIBRARY, version=WRITER_VERSION),
            data_format=pb_table.Manifest.DataStorageFormat(
                file_format=WRITER_LIBRARY, version=LanceFileVersion.V0_1.value
            ),
        )
        return serialized(message)
