"""The example of a deployment: its files fit together, and its services work with PostgreSQL and an S3 server.

The services are started as processes of this machine, with the commands and the variables of ``compose.yaml``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from sqlalchemy import make_url

import lance_core
from lance_pipelines.demo.web_api import WebApi
from tests.support.documentation import examples
from tests.support.postgres_server import postgres_server
from tests.support.s3_servers import free_port, moto_server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "compose"
COMPOSE = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
INGEST = "readings__ingest"
NUM_RUNS = 7
_ACTIVE = ("STARTING", "STARTED")
_SECONDS = 400


def test_the_compose_file_refers_only_to_existing_services_volumes_and_files() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= set(COMPOSE["volumes"])
        for other, needs in service.get("depends_on", {}).items():
            assert needs["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
    for service in OURS.values():
        context = EXAMPLE / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).samefile(EXAMPLE / "Dockerfile")


def test_the_image_copies_files_that_exist_and_installs_known_extras() -> None:
    text = (EXAMPLE / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for name in line.split()[:-1]}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {path.name for path in EXAMPLE.iterdir() if path.is_file()} - {Path(name).name for name in copied} == {
        "Dockerfile",
        "compose.yaml",
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r'"\.\[(.*?)\]"', text)
    assert set(installed.split(",")) <= set(extras)


def test_the_example_instance_has_the_settings_of_the_project_except_for_storage_and_queue() -> None:
    ours = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    example = yaml.safe_load((EXAMPLE / "dagster.yaml").read_text())
    for name in ("run_monitoring", "run_retries", "retention", "telemetry"):
        assert example[name] == ours[name]
    assert example["concurrency"]["pools"] == ours["concurrency"]["pools"]


def test_the_definitions_in_the_guide_load() -> None:
    (text,) = examples("docs/guides/run-it.md")
    namespace: dict[str, Any] = {}
    exec(compile(text, "guide", "exec"), namespace)
    dg.Definitions.validate_loadable(namespace["defs"])


class Stack:
    """The services of the example that are built from this project."""

    def __init__(self, directory: Path, variables: dict[str, str]) -> None:
        self._directory = directory
        self._ports = {"4000": variables["LAKE_CODE_PORT"], "3000": str(free_port())}
        programs = str(Path(sys.executable).parent)
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("DAGSTER", "LANCE_", "AWS_"))}
        self.environment = {
            **kept,
            **_interpolated(OURS["code"]["environment"]),
            "DAGSTER_HOME": str(directory / "home"),
            "PATH": os.pathsep.join([programs, kept["PATH"]]),
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        self.web = WebApi(f"http://127.0.0.1:{self._ports['3000']}", "lake")

    def command(self, words: list[str]) -> list[str]:
        """Return a command with addresses of this machine."""
        return [{"0.0.0.0": "127.0.0.1", **self._ports}.get(word, word) for word in words]

    def run(self, words: list[str]) -> int:
        """Run a command to its end, and return its exit code."""
        return subprocess.run(self.command(words), cwd=self._directory, env=self.environment, check=False).returncode

    @contextmanager
    def started(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a service, and stop it and its children in the end."""
        with (self._directory / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                self.command(OURS[service]["command"]),
                cwd=self._directory,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def logs(self) -> str:
        """Return the ends of the logs of all services."""
        return "\n".join(path.read_text()[-3000:] for path in self._directory.glob("*.log"))

    def wait_until(self, condition: Any, what: str) -> None:
        """Poll until a condition holds."""
        deadline = time.monotonic() + _SECONDS
        while True:
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if condition():
                    return
            assert time.monotonic() < deadline, f"{what}\n{self.logs()}"
            time.sleep(0.5)


def _interpolated(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables of a service with the defaults of ``${NAME:-default}``."""
    return {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text) for name, text in variables.items()}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("compose")
    (directory / "home").mkdir()
    shutil.copy(EXAMPLE / "dagster.yaml", directory / "home")
    for name in ("workspace.yaml", "lake.py", "create_bucket.py"):
        shutil.copy(EXAMPLE / name, directory)
    with postgres_server() as url, moto_server() as s3:
        database = make_url(url)
        variables = {
            "DAGSTER_POSTGRES_HOST": database.host,
            "DAGSTER_POSTGRES_PORT": str(database.port),
            "DAGSTER_POSTGRES_USER": database.username,
            "DAGSTER_POSTGRES_PASSWORD": database.password,
            "DAGSTER_POSTGRES_DB": database.database,
            "LAKE_CODE_HOST": "127.0.0.1",
            "LAKE_CODE_PORT": str(free_port()),
            "AWS_ENDPOINT": s3.endpoint,
        }
        yield Stack(directory, variables)


@pytest.mark.slow
def test_the_example_services_queue_runs_and_store_them_in_postgresql(stack, monkeypatch) -> None:
    for _ in range(2):
        assert stack.run(OURS["bucket"]["command"]) == 0, "the command can be repeated"
    with ExitStack() as services:
        services.enter_context(stack.started("code"))
        health = OURS["code"]["healthcheck"]["test"][1:]
        stack.wait_until(lambda: stack.run(health) == 0, "the code server does not start")
        for name in ("webserver", "daemon"):
            services.enter_context(stack.started(name))
        stack.wait_until(stack.web.is_loaded, "the code location does not load")
        stack.wait_until(
            lambda: stack.run(OURS["daemon"]["healthcheck"]["test"][1:]) == 0, "the daemon does not report that it runs"
        )
        runs = {stack.web.launch(INGEST, {})}
        stack.wait_until(lambda: _all_succeeded(stack, runs), "the first run does not end")
        runs |= {stack.web.launch(INGEST, {}) for _ in range(NUM_RUNS - 1)}
        stack.wait_until(lambda: _all_succeeded(stack, runs), "the queued runs do not end")

    options = {name.lower(): text for name, text in stack.environment.items() if name.startswith("AWS_")}
    assert lance_core.dataset("s3://lake/readings.lance", storage_options=options).count_rows() == 100 * NUM_RUNS
    for name, text in stack.environment.items():
        monkeypatch.setenv(name, text)
    with dg.DagsterInstance.get() as instance:
        assert type(instance.get_ref().storage).__name__ == "DagsterPostgresStorage"
        records = instance.get_run_records(dg.RunsFilter(job_name=INGEST))
        assert {record.dagster_run.run_id for record in records} >= runs
        for run_id in runs:
            kinds = [entry.dagster_event.event_type_value for entry in instance.all_logs(run_id) if entry.dagster_event]
            assert kinds.index("PIPELINE_ENQUEUED") < kinds.index("PIPELINE_STARTING") < kinds.index("PIPELINE_SUCCESS")


def _all_succeeded(stack: Stack, expected: set[str]) -> bool:
    """Return whether the expected runs succeeded; no more may be active than the instance allows."""
    limit = yaml.safe_load((EXAMPLE / "dagster.yaml").read_text())["concurrency"]["runs"]["max_concurrent_runs"]
    runs = {run["runId"]: run["status"] for run in stack.web.runs()}
    assert not {"FAILURE", "CANCELED"} & set(runs.values()), stack.logs()
    assert sum(status in _ACTIVE for status in runs.values()) <= limit
    return all(runs.get(run_id) == "SUCCESS" for run_id in expected)
