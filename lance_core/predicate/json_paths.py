"""Paths into JSON documents.

::

    path    [$] step*                    "$.a[0]", "a.b"; an empty path is the document
    step    .name  ."name"  :name  ["name"]  .*  [*]  [index, …]
    index   number  last  last-number  index to index

Filters and comparisons (``?(…)``, ``==``) are not supported.

**Source:** paths tested with pylance 14.0.2.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_core.schema.jsonb import JsonbValue

__all__ = ["matches_at"]

_NAME: Final = r'[^\s.:\[\]"*?()@$,=<>!+\-/&|]+'
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_BOUND: Final = r"(?:last(?:\s*-\s*\d+)?|-?\d+)"
_INDEX: Final = rf"{_BOUND}(?:\s+to\s+{_BOUND})?"
_START: Final = re.compile(rf"\$|(?P<name>{_NAME})|(?P<quoted>{_QUOTED})|$")
_STEP: Final = re.compile(
    rf"[.:](?P<name>{_NAME})|[.:](?P<quoted>{_QUOTED})|\[\s*(?P<bracket>{_QUOTED})\s*\]"
    rf"|(?P<members>\.\*)|(?P<items>\[\s*\*\s*\])|\[\s*(?P<indices>{_INDEX}(?:\s*,\s*{_INDEX})*)\s*\]"
)


def matches_at(value: JsonbValue, path: str) -> list[JsonbValue]:
    """Return the values at a path, in the order of the document.

    Raises:
        InvalidInputError: the path is invalid, or is not supported.
    """
    found = [value]
    for step in _steps(path):
        found = [match for each in found for match in step(each)]
    return found


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Callable[[JsonbValue], Iterator[JsonbValue]], ...]:
    text = path.strip()
    start = _START.match(text)
    if start is None:
        raise _invalid(path)
    at = start.end()
    first = _name_of(start)
    steps = [] if first is None else [_member(first)]
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise _invalid(path)
        steps.append(_step_of(step))
        at = step.end()
    return tuple(steps)


def _step_of(step: re.Match[str]) -> Callable[[JsonbValue], Iterator[JsonbValue]]:
    name = _name_of(step)
    if name is not None:
        return _member(name)
    if step["members"]:
        return _all_members
    return _all_items if step["items"] else _chosen_items(step["indices"])


def _name_of(match: re.Match[str]) -> str | None:
    groups = match.groupdict()
    quoted = groups.get("quoted") or groups.get("bracket")
    return str(json.loads(quoted, strict=False)) if quoted else groups.get("name")


def _member(name: str) -> Callable[[JsonbValue], Iterator[JsonbValue]]:
    def step(value: JsonbValue) -> Iterator[JsonbValue]:
        members = value.members()
        if members is not None and name in members:
            yield members[name]

    return step


def _all_members(value: JsonbValue) -> Iterator[JsonbValue]:
    yield from (value.members() or {}).values()


def _all_items(value: JsonbValue) -> Iterator[JsonbValue]:
    items = value.items()
    yield from [value] if items is None else items


def _chosen_items(indices: str) -> Callable[[JsonbValue], Iterator[JsonbValue]]:
    ranges = [re.split(r"\s+to\s+", index.strip()) for index in indices.split(",")]

    def step(value: JsonbValue) -> Iterator[JsonbValue]:
        items = value.items() or []
        for bounds in ranges:
            first, stop = _position(bounds[0], len(items)), _position(bounds[-1], len(items)) + 1
            yield from items[first:stop] if first >= 0 else items[: max(stop, 0)] if len(bounds) > 1 else ()

    return step


def _position(bound: str, length: int) -> int:
    if not bound.startswith("last"):
        return int(bound)
    return length - 1 - int(bound.removeprefix("last").replace("-", "").strip() or 0)


def _invalid(path: str) -> InvalidInputError:
    return InvalidInputError(f"the JSON path {path!r} is invalid, or is not supported")
