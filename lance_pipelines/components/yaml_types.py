"""YamlType: how values of a type are written in a ``defs.yaml``, derived from the type hints of a declaration.

===================================  =======================================================================
Type                                 In YAML
===================================  =======================================================================
``str`` ``int`` ``float`` ``bool``   text, a number, ``true``
an enum                              the value of a member
``timedelta``                        ``14d``, ``36h``, or a number of seconds
a sequence, a mapping                a list, a mapping
a dataclass                          a mapping of its fields
a union of dataclasses               the same, with ``type``: the name of the class without its last word
a partitions definition              a mapping with ``type`` (``daily``, ``static`` …) and Dagster's arguments
a freshness policy                   likewise: ``time_window``, which is the default, or ``cron``
an automation condition              ``on_new_data``, ``eager``, or ``on_missing``
a function                           its dotted name
any other class                      a template that returns an instance
===================================  =======================================================================

A template can be written instead of a value: ``"{{ env.WAREHOUSE }}/trips.lance"``. Editors and ``dg check yaml`` use
the JSON schema of a type. Loading reads the value, and reports the first mistake with file, line, and field.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

import dagster as dg
import jinja2
from dagster._check import CheckError
from jinja2.nativetypes import NativeTemplate

from lance_core.errors import InvalidInputError
from lance_pipelines.automation import on_new_data
from lance_pipelines.ops.maintenance_config import parse_duration

__all__ = ["Fields", "Node", "YamlType", "build", "fields_of", "read_fields", "schema_of", "yaml_type"]

_REFUSALS: Final = (ValueError, TypeError, dg.DagsterError, CheckError)
"""The exceptions that the constructors of Dagster and of this package raise for an invalid value."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value in the file.

    Attributes:
        value: the value as written in the file, before templates are rendered.
        context: the location of the value in the file, and the names that templates can use.
    """

    value: Any
    context: dg.ResolutionContext

    def child(self, key: str | int) -> Node:
        """Return the node of an item of a mapping or a list."""
        return Node(self.value[key], self.context.at_path(key))

    def rendered(self) -> Node:
        """Return the node with the object that its template returns; a value without a template is unchanged."""
        return Node(self._render(NativeTemplate), self.context) if self._is_template else self

    def text(self) -> str:
        """Return the value as text, in which templates are replaced by their results.

        Raises:
            InvalidInputError: the value is not text.
        """
        if not isinstance(self.value, str):
            raise self.expected("text")
        return str(self._render(jinja2.Template)) if self._is_template else self.value

    def error(self, message: object) -> InvalidInputError:
        """Return an error that names file, line, and field in one line."""
        path = self.context.path
        text = f"{'.'.join(map(str, path))}: {' '.join(str(message).split())}"
        tree = self.context.source_position_tree
        return InvalidInputError(text if tree is None else f"{tree.lookup_closest_and_path(path, None)[0]}: {text}")

    def expected(self, what: str) -> InvalidInputError:
        """Return an error that says what should have been written."""
        return self.error(f"expected {what}, found {self.value!r}")

    @property
    def _is_template(self) -> bool:
        return isinstance(self.value, str) and "{{" in self.value

    def _render(self, template: type[jinja2.Template]) -> Any:
        scope = {**self.context.scope, "env": _Environment()}
        try:
            return template(self.value, undefined=jinja2.StrictUndefined).render(**scope)
        except (jinja2.TemplateError, ArithmeticError, OSError, *_REFUSALS) as error:
            raise self.error(f"template {self.value!r}: {error}") from error


class _Environment:
    """The name ``env`` in templates: ``env.NAME`` or ``env('NAME', 'default')``. An unset variable is an error."""

    def __call__(self, name: str, default: str | None = None) -> str:
        value = os.environ.get(name, default)
        if value is None:
            raise InvalidInputError(f"environment variable {name} is not set")
        return value

    def __getattr__(self, name: str) -> str:
        if name.startswith("jinja"):  # Jinja looks for its own attributes on everything that it calls.
            raise AttributeError(name)
        return self(name)


@dataclass(frozen=True, slots=True)
class YamlType:
    """How values of one type are written in YAML.

    Attributes:
        expected: describes a valid value in messages.
        schema: the JSON schema, without templates.
        accepts: the types of values to convert: what the YAML parser returns, and what templates may return.
        convert: converts a value of these types.
        is_text: whether templates are inserted into text, instead of returning an object.
    """

    expected: str
    schema: Mapping[str, Any]
    accepts: tuple[type, ...]
    convert: Callable[[Node], Any]
    is_text: bool = False

    def read(self, node: Node) -> Any:
        """Return the Python value.

        Raises:
            InvalidInputError: the value is invalid; the message contains file, line, and field.
        """
        found = node if self.is_text else node.rendered()
        if not self.takes(found.value):
            raise found.expected(self.expected)
        return self.convert(found)

    def takes(self, value: object) -> bool:
        """Whether a value has one of the accepted types."""
        return isinstance(value, self.accepts) and (not isinstance(value, bool) or bool in self.accepts)

    @property
    def full_schema(self) -> dict[str, Any]:
        """The JSON schema, with templates."""
        return {"if": {"type": "string", "pattern": r"\{\{"}, "else": dict(self.schema)}


Fields = Mapping[str, tuple[YamlType, bool]]
"""Maps the name of each field to its type, and to whether it is required."""


def fields_of(target: Callable[..., Any]) -> Fields:
    """Return the fields of a dataclass, or the parameters of a function or another class."""
    # Dagster's classes have evaluated annotations. The declaration imports Dagster for type checkers only.
    is_text = dataclasses.is_dataclass(target) or inspect.isfunction(target)
    hints = get_type_hints(target, localns={"dg": dg}) if is_text else {}
    return {
        name: (yaml_type(hints.get(name, parameter.annotation)), parameter.default is parameter.empty)
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def read_fields(node: Node, fields: Fields) -> dict[str, Any]:
    """Return the values of the fields that a mapping has.

    Raises:
        InvalidInputError: a field is unknown, missing, or invalid; the message contains file, line, and field.
    """
    for name in node.value:
        if name not in fields:
            raise node.child(name).error(f"unknown field; expected one of {', '.join(fields)}")
    for name, (_, is_required) in fields.items():
        if is_required and name not in node.value:
            raise node.error(f"the field {name!r} is missing")
    return {name: fields[name][0].read(node.child(name)) for name in node.value}


def build(target: Callable[..., Any], node: Node, defaults: Mapping[str, Any] = types.MappingProxyType({})) -> Any:
    """Call a class or a function with the fields of a mapping, and with defaults for missing ones.

    Raises:
        InvalidInputError: a field, or their combination, is invalid; the message contains file, line, and field.
    """
    fields = {name: (kind, needed and name not in defaults) for name, (kind, needed) in fields_of(target).items()}
    values = read_fields(node, fields)
    try:
        return target(**{**defaults, **values})
    except _REFUSALS as error:
        raise node.error(error) from error


def schema_of(target: Callable[..., Any], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a mapping with the fields of a class or a function, and more properties."""
    section = inspect.cleandoc(target.__doc__ or "").partition("Attributes:\n")[2]
    descriptions = {
        name: {"description": " ".join(text.split())}
        for name, text in re.findall(r"^    (\w+): (.*\n?(?:^     +.*\n?)*)", section, re.MULTILINE)
    }
    fields = fields_of(target)
    properties = {name: {**descriptions.get(name, {}), **kind.full_schema} for name, (kind, _) in fields.items()}
    return {
        "type": "object",
        "properties": {**more, **properties},
        "required": [name for name, (_, is_required) in fields.items() if is_required],
        "additionalProperties": False,
    }


