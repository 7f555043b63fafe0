"""A walk through the web interface of a project with some history, in a real browser.

Each test checks the text on a page and takes a screenshot. The screenshots in ``docs/guides/ui.md`` are taken with
``--screenshots docs/images``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lance_core
from tests.support import showcase
from tests.support.dev_server import DEADLINE_SECONDS, DevServer, dev_server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ui,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (Debian: apt-get install chromium)"),
]

LOCATION = "tests.support.showcase"
WIDTH, HEIGHT = 1200, 720
PAGE_SECONDS = 120

EVENTS = """
query Events($path: [String!]!) { assetOrError(assetKey: {path: $path}) { ... on Asset {
  assetMaterializations { timestamp tags { key value } }
  assetObservations { timestamp description runId } } } }
"""


class Walk:
    """A browser on a server, which takes screenshots.

    Args:
        server: the server.
        page: the browser's page.
        warehouse: the directory of the datasets.
        pictures: the directory of the pictures.
    """

    def __init__(self, server: DevServer, page: Any, warehouse: Path, pictures: Path) -> None:
        self.server = server
        self.page = page
        self.warehouse = warehouse
        self._pictures = pictures

    def visit(self, path: str, *expected: str, height: int = HEIGHT) -> None:
        """Open a page, and wait until it shows some texts."""
        self.page.set_viewport_size({"width": WIDTH, "height": height})
        self.page.goto(self.server.url + path)
        self.wait_for(*expected)

    def wait_for(self, *texts: str) -> None:
        for text in texts:
            self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def picture(self, name: str) -> None:
        """Take a screenshot, whose size does not depend on the content."""
        # Wait until late content is loaded and animations have ended.
        self.page.wait_for_load_state("networkidle")
        path = self._pictures / f"{name}.png"
        self.page.mouse.move(0, 0)
        self.page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size < 150_000

    def lines(self) -> list[str]:
        """The visible texts, in order."""
        return [line.strip() for line in self.page.inner_text("body").splitlines() if line.strip()]

    def value(self, key: str) -> str:
        """The value of a metadata entry."""
        lines = self.lines()
        return lines[lines.index(key) + 1]

    def events(self, *path: str) -> dict[str, Any]:
        return self.server.query(EVENTS, path=list(path))["assetOrError"]

    def time_of(self, version: int, *path: str) -> str:
        """Return the time of a version's materialization, with which the asset page is opened at this event."""
        for event in self.events(*path)["assetMaterializations"]:
            if {"key": "lance/version", "value": str(version)} in event["tags"]:
                return event["timestamp"]
        raise AssertionError(f"version {version} of {path} has no materialization")


@pytest.fixture(scope="module")
def walk(server_command_line, tmp_path_factory: pytest.TempPathFactory, pytestconfig) -> Iterator[Walk]:
    """The showcase with its history, its server, and a browser."""
    chosen = pytestconfig.getoption("--screenshots")
    pictures = Path(chosen).resolve() if chosen else tmp_path_factory.mktemp("pictures")
    pictures.mkdir(exist_ok=True)
    log = tmp_path_factory.mktemp("log") / "dagster-dev.log"
    # A short path, because pictures show it.
    with tempfile.TemporaryDirectory(prefix="bikes-") as directory:
        server_command_line.environment["LANCE_PIPELINES_WAREHOUSE"] = directory
        subprocess.run(
            [sys.executable, "-m", showcase.__name__],
            env=server_command_line.environment,
            check=True,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
        )
        with (
            dev_server(server_command_line.start, log, "-m", LOCATION, location=LOCATION) as server,
            playwright.sync_playwright() as driver,
        ):
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(locale="en-US", timezone_id="UTC", reduced_motion="reduce")
            page.set_default_timeout(PAGE_SECONDS * 1000)
            yield Walk(server, page, Path(directory), pictures)
            browser.close()


