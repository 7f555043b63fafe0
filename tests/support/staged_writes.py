"""Staged writes like those of the Spark layer, with fragments written by lance_core alone."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from lance_pipelines.ingest.staged_write import StagedWrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    import lance_core


def staged_write(
    fragments: Sequence[lance_core.FragmentMetadata], rows: pa.Table, file_token: str, **more: Any
) -> StagedWrite:
    """The staged write of the rows, which the fragments contain; the other attributes are given by name."""
    defaults = {"dataset": "events", "run_id": "run-1", "step_key": "events.write_fragments"}
    return StagedWrite(
        write_id=str(uuid.uuid4()),
        file_token=file_token,
        fragments=tuple(fragment.to_json() for fragment in fragments),
        rows_counted=rows.num_rows,
        rows_written=rows.num_rows,
        bytes_written=sum(file.file_size_bytes for fragment in fragments for file in fragment.files),
        **{**defaults, **more},
    )