@cache
def yaml_type(hint: Any) -> YamlType:
    """Return how values of a type are written in YAML."""
    origin, arguments = get_origin(hint), get_args(hint)
    kind = hint if origin is None else origin
    if kind in _LEAVES:
        return _LEAVES[kind]
    if kind in (Union, types.UnionType):
        return _union(arguments)
    if kind is tuple and Ellipsis not in arguments:
        return _tuple([yaml_type(argument) for argument in arguments])
    if kind in (tuple, list, Sequence):
        return _sequence(yaml_type(arguments[0]))
    if kind in (dict, Mapping):
        return _mapping(yaml_type(arguments[1]))
    if issubclass(kind, Enum):
        return _choice(kind, {str(member.value): member for member in kind})
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _record(kind)
    return YamlType(f"a template that returns an instance of {kind.__name__}", _NO_YAML, (kind,), _unchanged)


def _unchanged(node: Node) -> Any:
    return node.value


def _record(kind: type) -> YamlType:
    def convert(node: Node) -> Any:
        return node.value if isinstance(node.value, kind) else build(kind, node)

    return YamlType("a mapping", schema_of(kind), (Mapping, kind), convert)


def _variants(kinds: tuple[type, ...], targets: Mapping[str, Callable[..., Any]], default: str | None) -> YamlType:
    """Return the type of a mapping whose field ``type`` selects what is created from the other fields."""

    def convert(node: Node) -> Any:
        if isinstance(node.value, kinds):
            return node.value
        chosen = node.value.get("type", default)
        if chosen is None:
            raise node.error(f"the field 'type' is missing; expected one of {', '.join(targets)}")
        if chosen not in targets:
            raise node.child("type").expected(f"one of {', '.join(targets)}")
        others = {name: value for name, value in node.value.items() if name != "type"}
        return build(targets[chosen], Node(others, node.context))

    schema = {
        "type": "object",
        "properties": {"type": {"enum": list(targets)}},
        "required": ["type"] if default is None else [],
        "allOf": [
            {
                "if": {
                    "type": "object",
                    "properties": {"type": {"const": name}},
                    "required": [] if name == default else ["type"],
                },
                "then": schema_of(target, type={}),
            }
            for name, target in targets.items()
        ],
    }
    return YamlType("a mapping", schema, (Mapping, *kinds), convert)


