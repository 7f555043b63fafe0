"""DataFile: a data file of a fragment in the public API, and its JSON form.

Source: JSON of pylance 14.0.2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from lance_core.absent import PylanceClass
from lance_core.errors import InvalidInputError, NotFoundError
from lance_core.io.object_keys import is_plain_path
from lance_core.public.json_document import JsonObject, listed, malformed, nullable, text, whole

__all__ = ["DataFile", "read_data_file"]

_U32: Final = whole(0, 2**32)
_U64: Final = whole(0, 2**64)
_FIELD_IDS: Final = listed(whole(-(2**31), 2**31))
_COLUMNS: Final = listed(whole(-1, 2**31))


class _Handle(Protocol):
    """A handle to a dataset, whose class is defined in a package that imports this one."""

    @property
    def view(self) -> Any: ...


@dataclass
class DataFile(PylanceClass):
    """A data file of a fragment.

    Attributes:
        path: path of the file, relative to ``data/``.
        fields: ids of the fields that are stored in the file.
        column_indices: for each entry of ``fields``, the index of the column in the file.
        file_major_version: major version of the data storage format.
        file_minor_version: minor version of the data storage format.
        file_size_bytes: size of the file in bytes; None if unknown.
        base_id: id of the base path that contains the file; None for the dataset's own root.
    """

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def field_ids(self) -> list[int]:
        """Return the ids of the fields. Deprecated, as in pylance; use ``fields`` instead."""
        warnings.warn("field_ids is deprecated; use fields instead", DeprecationWarning, stacklevel=2)
        return self.fields

    @classmethod
    def create(cls, dataset: _Handle, path: str, *, base_id: int | None = None) -> Self:
        """Describe an existing file for an operation that adds it to a dataset; its columns are found by their names.

        Args:
            dataset: the dataset.
            path: path of the file, relative to ``data/``.
            base_id: id of the base path that contains the file; None for the dataset's own root.

        Raises:
            InvalidInputError: the file or the base path does not exist.
            SchemaMismatchError: the table does not have one of the columns, or has it with another type.
            CorruptDataError: the file is not a data file, or is damaged.
            StorageError: a storage operation failed.
        """
        try:
            found, _ = dataset.view.describe_data_file(path, base_id)
        except NotFoundError as error:
            # As in the reference, this is not a FileNotFoundError.
            raise InvalidInputError(str(error), argument="path") from error
        return cls(**vars(found))


def read_data_file(document: JsonObject) -> DataFile:
    """Read a data file from its JSON form.

    Raises:
        InvalidInputError: an entry is missing, unknown, or malformed.
    """
    document.refuse_others(DataFile.__dataclass_fields__)
    return DataFile(
        path=document.take("path", _data_path),
        fields=document.take("fields", _FIELD_IDS),
        column_indices=document.take("column_indices", _COLUMNS, []),
        file_major_version=document.take("file_major_version", _U32, 0),
        file_minor_version=document.take("file_minor_version", _U32, 0),
        file_size_bytes=document.take("file_size_bytes", nullable(_U64), None),
        base_id=document.take("base_id", nullable(_U32), None),
    )


def _data_path(value: Any, where: str) -> str:
    path = text(value, where)
    if not is_plain_path(path):
        malformed(where, "the relative path of a file below data/", path)
    return path
