"""JSONB: the binary form of JSON documents in ``lance.json`` columns.

::

    document    container; a scalar is stored as a container of kind 0x2 with count 0 and one entry
    container   u32 kind (0x8 array, 0x4 object) << 28 | number of members
                entries: array u32 x n; object u32 x n for the keys, then u32 x n for the values
                the bytes described by the entries, in order
    entry       kind << 28 | bytes:  0 null, 1 string, 2 number, 3 false, 4 true, 5 container
    number      0x00 zero  0x10 NaN  0x20 infinity  0x30 -infinity
                0x40 signed, 0x50 unsigned, 1, 2, 4 or 8 bytes; 0x60 double, 8 bytes

All 32-bit words and numbers are big-endian. The members of an object are sorted by the bytes of their keys. Integers
that do not fit in 64 bits are converted to doubles.

**Source:** columns of pylance 14.0.2, compared byte for byte; the JSONB format of Databend.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JsonbValue", "jsonb_from_text", "text_from_jsonb"]

_ARRAY, _OBJECT, _SCALAR = 0x8, 0x4, 0x2
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = range(6)
_ZERO, _NAN, _INFINITY, _MINUS_INFINITY, _SIGNED, _UNSIGNED, _DOUBLE = (number << 4 for number in range(7))

_KIND_SHIFT: Final = 28
_COUNT_MASK: Final = (1 << _KIND_SHIFT) - 1
_WORD_BYTES: Final = 4
_MAX_DEPTH: Final = 256
_MAX_U64: Final = (1 << 64) - 1
_MIN_I64: Final = -(1 << 63)
_WIDTHS: Final = (1, 2, 4, 8)


def jsonb_from_text(text: bytes) -> bytes:
    """Convert JSON text to the binary form.

    Raises:
        InvalidInputError: the text is not valid JSON, a key is repeated in an object, or the document is nested more
            than 256 levels deep.
    """
    try:
        value = json.loads(text.decode(), object_pairs_hook=_object, strict=False, parse_constant=_no_constant)
        kind, data = _encoded(value, 0)
    except RecursionError as error:
        raise InvalidInputError(f"a document is nested more than {_MAX_DEPTH} levels deep") from error
    except InvalidInputError:
        raise
    except ValueError as error:
        raise InvalidInputError(f"invalid JSON: {error}") from error
    if kind == _CONTAINER:
        return data
    return _word(_SCALAR, 0) + _word(kind, len(data)) + data


def text_from_jsonb(data: bytes) -> str:
    """Convert a document to JSON text, without whitespace; NaN and infinities become null.

    Raises:
        CorruptDataError: the bytes are not a valid document.
    """
    if not data:
        return "null"
    kind, _ = _split(data, 0)
    if kind == _SCALAR:
        entry_kind, size = _split(data, _WORD_BYTES)
        return _text(entry_kind, data, 2 * _WORD_BYTES, size, 0)
    return _text(_CONTAINER, data, 0, len(data), 0)


@dataclass(frozen=True, slots=True)
class JsonbValue:
    """A value inside a document; its members and items are decoded when they are accessed.

    Attributes:
        kind: kind of its entry.
        data: bytes of its entry.
    """

    kind: int
    data: bytes

    @classmethod
    def of_document(cls, data: bytes) -> JsonbValue:
        """Return the outermost value of a document.

        Raises:
            CorruptDataError: the bytes are not a valid document.
        """
        if not data:
            return cls(_NULL, b"")
        kind, _ = _split(data, 0)
        if kind != _SCALAR:
            return cls(_CONTAINER, data)
        entry_kind, size = _split(data, _WORD_BYTES)
        return cls(entry_kind, _part(data, 2 * _WORD_BYTES, size))

    @classmethod
    def of(cls, value: bool | float | str | None) -> JsonbValue:
        """Return a scalar."""
        return cls(*_encoded(value, 0))

    @property
    def is_null(self) -> bool:
        """Whether the value is null."""
        return self.kind == _NULL

    @property
    def boolean(self) -> bool | None:
        """The value if it is true or false; None otherwise."""
        return self.kind == _TRUE if self.kind in (_TRUE, _FALSE) else None

    @property
    def string(self) -> str | None:
        """The value if it is a string; None otherwise."""
        return str(json.loads(_string_text(self.data))) if self.kind == _STRING else None

    @property
    def is_number(self) -> bool:
        """Whether the value is a number."""
        return self.kind == _NUMBER

    @property
    def number(self) -> float | int | None:
        """The value if it is a number; None otherwise."""
        return _number(self.data) if self.kind == _NUMBER else None

    @property
    def is_container(self) -> bool:
        """Whether the value is an array or an object."""
        return self.kind == _CONTAINER

    @property
    def text(self) -> str:
        """The value as JSON text, without whitespace."""
        return _text(self.kind, self.data, 0, len(self.data), 0)

    def items(self) -> list[JsonbValue] | None:
        """Return the items of an array; None if the value is not an array."""
        return list(self._entries(_ARRAY)) if self._container_kind() == _ARRAY else None

    def members(self) -> dict[str, JsonbValue] | None:
        """Return the members of an object; None if the value is not an object."""
        if self._container_kind() != _OBJECT:
            return None
        entries = list(self._entries(_OBJECT))
        half = len(entries) // 2
        return {str(key.string): value for key, value in zip(entries[:half], entries[half:], strict=True)}

    def to_document(self) -> bytes:
        """Return a document that consists of this value."""
        if self.kind == _CONTAINER:
            return self.data
        return _word(_SCALAR, 0) + _word(self.kind, len(self.data)) + self.data

    def _container_kind(self) -> int | None:
        return _split(self.data, 0)[0] if self.kind == _CONTAINER else None

    def _entries(self, kind: int) -> Iterator[JsonbValue]:
        _, count = _split(self.data, 0)
        num_entries = count * (1 + (kind == _OBJECT))
        at = _WORD_BYTES * (1 + num_entries)
        if at > len(self.data):
            raise CorruptDataError(
                f"a document of {counted(len(self.data), 'byte')} cannot contain a container with "
                f"{counted(num_entries, 'entry', 'entries')}"
            )
        for index in range(num_entries):
            entry_kind, size = _split(self.data, _WORD_BYTES * (1 + index))
            yield JsonbValue(entry_kind, _part(self.data, at, size))
            at += size


def _part(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise CorruptDataError(
            f"an entry ends at byte {start + size}, but the document has {counted(len(data), 'byte')}"
        )
    return data[start : start + size]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidInputError(f"key {repeated!r} occurs more than once in an object")
    return found


def _no_constant(name: str) -> Any:
    raise InvalidInputError(f"{name} is not valid JSON")


def _encoded(value: Any, depth: int) -> tuple[int, bytes]:
    """Return the kind and the bytes of the entry for a value."""
    if value is None:
        return _NULL, b""
    if value is True:
        return _TRUE, b""
    if value is False:
        return _FALSE, b""
    if isinstance(value, str):
        return _STRING, value.encode()
    if isinstance(value, int):
        return _NUMBER, _integer(value)
    if isinstance(value, float):
        return _NUMBER, _double(value)
    if depth >= _MAX_DEPTH:
        raise InvalidInputError(f"a document is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return _CONTAINER, _container(_ARRAY, len(value), [_encoded(item, depth + 1) for item in value])
    keys = sorted(value)
    entries = [(_STRING, key.encode()) for key in keys]
    entries += [_encoded(value[key], depth + 1) for key in keys]
    return _CONTAINER, _container(_OBJECT, len(keys), entries)


def _container(kind: int, count: int, entries: list[tuple[int, bytes]]) -> bytes:
    words = [_word(entry, len(data)) for entry, data in entries]
    return b"".join([_word(kind, count), *words, *(data for _, data in entries)])


def _word(kind: int, count: int) -> bytes:
    if count > _COUNT_MASK:
        raise InvalidInputError(
            f"a document is too large: one of its values has {count} bytes or members; the maximum is {_COUNT_MASK}"
        )
    return (kind << _KIND_SHIFT | count).to_bytes(_WORD_BYTES, "big")


def _integer(value: int) -> bytes:
    if not _MIN_I64 <= value <= _MAX_U64:
        return _double(float(value)) if abs(value) < 1 << 1024 else _double(math.copysign(math.inf, value))
    if value == 0:
        return bytes([_ZERO])
    if value > 0:
        width = next(width for width in _WIDTHS if value < 1 << (8 * width))
        return bytes([_UNSIGNED]) + value.to_bytes(width, "big")
    width = next(width for width in _WIDTHS if value >= -(1 << (8 * width - 1)))
    return bytes([_SIGNED]) + value.to_bytes(width, "big", signed=True)


def _double(value: float) -> bytes:
    if math.isinf(value):
        return bytes([_INFINITY if value > 0 else _MINUS_INFINITY])
    return bytes([_DOUBLE]) + struct.pack(">d", value)


def _split(data: bytes, at: int) -> tuple[int, int]:
    if at + _WORD_BYTES > len(data):
        raise CorruptDataError(f"a document of {counted(len(data), 'byte')} ends in the middle of an entry")
    word = int.from_bytes(data[at : at + _WORD_BYTES], "big")
    return word >> _KIND_SHIFT, word & _COUNT_MASK


def _text(kind: int, data: bytes, start: int, size: int, depth: int) -> str:
    """Return the text of the entry at ``data[start : start + size]``."""
    stop = start + size
    if stop > len(data):
        raise CorruptDataError(f"an entry ends at byte {stop}, but the document has {counted(len(data), 'byte')}")
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind == _STRING:
        return _string_text(data[start:stop])
    if kind == _NUMBER:
        return _number_text(data[start:stop])
    if kind != _CONTAINER:
        raise CorruptDataError(f"unknown kind of entry: {kind}")
    if depth >= _MAX_DEPTH:
        raise CorruptDataError(f"a document is nested more than {_MAX_DEPTH} levels deep")
    return _container_text(data, start, stop, depth)


def _container_text(data: bytes, start: int, stop: int, depth: int) -> str:
    kind, count = _split(data, start)
    if kind not in (_ARRAY, _OBJECT):
        raise CorruptDataError(f"unknown kind of container: {kind}")
    num_entries = count * (1 + (kind == _OBJECT))
    at = start + _WORD_BYTES * (1 + num_entries)
    if at > stop:
        raise CorruptDataError(
            f"a container of {counted(stop - start, 'byte')} cannot contain {counted(num_entries, 'entry', 'entries')}"
        )
    texts = []
    for index in range(num_entries):
        entry_kind, size = _split(data, start + _WORD_BYTES * (1 + index))
        if at + size > stop:
            raise CorruptDataError("an entry extends past the end of its container")
        texts.append(_text(entry_kind, data, at, size, depth + 1))
        at += size
    if kind == _ARRAY:
        return f"[{','.join(texts)}]"
    members = zip(texts[:count], texts[count:], strict=True)
    return "{" + ",".join(f"{key}:{value}" for key, value in members) + "}"


_CONSTANTS: Final = {_NULL: "null", _FALSE: "false", _TRUE: "true"}


def _string_text(data: bytes) -> str:
    try:
        return json.dumps(data.decode(), ensure_ascii=False)
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"a string is not valid UTF-8: {error}") from error


def _number(data: bytes) -> float | int:
    kind, body = data[:1], data[1:]
    tag = kind[0] if kind else -1
    if not body and tag in _SPECIAL_NUMBERS:
        return _SPECIAL_NUMBERS[tag]
    if tag in (_SIGNED, _UNSIGNED) and len(body) in _WIDTHS:
        return int.from_bytes(body, "big", signed=tag == _SIGNED)
    if tag == _DOUBLE and len(body) == struct.calcsize(">d"):
        return float(struct.unpack(">d", body)[0])
    raise CorruptDataError(f"unknown kind of number: {tag:#x} with {counted(len(body), 'byte')}")


_SPECIAL_NUMBERS: Final = {_ZERO: 0, _NAN: math.nan, _INFINITY: math.inf, _MINUS_INFINITY: -math.inf}


def _number_text(data: bytes) -> str:
    number = _number(data)
    return _double_text(number) if isinstance(number, float) else str(number)


def _double_text(value: float) -> str:
    """Return the shortest text that represents the value exactly, in pylance's format."""
    if not math.isfinite(value):
        return "null"
    text = repr(value)
    mantissa, exponent, power = text.partition("e-0")
    if not exponent:
        return text
    if power != "5":
        return f"{mantissa}e-{power}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{mantissa.removeprefix('-').replace('.', '')}"
