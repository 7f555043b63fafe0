"""Schemas and rows of models defined with Pydantic 2.

==========================================  ==============================================================
annotation                                  Arrow type
==========================================  ==============================================================
``int``, ``float``, ``bool``                int64, float64, bool
``str``, ``bytes``                          string, binary
``date``, ``datetime``                      date32, timestamp[us]; with the time zone ``tz`` of the field's
                                            ``json_schema_extra``, if there is one
``list[T]``, ``tuple[T]``                   list of T
``Vector(dim)``, ``MultiVector(dim)``       fixed-size list, list of fixed-size lists
an ``Enum``                                 dictionary of strings, or the type of its values if they are not
                                            strings; string if their types differ
another model                               struct
==========================================  ==============================================================

A field is nullable if its annotation is ``T | None``, or if it is a vector that was declared nullable.

Source: ``lance.pydantic`` of pylance 14.0.2.
"""

from __future__ import annotations

import inspect
import re
import types
from abc import ABC, abstractmethod
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "FixedSizeListMixin",
    "MultiVector",
    "Vector",
    "get_extras",
    "is_nullable",
    "location_of",
    "models_to_table",
    "pydantic_to_schema",
]

_SCALARS: Final[dict[Any, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.utf8(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    date: pa.date32(),
}
_LISTS: Final = (list, tuple)
_UNIONS: Final = (Union, types.UnionType)


class FixedSizeListMixin(ABC):
    """Base class of the types that :func:`Vector` and :func:`MultiVector` return."""

    @staticmethod
    @abstractmethod
    def dim() -> int:
        """Return the number of values in a vector."""

    @staticmethod
    @abstractmethod
    def value_arrow_type() -> pa.DataType:
        """Return the type of the values."""

    @staticmethod
    def nullable() -> bool:
        """Return whether a field of this type is nullable."""
        return True

    @staticmethod
    def is_multi_vector() -> bool:
        """Return whether a value is a list of vectors."""
        return False


def Vector(dim: int, value_type: pa.DataType = pa.float32(), nullable: bool = True) -> type[FixedSizeListMixin]:  # noqa: B008, N802  # pylance's signature
    """Return the type of a field that contains a vector.

    Args:
        dim: number of values.
        value_type: type of the values.
        nullable: whether the field is nullable.
    """
    return _vector_type("FixedSizeList", dim, value_type, nullable=nullable, several=False)


def MultiVector(dim: int, value_type: pa.DataType = pa.float32(), nullable: bool = True) -> type[FixedSizeListMixin]:  # noqa: B008, N802  # pylance's signature
    """Return the type of a field that contains a list of vectors; the arguments are those of :func:`Vector`."""
    return _vector_type("MultiVectorList", dim, value_type, nullable=nullable, several=True)


def _vector_type(
    name: str, dim: int, value_type: pa.DataType, *, nullable: bool, several: bool
) -> type[FixedSizeListMixin]:
    def schema(cls: type, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        numbers = core_schema.list_schema(core_schema.float_schema(), min_length=dim, max_length=dim)
        return core_schema.no_info_after_validator_function(
            cls, core_schema.list_schema(numbers) if several else numbers
        )

    return type(
        name,
        (list, FixedSizeListMixin),
        {
            "__doc__": f"Vectors of {dim} values.",
            "__get_pydantic_core_schema__": classmethod(schema),
            "dim": staticmethod(lambda: dim),
            "value_arrow_type": staticmethod(lambda: value_type),
            "nullable": staticmethod(lambda: nullable),
            "is_multi_vector": staticmethod(lambda: several),
        },
    )


def pydantic_to_schema(model: type[BaseModel]) -> pa.Schema:
    """Return the schema of the rows of a model.

    Args:
        model: a subclass of ``pydantic.BaseModel``.

    Raises:
        InvalidTypeError: a field has a type that cannot be converted.
    """
    return pa.schema(_fields(model))


def models_to_table(models: object, model_class: type[BaseModel], schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows of a list of models.

    Args:
        models: instances of exactly this class, because those of a subclass may have other fields.
        model_class: a subclass of ``pydantic.BaseModel``.
        schema: the schema of the table; None for that of the class.

    Raises:
        InvalidTypeError: the class is not a model, ``models`` is not a list of its instances, or a field has a type
            that cannot be converted.
        InvalidInputError: a value does not fit the schema.
    """
    from pydantic import BaseModel

    if not _is_subclass(model_class, BaseModel):
        raise InvalidTypeError(
            f"model_class must be a subclass of pydantic.BaseModel, found {model_class!r}", argument="model_class"
        )
    if not isinstance(models, list):
        raise InvalidTypeError(f"data must be a list of models, found {type(models).__name__}", argument="data")
    for position, model in enumerate(models):
        if type(model) is not model_class:
            raise InvalidTypeError(
                f"data[{position}] must be of type {model_class.__name__}, and not an instance of a subclass; "
                f"found {type(model).__name__}",
                argument="data",
            )
    rows = [_plain(model.model_dump()) for model in models]
    try:
        return pa.Table.from_pylist(rows, schema=pydantic_to_schema(model_class) if schema is None else schema)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidInputError(f"the models cannot be converted to Arrow: {error}") from error


def location_of(model_class: type[BaseModel]) -> str:
    """Return the name of the class in lower case, with words separated by underscores."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", model_class.__name__).lower()


def get_extras(field: Any, key: str) -> Any:
    """Return a value of the ``json_schema_extra`` of a field; None if there is none."""
    extra = field.json_schema_extra
    return extra.get(key) if isinstance(extra, dict) else None


def is_nullable(field: Any) -> bool:
    """Return whether the column of a field is nullable; a default value alone does not make it so."""
    annotation = field.annotation
    if get_origin(annotation) in _UNIONS:
        return type(None) in get_args(annotation)
    return _is_subclass(annotation, FixedSizeListMixin) and bool(annotation.nullable())


def _plain(value: Any) -> Any:
    """Replace the members of enumerations with their values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if type(value) in _LISTS:
        return [_plain(each) for each in value]
    return value


def _fields(model: type[BaseModel]) -> list[pa.Field]:
    return [
        pa.field(name, _arrow_type(field.annotation, field), is_nullable(field))
        for name, field in model.model_fields.items()
    ]


def _arrow_type(annotation: Any, field: Any) -> pa.DataType:
    annotation = _without_none(annotation)
    if get_origin(annotation) in _LISTS:
        items = get_args(annotation)
        if not items:
            raise InvalidTypeError(
                f"field type {inspect.formatannotation(annotation)} does not specify the type of its items",
                argument="model",
            )
        return pa.list_(_arrow_type(items[0], field))
    if _is_subclass(annotation, FixedSizeListMixin):
        vector = pa.list_(annotation.value_arrow_type(), annotation.dim())
        return pa.list_(vector) if annotation.is_multi_vector() else vector
    if _is_subclass(annotation, Enum):
        return _enum_type(annotation, field)
    if hasattr(annotation, "model_fields"):
        return pa.struct(_fields(annotation))
    if annotation is datetime:
        return pa.timestamp("us", tz=get_extras(field, "tz"))
    found = _SCALARS.get(annotation) if inspect.isclass(annotation) else None
    if found is None:
        raise InvalidTypeError(
            f"no Arrow type is known for a field of type {inspect.formatannotation(annotation)}", argument="model"
        )
    return found


def _enum_type(annotation: type[Enum], field: Any) -> pa.DataType:
    kinds = {type(member.value) for member in annotation}
    if kinds == {str}:
        return pa.dictionary(pa.int32(), pa.utf8())
    return _arrow_type(kinds.pop(), field) if len(kinds) == 1 else pa.utf8()


def _without_none(annotation: Any) -> Any:
    """Return T for ``T | None``; every other annotation remains as it is."""
    if get_origin(annotation) not in _UNIONS:
        return annotation
    others = [each for each in get_args(annotation) if each is not type(None)]
    return others[0] if len(others) == 1 else annotation


def _is_subclass(annotation: Any, kind: type) -> bool:
    return inspect.isclass(annotation) and get_origin(annotation) is None and issubclass(annotation, kind)
