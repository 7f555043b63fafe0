"""Overtaken commits: whether what a version changed is still part of the table, when newer versions exist already.

A writer plans on version v and stops just before it creates version v + 1. Others create v + 1, v + 2, …, and a cleanup
removes their v + 1. The name is free again, so the writer's create succeeds, although the newer versions were never
built on its manifest. The version log cannot tell this from the ordinary case, in which others commit on top of v + 1
right after it was created: no manifest names the one that it was built on. The contents tell:

==========================================================================  =============
what the newer versions hold                                                 presence
==========================================================================  =============
everything that the version added, and nothing that it removed               present
a data, deletion or index file that the version added: their names are unique present
as the fragments that the next version's transaction names: such a file      present
deletion files that hide at least the rows that the version hid              present
none of it, and the version added no data file                               absent
none of it, and a fragment id that the version gave is another's or unused   absent
none of it, and the next version changed no fragment that got a data file    absent
anything else                                                                uncertain
==========================================================================  =============

"Absent" is claimed for a change without data files on weaker grounds because doing such a change twice does no harm.
The latest version is never removed by a cleanup, so that the listing after the create shows whether there is a newer
one, and if there is none, the version is the latest.

Source: ours; the reference acknowledges such a commit and loses it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.proto import pb_table
from lance_core.table.base_paths import FileLocator
from lance_core.table.deletion_file import DeletionFile, read_deletion_offsets
from lance_core.table.index_directories import index_directories
from lance_core.transactions.history import read_transaction
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.touched import touched_fragments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from google.protobuf.message import Message

    from lance_core.table.manifest import Manifest
    from lance_core.table.paths import ManifestName
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.transaction import Transaction

__all__ = ["Presence", "find_presence"]

_Fact = tuple[Any, ...]
"""One statement about a version: its kind, what it is about, and the rest."""

_FRAGMENT, _FILE, _DELETION = "fragment", "data file", "deletion file"
_INDEX, _NEXT_ID = "index", "largest fragment id"
_UNIQUE = frozenset({_FILE, _DELETION, _INDEX})


class Presence(Enum):
    """Whether the table has what a version changed."""

    PRESENT = auto()
    """It is part of the latest version, or of one that the latest was built on."""

    ABSENT = auto()
    """It is in no newer version; the version is not part of the table's lineage."""

    UNCERTAIN = auto()
    """The versions that would tell are gone."""


def find_presence(
    log: VersionLog,
    transaction: Transaction,
    made: Manifest,
    before: Manifest | None,
    newer: Sequence[ManifestName],
    storage_options: Mapping[str, str] | None = None,
) -> Presence:
    """Whether the change that made a version is part of the newer ones.

    Args:
        log: the table's versions.
        transaction: what made the version.
        made: the version.
        before: what it was built on; None when that is gone.
        newer: the versions after ``made``, ascending; not empty.
        storage_options: handed to the stores of base paths.

    Raises:
        VersionNotFoundError: one of ``newer`` was removed since it was listed.
        StorageError: a manifest or deletion file could not be read.
        CorruptDataError: one of them is damaged.
    """
    change = _Change(transaction, made, before)
    latest = log.read(newer[-1])
    if change.shows_in(_facts(latest)):
        return Presence.PRESENT
    first = latest if len(newer) == 1 else log.read(newer[0])
    theirs = read_transaction(log, first) if first.version == made.version + 1 else None
    # Where versions are missing in between, one that was built on this one need not be what the latest was built on.
    is_unbroken = newer[-1].version - made.version == len(newer)
    if is_unbroken and (
        change.shows_in(_facts(first))
        or (theirs is not None and change.is_named_by(theirs))
        or _hides_as_much(log, change, first, storage_options)
    ):
        return Presence.PRESENT
    if not is_unbroken and _hides_as_much(log, change, latest, storage_options):
        return Presence.PRESENT
    return change.absence_from(first if is_unbroken else latest, theirs if is_unbroken else None)


