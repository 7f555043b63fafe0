"""Arrow schemas as JSON objects, in the form of pylance.

::

    {"fields": [{"name": "v", "type": {"type": "fixed_size_list", "fields": [{…}], "length": 4}, "nullable": true}],
     "metadata": {"key": "value"}}

A type is named by its logical type (:mod:`lance_core.schema.logical_types`). Nested types have ``fields`` instead of a
logical type with parameters, and types of a fixed size have a ``length``. ``metadata`` is present only if there is any;
the metadata of a field contains the name of its extension type.

**Source:** ``lance.schema`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.schema.extension_types import extension_metadata, restore_schema
from lance_core.schema.logical_types import leaf_type, logical_type_of

__all__ = ["json_to_schema", "schema_to_json"]

_MAX_DEPTH: Final = 64
_ONE_CHILD: Final = {"list": pa.list_, "large_list": pa.large_list}


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return an Arrow schema as a dictionary that ``json.dumps`` accepts.

    Raises:
        InvalidTypeError: the argument is not an Arrow schema.
        InvalidInputError: a type, such as a map, cannot be represented in this form, or metadata is not text.
    """
    if not isinstance(schema, pa.Schema):
        raise InvalidTypeError(f"the schema must be a pyarrow.Schema, found {type(schema).__name__}")
    fields = [_field_to_json(field, field.name) for field in schema]
    return {"fields": fields, **_metadata_to_json(schema.metadata, "the schema")}


def json_to_schema(schema_json: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema for a dictionary; inverse of :func:`schema_to_json`.

    Raises:
        InvalidInputError: the dictionary does not have the required form, or a type is unknown.
    """
    fields = [_field_from_json(field, depth=1) for field in _entry(schema_json, "fields", list, "the schema")]
    return restore_schema(pa.schema(fields, metadata=_metadata_from_json(schema_json, "the schema")))


def _field_to_json(field: pa.Field, where: str) -> dict[str, Any]:
    dtype, metadata = field.type, field.metadata or {}
    if isinstance(dtype, pa.BaseExtensionType):
        parameters = {key.encode(): value for key, value in extension_metadata(dtype).items()}
        dtype, metadata = dtype.storage_type, parameters | metadata
    shown = {"name": field.name, "type": _type_to_json(dtype, where), "nullable": field.nullable}
    return {**shown, **_metadata_to_json(metadata, f"column {where!r}")}


def _type_to_json(dtype: pa.DataType, where: str) -> dict[str, Any]:
    if pa.types.is_fixed_size_binary(dtype):
        return {"type": "fixed_size_binary", "length": dtype.byte_width}
    if pa.types.is_map(dtype) or dtype in (pa.string_view(), pa.binary_view()):
        raise InvalidInputError(f"column {where!r}: schemas with type {dtype} cannot be converted to JSON")
    if not dtype.num_fields:
        is_struct = pa.types.is_struct(dtype)
        return {"type": "struct", "fields": []} if is_struct else {"type": _logical_type(dtype, where)}
    children = [dtype.field(index) for index in range(dtype.num_fields)]
    fields = [_field_to_json(child, f"{where}.{child.name}") for child in children]
    if pa.types.is_fixed_size_list(dtype):
        return {"type": "fixed_size_list", "fields": fields, "length": dtype.list_size}
    if pa.types.is_struct(dtype):
        return {"type": "struct", "fields": fields}
    # The logical type of a list of structs has a suffix, and the list views are refused.
    return {"type": _logical_type(dtype, where).partition(".")[0], "fields": fields}


def _logical_type(dtype: pa.DataType, where: str) -> str:
    try:
        return logical_type_of(dtype, where)
    except NotSupportedError as error:
        raise InvalidInputError(str(error)) from error


def _metadata_to_json(metadata: dict[bytes, bytes] | None, where: str) -> dict[str, Any]:
    try:
        texts = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"metadata of {where} is not valid UTF-8: {error}") from error
    return {"metadata": texts} if texts else {}


def _field_from_json(field: Any, depth: int) -> pa.Field:
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"fields are nested more than {_MAX_DEPTH} levels deep")
    name = _entry(field, "name", str, "a field")
    where = f"field {name!r}"
    dtype = _type_from_json(_entry(field, "type", dict, where), where, depth)
    nullable = _entry(field, "nullable", bool, where)
    return pa.field(name, dtype, nullable=nullable, metadata=_metadata_from_json(field, where))


def _type_from_json(shown: dict[str, Any], where: str, depth: int) -> pa.DataType:
    name = _entry(shown, "type", str, f"the type of {where}")
    if name == "fixed_size_binary":
        return pa.binary(_length(shown, where))
    if name not in ("struct", "fixed_size_list", *_ONE_CHILD):
        return _leaf(name, where)
    fields = [_field_from_json(child, depth + 1) for child in _entry(shown, "fields", list, f"the type of {where}")]
    if name == "struct":
        return pa.struct(fields)
    if len(fields) != 1:
        raise InvalidInputError(f"{where} of type {name} must have one field, found {len(fields)}")
    return _ONE_CHILD[name](fields[0]) if name in _ONE_CHILD else pa.list_(fields[0], _length(shown, where))


def _leaf(name: str, where: str) -> pa.DataType:
    try:
        return leaf_type(name)
    except (CorruptDataError, NotSupportedError) as error:
        raise InvalidInputError(f"{where}: {error}") from error


def _length(shown: dict[str, Any], where: str) -> int:
    length: int = _entry(shown, "length", int, f"the type of {where}")
    if not 0 <= length < 2**31:
        raise InvalidInputError(f"the length of {where} must be between 0 and {2**31 - 1}, found {length}")
    return length


def _metadata_from_json(owner: dict[str, Any], where: str) -> dict[str, str] | None:
    metadata = owner.get("metadata")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidInputError(f"metadata of {where} must map names to strings, found {metadata!r}")
    return metadata


def _entry(owner: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(owner, dict):
        raise InvalidInputError(f"{where} must be a JSON object, found {owner!r}")
    if not isinstance(owner.get(key), kind):
        raise InvalidInputError(
            f"{where} must have the entry {key!r} of type {kind.__name__}, found {owner.get(key)!r}"
        )
    return owner[key]
