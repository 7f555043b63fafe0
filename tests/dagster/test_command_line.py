"""``dagster job execute`` in separate processes, as a user starts it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import lance
import pytest

import lance_core

pytestmark = pytest.mark.spark


def ids(uri: Path) -> Counter[int]:
    return Counter(lance_core.dataset(str(uri)).to_table(columns=["id"])["id"].to_pylist())


def check_with_the_reference(uri: Path, version: int, num_rows: int) -> None:
    reference = lance.dataset(str(uri))
    reference.validate()
    assert (reference.version, reference.count_rows()) == (version, num_rows)


@pytest.mark.slow
def test_two_runs_without_an_instance_create_two_versions(command_line, run_config, ten_rows) -> None:
    """On a new machine, without DAGSTER_HOME or settings, the warehouse is below the working directory."""
    dagster = command_line()
    uri = dagster.directory / "warehouse" / "installed_files.lance"
    config = run_config({"source": ten_rows})
    for version in (1, 2):
        done = dagster.ingest(config)
        assert done.returncode == 0, done.stderr
        rows, fragments = 10 * version, len(lance_core.dataset(str(uri)).get_fragments())
        summary = f"{uri} version {version}: {rows} rows in {fragments} fragments;"
        assert done.stdout.startswith(f"installed_files: {summary}")
        assert done.stdout.count("\n") == 1
        assert "- INFO - installed_files__ingest" in done.stderr
        assert summary in done.stderr
    check_with_the_reference(uri, 2, 20)
    assert ids(uri) == Counter(dict.fromkeys(range(10), 2))
    assert [path.name for path in dagster.directory.iterdir()] == ["warehouse"]


@pytest.mark.slow
def test_two_simultaneous_first_runs_keep_the_rows_of_both_runs(command_line, run_config, ten_rows, tmp_path) -> None:
    """Both runs find no dataset; one creates it, and the other appends to it."""
    dagster = command_line(tmp_path / "home")
    uri = tmp_path / "lake" / "events.lance"
    config = run_config({"source": ten_rows, "uri": str(uri)})
    processes = [dagster.start_ingest(config) for _ in range(2)]
    for process in processes:
        _, stderr = process.communicate(timeout=300)
        assert process.returncode == 0, stderr
    check_with_the_reference(uri, 2, 20)
    assert ids(uri) == Counter(dict.fromkeys(range(10), 2))
    transactions = [lance_core.dataset(str(uri)).read_transaction(version) for version in (1, 2)]
    assert len({transaction.transaction_properties["dagster.run_id"] for transaction in transactions}) == 2


@pytest.mark.parametrize(
    ("mode", "num_runs"),
    [
        pytest.param("append", 2, marks=pytest.mark.slow),
        pytest.param("append", 4, marks=pytest.mark.soak),
        pytest.param("overwrite", 4, marks=pytest.mark.soak),
    ],
)
def test_simultaneous_runs_without_a_shared_instance_keep_every_row(
    command_line, run_config, ten_rows, tmp_path, mode, num_runs
) -> None:
    """Without shared pools, only the commit protocol protects the rows."""
    dagster = command_line()
    uri = tmp_path / "lake" / "events.lance"
    config = run_config({"source": ten_rows, "uri": str(uri), "mode": mode})
    processes = [dagster.start_ingest(config) for _ in range(num_runs)]
    for process in processes:
        _, stderr = process.communicate(timeout=600)
        assert process.returncode == 0, stderr
    check_with_the_reference(uri, num_runs, 10 * num_runs if mode == "append" else 10)


@pytest.mark.slow
def test_an_ingest_with_the_multiprocess_executor_commits_its_rows(command_line, run_config, ten_rows) -> None:
    dagster = command_line(LANCE_PIPELINES_EXECUTOR="multiprocess")
    done = dagster.ingest(run_config({"source": ten_rows}))
    assert done.returncode == 0, done.stderr
    assert "Executing steps using multiprocess executor" in done.stderr
    check_with_the_reference(dagster.directory / "warehouse" / "installed_files.lance", 1, 10)


@pytest.mark.soak
def test_an_ingest_without_configuration_reads_the_installed_files(command_line) -> None:
    dagster = command_line()
    uri = dagster.directory / "warehouse" / "installed_files.lance"
    for version in (1, 2):
        done = dagster.ingest(timeout=600)
        assert done.returncode == 0, done.stderr
        assert f"{uri} version {version}: " in done.stdout
    dataset = lance.dataset(str(uri))
    dataset.validate()
    assert dataset.count_rows() > 1000
    assert len(set(dataset.to_table(columns=["captured_at"])["captured_at"].to_pylist())) == 2


@pytest.mark.slow
def test_a_full_disk_fails_the_run_and_leaves_nothing_behind(command_line, run_config, tmp_path) -> None:
    """A limit on file sizes simulates the full disk: writing fails in the middle of a data file."""
    source = tmp_path / "wide.csv"
    noise = random.Random(7)
    source.write_text("".join(f"{number},{noise.randbytes(1500).hex()}\n" for number in range(4000)))
    dagster = command_line()
    uri = tmp_path / "lake" / "events.lance"
    schema = "id BIGINT, text STRING"
    config = run_config({"source": {"format": "csv", "paths": [str(source)], "schema": schema}, "uri": str(uri)})
    process = dagster.start_ingest(config, max_file_bytes=2 * 1024 * 1024)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    assert stdout == ""
    assert "Failure: installed_files: " in stderr
    assert "File too large" in stderr
    last_line = stderr.splitlines()[-1]
    assert last_line.startswith("FAILED installed_files: ")
    assert "File too large" in last_line
    assert not list(uri.rglob("*.lance"))
    assert not (uri / "_versions").exists()


WRONG_CONFIGURATIONS = {
    "value": (
        "installed_files__ingest",
        "ops: {installed_files: {config: {mode: merge}}}",
        "Value at path root:ops:installed_files:config:mode not in enum type ModeChoice got merge",
    ),
    "unknown field": (
        "installed_files__compact",
        "ops: {plan_rewrites: {config: {treshold: 0.5}}}",
        'Received unexpected config entry "treshold" at path root:ops:plan_rewrites:config',
    ),
    "missing field": (
        "installed_files__delete_rows",
        "ops: {plan_delete: {config: {}}}",
        'Missing required config entry "predicate" at path root:ops:plan_delete:config',
    ),
    "resource": (
        "installed_files__ingest",
        "resources: {lance_spark: {config: {spark_config: 3}}}",
        "root:resources:lance_spark:config:spark_config",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG_CONFIGURATIONS)
def test_an_invalid_run_configuration_prints_one_line_with_the_name_of_the_field(command_line, tmp_path, wrong) -> None:
    job, text, expected = WRONG_CONFIGURATIONS[wrong]
    config = tmp_path / "run.yaml"
    config.write_text(text)
    process = command_line().start("job", "execute", "-m", "lance_pipelines.definitions", "-j", job, "-c", str(config))
    stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout) == (1, "")
    assert "Traceback" not in stderr
    (line,) = [line for line in stderr.splitlines() if line.startswith("FAILED ")]
    assert line.startswith(f"FAILED {job}: run configuration: ")
    assert expected in line
    assert len(line) < 300


@pytest.mark.slow
def test_a_typed_failure_logs_its_stack_trace_once(command_line, tmp_path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text("ops: {plan_rewrites: {config: {threshold: 7}}}")
    process = command_line().start(
        "job", "execute", "-m", "lance_pipelines.definitions", "-j", "installed_files__compact", "-c", str(config)
    )
    _, stderr = process.communicate(timeout=300)
    headline = "run configuration of installed_files: threshold must be at least 0 and less than 1, found 7.0"
    assert process.returncode == 1
    assert stderr.splitlines()[-1] == f"FAILED installed_files: {headline} [InvalidInputError]"
    assert stderr.count("in planning_step") == 1
    assert "Stack Trace" not in stderr
    before, _, _ = stderr.partition("Traceback (most recent call last)")
    assert " - DEBUG - " in before.splitlines()[-1]
