"""``dagster dev``: launch the job as the launchpad does, follow the run, and look at the asset in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import lance_core

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REPOSITORY = Path(__file__).parents[2]
DEADLINE_SECONDS = 300

pytestmark = [
    pytest.mark.ui,
    pytest.mark.spark,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
]

LOCATIONS = """
query { workspaceOrError { ... on Workspace { locationEntries {
  name loadStatus locationOrLoadError { __typename ... on PythonError { message } } } } } }
"""
LAUNCH = """
mutation Launch($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename
  ... on LaunchRunSuccess { run { runId } }
  ... on PythonError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }
"""
RUN = """
query Run($runId: ID!) { runOrError(runId: $runId) { ... on Run { status } } }
"""
MATERIALIZATIONS = """
query { assetOrError(assetKey: {path: ["installed_files"]}) { ... on Asset { assetMaterializations {
  runId
  tags { key value }
  metadataEntries { label
    ... on IntMetadataEntry { intValue }
    ... on TextMetadataEntry { text }
    ... on TableSchemaMetadataEntry { schema { columns { name type constraints { nullable } } } } } } } } }
"""


class WebServer:
    """A running ``dagster dev`` and its GraphQL interface."""

    def __init__(self, url: str, process: subprocess.Popen[str], log: Path) -> None:
        self.url = url
        self._process = process
        self._log = log

    def query(self, query: str, **variables: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if condition():
                    return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"{what}\n{self._log.read_text()[-5000:]}"
            time.sleep(0.5)

    def is_loaded(self) -> bool:
        entries = self.query(LOCATIONS)["workspaceOrError"]["locationEntries"]
        assert all(entry["locationOrLoadError"]["__typename"] != "PythonError" for entry in entries), entries
        return [(entry["name"], entry["loadStatus"]) for entry in entries] == [("lance_pipelines", "LOADED")]

    def launch(self, run_config: dict[str, Any]) -> str:
        selector = {
            "repositoryLocationName": "lance_pipelines",
            "repositoryName": "__repository__",
            "jobName": "ingest",
        }
        params = {"selector": selector, "runConfigData": run_config}
        launched = self.query(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return launched["run"]["runId"]

    def status(self, run_id: str) -> str:
        return self.query(RUN, runId=run_id)["runOrError"]["status"]

    def materializations(self) -> list[dict[str, Any]]:
        return self.query(MATERIALIZATIONS)["assetOrError"]["assetMaterializations"]


@pytest.fixture
def web_server(command_line, tmp_path) -> Iterator[WebServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dagster = command_line(tmp_path / "home")
    shutil.copy(REPOSITORY / "workspace.yaml", dagster.directory)
    log = tmp_path / "dagster-dev.log"
    with log.open("w") as stream:
        process = dagster.start("dev", "-h", "127.0.0.1", "-p", str(port), output=stream)
    server = WebServer(f"http://127.0.0.1:{port}", process, log)
    try:
        server.wait_until(server.is_loaded, "the code location does not load")
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_run_launched_from_the_web_interface_shows_its_version(web_server, run_config, ten_rows, tmp_path) -> None:
    uri = str(tmp_path / "lake" / "events.lance")
    config = yaml.safe_load(run_config({"source": ten_rows, "uri": uri}).read_text())
    for version in (1, 2):
        run_id = web_server.launch(config)
        web_server.wait_until(
            lambda run_id=run_id: web_server.status(run_id) in ("SUCCESS", "FAILURE", "CANCELED"),
            "the run does not end",
        )
        assert web_server.status(run_id) == "SUCCESS"
        assert lance_core.dataset(uri).version == version

    newest, first = web_server.materializations()
    entries = {entry.pop("label"): entry for entry in newest["metadataEntries"]}
    assert newest["runId"] == run_id
    assert entries["lance/version"] == {"intValue": 2}
    assert entries["dagster/row_count"] == {"intValue": 20}
    assert entries["dagster/uri"] == {"text": uri}
    assert entries["dagster/column_schema"]["schema"]["columns"] == [
        {"name": "id", "type": "int64", "constraints": {"nullable": True}},
        {"name": "name", "type": "string", "constraints": {"nullable": True}},
    ]
    tags = [{tag["key"]: tag["value"] for tag in event["tags"]} for event in (newest, first)]
    uuids = [lance_core.dataset(uri).read_transaction(version).uuid for version in (2, 1)]
    assert [tag["dagster/data_version"] for tag in tags] == [f"2-{uuids[0][:8]}", f"1-{uuids[1][:8]}"]

    look_at_the_asset(web_server.url, tmp_path / "asset.png")


def look_at_the_asset(url: str, screenshot: Path) -> None:
    """Open the asset's page in a browser and read what a person reads."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 1400})
        page.set_default_timeout(DEADLINE_SECONDS * 1000)
        page.goto(f"{url}/assets/installed_files?view=events")
        # The first visit may greet with a dialog.
        skip = page.get_by_role("button", name="Skip")
        page.get_by_text("lance/version", exact=True).first.wait_for()
        if skip.count():
            skip.first.click()
        page.screenshot(path=screenshot, full_page=True)
        text = page.inner_text("body")
        browser.close()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[lines.index("lance/version") + 1] == "2"
    assert lines[lines.index("dagster/row_count") + 1] == "20"
    assert screenshot.stat().st_size > 10_000
