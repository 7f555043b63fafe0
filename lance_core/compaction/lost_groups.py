"""Separates groups that are no longer intact into lost groups and groups that an earlier call committed.

A commit may be repeated because the process that performed it ended before it reported success. The old fragments then
no longer exist, just as if another writer had changed them. The versions since the plan reveal the difference: data
files have unique names, so a version that lists one of a group's new files was created by committing that group. If the
latest version contains the old data files again, an older version was restored, and the group is lost after all.

The new files of a lost group are removed only if all of the following conditions are met::

    the planned version exists and has the old fragments          the result is valid
    every version since, including the latest, was read           nothing was missed
    none of these versions refers to one of the new files         the files are not needed

Otherwise, the files are kept, and a later cleanup decides whether to remove them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lance_core.compaction.result import content_key
from lance_core.errors import VersionNotFoundError
from lance_core.public.fragment_conversion import fragment_from_record
from lance_core.write.fragment_writer import remove_data_files

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lance_core.compaction.result import RewriteResult
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["sort_lost"]


def sort_lost(
    log: VersionLog, results: Sequence[RewriteResult]
) -> tuple[list[tuple[RewriteResult, int]], list[RewriteResult]]:
    """Separate committed results from lost ones, and remove the new files of the lost ones.

    Args:
        log: the version log of the dataset.
        results: groups that cannot be committed.

    Returns:
        A list of pairs (result, version that committed it), and a list of lost results.

    Raises:
        StorageError: the versions could not be read; no file was removed.
        CorruptDataError: a manifest is damaged; no file was removed.
    """
    if not results:
        return [], []
    history = _History.read(log, results)
    before: list[tuple[RewriteResult, int]] = []
    lost: list[RewriteResult] = []
    for result in results:
        version = history.made_by(result)
        if version is None or history.is_undone(result):
            lost.append(result)
        else:
            before.append((result, version))
    removable = [result for result in lost if history.needs_no_file_of(result)]
    remove_data_files(log.store, log.root, [name for result in removable for name in result.new_file_names()])
    return before, lost


@dataclass(slots=True, kw_only=True)
class _History:
    """Information about the files of groups, collected from the versions since the plan.

    Attributes:
        is_complete: whether every version was read.
        new_names: names of the groups' new files.
        old_ids: ids of the fragments that the groups rewrite.
        named: maps each new file to the versions that list it, in ascending order.
        planned: maps each version to the keys of those rewritten fragments that it contains.
        latest: keys, made of id and data files, of those rewritten fragments that the latest version contains.
    """

    is_complete: bool
    new_names: set[str]
    old_ids: set[int]
    named: dict[str, list[int]] = field(default_factory=dict)
    planned: dict[int, set[Hashable]] = field(default_factory=dict)
    latest: set[Hashable] = field(default_factory=set)

    @classmethod
    def read(cls, log: VersionLog, results: Sequence[RewriteResult]) -> _History:
        since = min(result.read_version for result in results)
        history = cls(
            is_complete=True,
            new_names={name for result in results for name in result.new_file_names()},
            old_ids={fragment.id for result in results for fragment in result.original_fragments},
        )
        following = since
        # A listing may miss versions that are created or removed while it runs: repeat until there is no newer version.
        while names := log.newer_than(following - 1):
            for name in names:
                history.is_complete = history.is_complete and name.version == following
                try:
                    history._take(log.read(name))
                except VersionNotFoundError:
                    history.is_complete = False
                following = name.version + 1
        return history

    def _take(self, manifest: Manifest) -> None:
        paths = {file.path for fragment in manifest.message.fragments for file in fragment.files}
        for path in paths & self.new_names:
            self.named.setdefault(path, []).append(manifest.version)
        old = [fragment_from_record(fragment) for fragment in manifest.fragments if fragment.id in self.old_ids]
        self.planned[manifest.version] = set(map(content_key, old))
        self.latest = set(map(_data_key, old))

    def made_by(self, result: RewriteResult) -> int | None:
        """Return the first version that contains the new files of a group, among the versions since the plan."""
        versions = [version for name in result.new_file_names() for version in self.named.get(name, ())]
        return min((version for version in versions if version > result.read_version), default=None)

    def is_undone(self, result: RewriteResult) -> bool:
        """Return whether the latest version refers to the old data files of a group again."""
        return any(_data_key(fragment) in self.latest for fragment in result.original_fragments)

    def needs_no_file_of(self, result: RewriteResult) -> bool:
        """Return whether the new files of a group can be removed; see the module docstring."""
        old = {content_key(fragment) for fragment in result.original_fragments}
        return (
            self.is_complete
            and old <= self.planned.get(result.read_version, set())
            and self.named.keys().isdisjoint(result.new_file_names())
        )


def _data_key(fragment: FragmentMetadata) -> Hashable:
    """Return a key of a fragment that does not depend on which of its rows are deleted."""
    return fragment.id, tuple((file.base_id, file.path) for file in fragment.files)
