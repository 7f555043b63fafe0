"""Whether a version is part of the lineage, as inferred from the versions that follow it."""

from dataclasses import replace

import pytest
from pyroaring import BitMap

from lance_core.errors import StorageError, VersionNotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.schema.field import Field
from lance_core.table.deletion_file import deletion_file_path, write_deletion_file
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.data_replacement import DataReplacement, Replacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.operation import Operation
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.update import Update
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.overtaken import Presence, find_presence, is_built_on, may_be_built_on
from lance_core.transactions.transaction import Transaction
from tests.support.faulty_store import FaultyStore, When
from tests.support.manifests import column_file, part, table, with_files
from tests.support.records import SCHEMA, data_file, fragment

C = Field(id=2, name="c", logical_type="int32")
WIDE = replace(SCHEMA, fields=(*SCHEMA.fields, C))


class Lineage:
    """A table of two fragments at version 3, and versions derived from it by transactions."""

    def __init__(self) -> None:
        self.store = FaultyStore(MemoryStore())
        self.log = VersionLog(self.store, "table")
        self.start = self.record(table(part(0), part(1), max_fragment_id=1))

    def record(self, manifest: Manifest) -> Manifest:
        """Store a version, without a transaction file unless the transaction is inline."""
        data = serialize_manifest_file(
            manifest.message, index_section=manifest.index_section, transaction=manifest.transaction
        )
        self.log.create(self.name(manifest), data)
        return manifest

    def name(self, manifest: Manifest) -> ManifestName:
        return ManifestName(manifest.version, ManifestNaming.V2)

    def make(self, operation: Operation, on: Manifest) -> tuple[Transaction, Manifest]:
        """Apply an operation to a version, and store and return the resulting version."""
        transaction = Transaction(read_version=on.version, operation=operation)
        sealed = operation.apply(transaction.context(on, self.log)).seal(
            transaction=transaction.serialize(), transaction_file=transaction.file_name, timestamp_ns=1
        )
        self.log.create(self.name(sealed.manifest), sealed.data)
        return transaction, self.log.read_version(sealed.manifest.version)

    def hiding(self, fragment_id: int, *rows: int) -> Fragment:
        """Return a fragment with a deletion file that lists these rows."""
        message = write_deletion_file(
            self.store, "table", fragment_id=fragment_id, read_version=3, offsets=BitMap(rows), durable=False
        )
        return part(fragment_id).with_deletion(message)


@pytest.fixture
def lineage() -> Lineage:
    return Lineage()


def setting(key: str = "key") -> UpdateConfig:
    return UpdateConfig(config=MapUpdate(entries={key: "value"}))


def deleting(*changed: Fragment, whole: tuple[int, ...] = ()) -> Delete:
    return Delete(updated_fragments=changed, deleted_fragment_ids=whole, predicate="true")


def adding() -> Append:
    return Append(fragments=(fragment(),))


# ── Versions after the next one ──────────────────────────────────────────────────────────────────────────────────────


def test_next_version_removed_after_its_listing_raises_version_not_found(lineage: Lineage) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    _, third = lineage.make(adding(), made)
    _, fourth = lineage.make(adding(), third)
    newer = [lineage.name(third), lineage.name(fourth)]
    lineage.log.withdraw(newer[0])
    with pytest.raises(VersionNotFoundError):
        find_presence(lineage.log, ours, made, lineage.start, newer)
    assert find_presence(lineage.log, ours, made, lineage.start, newer[1:]) is Presence.UNCERTAIN


def settings_only(lineage: Lineage, count: int) -> tuple[Transaction, list[Manifest]]:
    """Create consecutive versions that change settings; the first version is ours."""
    ours, made = lineage.make(setting("ours"), lineage.start)
    versions = [made]
    for number in range(count):
        versions.append(lineage.make(setting(f"key {number}"), versions[-1])[1])
    return ours, versions


def test_chain_of_consecutive_versions_proves_presence_of_the_first_version(lineage: Lineage) -> None:
    ours, (made, *newer) = settings_only(lineage, 3)
    assert find_presence(lineage.log, ours, made, lineage.start, [*map(lineage.name, newer)]) is Presence.PRESENT


