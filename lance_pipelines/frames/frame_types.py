"""The table of data frames that can be stored and loaded.

========================  ==========================  ============================================
type                      loaded                      stored
========================  ==========================  ============================================
``pyarrow.Table``         at once                     batch by batch
``RecordBatchReader``     as it is consumed           as it is produced
``pandas.DataFrame``      at once                     named levels of the index become columns
``polars.DataFrame``      at once                     batch by batch
``polars.LazyFrame``      columns that a query needs  batch by batch, in Polars' streaming engine
duckdb relation           as it is executed           as it is executed
Spark ``DataFrame``       by the tasks of Spark       by the tasks of Spark
``LanceDataset``          opened                      not stored
========================  ==========================  ============================================

A type is recognized by its name, so that looking up a type imports no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lance_core.errors import NotSupportedError
from lance_pipelines.frames import arrow_frames, duckdb_frames, pandas_frames, polars_frames, spark_frames
from lance_pipelines.frames.staging import stage_reader

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lance_pipelines.frames.table_slice import TableSlice
    from lance_pipelines.ingest.staged_write import StagedWrite

__all__ = ["FRAME_TYPES", "FrameType", "frame_type_of"]

_Stage: TypeAlias = "Callable[..., StagedWrite]"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameType:
    """How frames of one type are loaded and stored.

    Attributes:
        package: the package or module that defines the type.
        name: the name of the type.
        load: returns a frame of a slice.
        of_table: returns a frame of an Arrow table; None if such a frame always belongs to a dataset.
        stage: writes the rows of a frame as fragments, when called as ``stage(frame, declaration, run_id=…,
            step_key=…, partitions=…)``; None if frames of this type cannot be stored.
    """

    package: str
    name: str
    load: Callable[[TableSlice], Any]
    of_table: Callable[[pa.Table], Any] | None
    stage: _Stage | None

    @property
    def label(self) -> str:
        """The name of the type, for messages."""
        return f"{self.package}.{self.name}"

    def describes(self, found: type) -> bool:
        """Return whether a class is this type, or derives from it."""
        return any(
            base.__name__ == self.name and f"{base.__module__.removeprefix('_')}.".startswith(f"{self.package}.")
            for base in found.__mro__
        )


def _streamed(reader_of: Callable[[Any], pa.RecordBatchReader]) -> _Stage:
    """Return the stage function of a type whose frames can be read as an Arrow stream."""

    def stage(frame: Any, *arguments: Any, **named: Any) -> StagedWrite:
        return stage_reader(reader_of(frame), *arguments, **named)

    return stage


FRAME_TYPES: Final = (
    FrameType(
        package="pyarrow",
        name="Table",
        load=arrow_frames.load_table,
        of_table=arrow_frames.table_of_table,
        stage=_streamed(arrow_frames.reader_of_table),
    ),
    FrameType(
        package="pyarrow",
        name="RecordBatchReader",
        load=arrow_frames.load_reader,
        of_table=arrow_frames.reader_of_table,
        stage=_streamed(arrow_frames.reader_of_reader),
    ),
    FrameType(
        package="pandas",
        name="DataFrame",
        load=pandas_frames.load_pandas,
        of_table=pandas_frames.pandas_of_table,
        stage=_streamed(pandas_frames.reader_of_pandas),
    ),
    FrameType(
        package="polars",
        name="DataFrame",
        load=polars_frames.load_polars,
        of_table=polars_frames.polars_of_table,
        stage=_streamed(polars_frames.reader_of_polars),
    ),
    FrameType(
        package="polars",
        name="LazyFrame",
        load=polars_frames.load_lazy_polars,
        of_table=polars_frames.lazy_polars_of_table,
        stage=_streamed(polars_frames.reader_of_lazy_polars),
    ),
    FrameType(
        package="duckdb",
        name="DuckDBPyRelation",
        load=duckdb_frames.load_duckdb,
        of_table=duckdb_frames.duckdb_of_table,
        stage=_streamed(duckdb_frames.reader_of_duckdb),
    ),
    FrameType(
        package="pyspark.sql",
        name="DataFrame",
        load=spark_frames.load_spark,
        of_table=spark_frames.spark_of_table,
        stage=spark_frames.stage_spark,
    ),
    FrameType(
        package="lance_core",
        name="LanceDataset",
        load=lambda rows: rows.dataset,
        of_table=None,
        stage=None,
    ),
)


def frame_type_of(found: object) -> FrameType:
    """Return the entry for a class.

    Raises:
        NotSupportedError: the class is not in the table.
    """
    for entry in FRAME_TYPES:
        if isinstance(found, type) and entry.describes(found):
            return entry
    name = f"{found.__module__}.{found.__qualname__}" if isinstance(found, type) else str(found)
    supported = ", ".join(entry.label for entry in FRAME_TYPES)
    raise NotSupportedError(f"frames of type {name} are not supported; supported types: {supported}", found=name)
