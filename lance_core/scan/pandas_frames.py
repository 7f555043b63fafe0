"""Converts the rows of a scan to a pandas DataFrame, in which values of blob columns may be file objects.

Source: ``to_pandas`` of pylance 14.0.2.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow.types as pa_types

from lance_core.blobs.files import DEFAULT_BLOB_BUFFER_SIZE
from lance_core.errors import InvalidInputError
from lance_core.scan.blob_rows import BlobRows
from lance_core.scan.row_columns import ROW_ADDRESS_NAME
from lance_core.scan.shown_columns import BlobHandling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from lance_core.blobs.files import BlobFile
    from lance_core.scan.scan_source import ScanSource

__all__ = ["read_frame"]

_Path: TypeAlias = tuple[str, ...]
"""The name of a column, followed by the names of the struct members that lead to a nested field."""


class BlobMode(Enum):
    """Specifies what a frame contains for blob columns."""

    LAZY = "lazy"
    """File objects. The default."""

    BYTES = "bytes"
    """The values."""

    DESCRIPTIONS = "descriptions"
    """What the scan returns."""

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the member with the given name.

        Raises:
            InvalidInputError: no member has this name.
        """
        found = next((member for member in cls if member.value == name), None)
        if found is None:
            known = ", ".join(repr(member.value) for member in cls)
            raise InvalidInputError(f"blob_mode must be one of: {known}; found {name!r}", argument="blob_mode")
        return found


def read_frame(
    source: ScanSource,
    schema: pa.Schema,
    renamed: Mapping[str, str],
    read: Callable[..., pa.Table],
    blob_mode: str,
    **kwargs: Any,
) -> Any:
    """Read the rows of a scan into a DataFrame.

    Args:
        source: the fragments that are scanned.
        schema: the schema of the result.
        renamed: maps names of columns of the result to their paths in the table, if these differ.
        read: performs the scan; the arguments with which it is called replace those of the scan.
        blob_mode: "lazy" for file objects, "bytes" for values, or "descriptions" for what the scan returns.
        kwargs: arguments for ``pyarrow.Table.to_pandas``.

    Raises:
        InvalidInputError: ``blob_mode`` is unknown.
    """
    mode = BlobMode.parse(blob_mode)
    paths = [path for field in schema for path in _blob_paths(field)]
    if not paths or mode is BlobMode.DESCRIPTIONS:
        return read().to_pandas(**kwargs)
    if mode is BlobMode.BYTES:
        return read(blob_handling=BlobHandling.ALL_BINARY.value).to_pandas(**kwargs)
    table = read(blob_handling=BlobHandling.BLOBS_DESCRIPTIONS.value, with_row_address=True)
    rows = BlobRows.at_addresses(source, table[ROW_ADDRESS_NAME].to_numpy())
    whole = {path[0] for path in paths if len(path) == 1}
    others = [name for name in schema.names if name not in whole]
    # A table without columns has no rows in pandas, so one column is read and removed.
    frame = table.select(others).to_pandas(**kwargs) if others else table.select([ROW_ADDRESS_NAME]).to_pandas()[[]]
    for path in paths:
        files = rows.files(".".join((renamed.get(path[0], path[0]), *path[1:])), DEFAULT_BLOB_BUFFER_SIZE)
        if len(path) == 1:
            frame.insert(schema.names.index(path[0]), path[0], files)
        else:
            frame[path[0]] = [_with(*each, path[1:]) for each in zip(frame[path[0]].tolist(), files, strict=True)]
    return frame


def _blob_paths(field: pa.Field, parents: _Path = ()) -> Iterator[_Path]:
    path = (*parents, field.name)
    if (field.metadata or {}).get(b"lance-encoding:blob") == b"true":
        yield path
    elif pa_types.is_struct(field.type):
        for member in field.type:
            yield from _blob_paths(member, path)


def _with(struct: dict[str, Any] | None, file: BlobFile | None, path: Sequence[str]) -> dict[str, Any] | None:
    """Return a copy of a struct in which a file object replaces the member at a path."""
    if struct is None:
        return None
    name, *rest = path
    return {**struct, name: _with(struct[name], file, rest) if rest else file}
