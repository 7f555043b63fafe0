"""Commits on local disks together with pylance: killed writers, their leftovers, and incorrect version hints."""

import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from tests.support.processes import ROOT

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
LIBRARIES = {"lance_core": lance_core, "lance": lance}

# Each function is a step of the link protocol at which the process is killed.
STEPS = {
    "staging written": "os.link = lambda *arguments: os._exit(9)",
    "staging not written": """
whole = os.write
os.write = lambda descriptor, data: (whole(descriptor, data[: len(data) // 2]), os._exit(9)) if staged else whole(
    descriptor, data)
""",
    "linked": """
link = os.link
os.link = lambda *arguments: (link(*arguments), os._exit(9))
""",
    "hint not written": """
unlink = os.unlink
os.unlink = lambda path: (unlink(path), os._exit(9))
""",
}
PROGRAM = """
import os, sys, pyarrow as pa, lance_core
from lance_core.io import local_store
staged = []
write_staging = local_store._write_staging
local_store._write_staging = lambda path, data: (staged.append(path), write_staging(path, data))[1]
{step}
rows = pa.table({{"a": pa.array([4], pa.int64())}})
lance_core.write_dataset(rows, {uri!r}, mode="append")
"""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.sampled(1)
def test_a_killed_writer_never_leaves_a_partial_manifest(tmp_path: Path, step: str) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    program = PROGRAM.format(step=STEPS[step], uri=uri)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    landed = step in ("linked", "hint not written")
    for library in LIBRARIES.values():
        dataset = library.dataset(uri)
        assert (dataset.version, dataset.count_rows()) == ((2, 4) if landed else (1, 3))
    for number, library in enumerate(LIBRARIES.values(), start=2 + landed):
        assert library.write_dataset(ROWS, uri, mode="append").version == number
    assert lance_core.dataset(uri).to_table() == lance.dataset(uri).to_table()


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_staged_files_of_crashed_writers_block_no_commit(tmp_path: Path, library: str) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    names = [f"{2**64 - 1 - version:020d}.manifest" for version in (2, 3)]
    for name in names:
        for number in (1, 2):
            (tmp_path / "t" / "_versions" / f"{name}#{number}").write_bytes(b"left behind")
    module = LIBRARIES[library]
    for version in (2, 3):
        assert module.write_dataset(ROWS, uri, mode="append").version == version
    assert (tmp_path / "t" / "_versions" / f"{names[0]}#1").read_bytes() == b"left behind"
    for each in LIBRARIES.values():
        assert each.dataset(uri).count_rows() == 9


@pytest.mark.parametrize(
    "content", [None, b"", b"garbage", b'{"version":999}', b'{"version":1}', b'{"version":2,"x":1}']
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_incorrect_version_hint_does_not_mislead_readers(
    tmp_path: Path, library: str, content: bytes | None
) -> None:
    uri, hint = str(tmp_path / "t"), tmp_path / "t" / "_versions" / "latest_version_hint.json"
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append")
    assert hint.read_bytes() == b'{"version":3}'
    if content is None:
        hint.unlink()
    else:
        hint.write_bytes(content)
    module = LIBRARIES[library]
    assert module.dataset(uri).version == 3
    assert module.write_dataset(ROWS, uri, mode="append").version == 4
    old = lance_core.dataset(uri, 2)
    assert lance_core.write_dataset(ROWS, old, mode="append").version == 5
    assert lance_core.dataset(uri).version == lance.dataset(uri).version == 5
    assert hint.read_bytes() == b'{"version":5}'


@pytest.mark.parametrize(("value", "written"), [("0", False), ("False", False), ("off", False), ("1", True)])
def test_the_version_hint_can_be_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, written: bool
) -> None:
    monkeypatch.setenv("LANCE_USE_VERSION_HINT", value)
    lance_core.write_dataset(ROWS, tmp_path / "t")
    assert (tmp_path / "t" / "_versions" / "latest_version_hint.json").exists() is written


def test_a_tag_with_a_non_ascii_name_is_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(ROWS, uri)
    # The reference accepts the name, and afterward cannot list its tags.
    with pytest.raises(lance_core.InvalidRefError):
        lance_core.dataset(uri).tags.create("größe", 1)
    for library in LIBRARIES.values():
        assert library.dataset(uri).tags.list() == {}
