"""DatasetAccess: the settings of reads and writes, and the leases, which the IO manager and the resource share."""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import pyarrow as pa
from dagster._core.execution.context.system import StepExecutionContext
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from lance_pipelines.ingest.declaration import (
    DECLARED_MAX_BYTES_PER_FILE,
    DECLARED_MAX_ROWS_PER_FILE,
    DatasetDeclaration,
    SchemaMode,
    WriteMode,
)
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn, select_rows
from lance_pipelines.ingest.sources import member_of
from lance_pipelines.reads.held_leases import HeldLeases
from lance_pipelines.reads.pins import Reader

__all__ = ["DatasetAccess", "rows_of"]


class DatasetAccess(BaseModel):
    """Base class of the IO manager and the resource: their fields, leases, and declarations for writes."""

    # Messages about invalid values must not contain them: they may be secrets.
    model_config = ConfigDict(hide_input_in_errors=True)

    storage_options: dict[str, str] = Field(
        default={},
        repr=False,
        description="Credentials and settings of the store. A value may be an environment variable: "
        'dg.EnvVar("NAME"), which each process resolves for itself.',
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
        description="Maximum number of seconds that a version stays protected from cleanups after the process that "
        "reads the version is killed. 0 turns this protection off.",
    )
    _leases: HeldLeases | None = PrivateAttr(default=None)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Release the leases of the run, or of the step if it has a process of its own."""
        if self._leases is not None:
            self._leases.release()
            self._leases = None

    def _reader(self, step: StepExecutionContext | None) -> Reader:
        """Return the reader for a step, or for code that runs outside a step."""
        if self._leases is None:
            self._leases = HeldLeases(timedelta(seconds=self.lease_seconds))
        return Reader(step, self._leases)

    def _declared(
        self,
        key: str | Sequence[str],
        uri: str,
        *,
        mode: str,
        schema_mode: str | None,
        partition_by: str | Sequence[PartitionColumn],
        upsert_by: str | Sequence[str],
        is_partitioned: bool,
    ) -> DatasetDeclaration:
        """Return the declaration for a write; with partitions, an overwrite replaces only their rows."""
        chosen = member_of(WriteMode, "mode", mode)
        if is_partitioned and chosen is WriteMode.OVERWRITE:
            chosen = WriteMode.OVERWRITE_PARTITION
        return DatasetDeclaration(
            key=key,
            uri=uri,
            storage_options=self.storage_options,
            mode=chosen,
            schema_mode=None if schema_mode is None else member_of(SchemaMode, "schema mode", schema_mode),
            partition_by=partition_by,
            upsert_by=upsert_by,
            max_rows_per_file=self.max_rows_per_file,
            max_bytes_per_file=self.max_bytes_per_file,
        )


def rows_of(partitions: Sequence[Partition], columns: Sequence[PartitionColumn], schema: pa.Schema) -> str:
    """Return a SQL condition that is true for the rows of these partitions only; without partitions, for no row."""
    return select_rows(columns, partitions, schema).to_sql() if partitions else "false"
