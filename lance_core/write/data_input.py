"""Converts all supported kinds of input data to a stream of record batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow.dataset import Dataset, Scanner

from lance_core.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError

__all__ = ["ReaderLike", "to_reader"]

ReaderLike: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Mapping[str, Any] | Iterable[Any]
"""Input data: a table, batch, reader, dataset, scanner, data frame, dictionary, list of rows, or batches."""

_ROWS_AT_A_TIME: Final = 1000
"""Number of rows that are fetched together from datasets that return rows as Python objects."""


def to_reader(data: ReaderLike, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Convert input data to a stream of batches; string and binary views become ordinary strings and bytes.

    Args:
        data: a ``pa.Table``, ``pa.RecordBatch``, ``pa.RecordBatchReader``, ``pyarrow.dataset.Dataset`` (including a
            dataset of this library or pylance) or ``Scanner``, ``DataFrame`` of pandas or Polars, ``Dataset`` or
            ``IterableDataset`` of Hugging Face, dictionary of columns, list of dictionaries or of Pydantic models,
            iterable of ``pa.RecordBatch``, or anything with ``__arrow_c_stream__``.
        schema: the schema to which Python values are converted or batches are cast; None to infer it from the data.
            Required for an iterable of batches that may be empty.

    Raises:
        InvalidTypeError: the type of the data is not supported.
        SchemaMismatchError: a batch cannot be cast to ``schema``.
        InvalidInputError: Python values cannot be converted to Arrow, or there are no batches and no schema.
    """
    return _without_views(_to_reader(data, schema))


def _to_reader(data: ReaderLike, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, Dataset):
        return data.scanner().to_reader()
    if isinstance(data, Scanner):
        return data.to_reader()
    if _is_from("datasets", data, "Dataset", "IterableDataset", "DatasetDict"):
        return _of_hugging_face(data, schema)
    try:
        table = _converted(data, schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(f"the data cannot be converted to Arrow: {error}") from error
    if table is not None:
        return table.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _from_batches(iter(data), schema)
    raise InvalidTypeError(
        f"data of type {type(data).__name__} cannot be written; expected a table, batches, a reader, a dataset, a data "
        "frame, a dict, or a list of rows"
    )


def _is_from(library: str, data: object, *names: str) -> bool:
    """Return whether data is an instance of a class of a library, without importing the library."""
    module = sys.modules.get(library)
    return any(isinstance(data, kind) for name in names if isinstance(kind := getattr(module, name, None), type))


def _of_hugging_face(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if _is_from("datasets", data, "DatasetDict"):
        raise InvalidInputError("the data is a DatasetDict; write its datasets one by one")
    schema = data.features.arrow_schema if schema is None else schema
    if _is_from("datasets", data, "IterableDataset"):
        rows = data.iter(batch_size=_ROWS_AT_A_TIME)
        return pa.RecordBatchReader.from_batches(schema, (pa.RecordBatch.from_pydict(row, schema) for row in rows))
    # The Arrow format returns the rows that were selected, in their order; the underlying table has all of them.
    tables = data.with_format("arrow").iter(batch_size=_ROWS_AT_A_TIME)
    return pa.RecordBatchReader.from_batches(
        schema, _cast_batches((batch for table in tables for batch in table.to_batches()), schema)
    )


def _converted(data: Any, schema: pa.Schema | None) -> pa.Table | None:
    if _is_from("pandas", data, "DataFrame"):
        return pa.Table.from_pandas(data, schema=schema)
    if _is_from("polars", data, "DataFrame"):
        return data.to_arrow()
    if isinstance(data, Mapping):
        return pa.Table.from_pydict(dict(data), schema=schema)
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        return pa.Table.from_pylist(data, schema=schema)
    if isinstance(data, list) and data and _is_from("pydantic", data[0], "BaseModel"):
        # Imported only when needed: few programs use models.
        from lance_core.write.pydantic_models import models_to_table

        return models_to_table(data, type(data[0]), schema)
    return None


def _from_batches(batches: Iterator[object], schema: pa.Schema | None) -> pa.RecordBatchReader:
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise InvalidInputError("the data has no batches and no schema was given, so the columns are unknown")
        schema = _checked(first).schema
        batches = chain([first], batches)
    return pa.RecordBatchReader.from_batches(schema, _cast_batches(batches, schema))


def _cast_batches(batches: Iterator[object], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for item in batches:
        batch = _checked(item)
        if batch.schema.equals(schema):
            yield batch
            continue
        try:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        except (pa.ArrowException, ValueError) as error:
            raise SchemaMismatchError(
                f"a batch does not have the expected schema.\nexpected:\n{schema}\nfound:\n{batch.schema}"
            ) from error


def _checked(item: object) -> pa.RecordBatch:
    if not isinstance(item, pa.RecordBatch):
        raise InvalidTypeError(f"each item of the data must be a pyarrow.RecordBatch, found {type(item).__name__}")
    return item


def _without_views(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream in which string and binary views are strings and bytes: Arrow cannot take rows from views."""
    given = reader.schema
    types = [_plain_type(dtype) for dtype in given.types]
    if types == given.types:
        return reader
    fields = [field.with_type(dtype) for field, dtype in zip(given, types, strict=True)]
    schema = pa.schema(fields, metadata=given.metadata)
    return pa.RecordBatchReader.from_batches(schema, (_plain_batch(batch, schema) for batch in reader))


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_binary_view(dtype):
        return pa.binary()
    if isinstance(dtype, pa.JsonType):
        return pa.json_(_plain_type(dtype.storage_type))
    if pa.types.is_struct(dtype):
        return pa.struct([_plain_field(field) for field in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(_plain_field(dtype.key_field), _plain_field(dtype.item_field), keys_sorted=dtype.keys_sorted)
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(_plain_field(dtype.value_field), dtype.list_size)
    if pa.types.is_large_list(dtype):
        return pa.large_list(_plain_field(dtype.value_field))
    return pa.list_(_plain_field(dtype.value_field)) if pa.types.is_list(dtype) else dtype


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for array, field in zip(batch.columns, schema, strict=True):
        try:
            arrays.append(array if array.type == field.type else _cast_from_view(array, field.type))
        except (pa.ArrowException, NotImplementedError) as error:
            raise InvalidInputError(
                f"column {field.name!r} of type {array.type} cannot be converted to {field.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_from_view(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(dtype, array.storage.cast(dtype.storage_type))
    return array.cast(dtype)
