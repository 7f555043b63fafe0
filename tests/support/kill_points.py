"""Killing a writer at a step: a forked child that ends itself with SIGKILL before or after a system call.

The calls of :mod:`os` that change a file system are recorded below a directory; a dry run lists them.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CALLS = ("open", "write", "link", "rename", "unlink", "rmdir", "mkdir")


@dataclass(frozen=True)
class Step:
    """One call that changes something.

    Attributes:
        number: of the call.
        call: its name.
        path: of the file, below the directory; where there are two, the one that appears.
    """

    number: int
    call: str
    path: str


Where = Callable[[Step], bool]


@contextmanager
def recorded(root: Path, note: Callable[[Step, bool], None]) -> Iterator[list[Step]]:
    """Report each step below a directory, before it (False) and after it (True)."""
    steps: list[Step] = []
    names: dict[int, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        for call in CALLS:
            patch.setattr(os, call, _watched(getattr(os, call), call, str(root), steps, names, note))
        yield steps


def _watched(
    real: Callable[..., object],
    call: str,
    root: str,
    steps: list[Step],
    names: dict[int, str],
    note: Callable[[Step, bool], None],
) -> Callable[..., object]:
    def watched(*arguments: object, **more: object) -> object:
        first = arguments[0]
        target = arguments[1] if call in ("link", "rename") else first
        path = names.get(target, "") if isinstance(target, int) else os.fspath(target)
        reads = call == "open" and not int(arguments[1]) & (os.O_WRONLY | os.O_RDWR)
        if not path.startswith(root) or reads:
            return real(*arguments, **more)
        step = Step(len(steps), call, path[len(root) :].lstrip("/"))
        steps.append(step)
        note(step, False)
        made = real(*arguments, **more)
        if call == "open":
            names[int(made)] = path
        note(step, True)
        return made

    return watched


def steps_of(root: Path, act: Callable[[], object]) -> list[Step]:
    """Run an action, and return its steps."""
    with recorded(root, lambda step, done: None) as steps:
        act()
    return list(steps)


def kill_in(root: Path, act: Callable[[], object], where: Where, *, after: bool = False) -> bool:
    """Run an action in a child that is killed at the first step of a kind; return whether it was reached."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with recorded(
                root, lambda step, done: os.kill(os.getpid(), signal.SIGKILL) if done is after and where(step) else None
            ):
                act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def kill_at(root: Path, act: Callable[[], object], number: int) -> bool:
    """Run an action in a child that is killed before the step with this number."""
    return kill_in(root, act, lambda step: step.number == number)
