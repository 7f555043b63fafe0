"""LanceTableResource: one dataset for assets that read or write it themselves, without an IO manager.

::

    @dg.asset(deps=["raw/events"])
    def report(events: LanceTableResource) -> None:
        frame = events.read(pl.DataFrame, columns=["day", "price"])

    defs = dg.Definitions(..., resources={"events": LanceTableResource(asset="raw/events", uri="s3://lake/events.lance")})

Reads have the same pins and leases, and writes the same metadata and data versions, as those of ``LanceIOManager``.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa
from dagster._core.execution.context.system import StepExecutionContext
from pydantic import Field, PrivateAttr

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines.events.committed_write import CommittedWrite, commit_frame
from lance_pipelines.frames.frame_types import frame_type_of
from lance_pipelines.frames.table_slice import TableSlice
from lance_pipelines.ingest.declaration import (
    DECLARED_MAX_BYTES_PER_FILE,
    DECLARED_MAX_ROWS_PER_FILE,
    DatasetDeclaration,
    SchemaMode,
    WriteMode,
)
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.partitions import run_partitions
from lance_pipelines.reads.held_leases import HeldLeases
from lance_pipelines.reads.pins import Reader
from lance_pipelines.runs.step_attempts import earlier_attempts
from lance_pipelines.settings import absolute_uri

__all__ = ["LanceTableResource"]

_Frame = TypeVar("_Frame")


class LanceTableResource(dg.ConfigurableResource[Any]):
    """A Lance dataset that steps open, read, and write directly.

    In a step, a read sees the version that Dagster recorded as the step's input; outside a run, the latest version.
    """

    asset: str = Field(description='Key of the asset that the dataset belongs to, for example "raw/events".')
    uri: str = Field(description="Location of the dataset.")
    storage_options: dict[str, str] = Field(
        default={},
        repr=False,
        description='Credentials and settings of the store. A value may be dg.EnvVar("NAME").',
    )
    max_rows_per_file: int = Field(
        default=DECLARED_MAX_ROWS_PER_FILE, description="Number of rows at which the next data file is started."
    )
    max_bytes_per_file: int = Field(
        default=DECLARED_MAX_BYTES_PER_FILE,
        description="Approximate number of bytes at which the next data file is started.",
    )
    lease_seconds: int = Field(
        default=3600,
        ge=0,
        description="Number of seconds that a version stays protected from cleanups after the process that reads it is "
        "killed. 0 turns this protection off.",
    )
    _leases: HeldLeases | None = PrivateAttr(default=None)
    _writes: Counter[tuple[str, str, int]] = PrivateAttr(default_factory=Counter)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Release the leases of the run, or of the step if it has a process of its own."""
        if self._leases is not None:
            self._leases.release()
            self._leases = None

    def dataset(self) -> lance_core.LanceDataset:
        """Return a handle to the version that the step reads.

        Raises:
            dagster.Failure: the dataset, or the recorded version, does not exist.
        """
        step = _current_step()
        if self._leases is None:
            self._leases = HeldLeases(timedelta(seconds=self.lease_seconds))
        with reported_as_failure(self.asset):
            uri = absolute_uri(self.uri)
            return Reader(step, self._leases).open(self._key, uri, self.storage_options or None)

    def read(
        self, frame_type: type[_Frame] = pa.Table, *, columns: Sequence[str] | None = None, filter: str | None = None
    ) -> _Frame:
        """Return rows of the version that the step reads.

        Args:
            frame_type: the type of the frame, as for ``LanceIOManager``.
            columns: names of the columns; None means all.
            filter: a SQL condition that selects the rows; None means all.
        """
        with reported_as_failure(self.asset):
            entry = frame_type_of(frame_type)
            rows = TableSlice(self.dataset(), columns=None if columns is None else tuple(columns), filter=filter)
            loaded: _Frame = entry.load(rows)
            return loaded

    def write(
        self,
        frame: object,
        *,
        mode: str = WriteMode.OVERWRITE.value,
        schema_mode: str | None = None,
        partition_by: str | Sequence[PartitionColumn] = (),
    ) -> dg.MaterializeResult[Any]:
        """Commit a frame as the next version, and return the materialization for the asset to return.

        If the step is repeated, what an earlier attempt has committed is kept, as by ``LanceIOManager``. The writes of
        an attempt are told apart by their order.

        Args:
            frame: a frame of a type that ``LanceIOManager`` stores.
            mode: ``overwrite``, ``append`` or ``create``. In a run for partitions of the asset, ``overwrite`` replaces
                the rows of these partitions.
            schema_mode: what happens to columns that the dataset does not have: ``error``, ``add`` or ``overwrite``. By
                default, ``overwrite`` where all rows are replaced, otherwise ``error``.
            partition_by: the columns by which rows belong to partitions, as for ``DatasetDeclaration``.
        """
        with reported_as_failure(self.asset):
            context = _current_context()
            partitions = [] if context is None else _partitions(context, self._key)
            declaration = self._declaration(mode, schema_mode, partition_by, is_partitioned=bool(partitions))
            if context is None:
                return _result(self._key, commit_frame(frame, declaration, run_id="", step_key=""))
            step = context.get_step_execution_context()
            attempt = (step.run_id, step.step.key, step.previous_attempt_count)
            committed = commit_frame(
                frame,
                declaration,
                run_id=step.run_id,
                step_key=step.step.key,
                partitions=partitions,
                number=self._writes[attempt],
                earlier_runs=earlier_attempts(step, includes_other_runs=declaration.mode.takes_effect_again),
            )
            self._writes[attempt] += 1
            return _result(self._key, committed)

    @property
    def _key(self) -> dg.AssetKey:
        return dg.AssetKey.from_user_string(self.asset)

    def _declaration(
        self,
        mode: str,
        schema_mode: str | None,
        partition_by: str | Sequence[PartitionColumn],
        *,
        is_partitioned: bool,
    ) -> DatasetDeclaration:
        if mode not in set(WriteMode):
            raise InvalidInputError(f"unknown mode {mode!r}; expected one of {', '.join(WriteMode)}")
        if schema_mode is not None and schema_mode not in set(SchemaMode):
            raise InvalidInputError(f"unknown schema mode {schema_mode!r}; expected one of {', '.join(SchemaMode)}")
        chosen = WriteMode(mode)
        if is_partitioned and chosen is WriteMode.OVERWRITE:
            chosen = WriteMode.OVERWRITE_PARTITION
        return DatasetDeclaration(
            key=self.asset,
            uri=absolute_uri(self.uri),
            storage_options=self.storage_options,
            mode=chosen,
            schema_mode=None if schema_mode is None else SchemaMode(schema_mode),
            partition_by=partition_by,
            max_rows_per_file=self.max_rows_per_file,
            max_bytes_per_file=self.max_bytes_per_file,
        )


def _current_context() -> dg.OpExecutionContext | None:
    try:
        return dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        # Outside a run: in a notebook, or in a test that calls an asset directly.
        return None


def _current_step() -> StepExecutionContext | None:
    context = _current_context()
    return None if context is None else context.get_step_execution_context()


def _partitions(context: dg.OpExecutionContext, key: dg.AssetKey) -> list[Partition]:
    """Return the partitions of the run; empty if the asset has none."""
    assets = context.get_step_execution_context().job_def.asset_layer
    return run_partitions(context, assets.get(key).partitions_def if assets.has(key) else None)


def _result(key: dg.AssetKey, committed: CommittedWrite) -> dg.MaterializeResult[Any]:
    return dg.MaterializeResult(
        asset_key=key,
        metadata=committed.metadata(),
        data_version=dg.DataVersion(committed.data_version),
        tags=committed.tags(),
    )
