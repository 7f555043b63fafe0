"""Stages the rows of an Arrow stream as fragments, in this process. No version is created here.

The counterpart for Spark is ``lance_pipelines/spark/staging.py``, which creates the same kind of message.
"""

from __future__ import annotations

import secrets
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

import lance_core
from lance_core import LanceFileVersion
from lance_core.errors import InvalidInputError, LanceError
from lance_core.metadata import DEFAULT_VERSION, check_storable, declared_schema
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.partition_rows import select_rows
from lance_pipelines.ingest.schema_changes import fit_columns
from lance_pipelines.ingest.staged_write import StagedWrite
from lance_pipelines.ingest.verify import verify_keys
from lance_pipelines.ingest.write_commit import transaction_properties
from lance_pipelines.ingest.write_plan import check_run_partitions, plan_write, upsert_keys
from lance_pipelines.spark.conform import conform_batch
from lance_pipelines.spark.leftovers import discard_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_pipelines.ingest.declaration import DatasetDeclaration
    from lance_pipelines.ingest.partition_rows import Partition, RowSelection
    from lance_pipelines.ingest.write_plan import WritePlan

__all__ = ["stage_reader"]


def stage_reader(
    rows: pa.RecordBatchReader,
    declaration: DatasetDeclaration,
    *,
    run_id: str,
    step_key: str,
    partitions: Sequence[Partition] = (),
) -> StagedWrite:
    """Write the rows of a stream as fragments to the dataset's data directory.

    Args:
        rows: the rows; no more than a few batches of them are in memory at a time.
        declaration: the dataset.
        run_id: id of the run; recorded in the transaction.
        step_key: the key of the writing step in that run.
        partitions: the partitions of the run, whose rows are replaced in mode ``overwrite_partition``. Empty if the run
            is not for partitions.

    Raises:
        LanceError: the rows do not fit the dataset, or the write failed. Files already written are deleted.
    """
    check_run_partitions(declaration, partitions)
    storage_options = declaration.resolved_storage_options()
    properties = transaction_properties(run_id=run_id, step_key=step_key, dataset=declaration.name)
    plan, target = fit_columns(declaration, plan_write(declaration), rows.schema, properties=properties)
    overwrites = declaration.mode is WriteMode.OVERWRITE_PARTITION
    selection = None
    if partitions and declaration.partition_by:
        selection = select_rows(declaration.partition_columns, partitions, target)
    keys = upsert_keys(declaration, target)
    replaces = plan.replaces_content
    check_storable(target)
    storage_version = declaration.data_storage_version if replaces else None
    file_token = secrets.token_hex(8)
    counted = _Counted(rows, target, selection)
    try:
        fragments = lance_core.write_fragments(
            pa.RecordBatchReader.from_batches(target, counted.batches()),
            declaration.uri,
            mode="overwrite" if replaces else "append",
            max_rows_per_file=declaration.max_rows_per_file,
            max_bytes_per_file=declaration.max_bytes_per_file,
            data_storage_version=storage_version,
            file_token=file_token,
            storage_options=storage_options,
        )
        assert isinstance(fragments, list)  # noqa: S101  # no transaction was requested
        staged = StagedWrite(
            write_id=str(uuid.uuid4()),
            file_token=file_token,
            dataset=declaration.name,
            uri=declaration.uri,
            mode=declaration.mode,
            predicate=selection.to_sql() if overwrites and selection is not None else None,
            keys=keys,
            data_storage_version=storage_version,
            read_version=plan.read_version,
            read_transaction=plan.read_transaction,
            schema=declared_schema(target, upgrades_blobs=replaces and _upgrades_blobs(declaration, plan)),
            fragments=tuple(fragment.to_json() for fragment in fragments),
            rows_counted=counted.num_rows,
            rows_written=sum(fragment.physical_rows for fragment in fragments),
            bytes_written=sum(file.file_size_bytes or 0 for fragment in fragments for file in fragment.files),
            run_id=run_id,
            step_key=step_key,
        )
        verify_keys(staged, storage_options)
    except BaseException as error:
        _discard(declaration.uri, file_token, error, storage_options)
        raise
    return staged


def _upgrades_blobs(declaration: DatasetDeclaration, plan: WritePlan) -> bool:
    """Return whether a write that replaces all rows converts blobs of the older kind to ``lance.blob.v2``."""
    version = declaration.data_storage_version or plan.data_storage_version
    return (DEFAULT_VERSION if version is None else LanceFileVersion.parse(version)) >= LanceFileVersion.V2_2


class _Counted:
    """Converts the batches of a reader to the target schema, and counts their rows.

    Rows that do not belong to the partitions of the run are refused, because a later run for the same partitions would
    not replace them.
    """

    def __init__(self, rows: pa.RecordBatchReader, target: pa.Schema, selection: RowSelection | None) -> None:
        self._rows = rows
        self._target = target
        self._selection = selection
        self.num_rows = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._rows:
            conformed = conform_batch(batch, self._target, first_row=self.num_rows)
            if self._selection is not None:
                self._check(conformed, self._selection)
            self.num_rows += batch.num_rows
            yield conformed

    def _check(self, rows: pa.RecordBatch, selection: RowSelection) -> None:
        place = selection.mask(rows).index(False).as_py()
        if place < 0:
            return
        names = {condition.column for all_of in selection.alternatives for condition in all_of}
        shown = ", ".join(f"{name}={rows.column(name)[place]}" for name in sorted(names))
        raise InvalidInputError(
            f"row {self.num_rows + place} ({shown}) does not belong to the partitions of the run; expected rows where "
            f"{selection.to_sql()}",
            row=self.num_rows + place,
        )


def _discard(uri: str, file_token: str, error: BaseException, storage_options: dict[str, str] | None) -> None:
    try:
        discard_files(uri, file_token, storage_options=storage_options)
    except LanceError as cleanup_error:
        # The failure of the write is the one to report; leftover files have this token in their names.
        error.add_note(f"the files of this write (file token {file_token}) could not be removed: {cleanup_error}")
