"""Definitions whose write step stages rows without Spark, and the command line in a separate directory."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import dagster as dg
import pyarrow as pa
import pytest
import sqlalchemy
import yaml
from alembic.config import Config
from alembic.script import ScriptDirectory

import lance_core
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.ingest.write_plan import plan_write
from lance_pipelines.jobs import request_config
from lance_pipelines.ops import failures as failures_module
from lance_pipelines.ops import write_fragments as write_module
from lance_pipelines.spark.staging import Staging
from tests.support.dev_server import DevServer, dev_server
from tests.support.no_spark import NoSpark
from tests.support.staged_writes import staged_write

REPOSITORY = Path(__file__).parents[2]
INGEST = "installed_files__ingest"


@dataclass
class Project:
    """Definitions of one dataset named ``events``, and the tables that its source will return."""

    uri: str
    rows: list[pa.Table]
    declarations: list[DatasetDeclaration] = field(default_factory=list)

    def definitions(self, **arguments: Any) -> dg.Definitions:
        """The dataset's definitions, with other definitions of a project."""
        return dg.Definitions.merge(
            build_definitions([self.declaration()], spark=NoSpark()), dg.Definitions(**arguments)
        )

    def declaration(self) -> DatasetDeclaration:
        return DatasetDeclaration(
            key="events", uri=self.uri, source=FileSource(format=SourceFormat.ENVIRONMENT), description="Test rows."
        )

    def run(self, instance: dg.DagsterInstance, config: Mapping[str, Any] | None = None) -> dg.ExecuteInProcessResult:
        job = self.definitions().resolve_job_def("events__ingest")
        return job.execute_in_process(
            run_config={"ops": {"events": {"config": dict(config or {})}}}, instance=instance, raise_on_error=False
        )

    def stage(
        self,
        declaration: DatasetDeclaration,
        session: object,
        *,
        captured_at,
        run_id,
        step_key,
        partitions=(),
        open_asset=None,
    ) -> Staging:
        """Replaces ``stage_write``: stages the next table instead of the rows of a source, without Spark."""
        self.declarations.append(declaration)
        rows = self.rows.pop(0)
        plan = plan_write(declaration)
        token = secrets.token_hex(8)
        mode = "overwrite" if plan.schema is None else "append"
        fragments = lance_core.write_fragments(
            rows,
            declaration.uri,
            mode=mode,
            file_token=token,
            storage_options=declaration.resolved_storage_options(),
        )
        staged = staged_write(
            fragments,
            rows,
            token,
            dataset=declaration.name,
            uri=declaration.uri,
            mode=declaration.mode,
            read_version=plan.read_version,
            read_transaction=plan.read_transaction,
            schema=plan.schema or rows.schema,
            run_id=run_id,
            step_key=step_key,
        )
        return Staging(staged=staged, num_tasks=1)


@pytest.fixture(autouse=True, scope="session")
def _revisions_are_loaded_once() -> Iterator[None]:
    """Load the database revisions once, because each new instance looks them up by importing a hundred modules."""
    loaded: dict[str | None, ScriptDirectory] = {}
    load = ScriptDirectory.from_config

    def load_once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        return loaded.get(place) or loaded.setdefault(place, load(config))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", load_once)
        yield


@pytest.fixture(autouse=True, scope="session")
def _databases_need_not_reach_the_disk() -> Iterator[None]:
    """Instances of this process keep their SQLite databases without waiting for the disk."""

    def do_not_wait(connection: Any, record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF").close()

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", do_not_wait)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", do_not_wait)


@pytest.fixture(autouse=True)
def _no_failures() -> Iterator[None]:
    """Discard the messages of failed steps, which would be printed when the test process exits."""
    yield
    failures_module._failures.clear()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(str(tmp_path / "lake" / "events.lance"), [pa.table({"id": [1, 2, 3]}), pa.table({"id": [4]})])
    monkeypatch.setattr(write_module, "stage_write", project.stage)
    return project


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


_LIMITED = """
import resource, runpy, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
runpy.run_module("dagster", run_name="__main__", alter_sys=True)
"""

_MANY_PROCESSES = """
import dagster as dg
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration

defs = dg.Definitions.merge(
    build_definitions([DatasetDeclaration(key="events", uri={uri!r})]),
    dg.Definitions(executor=dg.multiprocess_executor),
)
"""


