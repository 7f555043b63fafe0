"""``lance-pipelines demo`` passes its own checks, and its exit code reflects their result."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import lance
import pytest
from click.testing import CliRunner
from rich.console import Console

from lance_core.errors import StorageError
from lance_pipelines.demo import command
from lance_pipelines.demo.reference_check import rows_by_version
from lance_pipelines.demo.snapshot import Snapshot, print_comparison
from lance_pipelines.demo.story import FailedCheckError, StoryOutcome

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("ingests", [10, 20])
def test_the_demonstration_passes_its_checks(tmp_path, ingests) -> None:
    """After many small ingests and some deletes, only the sensors act; then all checks must pass."""
    place = tmp_path / "demo"
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("DAGSTER_", "LANCE_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "lance_pipelines", "demo", "--directory", str(place), "--ingests", str(ingests)],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=1500)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate()
        pytest.fail(f"the story does not end\n{stdout[-5000:]}\n{stderr[-3000:]}")
    log = place / "dagster-dev.log"
    assert process.returncode == 0, f"{stdout[-5000:]}\n{stderr[-3000:]}\n{log.read_text()[-5000:]}"
    assert stdout.count("before and after maintenance by the sensors") == 2
    assert "CPU seconds" in stdout, "the history of maintenance"
    assert "Demonstration passed" in stdout

    uri = place / "warehouse" / "events.lance"
    reference = lance.dataset(str(uri))
    assert len(reference.get_fragments()) <= 4
    assert not list(uri.glob("_deletions/*"))
    (index,) = reference.describe_indices()
    assert index.num_rows_indexed == reference.count_rows()
    tagged = reference.tags.list()["morning"]["version"]
    assert {version["version"] for version in reference.versions()} == {tagged, reference.version}
    assert lance.dataset(str(uri), version="morning").count_rows() == ingests // 10 * 500
    profiles = lance.dataset(str(place / "warehouse" / "profiles.lance"))
    assert 0 < profiles.count_rows(filter="user < 750") < 750 - 530
    assert profiles.count_rows(filter="user >= 750") == 250 * (ingests // 2 - 2)
    assert len(profiles.versions()) == 1


class _NoServer:
    url = "http://127.0.0.1:1"

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def __enter__(self) -> "_NoServer":
        return self

    def __exit__(self, *error: object) -> None:
        pass


_SHAPE = Snapshot(
    versions=(1, 2),
    grade="B",
    fragments=2,
    rows=10,
    unindexed_rows=3,
    deleted_rows=1,
    worst_deleted_fraction=0.1,
    data_files=2,
    deletion_files=1,
    other_files=4,
    num_bytes=5000,
)


@pytest.mark.parametrize(
    ("ending", "exit_code", "last_line"),
    [
        (
            StoryOutcome(
                before={"events": _SHAPE}, after={"events": _SHAPE}, history="compact changed", checks=("one", "two")
            ),
            0,
            "Demonstration passed: 2 checks",
        ),
        (FailedCheckError("check failed; expected: 7 rows"), 1, "Demonstration failed: check failed; expected: 7 rows"),
        (StorageError("dagster dev exited"), 1, "Demonstration failed: dagster dev exited"),
    ],
    ids=["held", "broken", "no server"],
)
def test_the_exit_code_of_the_demonstration_reflects_whether_its_checks_passed(
    monkeypatch, tmp_path, ending, exit_code, last_line
) -> None:
    class Told:
        def __init__(self, *arguments: object, **options: object) -> None:
            pass

        def run(self) -> StoryOutcome:
            if isinstance(ending, Exception):
                raise ending
            return ending

    monkeypatch.setattr(command, "DevServer", _NoServer)
    monkeypatch.setattr(command, "Story", Told)
    done = CliRunner().invoke(command.demo, ["--directory", str(tmp_path / "demo")])
    assert done.exit_code == exit_code, done.output
    assert last_line in done.output


def test_a_demonstration_with_the_stay_option_waits_for_an_interrupt(monkeypatch, tmp_path) -> None:
    class Told:
        def __init__(self, *arguments: object, **options: object) -> None:
            pass

        def run(self) -> StoryOutcome:
            return StoryOutcome(
                before={"events": _SHAPE}, after={"events": _SHAPE}, history="compact changed", checks=()
            )

    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "DevServer", _NoServer)
    monkeypatch.setattr(command, "Story", Told)
    monkeypatch.setattr(command.time, "sleep", wait)
    done = CliRunner().invoke(command.demo, ["--directory", str(tmp_path / "demo"), "--stay"])
    assert (done.exit_code, len(waits)) == (0, 3), done.output
    assert "The web interface is at http://127.0.0.1:1" in done.output


def test_the_help_of_the_demonstration_shows_the_defaults() -> None:
    done = CliRunner().invoke(command.demo, ["--help"], terminal_width=200)
    for option, default in (("--ingests", "20"), ("--rows", "500")):
        [line] = [line for line in done.output.splitlines() if line.strip().startswith(option)]
        assert f"default: {default};" in line


def test_the_comparison_table_of_the_demonstration_labels_its_rows_and_columns() -> None:
    output = StringIO()
    after = replace(_SHAPE, grade="A", fragments=1, rows=1234567, unindexed_rows=None, num_bytes=4000)
    print_comparison(Console(file=output, width=100), "events", _SHAPE, after)
    cells = [
        [cell.strip() for cell in line.split(mark)[1:-1]]
        for line in output.getvalue().splitlines()
        for mark in ("┃", "│")
        if mark in line
    ]
    assert cells[0] == ["", "before", "after"]
    assert ["health", "B", "A"] in cells
    assert ["fragments", "2", "1"] in cells
    assert ["rows without index", "3", ""] in cells
    assert ["rows", "10", "1,234,567"] in cells
    assert ["bytes", "5.0 kB", "4.0 kB"] in cells


def test_a_demonstration_in_a_directory_that_contains_files_is_refused(tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    done = CliRunner().invoke(command.demo, ["--directory", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty" in done.output
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_the_check_with_pylance_reads_every_version_and_reports_corrupt_files(tmp_path) -> None:
    import pyarrow as pa

    import lance_core
    from lance_core.errors import CorruptDataError

    uri = tmp_path / "t.lance"
    for _ in range(2):
        dataset = lance_core.write_dataset(pa.table({"a": [1, 2, 3]}), uri, mode="append")
    assert rows_by_version(uri, (1, 2)) == {1: 3, 2: 6}
    newest = dataset.get_fragments()[1].data_files()[0].path
    data_file = uri / "data" / newest
    data_file.write_bytes(b"broken")
    with pytest.raises(CorruptDataError, match="the reference implementation rejects"):
        rows_by_version(uri, (2,))
