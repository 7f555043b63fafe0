"""``dagster dev``: jobs are launched as by the launchpad, assets are viewed in a browser, and guides are followed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import lance_core
from tests.support.dev_server import DEADLINE_SECONDS, DevServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sensors.md").read_text()

MATERIALIZATIONS = """
query { assetOrError(assetKey: {path: ["installed_files"]}) { ... on Asset { assetMaterializations {
  runId
  tags { key value }
  metadataEntries { label
    ... on IntMetadataEntry { intValue }
    ... on TextMetadataEntry { text }
    ... on TableSchemaMetadataEntry { schema { columns { name type constraints { nullable } } } } } } } } }
"""


def materializations(server: DevServer) -> list[dict[str, Any]]:
    return server.query(MATERIALIZATIONS)["assetOrError"]["assetMaterializations"]


@pytest.mark.slow
@pytest.mark.ui
@pytest.mark.spark
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)")
def test_runs_launched_from_the_web_interface_show_their_versions(web_server, run_config, ten_rows, tmp_path) -> None:
    num_runs = 2
    uri = str(tmp_path / "lake" / "events.lance")
    config = yaml.safe_load(run_config({"source": ten_rows, "uri": uri}).read_text())
    run_ids = []
    for version in range(1, num_runs + 1):
        run_ids.insert(0, web_server.launch("installed_files__ingest", config))
        assert web_server.wait_for_run(run_ids[0]) == "SUCCESS"
        assert lance_core.dataset(uri).version == version

    events = materializations(web_server)[:num_runs]
    assert [event["runId"] for event in events] == run_ids
    entries = {entry.pop("label"): entry for entry in events[0]["metadataEntries"]}
    assert entries["lance/version"] == {"intValue": num_runs}
    assert entries["dagster/row_count"] == {"intValue": 10 * num_runs}
    assert entries["dagster/uri"] == {"text": uri}
    assert entries["dagster/column_schema"]["schema"]["columns"] == [
        {"name": "id", "type": "int64", "constraints": {"nullable": True}},
        {"name": "name", "type": "string", "constraints": {"nullable": True}},
    ]
    tags = [{tag["key"]: tag["value"] for tag in event["tags"]} for event in events]
    versions = range(num_runs, 0, -1)
    uuids = [lance_core.dataset(uri).read_transaction(version).uuid for version in versions]
    assert [tag["dagster/data_version"] for tag in tags] == [
        f"{version}-{uuid[:8]}" for version, uuid in zip(versions, uuids, strict=True)
    ]

    look_at_the_asset(web_server.url, tmp_path / "asset.png", version=num_runs, num_rows=10 * num_runs)


def look_at_the_asset(url: str, screenshot: Path, *, version: int, num_rows: int) -> None:
    """Open the asset's page in a browser and return the visible text."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1600, "height": 1400})
        page.set_default_timeout(DEADLINE_SECONDS * 1000)
        page.goto(f"{url}/assets/installed_files?view=events")
        # The first visit may show a welcome dialog.
        skip = page.get_by_role("button", name="Skip")
        page.get_by_text("lance/version", exact=True).first.wait_for()
        if skip.count():
            skip.first.click()
        page.screenshot(path=screenshot, full_page=True)
        text = page.inner_text("body")
        # The card of a small dataset is shown immediately, and that of a larger dataset behind "[Show Markdown]".
        chart = page.get_by_role("img", name="rows per fragment")
        chart.wait_for()
        assert chart.evaluate("image => image.naturalWidth") == 420
        assert f"A · version {version}" in page.inner_text("body")
        browser.close()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[lines.index("lance/summary") + 1].endswith(f"rows, v{version}")
    assert lines[lines.index("lance/version") + 1] == str(version)
    assert lines[lines.index("dagster/row_count") + 1] == str(num_rows)
    assert screenshot.stat().st_size > 10_000


@pytest.mark.slow
def test_the_command_in_the_guide_switches_on_the_sensor_of_the_running_server(web_server, server_command_line) -> None:
    """A sensor's state is stored under the name of its code location."""
    (command,) = re.findall(r"`dagster (sensor start .*?)`", GUIDE)
    *_, sensor = shlex.split(command)
    before = web_server.sensors()
    assert before[sensor] == "STOPPED"
    process = server_command_line.start(*shlex.split(command))
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert web_server.sensors() == before | {sensor: "RUNNING"}
