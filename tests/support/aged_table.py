"""AgedTable: a table of pylance whose versions and files can be given any age.

Each step runs one action, and makes what it left look as old as the test wants: the time in new manifests and the
modification time of all new files.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import parse_manifest_name

DAY = 86_400
ROWS = pa.table({"a": range(20), "b": [f"row {i}" for i in range(20)]})


class AgedTable:
    """A table below a directory, with a copy for resetting the table."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = time.time()
        self._known: set[str] = set()

    @property
    def uri(self) -> str:
        return str(self.root)

    def step(self, days_ago: float, action: Callable[["AgedTable"], object]) -> None:
        """Run an action as if so many days ago."""
        action(self)
        moment = self.now - days_ago * DAY
        for path in sorted(self.files() - self._known):
            if parse_manifest_name(Path(path).name) is not None and "_versions/" in path:
                _set_timestamp(self.root / path, moment)
            os.utime(self.root / path, (moment - 1, moment - 1))
        self._known = self.files()

    def put(self, path: str, days_ago: float, data: bytes = b"strange") -> None:
        """Create a file of this age."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        moment = self.now - days_ago * DAY
        os.utime(target, (moment, moment))
        self._known = self.files()

    def files(self) -> set[str]:
        """Return all files, relative to the root."""
        return files_below(self.root)

    def save(self) -> None:
        """Copy the table."""
        shutil.copytree(self.root, self._copy, copy_function=shutil.copy2)

    def go_back(self) -> None:
        """Reset the table to the copy at the same location, because branches record the path of their source."""
        shutil.rmtree(self.root)
        shutil.copytree(self._copy, self.root, copy_function=shutil.copy2)

    @property
    def _copy(self) -> Path:
        return self.root.with_name(f"{self.root.name}-copy")


def files_below(root: Path) -> set[str]:
    """Return all files below a directory, relative to the directory."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def directories_below(root: Path) -> set[str]:
    """Return all directories below a directory, relative to the directory."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


def create(table: AgedTable) -> None:
    lance.write_dataset(ROWS, table.uri, max_rows_per_file=10)


def append(table: AgedTable) -> None:
    lance.write_dataset(ROWS, table.uri, mode="append")


def overwrite(table: AgedTable) -> None:
    lance.write_dataset(ROWS, table.uri, mode="overwrite")


def delete(table: AgedTable) -> None:
    lance.dataset(table.uri).delete("a % 3 = 1")


def compact(table: AgedTable) -> None:
    lance.dataset(table.uri).optimize.compact_files(materialize_deletions_threshold=0.0)


def index(table: AgedTable) -> None:
    lance.dataset(table.uri).create_scalar_index("a", "BTREE", replace=True)


def restore(version: int) -> Callable[[AgedTable], None]:
    return lambda table: lance.dataset(table.uri, version=version).restore()


def tag(name: str, version: int) -> Callable[[AgedTable], None]:
    return lambda table: lance.dataset(table.uri).tags.create(name, version)


def branch(name: str, version: int, *, of: str | None = None) -> Callable[[AgedTable], None]:
    def action(table: AgedTable) -> None:
        lance.dataset(table.uri).create_branch(name, (of, version))

    return action


def on_branch(name: str, action: Callable[[lance.LanceDataset], object]) -> Callable[[AgedTable], None]:
    return lambda table: action(lance.dataset(table.uri).checkout_version((name, None)))


def _set_timestamp(path: Path, moment: float) -> None:
    file = parse_manifest_file(path.read_bytes(), str(path))
    file.message.timestamp.seconds = int(moment)
    file.message.timestamp.nanos = 0
    path.write_bytes(
        serialize_manifest_file(file.message, index_section=file.index_section, transaction=file.transaction)
    )
