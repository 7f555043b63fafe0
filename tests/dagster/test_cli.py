"""``lance-pipelines``: the same jobs from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import lance_core
from lance_pipelines import command_runs
from lance_pipelines.build import build_definitions
from lance_pipelines.cli import main
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.maintenance.check_settings import CheckSettings
from lance_pipelines.ops import progress as progress_module
from lance_pipelines.ops import rewrite_fragments
from lance_pipelines.progress import ProgressLines
from lance_pipelines.resources.spark import SparkResource
from tests.support.local_rewriting import ids, write_fragments
from tests.support.no_spark import NoSession, rewrite_without_session

SEEN: list[dict[str, Any]] = []


class SeenSpark(SparkResource):
    """Records the properties with which the session was configured."""

    @property
    def spark_session(self) -> Any:
        SEEN.append(dict(self.spark_config))
        return NoSession()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "lake" / "events.lance")
    write_fragments(uri, 4)
    return uri


@pytest.fixture
def module(uri: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Create a module with the definitions of some datasets, and return its name."""
    SEEN.clear()
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)

    def make(*names: str, **settings: Any) -> str:
        module = ModuleType("lake_definitions")
        module.defs = build_definitions(
            declarations=[
                DatasetDeclaration(
                    key=name,
                    uri=uri if name == names[0] else f"{uri}-{name}",
                    source=FileSource(format=SourceFormat.ENVIRONMENT),
                    checks=CheckSettings(**settings),
                )
                for name in names
            ],
            spark=SeenSpark(),
        )
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module.__name__

    return make


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_each_command_runs_the_job_of_its_operation(module, uri) -> None:
    name = module("events")
    done = run("delete-rows", "id IN (3, 4)", "-m", name)
    assert (done.exit_code, done.stderr) == (0, "")
    deleted = "2 rows deleted where id IN (3, 4); 38 rows remaining in 4 fragments"
    assert done.stdout == f"events: {uri} version 5: {deleted}\n"
    done = run("materialize-deletions", "--threshold", "0.1", "-m", name)
    assert done.stdout.startswith(f"events: {uri} version 7: 1 fragment (")
    done = run("compact", "--target-rows", "15", "--target-bytes", "0", "--dataset", "events", "-m", name)
    assert done.exit_code == 0
    assert "rewritten into 2 (" in done.stdout
    done = run("cleanup", "--older-than", "0s", "--min-age", "0s", "--retain-versions", "1", "-m", name)
    assert "8 old versions removed, 1 remaining" in done.stdout
    assert done.exit_code == 0
    assert ids(uri) == [number for number in range(40) if number not in (3, 4)]


def test_a_command_with_nothing_to_do_succeeds(module) -> None:
    done = run("cleanup", "-m", module("events"))
    assert done.exit_code == 0
    assert (
        "nothing to do (4 versions; the policy keeps the newest 10 versions and all versions from the last 2 weeks)"
        in done.stdout
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["compact"],
        ["materialize-deletions", "--threshold", "0"],
        ["cleanup", "--older-than", "0", "--min-age", "0", "--retain-versions", "1"],
        ["delete-rows", "id > 5"],
    ],
)
def test_a_dry_run_prints_a_table(module, uri, arguments) -> None:
    done = run(*arguments, "--dry-run", "-m", module("events"))
    assert (done.exit_code, done.stderr) == (0, "")
    title, header, *_, last = done.stdout.splitlines()
    assert title.startswith(f"events: {arguments[0].replace('-', '_')} {uri} version 4: ")
    assert header.split() == ["before", "after", "change"]
    assert last == "Dry run: nothing was changed."
    assert lance_core.dataset(uri).version == 4


def test_check_command_prints_one_line_for_each_check_and_fails_if_a_check_of_severity_error_fails(module, uri) -> None:
    lance_core.write_dataset(pa.table({"id": [7]}), uri, mode="append")
    done = run("check", "-m", module("events", key=["id"], severities={"fragments": "off"}))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert [line.split(": ")[1:3] for line in lines] == [
        ["rows", "passed"],
        ["deletions", "passed"],
        ["schema", "passed"],
        ["key_nulls", "passed"],
        ["key_unique", "failed"],
        ["orphans", "passed"],
        ["verify", "passed"],
    ]
    assert done.stderr == (
        "FAILED events: check key_unique: 1 row repeats the key (id) of another row: "
        "{'id': 7} in 2 rows (fragment 0, offset 7 … fragment 4, offset 0)\n"
    )