def test_chain_with_a_missing_version_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, (made, *newer) = settings_only(lineage, 3)
    lineage.log.withdraw(lineage.name(newer[1]))
    names = [lineage.name(newer[0]), lineage.name(newer[2])]
    assert find_presence(lineage.log, ours, made, lineage.start, names) is Presence.UNCERTAIN


def test_chain_with_an_out_of_order_version_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, (made, following) = settings_only(lineage, 1)
    _, other = lineage.make(deleting(whole=(1,)), replaced(following, config={}))
    names = [lineage.name(following), lineage.name(other)]
    assert find_presence(lineage.log, ours, made, lineage.start, names) is Presence.UNCERTAIN


def replaced(manifest: Manifest, *, config: dict[str, str]) -> Manifest:
    """Return the version with other settings."""
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    message.config.clear()
    message.config.update(config)
    return replace(manifest, message=message)


# ── Evidence in the next transaction ─────────────────────────────────────────────────────────────────────


def next_of(theirs: Operation, made: Manifest) -> Manifest:
    """Return a next version with other settings, whose transaction describes a different change."""
    following = replaced(made, config={"theirs": "value"})
    following.message.version += 1
    return replace(following, transaction=Transaction(read_version=made.version, operation=theirs).serialize())


def test_presence_check_raises_errors_of_the_store(lineage: Lineage) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    following = next_of(Restore(version=3), made)
    lineage.store.fault = lambda call: When.BEFORE if call.method == "get" else None
    with pytest.raises(StorageError):
        is_built_on(lineage.log, ours, made, lineage.start, following)


