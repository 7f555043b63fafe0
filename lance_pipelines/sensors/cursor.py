"""The cursor of a sensor that watches several datasets: versioned JSON, one entry per dataset.

::

    {"format": 1, "datasets": {"events": {"version": 12, …}, "users": {…}}}

A cursor that cannot be parsed, for example one written by a later release, is ignored: every sensor can safely start
over.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["parse_cursor", "serialize_cursor"]

_FORMAT: Final = 1

EntryT = TypeVar("EntryT", bound="DataclassInstance")


def serialize_cursor(entries: Mapping[str, "DataclassInstance"]) -> str:
    """Return the text that Dagster stores.

    Args:
        entries: maps each dataset to its state, a dataclass of plain values.
    """
    datasets = {name: dataclasses.asdict(entry) for name, entry in entries.items()}
    return json.dumps({"format": _FORMAT, "datasets": datasets}, sort_keys=True)


def parse_cursor(text: str | None, entry_type: type[EntryT]) -> dict[str, EntryT]:
    """Parse the result of :func:`serialize_cursor`; return no entries if it is not a cursor of this format."""
    if not text:
        return {}
    try:
        document: Any = json.loads(text)
        if document["format"] != _FORMAT:
            return {}
        entries = {name: entry_type(**entry) for name, entry in document["datasets"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return entries if all(map(_is_well_typed, entries.values())) else {}


def _is_well_typed(entry: "DataclassInstance") -> bool:
    """Return whether each field has a value of the declared type; a bool does not count as a number."""
    values = dataclasses.asdict(entry)
    hints = get_type_hints(type(entry))
    return all(isinstance(values[name], hint) and not isinstance(values[name], bool) for name, hint in hints.items())
