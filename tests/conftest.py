"""Settings for all tests: which tests run by default, their order, a time limit, and separate signal handlers."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.support.s3_servers import S3Server, create_manifest_table, moto_server
from tests.support.sampling import mark_all_but_samples
from tests.support.signal_handlers import own_signal_handlers

# Random cases must not fail because other processes take the machine's time.
settings.register_profile("lance", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lance")

LIMITS_SECONDS = {"slow": 1800, "exhaustive": 3600, "soak": 7200}
"""Marker -> time limit; of several the longest holds. Tests without one of these have the limit of pyproject.toml."""

LONGEST_FIRST = ("spark", "dagster", "fault", "interop", "property", "golden", "unit", "contracts")
"""The folders in the order in which their files are handed out, so that no worker is left with a long one."""


# Compile modules and rewrite asserts once, and not in every run and in every process that a test starts, even
# if Python is configured not to write compiled modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The first session on a machine starts a process that records classes; tests of that process start their own.
os.environ["LANCE_SPARK_CLASS_ARCHIVE"] = "0"


class _FilesAndOneSpark(LoadFileScheduling):
    """Run each file in one worker, and all files that share a Spark session in the same worker."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/spark" if nodeid.startswith("tests/spark/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return _FilesAndOneSpark(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots", metavar="DIRECTORY", help="where the walk through the web interface keeps pictures"
    )


# Before the markers determine which tests run.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_all_but_samples(items)
    for item in items:
        limits = [seconds for name, seconds in LIMITS_SECONDS.items() if item.get_closest_marker(name)]
        if limits and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(limits)))
    root = config.rootpath / "tests"
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.relative_to(root).parts[0]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Disable garbage collection during test collection, and exclude its objects from later garbage collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _writes_need_not_reach_the_disk() -> Iterator[None]:
    """Skip syncs, because tests of power losses only record the calls; processes that tests start do sync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _servers_can_be_interrupted() -> Iterator[None]:
    """Let servers shared by several tests end on SIGINT, regardless of how the tests were started."""
    with own_signal_handlers():
        yield


@pytest.fixture(autouse=True)
def _own_signal_handlers() -> Iterator[None]:
    with own_signal_handlers():
        yield


@pytest.fixture(scope="session")
def _moto() -> Iterator[S3Server]:
    with moto_server() as running:
        yield running


@pytest.fixture(scope="module")
def server(_moto: S3Server) -> S3Server:
    """An S3 server with a bucket for each file and, for versions in DynamoDB, a table of the same name."""
    server = _moto.with_new_bucket()
    create_manifest_table(server, server.bucket)
    return server


@pytest.fixture
def overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make both libraries write data overlays, which they do only on request."""
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A dataset location on local disk that does not exist yet."""
    return str(tmp_path / "table")