def test_transaction_that_cannot_be_reapplied_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    following = next_of(Clone(is_shallow=False, ref_version=1, ref_path="/x"), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN
    assert may_be_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


@pytest.mark.parametrize(
    ("theirs", "maybe"),
    [(deleting(whole=(7,)), Presence.ABSENT), (Restore(version=99), Presence.UNCERTAIN)],
    ids=["fragment unknown", "restored version gone"],
)
def test_transaction_incompatible_with_a_version_does_not_prove_presence_of_the_version(
    lineage: Lineage, theirs: Operation, maybe: Presence
) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    following = next_of(theirs, made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN
    assert may_be_built_on(lineage.log, ours, made, lineage.start, following) is maybe


def test_merge_with_a_fragment_unknown_to_a_version_disproves_presence_of_the_version(lineage: Lineage) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    merge = Merge(fragments=(part(0), part(1), fragment()), schema=SCHEMA)
    _, following = lineage.make(merge, made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN
    assert may_be_built_on(lineage.log, ours, made, lineage.start, following) is Presence.ABSENT


def test_metadata_that_a_projection_does_not_repeat_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(
        UpdateConfig(schema_metadata=MapUpdate(entries={"key": "value"}), config=MapUpdate(entries={"key": "value"})),
        lineage.start,
    )
    _, following = lineage.make(Project(schema=SCHEMA.project(["b"])), made)
    following.message.schema_metadata["key"] = b"value"
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN
    following.message.config.clear()
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.ABSENT


def test_metadata_dropped_by_the_next_version_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(UpdateConfig(schema_metadata=MapUpdate(entries={"key": "value"})), lineage.start)
    _, following = lineage.make(Project(schema=SCHEMA.project(["b"])), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_column_dropped_by_the_next_version_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(Merge(fragments=(part(0), part(1)), schema=WIDE), lineage.start)
    _, following = lineage.make(Project(schema=SCHEMA), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_file_added_only_by_a_version_proves_presence_of_the_version(lineage: Lineage) -> None:
    new_file = data_file("n", field_ids=(0, 1))
    replacing = DataReplacement(replacements=(Replacement(fragment_id=0, new_file=new_file),))
    ours, made = lineage.make(replacing, lineage.start)
    _, following = lineage.make(setting(), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.PRESENT


def test_overlay_file_proves_presence_of_the_version_that_added_it(lineage: Lineage) -> None:
    ours, made = lineage.make(setting(), lineage.start)
    overlay = pb_table.DataOverlayFile(data_file=column_file("o", 1))
    made.message.fragments[0].overlays.append(overlay)
    _, following = lineage.make(setting("other"), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.PRESENT


# ── Deleted rows ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_later_delete_with_the_same_rows_proves_presence_of_the_earlier_delete(lineage: Lineage) -> None:
    ours, made = lineage.make(deleting(lineage.hiding(0, 1)), lineage.start)
    _, following = lineage.make(deleting(lineage.hiding(0, 1, 2)), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.PRESENT
    assert may_be_built_on(lineage.log, ours, made, lineage.start, following) is Presence.PRESENT


def test_later_delete_without_the_same_rows_disproves_presence_of_the_earlier_delete(lineage: Lineage) -> None:
    ours, made = lineage.make(deleting(lineage.hiding(0, 1)), lineage.start)
    _, following = lineage.make(deleting(lineage.hiding(0, 2)), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.ABSENT


def test_missing_deletion_file_leaves_presence_uncertain(lineage: Lineage) -> None:
    first, second = lineage.hiding(0, 1), lineage.hiding(0, 1, 2)
    ours, made = lineage.make(deleting(first), lineage.start)
    _, following = lineage.make(deleting(second), made)
    lineage.store.delete(deletion_file_path(lineage.store, "table", 0, first.deletion_file))
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_update_that_may_have_moved_deleted_rows_leaves_presence_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(deleting(lineage.hiding(0, 1)), lineage.start)
    update = Update(updated_fragments=(lineage.hiding(0, 1, 2),), new_fragments=(fragment(1),))
    _, following = lineage.make(update, made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_fragment_with_replaced_files_leaves_presence_of_a_delete_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(deleting(lineage.hiding(0, 1)), lineage.start)
    hidden = lineage.hiding(0, 1, 2)
    anew = with_files(hidden, column_file("f0.lance", 0, -2), column_file("new", 1))
    _, following = lineage.make(Update(updated_fragments=(anew,), fields_modified=(1,)), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_dropped_fragment_leaves_presence_of_a_delete_uncertain(lineage: Lineage) -> None:
    ours, made = lineage.make(deleting(lineage.hiding(1, 1)), lineage.start)
    _, following = lineage.make(Update(removed_fragment_ids=(1,), new_fragments=(fragment(1),)), made)
    assert is_built_on(lineage.log, ours, made, lineage.start, following) is Presence.UNCERTAIN


def test_deletion_file_of_an_earlier_version_does_not_prove_presence(lineage: Lineage) -> None:
    hidden = lineage.hiding(0, 1)
    _, before = lineage.make(deleting(hidden), lineage.start)
    anew = with_files(hidden, column_file("f0.lance", 0, -2), column_file("new", 1))
    ours, made = lineage.make(Update(updated_fragments=(anew,), fields_modified=(1,)), before)
    _, following = lineage.make(setting(), made)
    assert is_built_on(lineage.log, ours, made, before, following) is Presence.PRESENT
    _, other = lineage.make(setting(), replaced(made, config={"other": "value"}))
    del other.message.fragments[0].files[1]
    assert is_built_on(lineage.log, ours, made, before, other) is not Presence.PRESENT


@pytest.mark.parametrize("config", [{}, {"ours": "value"}], ids=["settings differ", "deletion file differs"])
def test_delete_planned_on_another_version_does_not_prove_presence(lineage: Lineage, config: dict[str, str]) -> None:
    ours, made = lineage.make(setting("ours"), lineage.start)
    _, following = lineage.make(deleting(lineage.hiding(0, 1)), made)
    other = replaced(following, config=config)
    if config:
        other.message.fragments[0].deletion_file.id += 1
    assert may_be_built_on(lineage.log, ours, made, lineage.start, following) is Presence.PRESENT
    assert may_be_built_on(lineage.log, ours, made, lineage.start, other) is not Presence.PRESENT
