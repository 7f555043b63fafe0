"""Formats protobuf messages as one line of text, with fields in the order of their numbers.

Equal messages produce equal text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["describe_bytes", "describe_message"]

_MAX_TEXT_BYTES: Final = 40
_ENUM_PREFIX: Final = {"RepDefLayer": "REPDEF_", "CompressionScheme": "COMPRESSION_ALGORITHM_"}


def describe_message(message: Message) -> str:
    """Return ``(name=value, …)`` with every field that is set; for a oneof, the selected field."""
    descriptor = message.DESCRIPTOR
    if len(descriptor.oneofs) == 1 and len(descriptor.oneofs[0].fields) == len(descriptor.fields) > 1:
        arm = message.WhichOneof(descriptor.oneofs[0].name)
        if arm is None:
            return "unset"
        return f"{arm}({_members(getattr(message, arm))})"
    return f"({_members(message)})"


def describe_bytes(value: bytes) -> str:
    """Format bytes as text: a short value as a literal, a longer one as only its size."""
    return repr(value)[1:] if len(value) <= _MAX_TEXT_BYTES else f"<{len(value)} bytes>"


def _members(message: Message) -> str:
    # ListFields() returns fields in the order of their numbers.
    return ", ".join(f"{field.name}={_values(field, value)}" for field, value in message.ListFields())


def _values(field: FieldDescriptor, value: object) -> str:
    if isinstance(value, int | bytes | bool | str | float) or hasattr(value, "DESCRIPTOR"):
        return _value(field, value)
    return "[" + ", ".join(_value(field, item) for item in value) + "]"  # type: ignore[attr-defined]  # repeated field


def _value(field: FieldDescriptor, value: object) -> str:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return describe_message(value)  # type: ignore[arg-type]  # the descriptor says what it is
    if field.enum_type is not None and isinstance(value, int):
        known = field.enum_type.values_by_number.get(value)
        name = str(value) if known is None else known.name
        return name.removeprefix(_ENUM_PREFIX.get(field.enum_type.name, "")).lower()
    if isinstance(value, bytes):
        return describe_bytes(value)
    if isinstance(value, str):
        return repr(value)
    return str(value)
