"""Copies of a table on disk, and handles on the copies whose calls all go through a faulty store."""

import shutil
from pathlib import Path

from lance_core import LanceDataset
from lance_core.table.version_log import VersionLog
from tests.support.faulty_store import FaultyStore


def fresh(source: Path) -> Path:
    """Return a new copy of the table, which replaces the previous copy."""
    copy = source.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    return copy


def through(store: FaultyStore, root: Path) -> LanceDataset:
    """Return a handle on the latest version; only subsequent calls are recorded."""
    log = VersionLog(store, str(root))
    dataset = LanceDataset.from_manifest(str(root), log, log.read(log.latest()), None)
    store.calls.clear()
    return dataset
