"""Paths into JSON documents.

::

    path        [$ | name] step*                       "$.a[0]", "a.b"; an empty path is the document
                expression                             "$.a > 1"
    step        .name  ."name"  :name  ["name"]  .*  [*]  [index, …]  ?(expression)
                .**  .**{level}  .**{level to level}  .**{level to last}
    index       number  last  last-number  index to index
    expression  expression || expression  expression && expression  (expression)  exists(path)
                operand operator operand  +operand  -operand
    operator    ==  !=  <>  <  <=  >  >=  starts with  +  -  *  /  %
    operand     a path from $ or @, without filters; @ is the value that a filter tests
                "text"  1  -1  .5  null  true  false

A condition is true, false, or unknown. A filter keeps a value if its condition is true; a path that consists of a
condition returns true, false, or null. An array as an operand represents its items: a comparison is true if it is true
for any pair of values. Values of different kinds are unequal; any other comparison of them is unknown, and so is any
comparison with an object. Numbers such as ``1.5`` are rejected, as in pylance: a fraction must start with the decimal
point.

**Source:** paths tested with pylance 14.0.2; the JSONB library of Databend, which pylance uses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_core.errors import InvalidInputError
from lance_core.predicate.json_arithmetic import calculated, compared, signed
from lance_core.schema.jsonb import JsonbValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    # Each takes a value and the document that contains it.
    Step: TypeAlias = Callable[[JsonbValue, JsonbValue], Iterable[JsonbValue]]
    Values: TypeAlias = Callable[[JsonbValue, JsonbValue], list[JsonbValue]]
    Condition: TypeAlias = Callable[[JsonbValue, JsonbValue], bool | None]

__all__ = ["matches_at"]

_MAX_DEPTH: Final = 64
_NAME: Final = r"""(?:\\.|[^ ,.:{}\[\]()?@$|<>!=+\-*/%"'\\])+"""
_QUOTED: Final = r'"(?:[^"\\]|\\.)+"'
_BOUND: Final = r"(?:last\s*[+-]\s*\d+|last|[+-]?\d+)"
_INDEX: Final = rf"{_BOUND}(?:\s*to\s*{_BOUND})?"
_FIRST_NAME: Final = re.compile(rf"(?P<name>{_NAME})\s*")
_STEP: Final = re.compile(
    rf"\s*(?:[.:](?P<name>{_NAME})|[.:](?P<quoted>{_QUOTED})|\[\s*(?P<bracket>{_QUOTED})\s*\]"
    r"|(?P<deep>\.\*\*)(?:\{\s*(?P<from>\d+)(?:\s*to\s*(?:(?P<to>\d+)|(?P<last>last)))?\s*\})?"
    rf"|(?P<members>\.\*)|(?P<items>\[\s*\*\s*\])|\[\s*(?P<indices>{_INDEX}(?:\s*,\s*{_INDEX})*)\s*\])\s*",
    re.IGNORECASE,
)
_OPERATOR: Final = re.compile(r"\s*(==|!=|<>|<=|<|>=|>|starts with|[-+*/%])\s*")
_KEYWORD: Final = re.compile(r"null|true|false")
_TEXT: Final = re.compile(_QUOTED)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|infinity|inf", re.IGNORECASE)
_KEYWORDS: Final = {"null": None, "true": True, "false": False}
_MIN_I64, _MAX_I64, _MAX_U64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_MAX_LEVEL: Final = 255


def matches_at(value: JsonbValue, path: str) -> list[JsonbValue]:
    """Return the values at a path, in the order of the document.

    Raises:
        InvalidInputError: the path is invalid, is nested too deeply, or contains arithmetic that fails for a value.
    """
    return _compiled(path)(value, value)


@lru_cache(maxsize=256)
def _compiled(path: str) -> Values:
    try:
        return _Parser(path.strip()).compiled()
    except ValueError as error:
        raise InvalidInputError(f"the JSON path {path!r} is invalid: {error}") from error


@dataclass(frozen=True, slots=True)
class _Expression:
    """An expression: its values, if it is the whole path, and its result as a condition."""

    values: Values
    condition: Condition


class _Parser:
    """Turns the text of a path into functions; methods return None, and consume nothing, if something else follows."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def compiled(self) -> Values:
        expression = self._any_of(in_filter=False)
        values = expression.values if expression else self._whole_path()
        if self._at < len(self._text):
            raise ValueError(f"unexpected {self._text[self._at :][:20]!r}")
        return values

    def _whole_path(self) -> Values:
        self._at = 0
        first = None if self._skips("$") else self._takes(_FIRST_NAME)
        steps = self._steps(has_filters=True)
        return _selection([_member(_unescaped(first["name"])), *steps] if first else steps)

    def _steps(self, *, has_filters: bool) -> list[Step]:
        steps: list[Step] = []
        while True:
            found = self._takes(_STEP)
            if found:
                steps.append(_step_of(found))
                continue
            condition = self._filter() if has_filters else None
            if condition is None:
                return steps
            steps.append(_kept(condition))

    def _filter(self) -> Condition | None:
        start = self._at
        if self._skips("?") and self._skips("("):
            expression = self._any_of(in_filter=True)
            if expression and self._skips(")"):
                return expression.condition
        self._at = start
        return None

    def _any_of(self, *, in_filter: bool) -> _Expression | None:
        return self._joined("||", any, lambda: self._all_of(in_filter=in_filter))

    def _all_of(self, *, in_filter: bool) -> _Expression | None:
        return self._joined("&&", all, lambda: self._atom(in_filter=in_filter))

    def _joined(
        self, name: str, join: Callable[[list[bool]], bool], part: Callable[[], _Expression | None]
    ) -> _Expression | None:
        first = part()
        if first is None:
            return None
        conditions = [first.condition]
        while True:
            start = self._at
            following = part() if self._skips(name) else None
            if following is None:
                self._at = start
                break
            conditions.append(following.condition)
        return first if len(conditions) == 1 else _condition(_logic(join, conditions))

    def _atom(self, *, in_filter: bool) -> _Expression | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"expressions are nested more than {_MAX_DEPTH} levels deep")
        found = (
            self._signed(in_filter=in_filter)
            or self._binary(in_filter=in_filter)
            or self._in_parentheses(in_filter=in_filter)
            or self._exists()
        )
        self._depth -= 1
        return found

    def _signed(self, *, in_filter: bool) -> _Expression | None:
        start = self._at
        sign = "+" if self._skips("+") else "-" if self._skips("-") else None
        operand = self._operand(in_filter=in_filter) if sign else None
        return _signed(sign, operand) if sign and operand else self._nothing(start)

    def _binary(self, *, in_filter: bool) -> _Expression | None:
        start = self._at
        left = self._operand(in_filter=in_filter)
        name = self._takes(_OPERATOR) if left else None
        right = self._operand(in_filter=in_filter) if name else None
        return _binary(left, name[1], right) if left and name and right else self._nothing(start)

    def _in_parentheses(self, *, in_filter: bool) -> _Expression | None:
        start = self._at
        expression = self._any_of(in_filter=in_filter) if self._skips("(") else None
        return expression if expression and self._skips(")") else self._nothing(start)

    def _exists(self) -> _Expression | None:
        start = self._at
        if self._skips("exists") and self._skips("("):
            values = self._path_from_here(in_filter=True, has_filters=True)
            if values and self._skips(")"):
                return _condition(lambda value, root: bool(values(value, root)))
        return self._nothing(start)

    def _operand(self, *, in_filter: bool) -> Values | None:
        self._skips("")
        values = self._path_from_here(in_filter=in_filter, has_filters=False)
        if values:
            return _unwrapped(values)
        literal = self._literal()
        return None if literal is None else lambda value, root: [literal]

    def _path_from_here(self, *, in_filter: bool, has_filters: bool) -> Values | None:
        starts_at_root = self._skips("$")
        if not starts_at_root and not (in_filter and self._skips("@")):
            return None
        select = _selection(self._steps(has_filters=has_filters))
        return (lambda value, root: select(root, root)) if starts_at_root else select

    def _literal(self) -> JsonbValue | None:
        keyword = self._takes(_KEYWORD)
        if keyword:
            return JsonbValue.of(_KEYWORDS[keyword[0]])
        text = self._takes(_TEXT)
        if text:
            return JsonbValue.of(str(json.loads(text[0], strict=False)))
        start = self._at
        whole = self._takes(_WHOLE)
        if whole:
            number = int(whole[0])
            if _MIN_I64 <= number <= (_MAX_I64 if whole[0][0] in "+-" else _MAX_U64):
                return JsonbValue.of(number)
            self._at = start
        double = self._takes(_DOUBLE)
        return JsonbValue.of(float(double[0])) if double else None

    def _takes(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _skips(self, word: str) -> bool:
        """Consume a word and the whitespace around it."""
        text = self._text[self._at :]
        rest = text.lstrip()
        if not rest.startswith(word):
            return False
        self._at = len(self._text) - len(rest[len(word) :].lstrip())
        return True

    def _nothing(self, start: int) -> _Expression | None:
        """Go back to the position where an alternative began."""
        self._at = start
        return None


def _selection(steps: Iterable[Step]) -> Values:
    def values(value: JsonbValue, root: JsonbValue) -> list[JsonbValue]:
        found = [value]
        for step in steps:
            found = [match for each in found for match in step(each, root)]
        return found

    return values


def _unwrapped(values: Values) -> Values:
    def items(value: JsonbValue, root: JsonbValue) -> list[JsonbValue]:
        found = []
        for each in values(value, root):
            inner = each.items()
            found += [each] if inner is None else inner
        return found

    return items


def _condition(condition: Condition) -> _Expression:
    return _Expression(lambda value, root: [JsonbValue.of(condition(value, root))], condition)


def _logic(join: Callable[[list[bool]], bool], conditions: list[Condition]) -> Condition:
    def condition(value: JsonbValue, root: JsonbValue) -> bool | None:
        outcomes = [each(value, root) for each in conditions]
        known = [outcome for outcome in outcomes if outcome is not None]
        return join(known) if len(known) == len(outcomes) else None

    return condition


def _signed(sign: str, operand: Values) -> _Expression:
    def values(value: JsonbValue, root: JsonbValue) -> list[JsonbValue]:
        return [signed(sign, each) for each in operand(value, root)]

    def condition(value: JsonbValue, root: JsonbValue) -> bool | None:
        raise InvalidInputError("a signed number cannot be used as a condition in a JSON path")

    return _Expression(values, condition)


def _binary(left: Values, name: str, right: Values) -> _Expression:
    def condition(value: JsonbValue, root: JsonbValue) -> bool | None:
        others = right(value, root)
        for each in left(value, root):
            for other in others:
                outcome = compared(each, name, other)
                if outcome is not False:
                    return outcome
        return False

    def values(value: JsonbValue, root: JsonbValue) -> list[JsonbValue]:
        operands = [*left(value, root)], [*right(value, root)]
        if not all(len(each) == 1 for each in operands):
            numbers = " and ".join(str(len(each)) for each in operands)
            raise InvalidInputError(f"operator {name} of a JSON path requires one value on each side, found {numbers}")
        return [calculated(operands[0][0], name, operands[1][0])]

    return _Expression(values, condition) if name in {*"+-*/%"} else _condition(condition)


def _step_of(step: re.Match[str]) -> Step:
    name, quoted = step["name"], step["quoted"] or step["bracket"]
    if name or quoted:
        return _member(_unescaped(name) if name else str(json.loads(quoted, strict=False)))
    if step["deep"]:
        return _deep(step)
    if step["members"]:
        return _all_members
    return _all_items if step["items"] else _chosen_items(step["indices"].lower())


def _unescaped(name: str) -> str:
    return str(json.loads(f'"{name}"', strict=False))


def _member(name: str) -> Step:
    def step(value: JsonbValue, root: JsonbValue) -> Iterator[JsonbValue]:
        members = value.members()
        if members is not None and name in members:
            yield members[name]

    return step


def _kept(condition: Condition) -> Step:
    return lambda value, root: [value] if condition(value, root) else []


def _all_members(value: JsonbValue, root: JsonbValue) -> Iterable[JsonbValue]:
    return (value.members() or {}).values()


def _all_items(value: JsonbValue, root: JsonbValue) -> list[JsonbValue]:
    items = value.items()
    return [value] if items is None else items


def _deep(step: re.Match[str]) -> Step:
    """Return the step to a value and everything inside it, or only to the given levels."""
    first = int(step["from"] or 0)
    stop = int(step["to"] or first) if step["from"] and not step["last"] else None
    if max(first, stop or 0) > _MAX_LEVEL:
        raise ValueError(f"levels must not be greater than {_MAX_LEVEL}")

    def values(value: JsonbValue, root: JsonbValue) -> Iterator[JsonbValue]:
        pending = [(0, value)]
        while pending:
            level, each = pending.pop()
            if level >= first and (stop is None or level <= stop):
                yield each
            if stop is None or level < stop:
                inner = each.items() or (each.members() or {}).values()
                pending += reversed([(level + 1, child) for child in inner])

    return values


def _chosen_items(indices: str) -> Step:
    ranges = [re.split(r"\s*to\s*", index.strip()) for index in indices.split(",")]

    def step(value: JsonbValue, root: JsonbValue) -> Iterator[JsonbValue]:
        items = value.items() or []
        for bounds in ranges:
            first, stop = _position(bounds[0], len(items)), _position(bounds[-1], len(items)) + 1
            yield from items[first:stop] if first >= 0 else items[: max(stop, 0)] if len(bounds) > 1 else ()

    return step


def _position(bound: str, length: int) -> int:
    if not bound.startswith("last"):
        return int(bound)
    offset = bound.removeprefix("last").replace(" ", "")
    return length - 1 + int(offset or 0)