def test_check_command_succeeds_with_warnings_and_evaluates_only_the_named_checks(module, uri) -> None:
    lance_core.dataset(uri).delete("id < 5")
    done = run("check", "--only", "deletions", "--only", "rows", "-m", module("events"))
    assert (done.exit_code, done.stderr) == (0, "")
    rows, deletions = done.stdout.splitlines()
    assert rows == "events: rows: passed: 35 rows; checked the files of 4 of 4 fragments"
    assert deletions.startswith("events: deletions: warning: 1 fragment with more than 0.1 of the rows deleted")


def test_a_command_shows_its_progress_on_standard_error(module, monkeypatch) -> None:
    monkeypatch.setattr(progress_module, "ProgressLines", partial(ProgressLines, interval_seconds=0))
    done = run("check", "--only", "verify", "-m", module("events"))
    assert done.stdout.count("\n") == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("events: verifying files: 2 of 4 fragments, 50%, about 1 second left")
    assert run("check", "--only", "verify", "-m", module("events"), "--verbose").stderr.count("2 of 4 fragments") == 1


def test_check_command_examines_the_requested_version(module, uri) -> None:
    done = run("check", "--only", "rows", "--version", "2", "-m", module("events"))
    assert done.stdout == "events: rows: passed: 20 rows; checked the files of 2 of 2 fragments\n"


def test_spark_properties_reach_the_session(module) -> None:
    arguments = ("--spark-config", "spark.master=local[2]", "--spark-config", "spark.x=a=b")
    assert run("compact", *arguments, "-m", module("events")).exit_code == 0
    assert SEEN == [{"spark.master": "local[2]", "spark.x": "a=b"}]
    assert (
        "'fast' must have the form NAME=VALUE"
        in run("compact", "--spark-config", "fast", "-m", module("events")).stderr
    )


def test_a_command_requires_a_dataset_name_when_several_are_declared(module, uri) -> None:
    name = module("events", "trips")
    done = run("compact", "-m", name)
    assert done.exit_code == 1
    expected = "FAILED compact: several datasets are declared; choose one with --dataset: events, trips\n"
    assert done.stderr == expected
    assert run("compact", "--dataset", "trips", "--uri", uri, "-m", name).stdout.startswith("trips: ")
    done = run("compact", "--dataset", "drips", "-m", name)
    expected = "dataset 'drips' is not declared, or has no job for compact; expected one of: events, trips"
    assert done.stderr == f"FAILED compact: {expected}\n"


def test_an_operation_for_which_no_dataset_has_a_job_is_refused(module) -> None:
    done = run("promote", "-m", module("events"))
    assert (done.exit_code, done.stderr) == (1, "FAILED promote: no declared dataset has a job for promote\n")


def test_a_command_uses_the_decorated_definitions_function_of_a_module(module) -> None:
    """As with ``dagster -m``, the function takes precedence over ``Definitions`` objects in the module."""
    name = module("events")
    own = sys.modules[name].defs
    sys.modules[name].all_definitions = dg.definitions(lambda: own)
    done = run("compact", "-m", name)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("events: ")
    del sys.modules[name].defs
    assert run("cleanup", "-m", name).exit_code == 0


