"""The command ``lance-core``: inspects, checks, and maintains data files and datasets.

=========================  =================================================================================
``describe FILE``          prints the structure of a data file
``inspect DATASET``        prints the versions, fragments, and files of a dataset
``log DATASET``            lists the versions, and what created them
``diff DATASET V1 V2``     compares two versions
``verify DATASET``         compares all files of a version with its manifest
``doctor DATASET``         reports problems left behind by crashed writers and, on request, repairs them
``restore DATASET V``      creates a version with the content of an earlier one
``plan ACTION DATASET``    plans a compaction, a materialization of deletions, or a cleanup
``apply FILE``             executes a plan
=========================  =================================================================================

With ``--json``, each command prints a JSON document. Exit codes: 0 on success, 1 if problems were found and not
repaired, 2 on errors, which are printed to standard error as one line, 3 if another writer changed the dataset first,
and 130 after an interrupt.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

from lance_core.cli.answers import EXIT_CHANGED, EXIT_INTERRUPTED, EXIT_REFUSED, Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the command-line arguments; if None, those of the process.

    Returns:
        The exit code.
    """
    from lance_core.errors import CommitConflictError, LanceError

    parsed = _parser().parse_args(arguments)
    try:
        answer = _answer(parsed)
    except CommitConflictError as error:
        return _refused(str(error), EXIT_CHANGED)
    except LanceError as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        return _refused("interrupted", EXIT_INTERRUPTED)
    return _printed([json.dumps(answer.document, indent=2)] if parsed.json else answer.lines) or answer.exit_code


def _answer(parsed: argparse.Namespace) -> Answer:
    # Each module imports only what its commands need, because imports take longer than most commands.
    module, command = _COMMANDS[" ".join(filter(None, (parsed.command, getattr(parsed, "action", None))))]
    run: Callable[[argparse.Namespace], Answer] = getattr(import_module(f"lance_core.cli.{module}"), command)
    return run(parsed)


def _printed(lines: Iterable[str]) -> int:
    output = sys.stdout
    if output is None:
        return _refused("standard output is closed")
    if isinstance(output, io.TextIOWrapper):
        output.reconfigure(errors="backslashreplace")
    for line in lines:
        try:
            output.write(f"{line}\n")
        except OSError as error:
            return _given_up(output, error)
    try:
        output.flush()
    except OSError as error:
        return _given_up(output, error)
    return 0


def _given_up(output: TextIO, error: OSError) -> int:
    # Python must not try to write the rest when it exits.
    _redirect_to_nothing(output)
    if isinstance(error, BrokenPipeError):
        # The process that reads the output has closed the pipe.
        return 0
    return _refused(f"cannot write the output: {error.strerror}")


def _refused(reason: str, exit_code: int = EXIT_REFUSED) -> int:
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"lance-core: {' '.join(reason.split())}\n")
            sys.stderr.flush()
        except OSError:
            _redirect_to_nothing(sys.stderr)
    return exit_code


def _redirect_to_nothing(stream: TextIO) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print the result as JSON")
    dataset = argparse.ArgumentParser(add_help=False, parents=[shared])
    dataset.add_argument("dataset", metavar="DATASET", help="path or URI of a dataset")
    parser = argparse.ArgumentParser(
        prog="lance-core",
        description="Inspect, check, and maintain Lance data files and datasets.",
        epilog="Exit codes: 0 success; 1 problems were found; 2 error; 3 another writer changed the dataset first.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    describe = commands.add_parser("describe", parents=[shared], help="print the structure of one data file")
    describe.add_argument("file", metavar="FILE", help="path or URI of a .lance data file")
    inspect = commands.add_parser(
        "inspect", parents=[dataset], help="print the versions, fragments, and files of a dataset"
    )
    inspect.add_argument("--version", type=int, help="version to print; by default, the latest version")
    log = commands.add_parser(
        "log", parents=[dataset], help="list the versions, newest first, and the operations that created them"
    )
    log.add_argument("--limit", type=_count, metavar="N", help="list only the newest N versions")
    diff = commands.add_parser("diff", parents=[dataset], help="compare two versions")
    diff.add_argument("before", metavar="V1", type=_version, help="number or tag of a version")
    diff.add_argument("after", metavar="V2", type=_version, help="number or tag of another version")
    verify = commands.add_parser("verify", parents=[dataset], help="compare all files of a version with its manifest")
    verify.add_argument("--version", type=int, help="version to examine; by default, the latest version")
    verify.add_argument("--pages", action="store_true", help="also read all values, to find damaged pages")
    doctor = commands.add_parser(
        "doctor", parents=[dataset], help="report problems left behind by crashed writers, and optionally repair them"
    )
    doctor.add_argument(
        "--apply", action="store_true", help="repair the problems that are at least as old as --min-age"
    )
    doctor.add_argument(
        "--min-age",
        metavar="AGE",
        default="7days",
        help="repair only problems that are at least this old, such as 12h or 90m; the default is 7days",
    )
    restore = commands.add_parser(
        "restore", parents=[dataset], help="create a version with the content of an earlier one"
    )
    restore.add_argument("version", metavar="V", type=_version, help="number or tag of the earlier version")
    plan = commands.add_parser("plan", help="plan a compaction, a materialization of deletions, or a cleanup")
    actions = plan.add_subparsers(dest="action", required=True, metavar="ACTION")
    planned = argparse.ArgumentParser(add_help=False, parents=[dataset])
    planned.add_argument("--output", metavar="FILE", help="save the plan to this file, for `lance-core apply FILE`")
    compaction = actions.add_parser("compaction", parents=[planned], help="rewrite small fragments into larger ones")
    compaction.add_argument("--target-rows", type=int, metavar="N", help="target number of rows per fragment")
    deletions = actions.add_parser("deletions", parents=[planned], help="rewrite fragments without their deleted rows")
    deletions.add_argument(
        "--threshold",
        type=float,
        default=0.1,
        metavar="F",
        help="fraction of deleted rows above which a fragment is rewritten; 0.1 by default",
    )
    cleanup = actions.add_parser("cleanup", parents=[planned], help="remove old versions and unreferenced files")
    cleanup.add_argument(
        "--older-than",
        metavar="AGE",
        help="remove only versions older than this; by default, two weeks, or any age if --retain-versions is given",
    )
    cleanup.add_argument("--retain-versions", type=int, metavar="N", help="keep the newest N versions")
    apply = commands.add_parser("apply", parents=[shared], help="execute a plan")
    apply.add_argument(
        "plan", metavar="FILE", help="file with a plan, written by `lance-core plan ACTION DATASET --output FILE`"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number that is not negative, found {text!r}")
    return int(text)


def _version(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


_COMMANDS: Final = {
    "describe": ("showing", "describe"),
    "inspect": ("showing", "inspect"),
    "log": ("showing", "log"),
    "diff": ("showing", "diff"),
    "verify": ("checking", "verify"),
    "doctor": ("checking", "doctor"),
    "restore": ("changing", "restore"),
    "plan compaction": ("changing", "plan_compaction"),
    "plan deletions": ("changing", "plan_deletions"),
    "plan cleanup": ("changing", "plan_cleanup"),
    "apply": ("changing", "apply_plan"),
}
"""Maps each command to its module and function."""
