"""Reads the messages between steps, which are JSON documents of data classes.

Projects choose where messages are stored, so each message is checked before it is used. Otherwise, a value of a wrong
type could cause a failure in the middle of a commit.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from lance_core.errors import CorruptDataError

__all__ = ["read_message"]

_Message = TypeVar("_Message")


def read_message(kind: type[_Message], text: str) -> _Message:
    """Return the message of a data class that a JSON document describes.

    Raises:
        CorruptDataError: the text is not JSON, or a value is missing or has another type.
    """
    try:
        message: _Message = TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise CorruptDataError(
            f"malformed message between steps: {kind.__name__}: {where}: {first['msg']}; start a new run", section=where
        ) from error
    return message
