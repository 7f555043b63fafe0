"""Serializes protobuf messages that contain maps, in the same way as the reference implementation.

A map is encoded as repeated messages with the fields key (number 1) and value (number 2). The protobuf library always
writes both; the reference implementation omits empty keys and values, as it does for any other field. Readers accept
both forms.

**Source:** protobuf encoding; bytes of pylance 14.0.2.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

__all__ = ["serialized"]

_KEY, _VALUE = 1, 2
_LENGTH_DELIMITED: Final = 2
_TAG_BITS: Final = 3


def serialized(message: Message) -> bytes:
    """Serialize a message whose maps have string keys and string or bytes values. Fields and keys are sorted."""
    if not _has_bare_entry(message):
        return message.SerializeToString(deterministic=True)
    parts: list[bytes] = []
    for field, value in message.ListFields():
        if _is_map(field):
            texts = {_bytes(key): _bytes(text) for key, text in value.items()}
            parts += [
                _delimited(field.number, _filled(_KEY, key) + _filled(_VALUE, texts[key])) for key in sorted(texts)
            ]
        elif field.message_type is not None:
            parts += [_delimited(field.number, serialized(part)) for part in (value if field.is_repeated else [value])]
        else:
            alone = type(message)(**{field.name: value})
            parts.append(alone.SerializeToString(deterministic=True))
    return b"".join(parts)


def _has_bare_entry(message: Message) -> bool:
    """Return whether any map in the message has an empty key or value."""
    for field, value in message.ListFields():
        if _is_map(field):
            if not all(key and text for key, text in value.items()):
                return True
        elif field.message_type is not None and any(map(_has_bare_entry, value if field.is_repeated else [value])):
            return True
    return False


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and _is_map_entry(field.message_type)


@cache
def _is_map_entry(message: Descriptor) -> bool:
    return bool(message.GetOptions().map_entry)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _filled(number: int, content: bytes) -> bytes:
    return _delimited(number, content) if content else b""


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << _TAG_BITS | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