@dataclass
class CommandLine:
    """Starts ``dagster`` in a separate directory, as a user does."""

    directory: Path
    environment: dict[str, str]

    def start(
        self, *arguments: str, max_file_bytes: int | None = None, output: IO[str] | int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start ``dagster`` in a separate process group, optionally with a limit on the size of files."""
        program = ["-m", "dagster"] if max_file_bytes is None else ["-c", _LIMITED, str(max_file_bytes)]
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            cwd=self.directory,
            env=self.environment,
            text=True,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def start_ingest(self, config: Path | None = None, **limits: int) -> subprocess.Popen[str]:
        """Start the project's own ingest job."""
        chosen = [] if config is None else ["-c", str(config)]
        return self.start("job", "execute", "-m", "lance_pipelines.definitions", "-j", INGEST, *chosen, **limits)

    def ingest(self, config: Path | None = None, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the project's own ingest job to its end."""
        return _completed(self.start_ingest(config), timeout)

    def cleanup_in_processes(self, uri: str, **config: Any) -> subprocess.CompletedProcess[str]:
        """Run the cleanup job of a dataset named ``events``, with a process for each step."""
        (self.directory / "many_processes.py").write_text(_MANY_PROCESSES.format(uri=uri))
        run_config = self.directory / "run.yaml"
        run_config.write_text(json.dumps(request_config("cleanup", **config)))
        job = ("-m", "many_processes", "-j", "events__cleanup", "-c", str(run_config))
        return _completed(self.start("job", "execute", *job), timeout=300)


def _completed(process: subprocess.Popen[str], timeout: float) -> subprocess.CompletedProcess[str]:
    stdout, stderr = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _command_line(directory: Path, home: Path | None, **variables: str) -> CommandLine:
    directory.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "LANCE_"))}
    environment |= {"PYTHONPATH": str(REPOSITORY), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    environment |= {"LANCE_SPARK_CLASS_ARCHIVE": "0", **variables}
    if home is not None:
        home.mkdir(exist_ok=True)
        (home / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
        environment["DAGSTER_HOME"] = str(home)
    return CommandLine(directory, environment)


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CommandLine]:
    """Creates a command line; without ``home``, DAGSTER_HOME is not set, as on a new machine."""

    def make(home: Path | None = None, **variables: str) -> CommandLine:
        if home is not None:
            # The file refers to the variable, which must also be set when a test opens the instance itself.
            monkeypatch.setenv("DAGSTER_HOME", str(home))
        return _command_line(tmp_path / "work", home, **variables)

    return make


@pytest.fixture(scope="module")
def server_command_line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line with the directory and the instance of the web server."""
    directory = tmp_path_factory.mktemp("server")
    dagster = _command_line(directory / "work", directory / "home")
    shutil.copy(REPOSITORY / "workspace.yaml", dagster.directory)
    return dagster


@pytest.fixture(scope="module")
def web_server(server_command_line: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One ``dagster dev`` for all tests in a file, started as in the README with the project's ``workspace.yaml``."""
    log = tmp_path_factory.mktemp("log") / "dagster-dev.log"
    with dev_server(server_command_line.start, log, location="lance_pipelines.definitions") as server:
        yield server


FAST_SESSION = {"spark.master": "local[2,2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Settings under which a session for a few rows starts soonest."""


@pytest.fixture
def run_config(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run configuration for the project's own ingest job."""

    def make(config: Mapping[str, Any], name: str = "run.yaml") -> Path:
        document = {
            "ops": {"installed_files": {"config": dict(config)}},
            "resources": {"lance_spark": {"config": {"spark_config": FAST_SESSION}}},
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(document))
        return path

    return make


@pytest.fixture
def ten_rows(tmp_path: Path) -> dict[str, Any]:
    """A source of ten rows in two CSV files."""
    directory = tmp_path / "in"
    directory.mkdir()
    for part in range(2):
        lines = "".join(f"{number},row {number}\n" for number in range(5 * part, 5 * part + 5))
        (directory / f"part-{part}.csv").write_text(f"id,name\n{lines}")
    options = {"header": "true"}
    return {"format": "csv", "paths": [str(directory)], "options": options, "schema": "id BIGINT, name STRING"}