def test_a_failed_command_prints_one_line_and_exits_with_code_1(module, tmp_path) -> None:
    nowhere = str(tmp_path / "nowhere.lance")
    done = run("compact", "--uri", nowhere, "-m", module("events"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"FAILED events: no dataset exists at {nowhere} [DatasetNotFoundError]\n"


def test_an_unexpected_exception_prints_one_line_and_exits_with_code_1(module, monkeypatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("the pen\nran dry")

    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", fail)
    done = run("compact", "-m", module("events"))
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("FAILED rewrite_fragments: ")
    assert "the pen ran dry" in done.stderr


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, dg.DagsterExecutionInterruptedError])
def test_an_interrupted_command_prints_that_it_was_interrupted(module, monkeypatch, interrupt) -> None:
    """The exception depends on whether Spark or Dagster handles the signal."""

    def wait(*arguments: object, **options: object) -> None:
        raise interrupt

    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", wait)
    done = run("compact", "-m", module("events"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "FAILED events: compact: interrupted\n"


def test_an_unknown_home_directory_is_reported_in_a_one_line_error(module) -> None:
    done = run("compact", "--uri", "~no_such_user_here/x", "-m", module("events"))
    assert done.exit_code == 1
    assert done.stderr.startswith("FAILED events: invalid path '~no_such_user_here/x': ")
    assert done.stderr.endswith(" [InvalidInputError]\n")


@pytest.mark.parametrize(
    ("module_name", "expected"),
    [
        ("no.such.module", "module 'no.such.module' cannot be imported"),
        ("../definitions", "'../definitions' is not the name of a module"),
        ("", "'' is not the name of a module"),
        (
            "json",
            "module 'json' must contain one dagster.Definitions or one function decorated with @dagster.definitions",
        ),
    ],
)
def test_a_module_without_definitions_is_named_in_the_error(module_name, expected) -> None:
    done = run("cleanup", "-m", module_name)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"FAILED cleanup: {expected}")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from lance_pipelines import NoSuchName", "cannot import name 'NoSuchName'"),
        ("def (", "invalid syntax (no_definitions.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_reported_in_one_line(tmp_path, monkeypatch, code, expected) -> None:
    (tmp_path / "no_definitions.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    done = run("cleanup", "-m", "no_definitions")
    assert done.exit_code == 1
    assert done.stderr.startswith("FAILED cleanup: module 'no_definitions' cannot be imported: ")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_uri_for_the_check_command_is_refused(module) -> None:
    done = run("check", "--uri", "", "-m", module("events"))
    assert done.exit_code == 1
    assert done.stderr == "FAILED events: run configuration of events: the URI is empty [InvalidInputError]\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["delete-rows"], "Missing argument 'PREDICATE'"),
        (["compact", "--threshold", "1"], "1.0 is not in the range"),
        (["compact", "--target-rows", "0"], "0 is not in the range"),
        (["cleanup", "--retain-versions", "0"], "0 is not in the range"),
        (["vacuum"], "No such command 'vacuum'"),
    ],
)
def test_incorrect_command_usage_is_refused_before_anything_is_loaded(arguments, expected) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert expected in done.stderr


def test_an_invalid_duration_is_reported_in_a_one_line_error(module) -> None:
    done = run("cleanup", "--older-than", "soon", "-m", module("events"))
    assert done.exit_code == 1
    assert done.stderr.startswith("FAILED events: run configuration of events: 'soon' is not a valid duration")


def test_the_log_of_a_command_is_shown_only_when_requested(module) -> None:
    name = module("events")
    assert "RUN_SUCCESS" not in run("cleanup", "-m", name).stderr
    assert "nothing to do" in run("cleanup", "-v", "-m", name).output


@pytest.mark.slow
def test_a_run_of_a_command_appears_in_the_instance_at_dagster_home(module, tmp_path, monkeypatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    name = module("events")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert run("compact", "-m", name).exit_code == 0
    with dg.DagsterInstance.from_config(str(home)) as instance:
        (found,) = instance.get_runs()
        assert (found.job_name, found.status) == ("events__compact", dg.DagsterRunStatus.SUCCESS)
        assert found.tags["lance/dataset"] == "events"
        observed = instance.fetch_observations(dg.AssetKey("events"), limit=5).records
    assert len(observed) == 1


PROGRAM = """
import json, sys
from click.testing import CliRunner
from lance_pipelines.cli import main
done = CliRunner().invoke(main, sys.argv[1:])
heavy = [name for name in ("dagster", "pyspark", "pyarrow", "lance_core") if name in sys.modules]
print(json.dumps([done.exit_code, done.output, heavy]))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["compact", "--help"], ["delete-rows", "-h"]])
def test_the_help_command_loads_neither_dagster_nor_spark(arguments) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    exit_code, output, heavy = json.loads(done.stdout)
    assert (exit_code, heavy) == (0, [])
    assert output.startswith("Usage: ")


def test_the_demo_command_has_its_own_help() -> None:
    assert "demo" in run("--help").output
    done = run("demo", "--help")
    assert done.exit_code == 0
    assert "Usage: lance-pipelines demo" in done.output


def test_running_lance_pipelines_as_a_module_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lance_pipelines", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("lance-pipelines, version ")


def test_a_command_without_dagster_home_uses_an_ephemeral_instance(monkeypatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with command_runs._instance() as instance:
        assert instance.is_ephemeral


def test_a_module_in_the_working_directory_is_found(monkeypatch, tmp_path) -> None:
    (tmp_path / "declared_here.py").write_text("import dagster as dg\n\ndefinitions = dg.Definitions()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    assert isinstance(command_runs._load("declared_here"), dg.Definitions)
