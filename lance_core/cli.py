"""The command ``lance-core``: inspect data files and datasets.

``lance-core describe FILE`` prints the structure of a data file, and ``lance-core inspect DATASET`` prints the
versions, fragments, and files of a dataset. Neither command changes anything. ``lance-core doctor DATASET`` reports
problems left behind by crashed writers and, on request, repairs them. A command that fails prints one line to standard
error and exits with code 2.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lance_core.api.fragment import LanceFragment

__all__ = ["main"]

EXIT_REFUSED: Final = 2
"""Exit code for invalid arguments, unreadable input, and failure to write the output; argparse uses the same code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: the command-line arguments; if None, those of the process.

    Returns:
        The exit code: 0 on success, 2 on error. Errors are printed to standard error.
    """
    from lance_core.errors import LanceError

    parsed = _parser().parse_args(arguments)
    try:
        return _printed(_COMMANDS[parsed.command](parsed))
    except LanceError as error:
        return _refused(str(error))


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


def _refused(reason: str) -> int:
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"lance-core: {' '.join(reason.split())}\n")
            sys.stderr.flush()
        except OSError:
            _redirect_to_nothing(sys.stderr)
    return EXIT_REFUSED


def _redirect_to_nothing(stream: TextIO) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lance-core", description="Inspect and repair Lance data files and datasets.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    describe = commands.add_parser("describe", help="print the structure of one data file")
    describe.add_argument("file", metavar="FILE", help="path or URI of a .lance data file")
    inspect = commands.add_parser("inspect", help="print the versions, fragments, and files of a dataset")
    inspect.add_argument("dataset", metavar="DATASET", help="path or URI of a dataset")
    inspect.add_argument("--version", type=int, help="version to print; by default, the latest version")
    doctor = commands.add_parser("doctor", help="report and repair problems left behind by crashed writers")
    doctor.add_argument("dataset", metavar="DATASET", help="path or URI of a dataset, even one that cannot be opened")
    doctor.add_argument("--apply", action="store_true", help="repair the problems that are old enough (see --min-age)")
    doctor.add_argument(
        "--min-age",
        metavar="AGE",
        default="7days",
        help="repair only problems that are at least this old; 7days by default",
    )
    return parser


def _doctor_lines(uri: str, min_age: str, *, applies: bool) -> Iterator[str]:
    from lance_core.cleanup.durations import parse_duration
    from lance_core.places.location import open_log
    from lance_core.repair import diagnose, repair

    log = open_log(uri, None)
    problems = diagnose(log, min_age=parse_duration(min_age))
    if not problems:
        yield "no problems found"
    for problem in problems:
        age = "" if problem.age_seconds is None else f", {problem.age_seconds / 86_400:.1f} days old"
        outcome = (
            problem.advice
            if problem.is_repairable or problem.is_named_only
            else f"not old enough to repair ({problem.advice})"
        )
        if problem.reason:
            outcome = f"cannot be repaired: {problem.reason}"
        if applies and problem.is_repairable:
            outcome = "repaired" if repair(log, problem) else "not repaired: it has changed since it was diagnosed"
        line = f" of branch {problem.branch}" if problem.branch else ""
        yield f"{problem.kind} {problem.place}{line}{age}: {outcome}"


def _described(uri: str) -> Iterator[str]:
    from lance_core.file.describe import describe_file
    from lance_core.file.reader import FileReader
    from lance_core.io.uri import resolve

    store, path = resolve(uri, None)
    yield from describe_file(FileReader.open(store, path)).splitlines()


def _inspected(uri: str, version: int | None) -> Iterator[str]:
    from lance_core.api.dataset import LanceDataset
    from lance_core.file.describe import describe_fields
    from lance_core.places.location import open_log
    from lance_core.places.references import read_manifest

    log = open_log(uri, None)
    manifest = read_manifest(log, version)
    table = LanceDataset.from_manifest(uri, log, manifest, None)
    fragments = table.get_fragments()
    yield f"dataset {uri}"
    yield (
        f"version {table.version} (latest: {table.latest_version}), format {table.data_storage_version}, "
        f"rows: {table.count_rows()}, fragments: {len(fragments)}"
    )
    yield "schema"
    yield from describe_fields(manifest.schema)
    yield "versions"
    for each in table.versions():
        written = each["timestamp"].isoformat(sep=" ", timespec="seconds")
        facts = each["metadata"]
        yield f"  {each['version']} {written}, rows: {facts['total_rows']}, fragments: {facts['total_fragments']}"
    yield "fragments"
    for fragment in fragments:
        yield from _fragment_lines(fragment)


def _fragment_lines(fragment: LanceFragment) -> Iterator[str]:
    from lance_core.versions import LanceFileVersion

    deleted = f", deleted: {fragment.num_deletions}" if fragment.num_deletions else ""
    yield f"  fragment {fragment.fragment_id}, rows: {fragment.physical_rows}{deleted}"
    for file in fragment.data_files():
        version = LanceFileVersion.from_pair(file.file_major_version, file.file_minor_version).value
        size = f"{file.file_size_bytes} bytes" if file.file_size_bytes else "size not recorded"
        fields = ", ".join(map(str, file.fields))
        yield f"    data/{file.path}: format {version}, {size}, fields {fields}"
    deletion_file = fragment.deletion_file()
    if deletion_file is not None:
        yield f"    {deletion_file}"


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace], Iterable[str]]]] = {
    "describe": lambda given: _described(given.file),
    "inspect": lambda given: _inspected(given.dataset, given.version),
    "doctor": lambda given: _doctor_lines(given.dataset, given.min_age, applies=given.apply),
}


if __name__ == "__main__":
    sys.exit(main())
