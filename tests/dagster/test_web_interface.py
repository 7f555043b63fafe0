"""``dagster dev``: launch the job as the launchpad does, follow the run, and look at the asset in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import lance_core
from tests.support.dev_server import DEADLINE_SECONDS, DevServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.ui,
    pytest.mark.spark,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
]

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


def test_a_run_launched_from_the_web_interface_shows_its_version(web_server, run_config, ten_rows, tmp_path) -> None:
    uri = str(tmp_path / "lake" / "events.lance")
    config = yaml.safe_load(run_config({"source": ten_rows, "uri": uri}).read_text())
    for version in (1, 2):
        run_id = web_server.launch("ingest", config)
        assert web_server.wait_for_run(run_id) == "SUCCESS"
        assert lance_core.dataset(uri).version == version

    newest, first = materializations(web_server)
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
