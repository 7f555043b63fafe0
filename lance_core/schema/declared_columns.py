"""The types with which a table declares the columns of given rows, if the declared types differ from the given ones.

========================================  ==========================================================
Given                                     Declared
========================================  ==========================================================
``arrow.json`` strings                    ``lance.json``: binary JSON
binary with ``lance-encoding:blob``       ``lance.blob.v2``, for tables in format 2.2 and for
                                          existing columns of that type
========================================  ==========================================================

The same applies inside structs and lists. All other types are unchanged. The values are converted by
``lance_core/file/prepared_input.py``.

**Source:** pylance 14.0.2, in ``write_dataset`` and in ``commit`` of an ``Overwrite``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lance_core.schema.convert import MAX_DEPTH
from lance_core.schema.extension_types import with_children
from lance_core.schema.field import BLOB_KEY, BLOB_V2, EXTENSION_NAME_KEY
from lance_core.schema.json_columns import is_json_text, json_field

__all__ = ["UPGRADED_BLOB", "declared_column", "is_older_blob"]

UPGRADED_BLOB: Final = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
"""The storage type of a column that is a v1 blob in the data and that the table declares as ``lance.blob.v2``."""

_NAMED: Final = {EXTENSION_NAME_KEY.encode(): BLOB_V2.encode()}


def declared_column(given: pa.Field, *, upgrades_blobs: bool, depth: int = 0) -> pa.Field:
    """Return the declared field, or the same object if unchanged. Fields nested too deeply are unchanged."""
    if is_json_text(given):
        return json_field(given)
    if upgrades_blobs and is_older_blob(given):
        kept = {key: value for key, value in given.metadata.items() if key != BLOB_KEY.encode()}
        return pa.field(given.name, UPGRADED_BLOB, nullable=given.nullable, metadata={**kept, **_NAMED})
    dtype = given.type
    if isinstance(dtype, pa.BaseExtensionType) or not dtype.num_fields or depth > MAX_DEPTH:
        return given
    below = [dtype.field(index) for index in range(dtype.num_fields)]
    declared = [declared_column(child, upgrades_blobs=upgrades_blobs, depth=depth + 1) for child in below]
    if all(before is after for before, after in zip(below, declared, strict=True)):
        return given
    return given.with_type(with_children(dtype, declared))


def is_older_blob(field: pa.Field) -> bool:
    """Return whether a field is a blob as declared in formats before 2.2: binary with ``lance-encoding:blob``."""
    is_binary = pa.types.is_large_binary(field.type) or pa.types.is_binary(field.type)
    return bool(is_binary and BLOB_KEY.encode() in (field.metadata or {}))
