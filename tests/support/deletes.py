"""Deletes of known rows, written as by a planner, for tests of commits."""

from collections.abc import Mapping

from pyroaring import BitMap

from lance_core.table.base_paths import FileLocator
from lance_core.table.deletion_file import write_deletion_file
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.version_log import VersionLog
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.transaction import Transaction


def deleted_rows(log: VersionLog, manifest: Manifest) -> dict[int, BitMap]:
    """Return fragment id -> deleted rows of a version, for every fragment."""
    locator = FileLocator(log.store, log.root, manifest.base_paths, None)
    return {each.id: BitMap(read_deletion_offsets(each, locator)) for each in manifest.fragments}


def planned_delete(
    log: VersionLog, version: int, rows: Mapping[int, BitMap], *, predicate: str = "test"
) -> Transaction:
    """Plan a delete of these rows (fragment id -> physical positions) on a version, and write its files."""
    manifest = log.read_version(version)
    hidden = deleted_rows(log, manifest)
    updated: list[Fragment] = []
    emptied: list[int] = []
    for fragment in manifest.fragments:
        if fragment.id not in rows:
            continue
        offsets = hidden[fragment.id] | rows[fragment.id]
        if len(offsets) == fragment.physical_rows:
            emptied.append(fragment.id)
            continue
        message = write_deletion_file(
            log.store, log.root, fragment_id=fragment.id, read_version=version, offsets=offsets
        )
        updated.append(fragment.with_deletion(message))
    operation = Delete(updated_fragments=tuple(updated), deleted_fragment_ids=tuple(emptied), predicate=predicate)
    return Transaction(read_version=version, operation=operation)
