"""Overtaken commits: determines whether a version is part of the lineage when newer versions exist.

A writer plans on version v and stalls just before it creates version v + 1. Other writers create v + 1, v + 2, …, and a
cleanup removes their v + 1. The name is free again, so the stalled writer's create succeeds, although the newer
versions were not built on its manifest. The version log cannot distinguish this from the ordinary case, in which other
writers commit on top of v + 1 right after it was created: a manifest does not record which manifest it was built on.
Therefore, the content of the next version is examined. In this list of cases, "the version" is the v + 1 to check:

===========================================================================================  =================
observation                                                                                  basis of the next
===========================================================================================  =================
a newer version has a data, deletion or index file of the version (file names are unique)    the version
the next version's transaction lists such a file among its fragments                         the version
applying the next transaction to the version gives the next version, with all its changes    the version
the same, but with a different deletion file, which includes the rows of the version's file  the version
the same, but with a deletion file without some of the rows of the version's file            another
the next version lacks a change of the version that the next transaction does not affect     another
anything else; the next version no longer exists                                             uncertain
===========================================================================================  =================

The absence of a fragment alone proves nothing: a compaction removes fragments, as a delete does, and a delete may drop
a fragment that had the same number as ours. Only settings, and a transaction that replaces the whole table, replace the
previous content regardless of what it was. The third and fourth cases also match a version that happens to have the
same content as the one that the next version was built on. The change is then in the table as well, unless the next
version was itself too late. Therefore, the versions up to the latest one are checked until one of them proves the
opposite. A cleanup never removes the latest version, so the listing after the create shows reliably whether a newer
version exists; if not, the version is the latest.

The step CONFIRM of :mod:`~lance_core.transactions.optimistic_commit` checks this after every commit; it removes a
version that is not part of the lineage (``OptimisticCommit._withdraw``), and the caller gets a
``CommitOvertakenError``.
:mod:`~lance_core.transactions.basis` checks the versions of other writers in the same way, so that no change is built
on such a version.

Source: this library; the reference implementation reports such a commit as successful, although the change is lost.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from lance_core.errors import LanceError, NotFoundError, NotSupportedError, StorageError, VersionNotFoundError
from lance_core.proto import pb_table
from lance_core.table.base_paths import FileLocator
from lance_core.table.deletion_file import DeletionFile
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment import Fragment
from lance_core.table.index_directories import index_directories
from lance_core.table.paths import ManifestName
from lance_core.transactions.transaction import read_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.message import Message

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.transaction import Transaction

__all__ = ["Presence", "find_presence", "is_built_on", "may_be_built_on"]

_Fact = tuple[Any, ...]
"""One fact about a version, as a tuple: the kind of fact, what it is about, and further values."""

_FILE, _DELETION, _INDEX = "data file", "deletion file", "index"
_UNIQUE = frozenset({_FILE, _DELETION, _INDEX})
_METADATA = frozenset({"schema metadata", "field metadata"})
_SETTINGS = _METADATA | {"config", "table metadata"}
"""Kinds of facts that a transaction sets regardless of their previous value."""
_LASTING = frozenset({"fragment", _FILE, _DELETION, "field", "config", "base path"})
"""Kinds of facts that a writer changes only through its transaction."""


class Presence(Enum):
    """Whether a version is part of the lineage."""

    PRESENT = auto()
    """A newer version was built on this version, or has the content that a version built on it would have."""

    ABSENT = auto()
    """The next version was built on a different version with the same number; this version was never the latest."""

    UNCERTAIN = auto()
    """Unknown, because the versions that would decide the question no longer exist."""


def find_presence(
    log: VersionLog,
    transaction: Transaction,
    made: Manifest,
    before: Manifest | None,
    newer: Sequence[ManifestName],
) -> Presence:
    """Return whether a version is part of the lineage of the latest one.

    Args:
        log: the table's versions.
        transaction: the transaction that created the version.
        made: the version to check.
        before: the version that ``made`` was built on; None if it no longer exists.
        newer: the versions after ``made``, ascending; not empty.

    Raises:
        VersionNotFoundError: one of the newer versions was removed after it was listed.
        StorageError: a manifest could not be read.
        CorruptDataError: a manifest is damaged.
    """
    latest = log.read(newer[-1])
    if _shows_files(transaction, made, before, latest):
        return Presence.PRESENT
    unique = _unique_names(transaction, made, before)
    if not unique.isdisjoint(_names(_facts(latest))):
        return Presence.PRESENT
    try:
        following = latest if latest.version == made.version + 1 else log.read(_after(made))
    except VersionNotFoundError:
        if _after(made) in newer:
            raise
        return Presence.UNCERTAIN
    presence = is_built_on(log, transaction, made, before, following)
    if presence is Presence.PRESENT and not _leads_to(log, following, made, latest):
        return Presence.UNCERTAIN
    return presence


def _after(manifest: Manifest) -> ManifestName:
    """Return the name of the next version; a directory listing may miss a file that is created while it runs."""
    return ManifestName(manifest.version + 1, manifest.naming)


def _leads_to(log: VersionLog, version: Manifest, before: Manifest, latest: Manifest) -> bool:
    """Return whether no version up to the latest proves that this version, or one after it, was created too late."""
    while version.version < latest.version:
        theirs = read_transaction(log, version)
        if theirs is not None and _shows_files(theirs, version, before, latest):
            return True
        try:
            following = latest if latest.version == version.version + 1 else log.read(_after(version))
        except VersionNotFoundError:
            return False
        if theirs is not None and may_be_built_on(log, theirs, version, before, following) is Presence.ABSENT:
            return False
        before, version = version, following
    return True


def is_built_on(
    log: VersionLog, transaction: Transaction, made: Manifest, before: Manifest | None, following: Manifest
) -> Presence:
    """Return whether the next version was built on this one. See :func:`find_presence` for arguments and errors."""
    return _compare(log, transaction, made, before, following, is_effect_enough=True)[0]


def may_be_built_on(
    log: VersionLog, transaction: Transaction, made: Manifest, before: Manifest | None, following: Manifest
) -> Presence:
    """Like :func:`is_built_on`, but return "absent" if anything differs that the next transaction does not affect.

    The answer "absent" is enough to reject a commit, but not to remove a version: the next version's writer may have
    changed more than its transaction records.
    """
    presence, differs = _compare(log, transaction, made, before, following, is_effect_enough=False)
    return Presence.ABSENT if presence is Presence.UNCERTAIN and differs else presence


def _compare(
    log: VersionLog,
    transaction: Transaction,
    made: Manifest,
    before: Manifest | None,
    following: Manifest,
    *,
    is_effect_enough: bool,
) -> tuple[Presence, bool]:
    """Return the presence, and whether something differs that the next transaction does not affect.

    Args:
        log: the table's versions.
        transaction: the transaction that created the version.
        made: the version to check.
        before: the version that ``made`` was built on; None if it no longer exists.
        following: the next version.
        is_effect_enough: whether the version counts as present if the next one contains its changes, regardless of
            which version the next one was built on.
    """
    theirs = read_transaction(log, following)
    # Shortcut for the comparison of all facts below, in the most frequent case in which no file of the version is left.
    delete = None if theirs is None or is_effect_enough else theirs.operation
    if delete is not None and delete.only_removes_rows and _is_made_by_delete(delete, made, following):
        return Presence.PRESENT, False
    presence = _told_by_files(log, transaction, made, before, following, theirs, is_effect_enough=is_effect_enough)
    if presence is not None or theirs is None:
        return presence or Presence.UNCERTAIN, False
    try:
        # Row ids and other hidden columns are not compared, so they are not read.
        sealed = theirs.operation.apply(theirs.context(made, log)).seal(
            transaction=b"", transaction_file="", timestamp_ns=0
        )
    except StorageError:
        raise
    except NotSupportedError:
        # The transaction can be read, but not applied by this library.
        return Presence.UNCERTAIN, False
    except LanceError:
        # The change does not fit this version, or the restored version no longer exists.
        return Presence.UNCERTAIN, theirs.operation.restored_version is None
    own, expected, found = _facts(made), _facts(sealed.manifest), _facts(following)
    past = _facts(before) if before is not None else None
    if found == expected:
        added = {fact for fact in found - own if fact[0] == "fragment"}
        if added and theirs.operation.lists_all_fragments:
            # It lists all fragments and adds none, so it was built on a version with different fragments.
            return Presence.UNCERTAIN, True
        if not is_effect_enough or theirs.operation.replaces_all_files:
            return Presence.PRESENT, False
        hides_rows = past is not None and theirs.operation.only_removes_rows
        changed = own if past is None else own ^ past
        undone = changed & (own ^ found)
        presence = _survival(log, made, following, undone, hides_rows=hides_rows)
        if presence is Presence.PRESENT and _moves_rows(theirs) and any(fact[0] == _DELETION for fact in undone):
            # The hidden rows may be the ones that were moved.
            presence = Presence.UNCERTAIN
        return presence, False
    unique = _unique_names(transaction, made, before)
    changed = own ^ past if past is not None else {fact for fact in own if _name(fact) in unique}
    touched = {fact[:2] for fact in own ^ expected}
    differing = {fact for fact in found ^ expected if fact[:2] not in touched}
    if theirs.operation.may_keep_metadata:
        # The reference keeps existing metadata that the transaction does not contain.
        differing = {fact for fact in differing if fact[0] not in _METADATA}
    presence = Presence.UNCERTAIN if differing.isdisjoint(changed) else Presence.ABSENT
    return presence, any(fact[0] in _LASTING for fact in differing)


def _is_made_by_delete(delete: Operation, made: Manifest, following: Manifest) -> bool:
    """Return whether it is certain that a delete turned one version into the other; False is inconclusive."""
    updated = {fragment.id: fragment.message for fragment in delete.changed_fragments()}
    gone = delete.removed_fragments()
    before = [fragment for fragment in made.message.fragments if fragment.id not in gone]
    if len(before) != len(following.message.fragments) or _facts_beside_fragments(made) != _facts_beside_fragments(
        following
    ):
        return False
    for old, new in zip(before, following.message.fragments, strict=True):
        changed = updated.get(old.id)
        if changed is None:
            if old != new:
                return False
        elif new.id != old.id or new.deletion_file != changed.deletion_file or _data_paths(old) != _data_paths(new):
            return False
    return True


def _told_by_files(
    log: VersionLog,
    transaction: Transaction,
    made: Manifest,
    before: Manifest | None,
    following: Manifest,
    theirs: Transaction | None,
    *,
    is_effect_enough: bool,
) -> Presence | None:
    """Return the presence according to file names and rows in deletion files; None if inconclusive."""
    if _shows_files(transaction, made, before, following):
        return Presence.PRESENT
    ours = transaction.operation
    changed = ours.changed_fragments() if ours.only_removes_rows and not ours.removed_fragments() else ()
    if changed and theirs is not None and theirs.operation.hides_rows:
        presence = _hiding(log, made, following, [fragment.id for fragment in changed])
        is_alike = theirs.operation.only_removes_rows and _has_no_more_fragments(made, following)
        if presence is Presence.ABSENT or (presence is Presence.PRESENT and is_effect_enough and is_alike):
            return presence
    unique = _unique_names(transaction, made, before)
    if not unique.isdisjoint(_names(_facts(following))):
        return Presence.PRESENT
    if theirs is None or not theirs.operation.is_known:
        return Presence.UNCERTAIN
    named = _names(_fragment_facts(_fragments_in(theirs.operation.to_proto())))
    return None if unique.isdisjoint(named) else Presence.PRESENT


def _survival(
    log: VersionLog, made: Manifest, following: Manifest, undone: set[_Fact], *, hides_rows: bool
) -> Presence:
    """Return whether the next version, created by the next transaction, contains the change of the version to check.

    Args:
        log: the table's versions.
        made: the version to check.
        following: the next version.
        undone: the changes of the version that the next version does not have.
        hides_rows: whether fragments missing from the next version were dropped because their last rows were deleted.
    """
    # The reference keeps schema metadata that this library drops when it applies some operations.
    if any(fact[0] in _METADATA for fact in undone):
        return Presence.UNCERTAIN
    lost = [fact for fact in undone if fact[0] not in _SETTINGS]
    if any(fact[0] != _DELETION for fact in lost):
        return Presence.UNCERTAIN
    changed = {fact[1] for fact in lost}
    kept = {fragment_id for fragment_id in changed if _fragment_of(following, fragment_id) is not None}
    return Presence.UNCERTAIN if changed != kept and not hides_rows else _hiding(log, made, following, kept)


def _hiding(log: VersionLog, made: Manifest, following: Manifest, fragment_ids: Iterable[int]) -> Presence:
    """Return whether all rows that are deleted from some fragments in a version are also deleted in the next one."""
    # Imported only when needed: file names suffice for most versions.
    from pyroaring import BitMap

    for fragment_id in fragment_ids:
        mine, theirs = _fragment_of(made, fragment_id), _fragment_of(following, fragment_id)
        if mine is None or theirs is None or _data_paths(mine) != _data_paths(theirs):
            return Presence.UNCERTAIN
        try:
            rows = [
                BitMap(read_deletion_offsets(Fragment(fragment), FileLocator(log.store, log.root, at.base_paths, None)))
                for fragment, at in ((mine, made), (theirs, following))
            ]
        except NotFoundError:
            return Presence.UNCERTAIN
        if not rows[0].issubset(rows[1]):
            return Presence.ABSENT
    return Presence.PRESENT


def _has_no_more_fragments(made: Manifest, following: Manifest) -> bool:
    """Return whether the next version has no new fragments, to which rows might have been moved."""
    highest = [each.message.max_fragment_id for each in (made, following) if each.message.HasField("max_fragment_id")]
    return len(highest) == 2 and highest[0] == highest[1]


def _moves_rows(theirs: Transaction) -> bool:
    """Return whether the transaction deletes rows and may move them to new fragments."""
    return theirs.operation.hides_rows and bool(theirs.operation.added_fragments())


def _data_paths(fragment: pb_table.DataFragment) -> list[str]:
    return [file.path for file in fragment.files]


def _shows_files(transaction: Transaction, made: Manifest, before: Manifest | None, later: Manifest) -> bool:
    """Return whether a quick check shows that a later version was built on the one that a transaction created.

    Only new fragments and fragments with a new deletion file are checked. False is inconclusive.
    """
    new = transaction.operation.added_fragments() if transaction.operation.appends_fragments else ()
    fragments, own = later.message.fragments, made.message.fragments
    paths = {file.path for fragment in new for file in fragment.message.files}
    first = own[-len(new)].id if 0 < len(new) <= len(own) else 0
    for number in range(_position(fragments, first), len(fragments)) if new else ():
        if any(file.path in paths for file in fragments[number].files):
            return True
    if before is None:
        return False
    for fragment in transaction.operation.changed_deletions():
        mine, past = fragment.message, _fragment_of(before, fragment.id)
        if past is None or mine.deletion_file == past.deletion_file:
            continue
        present = _fragment_of(later, fragment.id)
        if present is not None and present.deletion_file == mine.deletion_file:
            return True
    return False


def _position(fragments: Sequence[pb_table.DataFragment], fragment_id: int) -> int:
    """Return the position at which a fragment is or would be; fragments are ordered by id."""
    return bisect_left(fragments, fragment_id, key=lambda fragment: fragment.id)


def _fragment_of(manifest: Manifest, fragment_id: int) -> pb_table.DataFragment | None:
    fragments = manifest.message.fragments
    position = _position(fragments, fragment_id)
    if position < len(fragments) and fragments[position].id == fragment_id:
        return fragments[position]
    return None


def _unique_names(transaction: Transaction, made: Manifest, before: Manifest | None) -> set[_Fact]:
    """Return the names of files that a version added; each name is generated for one transaction and is unique."""
    if transaction.operation.restored_version is not None:
        # It restores files that others may restore as well.
        return set()
    names = _names(_facts(made))
    if before is not None:
        return names - _names(_facts(before))
    if not transaction.operation.appends_fragments:
        # It cannot be determined which of the listed files are its own.
        return set()
    return names & _names(_fragment_facts(fragment.message for fragment in transaction.operation.added_fragments()))


def _facts(manifest: Manifest) -> set[_Fact]:
    """Return all properties of a version that operations can change."""
    return {*_fragment_facts(manifest.message.fragments), *_facts_beside_fragments(manifest)}


def _facts_beside_fragments(manifest: Manifest) -> set[_Fact]:
    message = manifest.message
    facts: set[_Fact] = set()
    for field in message.fields:
        facts.add(("field", field.id, field.name, field.parent_id, field.logical_type, field.nullable))
        facts.update(("field metadata", (field.id, key), value) for key, value in field.metadata.items())
    facts.update(("schema metadata", key, value) for key, value in message.schema_metadata.items())
    facts.update(("config", key, value) for key, value in message.config.items())
    facts.update(("table metadata", key, value) for key, value in message.table_metadata.items())
    facts.update(("base path", base.id, base.name, base.path) for base in message.base_paths)
    facts.update((_INDEX, directory, directory) for directory in index_directories(manifest.index_section))
    return facts


def _fragment_facts(fragments: Iterable[pb_table.DataFragment]) -> Iterator[_Fact]:
    for fragment in fragments:
        yield "fragment", fragment.id
        for file in fragment.files:
            yield _FILE, fragment.id, file.path
        for overlay in fragment.overlays:
            yield _FILE, fragment.id, overlay.data_file.path
        if fragment.HasField("deletion_file"):
            yield _DELETION, fragment.id, DeletionFile.from_proto(fragment.deletion_file).name(fragment.id)


def _fragments_in(message: Message) -> Iterator[pb_table.DataFragment]:
    """Yield all fragments anywhere in a message."""
    if isinstance(message, pb_table.DataFragment):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for each in value if field.is_repeated else (value,):
            yield from _fragments_in(each)


def _names(facts: Iterable[_Fact]) -> set[_Fact]:
    """Return the names of the files to which facts refer."""
    return {name for fact in facts if (name := _name(fact)) is not None}


def _name(fact: _Fact) -> _Fact | None:
    return (fact[0], fact[-1]) if fact[0] in _UNIQUE else None
