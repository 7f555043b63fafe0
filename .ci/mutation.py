"""Seeded mutation testing: change one thing, run the tests that concern it, expect one to fail.

cosmic-ray finds the mutants, makes them and keeps the session. Two things are added. Its operators leave out neither
calls nor ``raise``; and it has one test command for all modules, while here a mutant meets the tests of its own module
first, then those of what is around it (``[tool.mutation]`` of ``pyproject.toml``). Mutants are made in clones of the
last commit, one for each worker, never in the working tree.

Run::

    uv run python .ci/mutation.py plan session.sqlite --seed 1 --count 150
    uv run python .ci/mutation.py run session.sqlite --workers 2
    uv run python .ci/mutation.py show session.sqlite
"""

from __future__ import annotations

import argparse
import linecache
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import attrs
import cosmic_ray.commands
import cosmic_ray.modules
import cosmic_ray.plugins
import parso
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkerOutcome, WorkResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cosmic_ray.work_item import WorkItem

ROOT: Final = Path(__file__).resolve().parent.parent
SETTINGS: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]


class RemoveStatement(Operator):
    """Leaves out a call whose value nobody takes, or a ``raise``."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The statement, if it is one of them."""
        if node.type == "simple_stmt" and _can_go(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Put ``pass`` there."""
        nothing = parso.parse("pass").children[0]
        nothing.prefix = node.children[0].get_first_leaf().prefix
        node.children[0] = nothing
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """For the reader."""
        return Example("check(x)\n", "pass\n"), Example("raise ValueError(x)\n", "pass\n")


def _can_go(statement: Any) -> bool:
    is_call = statement.type == "atom_expr" and statement.children[-1].get_first_leaf().value == "("
    return is_call or statement.type == "raise_stmt"


class _Operators:
    """The operators that are configured, as a plugin of cosmic-ray provides them. All others cost minutes to plan."""

    def __init__(self, others: Any) -> None:
        self._known = {name: others[name] for name in others} | {RemoveStatement.__name__: RemoveStatement}

    def __iter__(self) -> Iterator[str]:
        return iter(SETTINGS["operators"])

    def __getitem__(self, name: str) -> type[Operator]:
        return self._known[name]


cosmic_ray.plugins.OPERATOR_PROVIDERS["core"] = _Operators(cosmic_ray.plugins.OPERATOR_PROVIDERS["core"])


def plan(session: str, seed: int, count: int) -> None:
    """Find every mutant, and keep so many: at most one of those that change the same place in the same way."""
    os.chdir(ROOT)
    modules = cosmic_ray.modules.find_modules(map(Path, SETTINGS["modules"]))
    chance = random.Random(seed)
    with use_db(session) as database:
        cosmic_ray.commands.init(sorted(modules), database, {})
        groups: dict[tuple[object, ...], list[WorkItem]] = {}
        for item in sorted(database.work_items, key=_key):
            [mutation] = item.mutations
            if "TYPE_CHECKING" not in linecache.getline(str(mutation.module_path), mutation.start_pos[0]):
                family = mutation.operator_name.partition("_")[0]
                groups.setdefault((mutation.module_path, mutation.start_pos, family), []).append(item)
        kept = {chance.choice(group).job_id for group in chance.sample(list(groups.values()), count)}
        skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED, output="not in the sample")
        database.set_multiple_results([item.job_id for item in database.work_items if item.job_id not in kept], skipped)
    print(f"{len(kept)} mutants of {len(groups)} places")


def run(session: str, workers: int) -> None:
    """Run what the session still has to do; stopped, it goes on where it was."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory, use_db(session, WorkDB.Mode.open) as database:
        clones: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            clone = Path(directory, str(number))
            subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
            clones.put(clone)

        def test(item: WorkItem) -> WorkResult:
            clone = clones.get()
            try:
                [mutation] = item.mutations
                script = f"nice {sys.executable} {__file__} test {mutation.module_path}"
                mutated = attrs.evolve(mutation, module_path=clone / mutation.module_path)
                return mutate_and_test([mutated], f"env -C {clone} PYTHONPATH={clone} {script}", SETTINGS["timeout"])
            finally:
                clones.put(clone)

        with ThreadPoolExecutor(workers) as executor:
            pending = {executor.submit(test, item): item for item in sorted(database.pending_work_items, key=_key)}
            for done in as_completed(pending):
                database.set_result(pending[done].job_id, done.result())
                print(f"{done.result().test_outcome.value:9} {_where(pending[done])}", flush=True)


def show(session: str) -> None:
    """The mutants that were run: those that survived last, with what was changed."""
    with use_db(session, WorkDB.Mode.open) as database:
        done = [(item, result) for item, result in database.completed_work_items if result.test_outcome is not None]
    for item, result in sorted(done, key=lambda each: (each[1].test_outcome.value, _key(each[0]))):
        changed = [line for line in result.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        note = " (time ran out)" if result.output == "timeout" else ""
        print(f"{result.test_outcome.value:9} {_where(item)}{note}", *changed, sep="\n    ")


def test(module: str) -> int:
    """Run the tests of a module until one fails: 0 when none does."""
    named_alike = sorted(map(str, Path("tests").rglob(f"test_{Path(module).stem}*.py")))
    around = max((name for name in SETTINGS["tests"] if module.startswith(name)), key=len)
    for paths in (named_alike, SETTINGS["tests"][around]):
        found = [str(each) for path in paths for each in sorted(Path().glob(path))]
        command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-x", "-p", "no:cacheprovider", *found]
        if found and (code := subprocess.run(command).returncode):
            return code
    return 0


def _key(item: WorkItem) -> tuple[str, str, int]:
    [mutation] = item.mutations
    return str(mutation.module_path), mutation.operator_name, mutation.occurrence


def _where(item: WorkItem) -> str:
    [mutation] = item.mutations
    return f"{mutation.module_path}:{mutation.start_pos[0]} {mutation.operator_name} {mutation.occurrence}"


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    planning = verbs.add_parser("plan", help="choose mutants")
    planning.add_argument("--seed", type=int, default=1)
    planning.add_argument("--count", type=int, default=150)
    running = verbs.add_parser("run", help="run their tests")
    running.add_argument("--workers", type=int, default=2)
    for each in (planning, running, verbs.add_parser("show", help="what came of them")):
        each.add_argument("session")
    verbs.add_parser("test", help="run the tests of a module").add_argument("module")
    arguments = vars(parser.parse_args())
    return {"plan": plan, "run": run, "show": show, "test": test}[arguments.pop("verb")](**arguments) or 0


if __name__ == "__main__":
    sys.exit(main())
