"""Results of tasks: new fragments that are not yet part of any version, and statistics of the changes.

Results are passed as JSON, in pylance's format, from the process that ran the task to the process that commits.

Source: JSON of pylance 14.0.2 (``RewriteResult.json``).
"""

from __future__ import annotations

import json as json_text
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Final, Self

from lance_core.public.fragment_metadata import read_fragment
from lance_core.public.json_document import byte_string, entries, listed, nullable, parse_document, whole
from lance_core.public.overlay_metadata import with_coverage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.public.json_document import JsonObject


__all__ = ["VERSION", "CompactionMetrics", "RewriteCommit", "RewriteResult", "content_key"]

VERSION: Final = whole(1, 2**63)
"""Reads a version number from a JSON document and checks its range."""

_COUNT: Final = whole(0, 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMetrics:
    """Statistics of the changes that a compaction makes.

    Attributes:
        fragments_removed: number of replaced fragments.
        fragments_added: number of new fragments.
        files_removed: number of data and deletion files to which the table no longer refers.
        files_added: number of new data files.
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def of(cls, old: Sequence[FragmentMetadata], new: Sequence[FragmentMetadata]) -> Self:
        """Compute the statistics of one task."""
        return cls(
            fragments_removed=len(old),
            fragments_added=len(new),
            files_removed=sum(len(fragment.files) + (fragment.deletion_file is not None) for fragment in old),
            files_added=sum(len(fragment.files) for fragment in new),
        )

    @classmethod
    def sum(cls, parts: Iterable[CompactionMetrics]) -> Self:
        """Compute the total for several tasks."""
        listed = list(parts)
        return cls(**{each.name: sum(getattr(part, each.name) for part in listed) for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """The result of one executed task.

    Attributes:
        read_version: the version on which the plan was based and from which the rows were read.
        original_fragments: the fragments that contained the rows, as recorded in that version.
        new_fragments: the new fragments that contain the rows, with id 0; empty if every row was deleted.
        metrics: statistics of the changes that a commit of the result makes.
        row_addrs: serialized 64-bit Roaring bitmap of the old addresses of the rows; pylance needs it to remap its
            indices. None if no index refers to rows by address. This library does not need the bitmap to commit.
    """

    read_version: int
    original_fragments: list[FragmentMetadata]
    new_fragments: list[FragmentMetadata]
    metrics: CompactionMetrics = field(default_factory=CompactionMetrics)
    row_addrs: bytes | None = None

    @property
    def num_bytes(self) -> int:
        """Total size of the new files in bytes."""
        return sum(file.file_size_bytes or 0 for fragment in self.new_fragments for file in fragment.files)

    def new_file_names(self) -> list[str]:
        """Return the paths of the new files, relative to ``data/``."""
        return [file.path for fragment in self.new_fragments for file in fragment.files]

    def json(self) -> str:
        """Return this result as a JSON document in pylance's format."""
        return json_text.dumps(
            {
                "metrics": asdict(self.metrics),
                "new_fragments": [with_coverage(fragment.to_json()) for fragment in self.new_fragments],
                "read_version": self.read_version,
                "original_fragments": [with_coverage(fragment.to_json()) for fragment in self.original_fragments],
                "row_addrs": None if self.row_addrs is None else list(self.row_addrs),
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """Parse a JSON document; the inverse of :meth:`json`. Documents written by pylance can also be read.

        Raises:
            InvalidInputError: the document is invalid.
        """
        document = parse_document("rewrite result", json)
        return RewriteResult(
            read_version=document.take("read_version", VERSION),
            original_fragments=document.take("original_fragments", listed(read_fragment)),
            new_fragments=document.take("new_fragments", listed(read_fragment)),
            metrics=document.take("metrics", entries(_metrics)),
            row_addrs=document.take("row_addrs", nullable(byte_string), None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteCommit:
    """The result of committing executed tasks.

    Attributes:
        version: the last version that committed any of the tasks; None if none was committed.
        metrics: metrics of the committed tasks.
        committed: the results that this call committed, or that an earlier call with the same results committed. In the
            latter case, later versions may have changed or moved these rows.
        lost: the results that can no longer be committed, because their fragments were changed in the meantime or
            because an older version was restored; plan these groups again.
        attempts: number of commit attempts.
    """

    version: int | None
    metrics: CompactionMetrics
    committed: list[RewriteResult]
    lost: list[RewriteResult]
    attempts: int


def _metrics(document: JsonObject) -> CompactionMetrics:
    return CompactionMetrics(**{each.name: document.take(each.name, _COUNT) for each in fields(CompactionMetrics)})


def content_key(fragment: FragmentMetadata) -> Hashable:
    """Return a key made of the id, the data files, and the deletion file of a fragment.

    Two fragments with equal keys contain the same rows at the same addresses.
    """
    deletion = fragment.deletion_file
    return (
        fragment.id,
        fragment.physical_rows,
        tuple((file.base_id, file.path, tuple(file.fields)) for file in fragment.files),
        None if deletion is None else (deletion.base_id, deletion.read_version, deletion.id, deletion.file_type),
        len(fragment.overlays),
    )