def _choice(kind: type, choices: Mapping[str, Any]) -> YamlType:
    expected = f"one of {', '.join(choices)}"

    def convert(node: Node) -> Any:
        if isinstance(node.value, str) and node.value not in choices:
            raise node.expected(expected)
        return choices[node.value] if isinstance(node.value, str) else node.value

    return YamlType(expected, {"type": "string", "enum": list(choices)}, (str, kind), convert)


def _sequence(item: YamlType) -> YamlType:
    def convert(node: Node) -> tuple[Any, ...]:
        return tuple(item.read(node.child(index)) for index in range(len(node.value)))

    return YamlType("a list", {"type": "array", "items": item.full_schema}, (list, tuple), convert)


def _tuple(items: Sequence[YamlType]) -> YamlType:
    expected = f"a list of {len(items)} items"

    def convert(node: Node) -> tuple[Any, ...]:
        if len(node.value) != len(items):
            raise node.expected(expected)
        return tuple(item.read(node.child(index)) for index, item in enumerate(items))

    schema = {
        "type": "array",
        "prefixItems": [item.full_schema for item in items],
        "minItems": len(items),
        "items": False,
    }
    return YamlType(expected, schema, (list, tuple), convert)


def _mapping(item: YamlType) -> YamlType:
    def convert(node: Node) -> dict[str, Any]:
        return {str(name): item.read(node.child(name)) for name in node.value}

    return YamlType("a mapping", {"type": "object", "additionalProperties": item.full_schema}, (Mapping,), convert)


def _union(hints: Sequence[Any]) -> YamlType:
    records = tuple(hint for hint in hints if dataclasses.is_dataclass(hint) and isinstance(hint, type))
    kinds = [yaml_type(hint) for hint in hints if len(records) < 2 or hint not in records]
    if len(records) > 1:
        kinds.insert(0, _variants(records, {_variant(record): record for record in records}, _variant(records[0])))
    texts = [kind for kind in kinds if kind.is_text]
    others = [kind for kind in kinds if not kind.is_text]

    def convert(node: Node) -> Any:
        found = node.rendered() if others else node
        for kind in others:
            if kind.takes(found.value):
                return kind.convert(found)
        # The last one: the values of storage options are text, or references to environment variables.
        return texts[-1].convert(node)

    return YamlType(
        " or ".join(dict.fromkeys(kind.expected for kind in kinds if kind.schema is not _NO_YAML)),
        _either([kind.schema for kind in kinds if kind.schema is not _NO_YAML]),
        (str,) * bool(texts) + tuple(chain.from_iterable(kind.accepts for kind in kinds)),
        convert,
        is_text=bool(texts),
    )


