"""LanceTableResource: one dataset for assets that read or write it themselves, without an IO manager.

::

    @dg.asset(deps=[dg.AssetKey(["raw", "events"])])
    def report(events: LanceTableResource) -> None:
        frame = events.read(pl.DataFrame, columns=["day", "price"])

    defs = dg.Definitions(..., resources={"events": LanceTableResource(asset="raw/events", uri="s3://lake/events.lance")})

A step reads the same version, with the same lease, as with ``LanceIOManager``, and its writes record the same metadata
and data versions.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

import dagster as dg
import pyarrow as pa
from pydantic import Field, PrivateAttr

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines.events.committed_write import CommittedWrite, commit_frame
from lance_pipelines.frames.frame_types import frame_type_of
from lance_pipelines.frames.table_slice import TableSlice
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn, partition_columns
from lance_pipelines.io_managers.dataset_access import DatasetAccess, rows_of
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.partitions import partitions_of, run_partitions
from lance_pipelines.runs.step_attempts import earlier_attempts
from lance_pipelines.settings import absolute_uri

__all__ = ["LanceTableResource"]

_Frame = TypeVar("_Frame")


class LanceTableResource(DatasetAccess, dg.ConfigurableResource[Any]):
    """A Lance dataset that steps open, read, and write directly.

    In a step, a read sees the version that Dagster recorded as the step's input; outside a run, the latest version.
    With ``tag``, a read sees the version that has this tag.
    """

    asset: str = Field(description='Key of the asset that the dataset belongs to, for example "raw/events".')
    uri: str = Field(description="Location of the dataset.")
    tag: str | None = Field(
        default=None,
        description="A tag. If it is given, reads see the version to which it refers. Writes are not affected.",
    )
    _writes: Counter[tuple[str, str, int]] = PrivateAttr(default_factory=Counter)

    def dataset(self) -> lance_core.LanceDataset:
        """Return a handle to the version that the step reads, with the rows of all partitions.

        Raises:
            dagster.Failure: the dataset, or the recorded version, does not exist.
        """
        context = _current_context()
        step = None if context is None else context.get_step_execution_context()
        with reported_as_failure(self.asset):
            return self._reader(step).open(
                self._key, absolute_uri(self.uri), self.storage_options or None, tag=self.tag
            )

    def read(
        self,
        frame_type: type[_Frame] = pa.Table,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        partition_by: str | Sequence[PartitionColumn] = (),
    ) -> _Frame:
        """Return rows of the version that the step reads: those of all partitions, unless ``partition_by`` is given.

        Args:
            frame_type: the type of the frame, as for ``LanceIOManager``.
            columns: names of the columns; None means all.
            filter: a SQL condition that selects the rows; None means all.
            partition_by: the columns that assign rows to partitions, as for ``write``. A step then reads only the
                rows of the asset's partitions on which the step depends. Ignored outside a run.
        """
        with reported_as_failure(self.asset):
            entry = frame_type_of(frame_type)
            dataset = self.dataset()
            context = _current_context()
            wanted = None
            if partition_by and context is not None:
                partitions = _input_partitions(context, self._key)
                wanted = rows_of(partitions, partition_columns(partition_by), dataset.schema)
            loaded: _Frame = entry.load(TableSlice.of(dataset, columns, wanted, filter))
            return loaded

    def write(
        self,
        frame: object,
        *,
        mode: str = WriteMode.OVERWRITE.value,
        schema_mode: str | None = None,
        partition_by: str | Sequence[PartitionColumn] = (),
        upsert_by: str | Sequence[str] = (),
    ) -> dg.MaterializeResult[Any]:
        """Commit a frame as the next version, and return a ``MaterializeResult`` for the asset to return.

        If the step is repeated, the commit of an earlier attempt is kept, as with ``LanceIOManager``. The writes of
        an attempt are distinguished by their order.

        Args:
            frame: a frame of a type that ``LanceIOManager`` stores.
            mode: ``overwrite``, ``append``, ``upsert``, or ``create``. In a run for partitions of the asset,
                ``overwrite`` replaces the rows of these partitions.
            schema_mode: what happens to columns that the dataset lacks: ``error``, ``add``, or ``overwrite``. By
                default, ``overwrite`` if all rows are replaced, and ``error`` otherwise.
            partition_by: the columns that assign rows to partitions, as for ``DatasetDeclaration``.
            upsert_by: the key columns of mode ``upsert``, as for ``DatasetDeclaration``.
        """
        with reported_as_failure(self.asset):
            context = _current_context()
            partitions = [] if context is None else _partitions(context, self._key)
            declaration = self._declared(
                self.asset,
                absolute_uri(self.uri),
                mode=mode,
                schema_mode=schema_mode,
                partition_by=partition_by,
                upsert_by=upsert_by,
                is_partitioned=bool(partitions),
            )
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
            return _result(self._key, committed, len(partitions))

    @property
    def _key(self) -> dg.AssetKey:
        return dg.AssetKey.from_user_string(self.asset)


def _current_context() -> dg.OpExecutionContext | None:
    try:
        return dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        # Outside a run: in a notebook, or in a test that calls an asset directly.
        return None


def _partitions(context: dg.OpExecutionContext, key: dg.AssetKey) -> list[Partition]:
    """Return the partitions of the run; empty if the asset has none."""
    assets = context.get_step_execution_context().job_def.asset_layer
    return run_partitions(context, assets.get(key).partitions_def if assets.has(key) else None)


def _input_partitions(context: dg.OpExecutionContext, key: dg.AssetKey) -> list[Partition]:
    """Return the partitions of an asset that the step depends on."""
    step = context.get_step_execution_context()
    assets = step.job_def.asset_layer
    for name in context.op_def.ins:
        is_this = assets.get_asset_key_for_node_input(step.node_handle, name) == key
        if is_this and step.has_asset_partitions_for_input(name):
            keys = context.asset_partition_keys_for_input(name)
            return partitions_of(context.asset_partitions_def_for_input(name), keys)
    raise InvalidInputError(
        "partition_by requires a dependency on a partitioned asset, but this step does not depend on partitions of "
        f"{key.to_user_string()}; omit partition_by to read all rows, or add the partitioned asset to the step's deps"
    )


def _result(key: dg.AssetKey, committed: CommittedWrite, num_partitions: int = 0) -> dg.MaterializeResult[Any]:
    return dg.MaterializeResult(
        asset_key=key,
        metadata=committed.metadata(num_partitions=num_partitions),
        data_version=dg.DataVersion(committed.data_version),
        tags=committed.tags(),
    )
