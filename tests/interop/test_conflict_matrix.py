"""Every ordered pair of operations: lance_core commits after pylance, and pylance after lance_core.

Conflicts equal those of pylance, and a compatible pair makes the same table whichever library commits.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pytest
from pyroaring import BitMap

import lance_core
from lance_core.errors import (
    IncompatibleTransactionError,
    RetryableCommitConflictError,
    SchemaMismatchError,
)
from lance_core.places.location import open_log
from lance_core.proto import pb_table
from lance_core.table.manifest import Manifest
from tests.support.matrix_operations import KINDS, OPERATIONS, build_all, create_table, to_ours

pytestmark = pytest.mark.usefixtures("overlays")

_THEIR_WORDS = {
    "is incompatible with": "X",
    "was removed by": "X",
    "was dropped by": "X",
    "which was dropped": "X",
    "Retryable": "R",
    "Please retry": "R",
}


class Base:
    """A table of one kind and every operation, planned on that table."""

    def __init__(self, kind: str, root: Path) -> None:
        self.path = root / "table"
        self.read_version = create_table(kind, str(self.path))
        dataset = lance.dataset(str(self.path))
        self.before, self.planned = build_all(dataset), build_all(dataset)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Base]:
    return {}


def _base(kind: str, bases: dict[str, Base], tmp_path_factory: pytest.TempPathFactory) -> Base:
    if kind not in bases:
        bases[kind] = Base(kind, tmp_path_factory.mktemp(kind))
    return bases[kind]


def _theirs(uri: Path, operation: object, read_version: int) -> str:
    try:
        lance.LanceDataset.commit(str(uri), operation, read_version=read_version)
    except (OSError, ValueError) as error:
        return next((verdict for words, verdict in _THEIR_WORDS.items() if words in str(error)), str(error))
    return "."


def _ours(uri: Path, operation: object, read_version: int) -> str:
    try:
        lance_core.LanceDataset.commit(str(uri), operation, read_version=read_version)
    except IncompatibleTransactionError:
        return "X"
    except RetryableCommitConflictError:
        return "R"
    except SchemaMismatchError as error:
        return str(error)
    return "."


@contextmanager
def _undone(uri: Path) -> Iterator[None]:
    """Undo the version that is created in this block."""
    before = set(os.listdir(uri / "_versions"))
    yield
    for name in set(os.listdir(uri / "_versions")) - before:
        (uri / "_versions" / name).unlink()


def _comparable(manifest: Manifest) -> tuple[object, ...]:
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    for name in ("timestamp", "writer_version", "transaction_file", "index_section", "transaction_section"):
        message.ClearField(name)
    for fragment in message.fragments:
        if fragment.deletion_file.ByteSize() == 0:
            fragment.ClearField("deletion_file")
    section = manifest.index_section
    indices = [] if section is None else list(pb_table.IndexSection.FromString(section).indices)
    for index in indices:
        # The same set can have several encodings.
        index.fragment_bitmap = BitMap(BitMap.deserialize(index.fragment_bitmap).to_array(), optimize=False).serialize()
    return message, sorted(each.SerializeToString(deterministic=True) for each in indices)


_SAMPLES = {("stable", "update rows 0"), ("indexed", "update s 0")}
"""Of the other kinds of tables: run always, the others are slow tests."""


def _cases() -> list[object]:
    return [
        pytest.param(
            kind, committed, marks=[] if kind == "plain" or (kind, committed) in _SAMPLES else [pytest.mark.slow]
        )
        for kind in KINDS
        for committed in OPERATIONS
    ]


@pytest.mark.parametrize(("kind", "committed"), _cases())
@pytest.mark.sampled(4)
def test_conflicts_of_every_pair_of_operations_equal_those_of_pylance(
    kind: str,
    committed: str,
    bases: dict[str, Base],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = _base(kind, bases, tmp_path_factory)
    after_theirs, after_ours = tmp_path / "theirs", tmp_path / "ours"
    for uri in (after_theirs, after_ours):
        shutil.copytree(base.path, uri)
    assert _theirs(after_theirs, base.before[committed], base.read_version) == "."
    first = _ours(after_ours, to_ours(base.before[committed]), base.read_version)
    wrong = []

    def same(made: tuple[object, ...] | None, other: tuple[object, ...], planned: str) -> bool:
        # After a rewrite of rows with stable ids, indices of row ids could be kept; this library drops their coverage.
        num_compared = 1 if kind == "stable" and "rewrite" in planned + committed else 2
        if made is not None and kind == "stable" and committed == "overlay s 0" and planned.startswith("update "):
            # The reference loses the updated versions of overlaid rows: the fragment is as planned by the update.
            made, other = _without_update_versions(made), _without_update_versions(other)
        return made is not None and made[:num_compared] == other[:num_compared]

    for planned in OPERATIONS:
        with _undone(after_theirs):
            expected = _theirs(after_theirs, base.planned[planned], base.read_version)
            made = _made(after_theirs) if expected == "." else None
        with _undone(after_theirs):
            found = _ours(after_theirs, to_ours(base.planned[planned]), base.read_version)
            if not _agree(planned, committed, expected, found):
                wrong.append(f"ours: {planned} after {committed}: expected {expected}, found {found}")
            elif found == "." and not same(made, _made(after_theirs), planned):
                wrong.append(f"ours: {planned} after {committed}: another table:\n{made}\n{_made(after_theirs)}")
        with _undone(after_ours):
            found = _theirs(after_ours, base.planned[planned], base.read_version)
            if found != expected:
                wrong.append(f"theirs: {planned} after our {committed}: expected {expected}, found {found}")
            elif found == "." and not same(made, _made(after_ours), planned):
                wrong.append(f"theirs: {planned} after our {committed}: another table:\n{made}\n{_made(after_ours)}")
    assert first == "."
    assert not wrong, "\n".join(wrong)


def _without_update_versions(made: tuple[object, ...]) -> tuple[object, ...]:
    message = pb_table.Manifest()
    message.CopyFrom(made[0])
    for fragment in message.fragments:
        fragment.ClearField("inline_last_updated_at_versions")
    return message, *made[1:]


def _made(uri: Path) -> tuple[object, ...]:
    log = open_log(str(uri), None)
    return _comparable(log.read(log.latest()))


def _agree(planned: str, committed: str, expected: str, found: str) -> bool:
    if expected == "." and planned.startswith("index") and " s " in planned and committed.startswith("project"):
        # An index on a dropped field: the reference commits it, and fails every query.
        return "does not exist in version" in found
    if expected == "." and planned.startswith("overlay") and committed.startswith("project"):
        # Values for a dropped field: the reference commits them, and never reads them.
        return "contains no field of the table" in found
    return found == expected
