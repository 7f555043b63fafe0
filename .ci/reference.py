"""Write the reference page of ``lance_pipelines``: what its docstrings say of every public name.

Run: ``uv run python .ci/reference.py`` after a change of a docstring, a signature, or a default. A test compares.
"""

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import Enum
from pathlib import Path

from pydantic import BaseModel

import lance_pipelines

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "lance_pipelines.md"

BEGINNING = """\
# Reference: lance_pipelines

Everything that `lance_pipelines` exports. Generated from docstrings by `.ci/reference.py`; change them there. Guides:
[add Lance datasets to your Dagster project](../guides/add-to-your-dagster-project.md),
[declare datasets](../guides/declare-datasets.md), [IO manager](../guides/io-manager.md).
"""

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Note):$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+): (.*\n?(?:^(?: {5,}.*)?\n?)*)", re.MULTILINE)
ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")


def page() -> str:
    """Return the text of the page."""
    names = lance_pipelines.__all__
    listed = ", ".join(f"[`{name}`](#{name.lower()})" for name in names)
    return "\n".join([BEGINNING, listed, "", *(line for name in names for line in _entry(name))])


def _entry(name: str) -> Iterator[str]:
    value = getattr(lance_pipelines, name)
    text, sections = _parts(inspect.getdoc(value) or "")
    yield f"## {name}\n"
    yield f"{_markdown(text)}\n"
    if isinstance(value, type) and issubclass(value, Enum):
        members = _attribute_docstrings(value)
        yield from _table(("Value", "Meaning"), ((f"`{each.value}`", members.get(each.name, "")) for each in value))
        return
    fields = {**sections.get("Attributes", {}), **_fields(value)}
    if fields:
        defaults = _defaults(value)
        rows = ((f"`{field}`", defaults.get(field, ""), about) for field, about in fields.items())
        yield from _table(("Field", "Default", "Meaning"), rows)
    if not isinstance(value, type):
        yield f"```python\n{_signature(name, value)}\n```\n"
        yield from _table(("Argument", "Meaning"), ((f"`{each}`", about) for each, about in sections["Args"].items()))
    if sections.get("Raises"):
        yield "; ".join(f"Raises `{error}`: {_line(about)}" for error, about in sections["Raises"].items()) + "\n"
    if isinstance(value, type):
        yield from _methods(value)


def _methods(kind: type) -> Iterator[str]:
    """Yield the public methods of the class, except those that a framework calls."""
    for name, function in vars(kind).items():
        if name.startswith("_") or any(hasattr(base, name) for base in kind.__bases__):
            continue
        function = getattr(function, "__func__", function)
        if not inspect.isfunction(function):
            continue
        text, sections = _parts(inspect.getdoc(function) or "")
        yield f"`{_one_line_signature(name, function)}`: {_line(text)}\n"
        yield from _table(("Argument", "Meaning"), ((f"`{each}`", about) for each, about in sections["Args"].items()))


def _parts(docstring: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the text before the first section, and the entries of each section."""
    text, *others = SECTION.split(docstring)
    sections = {title: dict(ENTRY.findall(body)) for title, body in zip(others[::2], others[1::2], strict=True)}
    return text.strip(), {"Args": {}, **sections}


def _fields(value: object) -> dict[str, str]:
    if not (isinstance(value, type) and issubclass(value, BaseModel)):
        return {}
    own = [name for name in value.model_fields if name in value.__annotations__]
    inherited = [name for name in value.model_fields if name not in own]
    return {name: about for name in (*own, *inherited) if (about := value.model_fields[name].description)}


def _defaults(value: object) -> dict[str, str]:
    if isinstance(value, type) and issubclass(value, BaseModel):
        return {n: _code(f.default) for n, f in value.model_fields.items() if not f.is_required()}
    if not dataclasses.is_dataclass(value):
        return {}
    made = {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(value)
    }
    return {name: _code(default) for name, default in made.items() if default is not dataclasses.MISSING}


def _code(default: object) -> str:
    if dataclasses.is_dataclass(default):
        return f"`{type(default).__name__}()`"
    if inspect.isfunction(default):
        return f"`{default.__name__}`"
    if isinstance(default, timedelta):
        return f"`{default!r}`".replace("datetime.", "")
    return f"`{default.value if isinstance(default, Enum) else default!r}`"


def _attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the strings that follow the members of an enum in its source."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    return {
        member.targets[0].id: text.value.value
        for member, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _signature(name: str, function: object) -> str:
    parameters = inspect.signature(function).parameters.values()
    return (
        f"{name}(\n" + "".join(f"    {_parameter(each)},\n" for each in parameters) + ")" if parameters else f"{name}()"
    )


def _one_line_signature(name: str, function: object) -> str:
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")]
    return f"{name}({', '.join(map(_parameter, parameters))})"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return parameter.name
    default = parameter.default
    simple = default is None or isinstance(default, str | int | float | bool)
    return (
        f"{parameter.name}={json.dumps(default) if isinstance(default, str) else default}"
        if simple and not isinstance(default, Enum)
        else f"{parameter.name}=..."
    )


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    lines = ["| " + " | ".join(_line(cell) for cell in row) + " |" for row in rows]
    if lines:
        yield "\n".join([f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *lines, ""])


def _line(text: str) -> str:
    return _inline(" ".join(text.split())).replace("|", "\\|")


def _inline(text: str) -> str:
    return ROLE.sub(r"`\1`", text).replace("``", "`")


def _markdown(text: str) -> str:
    """Return the text of a docstring, with its examples as blocks of Python."""
    blocks = []
    for block in re.split(r"\n{2,}(?=\S)|::\n+(?= )", text):
        if block.startswith("    "):
            blocks.append(f"```python\n{textwrap.dedent(block).rstrip()}\n```")
        elif block.strip(" :\n"):
            blocks.append(_inline(block).strip())
    return "\n\n".join(blocks)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
