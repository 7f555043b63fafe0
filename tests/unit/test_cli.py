"""The lance-core command, run as a separate process if its standard streams matter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core import cli
from lance_core.file.lance_file import LanceFileWriter
from tests.support.commands import Run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_cli_describe_prints_a_data_file(run: Run, version: str, tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    with LanceFileWriter(path, version=version) as writer:
        writer.write_batch(pa.table({"x": pa.array([1, None, 3], pa.int32())}))
    code, output, errors = run("describe", str(path))
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[:3] == [
        f"data file in format {version}: 3 rows, {path.stat().st_size} bytes",
        "schema",
        "  0 'x': int32",
    ]
    assert any(line.startswith("    page 0") for line in lines)


def test_cli_inspect_prints_a_dataset(run: Run, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_core.write_dataset(pa.table({"x": [1, 2, 3]}), uri, data_storage_version="2.0")
    lance_core.write_dataset(pa.table({"x": [4]}), uri, mode="append")
    dataset = lance_core.dataset(uri)
    dataset.delete("x = 2")
    [first, second] = [fragment.data_files()[0] for fragment in lance_core.dataset(uri).get_fragments()]
    code, output, errors = run("inspect", uri)
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[:4] == [
        f"dataset {uri}",
        "version 3 (latest: 3), format 2.0, rows: 3, fragments: 2",
        "schema",
        "  0 'x': int64",
    ]
    assert [line.split(", ", 1)[1] for line in lines[5:8]] == [
        "rows: 3, fragments: 1",
        "rows: 4, fragments: 2",
        "rows: 3, fragments: 2",
    ]
    assert lines[9] == "  fragment 0, rows: 3, deleted: 1"
    assert lines[10] == f"    data/{first.path}: format 2.0, {first.file_size_bytes} bytes, fields 0"
    assert lines[11].startswith("    _deletions/0-")
    assert lines[12:] == [
        "  fragment 1, rows: 1",
        f"    data/{second.path}: format 2.0, {second.file_size_bytes} bytes, fields 0",
    ]
    _, earlier, _ = run("inspect", uri, "--version", "1")
    assert earlier.splitlines()[1] == "version 1 (latest: 3), format 2.0, rows: 3, fragments: 1"


def test_cli_inspect_shows_in_which_base_path_a_file_is(run: Run, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    base = lance_core.DatasetBasePath(str(tmp_path / "base"), name="b")
    dataset = lance_core.write_dataset(pa.table({"x": [1]}), uri, initial_bases=[base], target_bases=["b"])
    [file] = dataset.get_fragments()[0].data_files()
    _, output, _ = run("inspect", uri)
    assert output.splitlines()[-1].startswith(f"    {file.path} in base path {file.base_id}: format ")


@pytest.mark.parametrize("command", ["describe", "inspect"])
def test_cli_on_a_missing_path_prints_one_line_and_exits_with_code_2(run: Run, command: str, tmp_path: Path) -> None:
    code, output, errors = run(command, str(tmp_path / "nothing"))
    assert (code, output) == (2, "")
    [line] = errors.splitlines()
    assert line.startswith("lance-core: ")
    assert "nothing" in line


def test_cli_on_a_damaged_file_prints_one_line_and_exits_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.lance"
    path.write_bytes(b"not a data file" * 10)
    assert cli.main(["describe", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "LANC" in line


def test_cli_refuses_missing_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["inspect"])
    assert "DATASET" in capsys.readouterr().err


@pytest.mark.slow
def test_cli_succeeds_when_only_part_of_its_output_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    with LanceFileWriter(path) as writer:
        writer.write_batch(pa.table({f"column {number}": [1] for number in range(3000)}))
    command = f"{sys.executable} -m lance_core.cli describe {path} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("data file in format 2.2")


@pytest.fixture
def data_file(tmp_path: Path) -> str:
    path = tmp_path / "f.lance"
    with LanceFileWriter(path) as writer:
        writer.write_batch(pa.table({"größe": [1, 2]}))
    return str(path)


def run_in_shell(arguments: str, redirection: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m lance_core.cli {arguments} {redirection}"
    return subprocess.run(
        command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_cli_reports_a_closed_standard_output(data_file: str) -> None:
    done = run_in_shell(f"describe {data_file}", ">&-")
    assert (done.returncode, done.stderr) == (2, "lance-core: standard output is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_cli_reports_output_that_cannot_be_written(data_file: str) -> None:
    done = run_in_shell(f"describe {data_file}", "> /dev/full")
    assert (done.returncode, done.stderr) == (2, "lance-core: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.sampled(1)
def test_cli_keeps_its_exit_code_when_stderr_cannot_be_written(redirection: str, tmp_path: Path) -> None:
    for arguments in (f"describe {tmp_path}/nope", f"inspect {tmp_path}/nope"):
        done = run_in_shell(arguments, redirection)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_cli_escapes_characters_missing_from_the_output_encoding(data_file: str) -> None:
    done = run_in_shell(f"describe {data_file}", "", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout


@pytest.mark.parametrize("command", ["describe", "inspect"])
def test_cli_names_an_empty_path_in_the_error(run: Run, command: str) -> None:
    assert run(command, "") == (2, "", "lance-core: the path or URI is empty\n")
