"""Small tables in memory whose metadata is damaged, and the permitted outcomes of using them.

Whatever the bytes of a manifest, a deletion file or a ref, opening and reading ends with a table that Arrow finds
valid, or with a ``LanceError``: no other exception, no hang, and no memory that the files do not justify.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_core.api.dataset import LanceDataset
from lance_core.errors import CorruptDataError, LanceError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming, manifest_name
from lance_core.table.version_log import VersionLog
from tests.support.hostile import bounded_memory, time_limit

ROOT = "table"
ROWS = pa.table({"a": pa.array(range(6), pa.int64()), "s": [None, "b", "c", "d", "e", "f"]})


@dataclass(frozen=True)
class SmallTable:
    """A table in memory: two fragments, deleted rows, an index, config, metadata, a tag.

    Attributes:
        store: its files.
        version: the latest version.
        rows: what the intact table holds.
    """

    store: MemoryStore
    version: int
    rows: pa.Table

    @property
    def manifest_path(self) -> str:
        """Return the path of the latest manifest."""
        return f"{ROOT}/_versions/{manifest_name(self.version)}"

    @property
    def manifest_bytes(self) -> bytes:
        """Return the content of the latest manifest."""
        return bytes(self.store.get(self.manifest_path))

    @property
    def log(self) -> VersionLog:
        """Return the version log."""
        return VersionLog(self.store, ROOT)

    def open(self, version: int | None = None) -> LanceDataset:
        """Return a handle on the table."""
        manifest = self.log.read(ManifestName(self.version if version is None else version, ManifestNaming.V2))
        return LanceDataset.from_manifest("memory://nowhere/table", self.log, manifest, None)

    def with_manifest(self, data: bytes) -> SmallTable:
        """Return the table with another manifest for the latest version; the other files are shared."""
        store = MemoryStore()
        for info in self.store.list_recursive(ROOT):
            store.put(info.path, bytes(self.store.get(info.path)))
        store.put(self.manifest_path, data)
        return SmallTable(store, self.version, self.rows)

    def with_changes(self, change: Callable[[pb_table.Manifest], object]) -> SmallTable:
        """Return the table with a change to the message of the latest manifest."""
        file = parse_manifest_file(self.manifest_bytes, "m")
        message = pb_table.Manifest()
        message.CopyFrom(file.message)
        change(message)
        data = serialize_manifest_file(message, index_section=file.index_section, transaction=file.transaction)
        return self.with_manifest(data)


def small_table(directory: Path, **options: Any) -> SmallTable:
    """Return a table written by pylance and loaded into memory."""
    uri = str(directory / "small")
    lance.write_dataset(ROWS, uri, max_rows_per_file=3, **options)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.update_config({"key": "value"})
    dataset.update_metadata({"table": "metadata"})
    dataset.delete("a = 4")
    dataset.tags.create("here", 2)
    return taken_into_memory(Path(uri))


def taken_into_memory(directory: Path) -> SmallTable:
    """Load a table on disk into memory."""
    store = MemoryStore()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            store.put(f"{ROOT}/{path.relative_to(directory)}", path.read_bytes())
    latest = VersionLog(store, ROOT).latest()
    assert latest is not None
    return SmallTable(store, latest.version, lance.dataset(str(directory)).to_table())


def use(dataset: LanceDataset) -> pa.Table:
    """Call every reading method of a handle."""
    dataset.get_version()
    dataset.config()
    repr((dataset, dataset.metadata, dataset.schema_metadata, dataset.max_field_id, dataset.has_stable_row_ids))
    repr((dataset.data_storage_version, dataset.lance_schema))
    _tolerant(lambda: dataset.list_indices())
    _tolerant(lambda: dataset.get_transactions(3))
    _tolerant(dataset.validate)
    _tolerant(lambda: [fragment.metadata for fragment in dataset.get_fragments()])
    _tolerant(lambda: dataset.count_rows("a > 2"))
    found = dataset.to_table(batch_size=100)
    assert dataset.count_rows() >= 0
    return found


def _tolerant(question: Callable[[], object]) -> None:
    """Call a method that may be refused although the rest can be read."""
    try:
        question()
    except LanceError:
        return


def outcome(table: SmallTable, data: bytes) -> str:
    """Return the outcome of using a manifest; raise if it is not permitted."""
    try:
        name = ManifestName(table.version, ManifestNaming.V2)
        manifest = Manifest.parse(data, path="m", name=name)
        found = use(LanceDataset.from_manifest("memory://nowhere/table", table.log, manifest, None))
    except CorruptDataError:
        return "corrupt"
    except LanceError as error:
        return type(error).__name__
    found.validate(full=True)
    return "equal" if found.equals(table.rows) else "other"


def sweep(table: SmallTable, damaged: Iterable[tuple[str, bytes]]) -> Counter[str]:
    """Use the table with each of these manifests, and count the outcomes."""
    outcomes: Counter[str] = Counter()
    with bounded_memory(1 << 20):
        for what, data in damaged:
            try:
                with time_limit():
                    outcomes[outcome(table, data)] += 1
            except BaseException as error:
                raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return outcomes


def flipped(data: bytes, bits: Iterable[int]) -> Iterable[tuple[str, bytes]]:
    """Yield the bytes with each bit flipped, one at a time."""
    for bit in bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(changed)


def cut(data: bytes, stops: Iterable[int]) -> Iterable[tuple[str, bytes]]:
    """Yield each truncation of the bytes."""
    for stop in stops:
        yield f"cut at {stop}", data[:stop]