def test_the_catalog_lists_datasets_with_kinds_groups_and_descriptions(walk: Walk) -> None:
    walk.visit("/assets", "reports / revenue", "14 partitions", height=480)
    walk.picture("catalog")
    lines = walk.lines()
    for name, description in (
        ("lake / app-events", "What the app reports, in small batches."),
        ("lake / stations", "All stations, with the number of their docks."),
        ("lake / trips", "One row per trip. A run replaces the trips of its days."),
        ("reports / revenue", "Revenue of each station, and per dock."),
    ):
        assert description in lines[lines.index(name) :][:5]
    # These, the maintenance of each of the three datasets, and the fleet.
    assert lines.count("lance") == 8


def test_the_graph_of_a_group_shows_kinds_checks_and_downstream_assets(walk: Walk) -> None:
    walk.visit(f"/locations/{LOCATION}/asset-groups/lake/lineage", "8 / 8 Passed", "71% filled", height=880)
    walk.picture("graph")
    lines = walk.lines()
    assert {"app-events", "stations", "trips", "revenue", "14 partitions"} <= set(lines)
    assert lines.count("lance") == 3
    assert {"Spark", "Python"} <= set(lines)


def test_the_overview_of_a_dataset_shows_its_declaration_and_columns(walk: Walk) -> None:
    walk.visit("/assets/lake/app-events", "Time until the server answered", "Row count", "Latest check results")
    walk.picture("overview")
    lines = walk.lines()
    definition = lines[lines.index("Definition") :]
    assert definition[definition.index("Owners") + 1] == "app"
    assert definition[definition.index("Group") + 1] == "lake"
    assert "domain: app" in definition
    assert f"{walk.warehouse}/lake/app-events.lance" in definition
    assert "lake__app_events__ingest" in definition


def test_a_materialization_shows_what_was_committed(walk: Walk) -> None:
    time = walk.time_of(9, "lake", "app-events")
    walk.visit(f"/assets/lake/app-events?view=events&time={time}", "append: +250 rows, v9", height=1200)
    walk.picture("materialization")
    assert walk.value("lance/version") == "9"
    assert walk.value("dagster/row_count") == "1250"
    assert walk.value("lance/fragments") == "3"
    assert walk.value("lance/rows_written") == "250"
    text = "\n".join(walk.lines())
    assert re.search(r"latency_ms\s+double\s+Time until the server answered", text)
    # Identifiers of commits and digests are shown only in the last entry.
    read, _, details = text.partition("lance/details")
    assert '"transaction":' in details
    assert not re.search(r"[0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f]{4}-", read)


def test_the_health_card_grades_the_version_and_shows_which_maintenance_is_due(walk: Walk) -> None:
    walk.visit(
        "/assets/lake/app-events?view=events", "append by another program", "Reported", "B · version 10", height=1000
    )
    walk.picture("health-card")
    text = " ".join(walk.lines())
    assert "4 small fragments >= 4" in text
    assert "compact: merge 4 fragments" in text


def test_the_fragments_are_drawn_as_an_image(walk: Walk) -> None:
    walk.visit("/assets/lake/app-events?view=events", "append by another program", "Largest fragments")
    walk.page.get_by_text("lance/fragment_chart").first.evaluate("entry => entry.scrollIntoView()")
    walk.picture("fragment-chart")
    assert walk.page.get_by_alt_text("rows per fragment").evaluate("image => image.naturalWidth") == 420


def test_metrics_of_the_versions_are_plotted(walk: Walk) -> None:
    walk.visit("/assets/lake/app-events", "Plots")
    walk.page.get_by_text("Plots").first.click()
    walk.page.get_by_text("lance/bytes_total").first.wait_for()
    walk.page.get_by_text("Metadata", exact=True).first.evaluate("heading => heading.scrollIntoView()")
    walk.picture("plots")
    plotted = {line for line in walk.lines() if line.startswith(("lance/", "dagster/"))}
    assert plotted >= {"dagster/row_count", "lance/bytes_total", "lance/fragments", "lance/deletion_ratio"}
    assert walk.page.locator("canvas").count() >= 4


