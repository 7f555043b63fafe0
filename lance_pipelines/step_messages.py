"""StepMessage: the base of the messages between steps, which are data classes that are passed as JSON documents.

Steps may run in different processes, and a step may be repeated. Projects choose where messages are stored, so each
message is checked before it is used. Otherwise, a value of a wrong type could cause a failure in the middle of a
commit.
"""

from __future__ import annotations

from typing import Self

from pydantic import TypeAdapter, ValidationError

from lance_core.errors import CorruptDataError

__all__ = ["StepMessage"]


class StepMessage:
    """A message between steps. Every subclass is a data class."""

    __slots__ = ()

    def to_json(self) -> str:
        """Return the message as one JSON document."""
        return TypeAdapter(type(self)).dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON document; the inverse of :meth:`to_json`.

        Raises:
            CorruptDataError: the text is not JSON, or a value is missing or has another type.
        """
        try:
            message: Self = TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the document"
            raise CorruptDataError(
                f"malformed message between steps: {cls.__name__}: {where}: {first['msg']}; start a new run",
                section=where,
            ) from error
        return message
