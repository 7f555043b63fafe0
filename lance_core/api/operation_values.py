"""Values of operations, checked on their way into messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.api.arguments import whole_number
from lance_core.api.fragment_conversion import fragment_from_record, fragment_to_record
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema.convert import check_names, schema_from_arrow
from lance_core.schema.field import Schema
from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.api.fragment_metadata import FragmentMetadata
    from lance_core.table.fragment import Fragment

__all__ = [
    "checked_number",
    "checked_properties",
    "checked_text",
    "fragment_metadata",
    "fragment_records",
    "schema_with_ids",
]


def checked_number(name: str, value: object, start: int, stop: int) -> int:
    """A whole number in [start, stop).

    Raises:
        InvalidTypeError: it is no whole number.
        InvalidInputError: it lies outside.
    """
    number = whole_number(name, value)
    if not start <= number < stop:
        raise InvalidInputError(f"{name} is {number}, expected {start} to {stop - 1}", argument=name)
    return number


def checked_text(name: str, value: object) -> str:
    """Text that a message can hold.

    Raises:
        InvalidTypeError: it is no text.
        InvalidInputError: it has half a surrogate pair.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be text, found {value!r:.40}", argument=name)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} cannot be encoded: {error}", argument=name) from error
    return value


def checked_properties(properties: object, commit_message: object = None) -> dict[str, str]:
    """The properties of a transaction, its commit message among them.

    Raises:
        InvalidTypeError: they map something else than text to text, or the message is no text.
        InvalidInputError: a text has half a surrogate pair.
    """
    if properties is None:
        properties = {}
    if not isinstance(properties, Mapping):
        raise InvalidTypeError(
            f"transaction_properties must map text to text, found {properties!r:.80}", argument="transaction_properties"
        )
    name = "transaction_properties"
    checked = {
        checked_text(f"a key of {name}", key): checked_text(f"{name}[{key!r:.40}]", value)
        for key, value in properties.items()
    }
    if commit_message is not None:
        checked[COMMIT_MESSAGE_KEY] = checked_text("commit_message", commit_message)
    return checked


def fragment_records(fragments: Iterable[FragmentMetadata]) -> tuple[Fragment, ...]:
    """The records of users' fragments. Raises what :func:`fragment_to_record` raises."""
    return tuple(map(fragment_to_record, fragments))


def fragment_metadata(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    """What users see of fragments."""
    return [fragment_from_record(fragment) for fragment in fragments]


def schema_with_ids(schema: pa.Schema | Schema) -> Schema:
    """The schema with field ids; an Arrow schema gets them depth first from 0.

    Raises:
        InvalidInputError: it is no schema, or no table may have it.
    """
    if isinstance(schema, Schema):
        check_names(schema.names)
        return schema
    if isinstance(schema, pa.Schema):
        return schema_from_arrow(schema)
    raise InvalidInputError(f"a schema must be a pyarrow.Schema or a Schema, found {type(schema).__name__}")