class _Change:
    """What one version did to the one before."""

    def __init__(self, transaction: Transaction, made: Manifest, before: Manifest | None) -> None:
        self.made = made
        old = set() if before is None else _facts(before)
        new = _facts(made)
        self._added = new - old
        self._removed = old - new
        self._is_known = before is not None
        if before is None:
            brought = {fact[-1] for fact in _named_facts(transaction)}
            self._added = {fact for fact in new if fact[0] in _UNIQUE and fact[-1] in brought}
        # A restore brings back files that others may bring back as well.
        self._unique = (
            set() if isinstance(transaction.operation, Restore) else {_name(fact) for fact in self._added} - {None}
        )
        changed = self._added | self._removed
        self._only_reserves = bool(changed) and {fact[0] for fact in changed} == {_NEXT_ID}

    @property
    def hidden(self) -> frozenset[int]:
        """Ids of the fragments that got another deletion file, when the change added nothing else; else none."""
        if {fact[0] for fact in self._added} != {_DELETION}:
            return frozenset()
        return frozenset(fact[1] for fact in self._added)

    @property
    def dropped(self) -> frozenset[int]:
        """Ids of the fragments that are gone."""
        return frozenset(fact[1] for fact in self._removed if fact[0] == _FRAGMENT)

    def shows_in(self, facts: set[_Fact]) -> bool:
        if not self._unique.isdisjoint({_name(fact) for fact in facts}):
            return True
        if not self._is_known or self._only_reserves:
            return False
        lasting = {fact for fact in self._added if fact[0] != _NEXT_ID}
        return lasting <= facts and self._removed.isdisjoint({fact for fact in facts if fact[0] != _NEXT_ID})

    def is_named_by(self, theirs: Transaction) -> bool:
        """Whether another transaction speaks of a fragment with a file that this change added."""
        return not self._unique.isdisjoint({_name(fact) for fact in _named_facts(theirs)})

    def absence_from(self, later: Manifest, theirs: Transaction | None) -> Presence:
        """Whether the change is surely not in a later version in which it does not show."""
        if not self._is_known:
            return Presence.UNCERTAIN
        written = {fact[1] for fact in self._added if fact[0] == _FILE}
        if not written:
            return Presence.ABSENT
        new = {fact[1] for fact in self._added if fact[0] == _FRAGMENT}
        present = {fragment.id for fragment in later.message.fragments}
        for fragment_id in written:
            is_unused = fragment_id in new and later.message.max_fragment_id < fragment_id
            tells = fragment_id in present or is_unused or theirs is not None
            if tells and (theirs is None or not _may_change(theirs, fragment_id)):
                return Presence.ABSENT
        return Presence.UNCERTAIN


def _may_change(theirs: Transaction, fragment_id: int) -> bool:
    if isinstance(theirs.operation, CarriedOperation):
        return True
    touched = touched_fragments(theirs.operation)
    # Whatever touches no fragment by its id adds to them, or replaces them all: the rows are not there either way.
    return touched is not None and fragment_id in touched


def _hides_as_much(
    log: VersionLog, change: _Change, later: Manifest, storage_options: Mapping[str, str] | None
) -> bool:
    """Whether the fragments of a later version hide all rows that the change hid."""
    if not change.hidden:
        return False
    ours = {fragment.id: fragment for fragment in change.made.fragments if fragment.id in change.hidden}
    theirs = {fragment.id: fragment for fragment in later.fragments if fragment.id in change.hidden}
    present = {fragment.id for fragment in later.message.fragments}
    if not ours.keys() <= theirs.keys() or not change.dropped.isdisjoint(present):
        return False
    locators = [FileLocator(log.store, log.root, each.base_paths, storage_options) for each in (change.made, later)]
    try:
        return all(
            np.isin(
                read_deletion_offsets(fragment, locators[0]), read_deletion_offsets(theirs[fragment.id], locators[1])
            ).all()
            for fragment in ours.values()
        )
    except VersionNotFoundError:
        raise
    except NotFoundError:
        # A cleanup has removed what only an old version named.
        return False


def _facts(manifest: Manifest) -> set[_Fact]:
    """What distinguishes a version from another, as far as operations change it."""
    message = manifest.message
    facts: set[_Fact] = {(_NEXT_ID, 0, message.max_fragment_id if message.HasField("max_fragment_id") else -1)}
    facts.update(_fragment_facts(message.fragments))
    for field in message.fields:
        facts.add(("field", field.id, field.name, field.parent_id, field.logical_type, field.nullable))
        facts.update(("field metadata", field.id, key, value) for key, value in field.metadata.items())
    facts.update(("schema metadata", key, value) for key, value in message.schema_metadata.items())
    facts.update(("config", key, value) for key, value in message.config.items())
    facts.update(("table metadata", key, value) for key, value in message.table_metadata.items())
    facts.update(("base path", base.id, base.name, base.path) for base in message.base_paths)
    facts.update((_INDEX, directory) for directory in index_directories(manifest.index_section))
    return facts


def _named_facts(transaction: Transaction) -> set[_Fact]:
    """Facts of all fragments that a transaction names."""
    if isinstance(transaction.operation, CarriedOperation):
        return set()
    return set(_fragment_facts(_fragments_in(transaction.operation.to_proto())))


def _fragment_facts(fragments: Iterable[pb_table.DataFragment]) -> Iterator[_Fact]:
    for fragment in fragments:
        yield _FRAGMENT, fragment.id
        for file in fragment.files:
            yield _FILE, fragment.id, file.path
        for overlay in fragment.overlays:
            yield _FILE, fragment.id, overlay.data_file.path
        if fragment.HasField("deletion_file"):
            yield _DELETION, fragment.id, DeletionFile.from_proto(fragment.deletion_file).name(fragment.id)


def _fragments_in(message: Message) -> Iterator[pb_table.DataFragment]:
    """All fragments anywhere in a message."""
    if isinstance(message, pb_table.DataFragment):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else (value,):
            yield from _fragments_in(each)


def _name(fact: _Fact) -> object:
    """The name of the file that a fact is about; None for other facts."""
    return (fact[0], fact[-1]) if fact[0] in _UNIQUE else None
