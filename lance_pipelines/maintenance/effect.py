"""Effect: what one run of a maintenance job did to a dataset, as statistics that all jobs have in common.

=========================  ====================================================  ====================================
Job                        ``files`` and ``num_bytes`` of :class:`Contents`      ``bytes_reclaimed``
=========================  ====================================================  ====================================
compact,                   the data files of the version                         0: a cleanup removes the old files
materialize_deletions,
delete_rows, retention
cleanup                    everything that is stored for the dataset             bytes that were freed
build_index,               not counted                                           0
optimize_indices, restore
=========================  ====================================================  ====================================
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Contents", "Effect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The state of a dataset before or after a job. Numbers that are not counted or not recorded are None.

    Attributes:
        fragments: number of fragments of the version.
        files: number of files.
        num_bytes: total size of the files, in bytes.
        rows: number of rows that are not deleted.
    """

    fragments: int | None = None
    files: int | None = None
    num_bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one run did.

    Attributes:
        op: the operation, for example ``compact``.
        version_before: the version that the run planned on.
        version_after: the version that the run created; ``version_before`` if it created none.
        before: the state before the run.
        after: the state after the run.
        has_changed: whether the run changed anything.
        bytes_written: total size of the new files, in bytes.
        bytes_reclaimed: total size of the removed files, in bytes.
    """

    op: str
    version_before: int
    version_after: int
    before: Contents
    after: Contents
    has_changed: bool = True
    bytes_written: int = 0
    bytes_reclaimed: int = 0

    @classmethod
    def none(cls, op: str, version: int, contents: Contents) -> Effect:
        """Return the effect of a run that found nothing to do."""
        return cls(
            op=op,
            version_before=version,
            version_after=version,
            before=contents,
            after=contents,
            has_changed=False,
        )

    @property
    def bytes_saved(self) -> int | None:
        """The number of bytes by which the files became smaller; None if the files were not counted."""
        before, after = self.before.num_bytes, self.after.num_bytes
        return None if before is None or after is None else before - after