def test_the_checks_page_shows_the_result_of_each_check(walk: Walk) -> None:
    walk.visit("/assets/lake/trips?view=checks&checkDetail=key_unique", "Latest execution", "Passed")
    walk.page.get_by_text("Succeeded").nth(7).wait_for()
    walk.picture("checks")
    lines = walk.lines()
    assert "Checks (8)" in lines
    assert {"rows", "fragments", "deletions", "schema", "key_nulls", "key_unique", "orphans", "verify"} <= set(lines)
    assert lines.count("Succeeded") == 8
    assert "no duplicate keys (trip_id) in 400 rows" in lines


def test_the_partitions_page_shows_which_days_exist_and_what_the_last_run_replaced(walk: Walk) -> None:
    walk.visit("/assets/lake/trips?view=partitions&partition=2026-03-04", "overwrite_partition:", "Missing (4)")
    walk.picture("partitions")
    lines = walk.lines()
    assert {"Materialized (10)", "Missing (4)", "View all historical events (2)"} <= set(lines)
    assert walk.value("lance/summary") == "overwrite_partition: 40 rows written, 40 replaced, v2"
    assert walk.value("dagster/row_count") == "400"


def test_the_launchpad_shows_the_declared_values_and_tags(walk: Walk) -> None:
    walk.visit(f"/locations/{LOCATION}/jobs/lake__stations__ingest/playground", "mode: overwrite")
    playwright.expect(walk.page.get_by_role("button", name="Launch Run")).to_be_enabled(timeout=PAGE_SECONDS * 1000)
    walk.picture("launchpad")
    text = " ".join(walk.lines())
    for declared in (
        "format: csv",
        f"- {walk.warehouse}/landing/stations.csv",
        "schema: station STRING, docks INT",
        f"uri: {walk.warehouse}/lake/stations.lance",
        "lance/dataset: lake__stations",
        "lance/op: ingest",
    ):
        assert declared in text


def test_all_datasets_share_one_sensor_of_each_kind(walk: Walk) -> None:
    walk.visit("/automation", "lance_version_sensor", "Standard sensor", height=1040)
    walk.picture("sensors")
    shown = [line for line in walk.lines() if line.startswith("lance_") and line.endswith("_sensor")]
    kinds = ("cleanup", "compaction", "deletion", "index", "version")
    assert shown == [f"lance_{kind}_sensor" for kind in kinds]


def test_a_launched_cleanup_records_an_observation_that_shows_the_removed_versions(walk: Walk) -> None:
    """Runs last, because the cleanup changes what the other pages show."""
    walk.visit(f"/locations/{LOCATION}/jobs/lake__app_events__cleanup/playground", "retain_versions: 3")
    walk.page.get_by_role("button", name="Launch Run").click()
    walk.page.wait_for_url(re.compile("/runs/"))
    walk.wait_for("Success", "RUN_SUCCESS")
    walk.picture("maintenance-run")
    run_id = walk.page.url.rpartition("/runs/")[2].partition("?")[0]
    assert [version["version"] for version in dataset_of(walk).versions()] == [8, 9, 10]

    event = walk.events("lake", "app-events")["assetObservations"][0]
    assert event["runId"] == run_id
    walk.visit(f"/assets/lake/app-events?view=events&time={event['timestamp']}", event["description"])
    walk.picture("observation")
    assert walk.value("lance/versions_removed") == "7"
    assert walk.value("lance/versions") == "3"

    walk.visit("/runs", run_id[:8])
    walk.picture("runs")
    tags = [line for line in walk.lines() if ": " in line and "/" in line]
    assert tags[:2] == ["lance/dataset: lake__app_events", "lance/op: cleanup"]
    assert not [tag for tag in tags if "process" in tag or "machine" in tag]


def dataset_of(walk: Walk) -> lance_core.LanceDataset:
    return lance_core.dataset(f"{walk.warehouse}/lake/app-events.lance")
