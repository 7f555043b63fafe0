"""The functions of JSON columns: ``json_get*``, ``json_extract``, ``json_exists``, and ``json_array_*``.

DataFusion calls the functions with the documents in their binary form (:mod:`lance_core.schema.jsonb`). The result is
null if an argument is null.

**Source:** functions tested with pylance 14.0.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.predicate.json_paths import matches_at
from lance_core.schema.jsonb import JsonbValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["JSON_FUNCTIONS", "JsonFunction"]

_POSITION: Final = re.compile(r"\+?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MIN_I64, _MAX_I64 = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class JsonFunction:
    """A function whose first argument is a document, and whose other arguments are strings.

    Attributes:
        name: its name in SQL.
        num_texts: number of arguments after the document.
        gives: type of the results.
        compute: computes one result from a document and the other arguments.
    """

    name: str
    num_texts: int
    gives: pa.DataType
    compute: Callable[..., Any]

    def __call__(self, documents: pa.Array, *texts: pa.Array) -> pa.Array:
        """Return the result for each row.

        Raises:
            InvalidInputError: a value cannot be converted, or a path is invalid.
        """
        distinct = [text.unique() for text in texts]
        if not all(len(each) == 1 and each.null_count == 0 for each in distinct):
            rows = zip(documents.to_pylist(), *(text.to_pylist() for text in texts), strict=True)
            return pa.array([self._one(*row) for row in rows], self.gives)
        # Usually, the other arguments are constants. Documents that occur several times are then read once.
        encoded = documents.dictionary_encode()
        constants = [each[0].as_py() for each in distinct]
        results = [self._one(document, *constants) for document in encoded.dictionary.to_pylist()]
        return pa.array(results, self.gives).take(encoded.indices)

    def _one(self, document: bytes | None, *texts: str | None) -> Any:
        if document is None or None in texts:
            return None
        return self.compute(JsonbValue.of_document(document), *texts)


def _exists(value: JsonbValue, path: str) -> bool:
    return bool(matches_at(value, path))


def _extract(value: JsonbValue, path: str) -> str | None:
    found = [match.text for match in matches_at(value, path)]
    return f"[{','.join(found)}]" if len(found) > 1 else found[0] if found else None


def _array_length(value: JsonbValue, path: str) -> int | None:
    found = matches_at(value, path)
    return len(found[0].items() or ()) if found else None


def _array_contains(value: JsonbValue, path: str, wanted: str) -> bool:
    texts = [item.text for match in matches_at(value, path)[:1] for item in match.items() or ()]
    return any(wanted in (text, text.strip('"')) for text in texts)


def _member(value: JsonbValue, key: str) -> JsonbValue | None:
    members, items = value.members(), value.items()
    if members is not None:
        return members.get(key)
    if items is None or not _POSITION.fullmatch(key) or int(key) >= len(items):
        return None
    return items[int(key)]


def _get(value: JsonbValue, key: str) -> bytes | None:
    found = _member(value, key)
    return None if found is None else found.to_document()


def _converted(kind: str, convert: Callable[[JsonbValue], Any]) -> Callable[[JsonbValue, str], Any]:
    """Return a function that converts a member; ``convert`` returns None if that is impossible."""

    def compute(value: JsonbValue, key: str) -> Any:
        found = _member(value, key)
        if found is None or found.is_null:
            return None
        result = convert(found)
        if result is None:
            raise InvalidInputError(f"the JSON value at {key!r} cannot be converted to {kind}: {found.text[:200]}")
        return result

    return compute


def _string(value: JsonbValue) -> str | None:
    if value.is_container:
        return None
    return value.text if value.string is None else value.string


def _number(value: JsonbValue) -> float | int | None:
    if value.boolean is not None:
        return int(value.boolean)
    text = value.text if value.is_number else value.string
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _int(value: JsonbValue) -> int | None:
    number = _number(value)
    if isinstance(number, float):
        # Halves are rounded away from zero.
        whole = abs(number) // 1 + (abs(number) % 1 >= 0.5) if abs(number) < 2**64 else 2**64
        number = int(whole if number >= 0 else -whole)
    return number if number is not None and _MIN_I64 <= number <= _MAX_I64 else None


def _float(value: JsonbValue) -> float | None:
    number = _number(value)
    return None if number is None else float(number)


def _bool(value: JsonbValue) -> bool | None:
    text = value.string
    return value.boolean if text is None else {"true": True, "false": False}.get(text.lower())


JSON_FUNCTIONS: Final = (
    JsonFunction("json_exists", 1, pa.bool_(), _exists),
    JsonFunction("json_extract", 1, pa.string(), _extract),
    JsonFunction("json_get", 1, pa.large_binary(), _get),
    JsonFunction("json_get_string", 1, pa.string(), _converted("a string", _string)),
    JsonFunction("json_get_int", 1, pa.int64(), _converted("an integer", _int)),
    JsonFunction("json_get_float", 1, pa.float64(), _converted("a number", _float)),
    JsonFunction("json_get_bool", 1, pa.bool_(), _converted("a Boolean value", _bool)),
    JsonFunction("json_array_length", 1, pa.int64(), _array_length),
    JsonFunction("json_array_contains", 2, pa.bool_(), _array_contains),
)
"""All functions that operate on JSON columns."""
