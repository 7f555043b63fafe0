"""The walks of docs/architecture.md, and the modules of lance_core that a call really crosses."""

import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import lance_core

_ARCHITECTURE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
_PREFIX = f"{Path(lance_core.__file__).parent}/"
_STEP = re.compile(r"`([a-z_0-9/]+): ([A-Za-z_.]+)`")
_MODULE = re.compile(r"`([a-z_0-9]+(?:/[a-z_0-9]+)+)`")

Function = tuple[str, str]
"""A module below lance_core, with slashes, and the name of a function without its class."""


def steps_of(title: str) -> list[Function]:
    """Return the numbered steps of a walk, as modules and qualified names of functions."""
    section = re.search(
        rf"^## {title}: .*?(?=^## |^Every module|\Z)", _ARCHITECTURE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert section is not None
    return _STEP.findall(section.group())


def exceptions_of(title: str) -> set[str]:
    """Return the modules that are named below the numbered steps of a walk: crossed only when there is a reason."""
    section = re.search(rf"^## {title}: .*?^(Every module.*?)(?=^## |\n\n)", _ARCHITECTURE.read_text(), re.M | re.S)
    assert section is not None
    named = set(_MODULE.findall(section.group(1)))
    for module in named:
        importlib.import_module(f"lance_core.{module.replace('/', '.')}")
    return named


def check_steps(steps: Collection[Function], *, max_modules: int = 12) -> None:
    """Check that the functions of a walk exist, and are in few modules."""
    for module, function in steps:
        found: object = importlib.import_module(f"lance_core.{module.replace('/', '.')}")
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found)
    assert len({module for module, _ in steps}) <= max_modules


def module_of(frame: FrameType) -> str | None:
    """Return the module of a frame below lance_core; None for other code."""
    path = frame.f_code.co_filename
    return path.removeprefix(_PREFIX).removesuffix(".py") if path.startswith(_PREFIX) else None


def crossed_by(
    call: Callable[[], object], deepest: Callable[[str, str], bool], *, not_followed: Collection[Function] = ()
) -> set[str]:
    """Return the modules on the stack of a call whenever one of its deepest functions is called.

    All stores count as one module, and so do the alternatives of which the description names the first.

    Args:
        call: what to trace.
        deepest: tells whether a function is one of the deepest; it gets the module and the name.
        not_followed: functions below which nothing counts.
    """
    crossed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not deepest(module_of(frame) or "", frame.f_code.co_name):
            return
        stack: list[str] = []
        caller: FrameType | None = frame
        while caller is not None:
            module = module_of(caller)
            if module is not None:
                if (module, caller.f_code.co_name) in not_followed:
                    stack.clear()
                stack.append(_described(module))
            caller = caller.f_back
        crossed.update(stack)

    with _profiled(note):
        call()
    return crossed


def climbs_of(call: Callable[[], object], layers: dict[str, int]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the calls from a module to a package above its own, callbacks included, as pairs of modules.

    A dictionary that compares its keys makes no such call.

    Args:
        call: what to trace.
        layers: the height of each package.

    Returns:
        The calls of functions, and those that read the next value of a generator.
    """
    climbs: set[tuple[str, str]] = set()
    streams: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        is_call = event == "call" and frame.f_code.co_name not in ("__eq__", "__hash__")
        callee, caller = module_of(frame) if is_call else None, frame.f_back
        while callee is not None and caller is not None:
            module = module_of(caller)
            if module is not None:
                if layers[callee.split("/")[0]] > layers[module.split("/")[0]]:
                    is_stream = frame.f_code.co_flags & inspect.CO_GENERATOR
                    (streams if is_stream else climbs).add((module, callee))
                return
            caller = caller.f_back

    with _profiled(note):
        call()
    return climbs, streams


def _described(module: str) -> str:
    if module.startswith("io/"):
        return "io/object_store"
    return "transactions/operations/append" if module.startswith("transactions/operations/") else module


@contextmanager
def _profiled(note: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
