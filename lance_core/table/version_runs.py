"""Version sequences: the version that created, or last changed, each row of a fragment, as runs of equal versions.

Each run stores a span of row positions, but only its length is used: after fragments are merged, the spans of their
runs overlap.

Source: ``lance.table.RowDatasetVersionSequence``; fragments of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_segments import parse_segment
from lance_core.wording import counted

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["VersionRuns", "encode_version_runs"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"


@dataclass(frozen=True, slots=True)
class VersionRuns:
    """The versions of the rows of a fragment, as runs of equal versions.

    Attributes:
        stops: position after the last row of each run, shape (num_runs,).
        versions: the version of each run, shape (num_runs,).
    """

    stops: npt.NDArray[np.int64]
    versions: _Numbers

    @classmethod
    def parse(cls, data: bytes, num_rows: int, what: str) -> Self:
        """Parse a serialized sequence without unpacking its runs.

        Args:
            data: the sequence.
            num_rows: number of rows in the fragment.
            what: origin of the sequence, for error messages.

        Raises:
            CorruptDataError: the bytes are not a version sequence, or the number of rows differs from ``num_rows``.
        """
        try:
            message = pb_rowids.RowDatasetVersionSequence.FromString(data)
        except DecodeError as error:
            raise CorruptDataError(f"{what}: the versions cannot be decoded: {error}") from error
        spans = [parse_segment(run.span, what) for run in message.runs]
        lengths = [0 if span is None else len(span) for span in spans]
        if sum(lengths) != num_rows:
            raise CorruptDataError(
                f"{what}: a version sequence has {counted(sum(lengths), 'row')}, but the fragment has "
                f"{counted(num_rows, 'row')}",
                expected=num_rows,
                found=sum(lengths),
            )
        versions = np.array([run.version for run in message.runs], np.uint64)
        return cls(np.cumsum(lengths, dtype=np.int64), versions)

    @classmethod
    def constant(cls, version: int, num_rows: int) -> Self:
        """Return a sequence with the same version for all rows."""
        return cls(np.array([num_rows], np.int64), np.array([version], np.uint64))

    def at(self, positions: npt.NDArray[np.int64]) -> _Numbers:
        """Return the versions of some rows as a new array of shape (num_positions,)."""
        return self.versions[np.searchsorted(self.stops, positions, side="right")]

    def numbers(self) -> _Numbers:
        """Return the versions of all rows, unpacked."""
        return np.repeat(self.versions, np.diff(self.stops, prepend=0))


def encode_version_runs(versions: _Numbers) -> bytes:
    """Run-length encode the versions of the rows of a fragment. There must be at least one row."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(versions)) + 1])
    stops = np.append(starts[1:], len(versions))
    return pb_rowids.RowDatasetVersionSequence(
        runs=[
            pb_rowids.RowDatasetVersionRun(
                span=pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=start, end=stop)), version=version
            )
            for start, stop, version in zip(starts.tolist(), stops.tolist(), versions[starts].tolist(), strict=True)
        ]
    ).SerializeToString()
