"""The command ``lance-core``: look into data files and datasets.

``lance-core describe FILE`` prints what a data file is made of, ``lance-core inspect DATASET`` the versions, fragments
and files of a dataset. Both only read. ``lance-core doctor DATASET`` tells what crashed writers left, and mends it when
it is told to. What they cannot read, and output that cannot be written, is told in one line on the standard error
output, with exit code 2.
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
"""The arguments are wrong, what they name cannot be read, or the output not written; also argparse's own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: what follows its name; by default those of the process.

    Returns:
        The exit code: 0, or 2 after an error that is explained on the standard error output.
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
        return _refused("the standard output is closed")
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
    # Python must not try to write the rest when it ends.
    _redirect_to_nothing(output)
    if isinstance(error, BrokenPipeError):
        # Whoever reads has seen enough.
        return 0
    return _refused(f"the output cannot be written: {error.strerror}")


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
    parser = argparse.ArgumentParser(prog="lance-core", description="Look into Lance data files and datasets.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    describe = commands.add_parser("describe", help="print what one data file is made of")
    describe.add_argument("file", metavar="FILE", help="path or URI of a .lance data file")
    inspect = commands.add_parser("inspect", help="print the versions, fragments and files of a dataset")
    inspect.add_argument("dataset", metavar="DATASET", help="path or URI of a dataset")
    inspect.add_argument("--version", type=int, help="version to look at; the latest by default")
    doctor = commands.add_parser("doctor", help="tell what crashed writers left in a dataset, and mend it")
    doctor.add_argument(
        "dataset", metavar="DATASET", help="path or URI of a dataset, also of one that cannot be opened"
    )
    doctor.add_argument("--apply", action="store_true", help="mend what is old enough")
    doctor.add_argument("--min-age", metavar="AGE", default="7days", help="how old that is; 7days by default")
    return parser


def _doctor_lines(uri: str, min_age: str, *, applies: bool) -> Iterator[str]:
    from lance_core.cleanup.durations import parse_duration
    from lance_core.places.location import open_log
    from lance_core.repair import diagnose, mend

    log = open_log(uri, None)
    findings = diagnose(log, min_age=parse_duration(min_age))
    if not findings:
        yield "nothing was found"
    for finding in findings:
        age = "" if finding.age_seconds is None else f", {finding.age_seconds / 86_400:.1f} days old"
        outcome = (
            finding.advice if finding.is_ripe or finding.is_named_only else f"not to be touched yet ({finding.advice})"
        )
        if finding.reason:
            outcome = f"not to be touched: {finding.reason}"
        if applies and finding.is_ripe:
            outcome = "mended" if mend(log, finding) else "has changed since; left alone"
        line = f" of branch {finding.branch}" if finding.branch else ""
        yield f"{finding.ailment} {finding.place}{line}{age}: {outcome}"


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
        f"version {table.version} of {table.latest_version}, format {table.data_storage_version}, "
        f"{table.count_rows()} rows, {len(fragments)} fragments"
    )
    yield "schema"
    yield from describe_fields(manifest.schema)
    yield "versions"
    for each in table.versions():
        written = each["timestamp"].isoformat(sep=" ", timespec="seconds")
        facts = each["metadata"]
        yield f"  {each['version']} {written}: {facts['total_rows']} rows in {facts['total_fragments']} fragments"
    yield "fragments"
    for fragment in fragments:
        yield from _fragment_lines(fragment)


def _fragment_lines(fragment: LanceFragment) -> Iterator[str]:
    from lance_core.versions import LanceFileVersion

    deleted = f", {fragment.num_deletions} deleted" if fragment.num_deletions else ""
    yield f"  {fragment.fragment_id}: {fragment.physical_rows} rows{deleted}"
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
