"""Copies of a table on disk, and handles on them whose every call goes through a faulty store."""

import shutil
from pathlib import Path

from lance_core import LanceDataset
from lance_core.table.version_log import VersionLog
from tests.support.faulty_store import FaultyStore


def fresh(source: Path) -> Path:
    """A copy of the table, in place of the last one."""
    copy = source.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    return copy


def through(store: FaultyStore, root: Path) -> LanceDataset:
    """A handle on the latest version; only the calls that follow are recorded."""
    log = VersionLog(store, str(root))
    dataset = LanceDataset.from_manifest(str(root), log, log.read(log.latest()), None)
    store.calls.clear()
    return dataset