def _either(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one schema for values of different JSON types. Its errors are more exact than those of ``anyOf``."""
    merged = {name: value for schema in schemas for name, value in schema.items()}
    merged["type"] = list(dict.fromkeys(chain.from_iterable(map(_json_types, schemas))))
    if "enum" in merged and "null" in merged["type"]:
        merged["enum"] = [*merged["enum"], None]
    return merged


def _json_types(schema: Mapping[str, Any]) -> Sequence[str]:
    return [schema["type"]] if isinstance(schema["type"], str) else schema["type"]


def _variant(record: type) -> str:
    """Return the name of a variant: ``file`` for ``FileSource``."""
    words = re.findall("[A-Z][a-z0-9]*", record.__name__)
    return "_".join(words[:-1]).lower()


class _OneDimension:
    """Stands for the partitions definition of one dimension, which has no dimensions itself."""


def _multi_partitions(dimensions: Mapping[str, _OneDimension]) -> dg.MultiPartitionsDefinition:
    return dg.MultiPartitionsDefinition(cast("dict[str, dg.PartitionsDefinition]", dimensions))


def _duration(node: Node) -> timedelta:
    if isinstance(node.value, timedelta):
        return node.value
    try:
        return parse_duration(str(node.value))
    except InvalidInputError as error:
        raise node.error(error) from error


def _option(node: Node) -> str | dg.EnvVar:
    """Return the value of a storage option; if it is only a variable, an ``EnvVar``, which each process resolves."""
    if not isinstance(node.value, str):  # A password may be all digits, so the message does not contain the value.
        advice = "; enclose the value in quotes" if isinstance(node.value, (int, float, date)) else ""
        raise node.error(f"expected text, found a value of type {type(node.value).__name__}{advice}")
    found = _ONLY_A_VARIABLE.fullmatch(node.value)
    return node.text() if found is None else dg.EnvVar(found[1])


def _function(node: Node) -> Any:
    if not isinstance(node.value, str):
        return node.value
    module, _, name = node.value.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise node.error(f"cannot import the function {node.value!r}: {error}") from error


_NO_YAML: Final[Mapping[str, Any]] = types.MappingProxyType({"not": {}})
"""The schema of values that only a template can return."""

_ONLY_A_VARIABLE: Final = re.compile(r"""\{\{\s*env(?:\.|\(['"])(\w+)(?:['"]\))?\s*\}\}""")

_LEAVES: dict[Any, YamlType] = {
    str: YamlType("text", {"type": "string"}, (str,), Node.text, is_text=True),
    bool: YamlType("true or false", {"type": "boolean"}, (bool,), _unchanged),
    int: YamlType("an integer", {"type": "integer"}, (int,), _unchanged),
    float: YamlType("a number", {"type": "number"}, (int, float), _unchanged),
    object: YamlType("a value", {}, (object,), _unchanged),
    types.NoneType: YamlType("null", {"type": "null"}, (types.NoneType,), _unchanged),
    timedelta: YamlType(
        "a duration (14d, 36h, 90m)", {"type": ["string", "number"]}, (str, int, float, timedelta), _duration
    ),
    Callable: YamlType(
        "the dotted name of a function",
        {"type": "string"},
        (str, Callable),  # type: ignore[arg-type]  # isinstance accepts it, but its declared type is a special form
        _function,
    ),
    dg.EnvVar: YamlType("text", {"type": "string"}, (object, bool), _option, is_text=True),
    dg.AutomationCondition: _choice(
        dg.AutomationCondition,
        {
            "on_new_data": on_new_data(),
            "eager": dg.AutomationCondition.eager(),
            "on_missing": dg.AutomationCondition.on_missing(),
        },
    ),
}
"""The types that are not composed of other types, and those that Dagster defines."""

_PARTITIONS: Final = {
    "daily": dg.DailyPartitionsDefinition,
    "hourly": dg.HourlyPartitionsDefinition,
    "weekly": dg.WeeklyPartitionsDefinition,
    "monthly": dg.MonthlyPartitionsDefinition,
    "time_window": dg.TimeWindowPartitionsDefinition,
    "static": dg.StaticPartitionsDefinition,
    "dynamic": dg.DynamicPartitionsDefinition,
}
_LEAVES[_OneDimension] = _variants((dg.PartitionsDefinition,), _PARTITIONS, default=None)
_LEAVES[dg.PartitionsDefinition] = _variants(
    (dg.PartitionsDefinition,), {**_PARTITIONS, "multi": _multi_partitions}, default=None
)
_LEAVES[dg.FreshnessPolicy] = _variants(
    (dg.FreshnessPolicy,),
    {"time_window": dg.FreshnessPolicy.time_window, "cron": dg.FreshnessPolicy.cron},
    default="time_window",
)
