"""Version sequences: which version created each row of a fragment, or last changed it, as runs of equal versions.

Of a run only the number of rows counts, not where its span begins: spans of fragments that were put together overlap.

Source: ``lance.table.RowDatasetVersionSequence``; fragments of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_segments import decode_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = ["decode_version_runs", "encode_version_runs", "iterate_version_runs"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"


def encode_version_runs(versions: _Numbers) -> bytes:
    """Run-length encode the versions of the rows of a fragment; at least one row."""
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


def iterate_version_runs(data: bytes, what: str) -> Iterator[_Numbers]:
    """The versions, run by run, each written out row by row.

    Raises:
        CorruptDataError: the bytes are no such sequence.
    """
    try:
        sequence = pb_rowids.RowDatasetVersionSequence.FromString(data)
    except DecodeError as error:
        raise CorruptDataError(f"{what}: the versions cannot be decoded: {error}") from error
    for run in sequence.runs:
        yield np.full(len(decode_segment(run.span, what)), run.version, np.uint64)


def decode_version_runs(data: bytes, num_rows: int, what: str) -> _Numbers:
    """The versions of all rows.

    Args:
        data: the serialized sequence.
        num_rows: rows of the fragment.
        what: where it is from, for error messages.

    Returns:
        Shape (num_rows,), fresh.

    Raises:
        CorruptDataError: the bytes are no such sequence, or have another number of rows.
    """
    versions = np.concatenate([np.empty(0, np.uint64), *iterate_version_runs(data, what)])
    if len(versions) != num_rows:
        raise CorruptDataError(
            f"{what}: a sequence has {len(versions)} rows, the fragment {num_rows}",
            expected=num_rows,
            found=len(versions),
        )
    return versions
