"""LanceIOManager: stores each asset in a Lance dataset of its own, and loads it as the type that a step requests.

::

    resources={"io_manager": LanceIOManager(base_uri="s3://lake/tables")}

    key  raw/events   →   s3://lake/tables/raw/events.lance

A step reads the version that Dagster recorded as its input (``lance_pipelines/reads``). What it returns is committed
once. The data version of the asset does not change with maintenance, so maintenance makes nothing downstream stale.
"""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final, Union, get_args, get_origin
from urllib.parse import quote

import dagster as dg
import pyarrow as pa
from pydantic import Field

from lance_core.errors import DatasetNotFoundError, InvalidInputError
from lance_pipelines.events.asset_metadata import PARTITION_KEY, STORAGE_KIND, STORAGE_KIND_KEY, TAG_KEY, URI_KEY
from lance_pipelines.events.committed_write import CommittedWrite, commit_frame
from lance_pipelines.frames.frame_types import frame_type_of
from lance_pipelines.frames.table_slice import TableSlice
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn
from lance_pipelines.io_managers.dataset_access import DatasetAccess, rows_of
from lance_pipelines.ops.failures import reported_as_failure
from lance_pipelines.partitions import partitions_of
from lance_pipelines.runs.step_attempts import earlier_attempts
from lance_pipelines.settings import absolute_uri

__all__ = ["LanceIOManager", "dataset_uri"]

_URI_METADATA: Final = "lance/uri"
_MODE_METADATA: Final = "lance/mode"
_SCHEMA_MODE_METADATA: Final = "lance/schema_mode"
_UPSERT_BY_METADATA: Final = "lance/upsert_by"
_COLUMNS_METADATA: Final = "columns"
_FILTER_METADATA: Final = "filter"
_TAG_METADATA: Final = "tag"


class LanceIOManager(DatasetAccess, dg.ConfigurableIOManager):
    """Stores assets in Lance datasets, and loads them as data frames.

    ``pyarrow.Table``, ``pyarrow.RecordBatchReader``, ``pandas.DataFrame``, ``polars.DataFrame``, ``polars.LazyFrame``,
    DuckDB relations, and Spark DataFrames are stored and loaded; a ``lance_core.LanceDataset`` can only be loaded. The
    annotation of a parameter selects the type; without one, it is ``pyarrow.Table``.

    Metadata of an asset:

    * ``lance/uri``: the dataset's location, instead of the one below ``base_uri``;
    * ``lance/mode``: ``overwrite``, ``append``, ``upsert``, or ``create``, instead of ``mode``;
    * ``lance/upsert_by``: the key columns of mode ``upsert``, a name or a list of names; by default, the primary key
      that the dataset declares;
    * ``lance/schema_mode``: ``error``, ``add``, or ``overwrite``, instead of ``schema_mode``;
    * ``partition_expr``: the column that assigns rows to partitions; for partitions of several dimensions, a mapping
      of the name of each dimension to its column. A run in mode ``overwrite`` then replaces the rows of its partitions,
      in one commit, and a step loads the rows of the partitions that it depends on.

    Metadata of an input (``dg.AssetIn(metadata=…)``):

    * ``columns``: names of the columns to load;
    * ``filter``: a SQL condition that selects the rows to load;
    * ``tag``: load the version to which this tag refers. An asset that stands for the published version of a dataset is
      always loaded by its tag.
    """

    base_uri: str = Field(description="Directory or URI under which the datasets are stored.")
    mode: str = Field(
        default=WriteMode.OVERWRITE.value,
        description="What happens to existing rows: overwrite, append, upsert (replace rows by key), or create (fail "
        "if the dataset exists).",
    )
    schema_mode: str | None = Field(
        default=None,
        description="What happens to columns that the dataset lacks: 'error' (fail), 'add' (add them), or 'overwrite' "
        "(replace the schema). The default is 'overwrite' if the write replaces all rows, and 'error' otherwise.",
    )

    def dataset_uri(self, key: dg.AssetKey | str | Sequence[str]) -> str:
        """Return the default location of an asset's dataset; the asset's metadata can specify another one."""
        parts = dg.AssetKey.from_user_string(key) if isinstance(key, str) else dg.AssetKey.from_coercible(key)
        return dataset_uri(self.base_uri, parts)

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Store a frame as the next version of the asset's dataset."""
        if not context.has_asset_key:
            raise dg.DagsterInvariantViolationError(
                f"output {context.name!r} is not an asset: LanceIOManager stores only assets; use another IO manager "
                "for the outputs of ops"
            )
        partitions = _partitions(context)
        with reported_as_failure(context.asset_key.to_user_string(), context.log):
            declaration = self._declaration(context)
            committed = commit_frame(
                obj,
                declaration,
                run_id=context.run_id,
                step_key=context.step_context.step.key,
                partitions=partitions,
                earlier_runs=earlier_attempts(
                    context.step_context, includes_other_runs=declaration.mode.takes_effect_again
                ),
            )
        context.log.info(committed.report.summary())
        _report(context, committed, len(partitions))

    def load_input(self, context: dg.InputContext) -> Any:
        """Load the version that is recorded as the input, as a frame of the annotated type."""
        key = context.asset_key
        upstream = context.upstream_output
        metadata = _plain((upstream.definition_metadata if upstream is not None else None) or {})
        # Outside a run, as for ``Definitions.load_asset_value``, there is no step.
        step = context._step_context
        with reported_as_failure(key.to_user_string(), None if step is None else context.log):
            frame_type = frame_type_of(_annotated_type(context))
            reader = self._reader(step)
            wanted = _partitions(context) if context.has_asset_partitions else None
            asked = context.definition_metadata or {}
            columns = _columns(asked)
            try:
                # The tag of the input, or of the upstream asset if it stands for a published version.
                tag = asked.get(_TAG_METADATA) or metadata.get(TAG_KEY)
                dataset = reader.open(key, self._input_uri(key, metadata), self.storage_options or None, tag=tag)
            except DatasetNotFoundError:
                if wanted != [] or frame_type.of_table is None:
                    raise
                # The first partition of an asset that depends on its own earlier partitions.
                return frame_type.of_table(pa.table({name: pa.nulls(0) for name in columns or ()}))
            rows = None
            if wanted is not None:
                rows = rows_of(wanted, _partition_columns(metadata), dataset.schema)
            return frame_type.load(TableSlice.of(dataset, columns, rows, asked.get(_FILTER_METADATA)))

    def _uri(self, key: dg.AssetKey, metadata: Mapping[str, Any]) -> str:
        return absolute_uri(str(metadata.get(_URI_METADATA) or self.dataset_uri(key)))

    def _input_uri(self, key: dg.AssetKey, metadata: Mapping[str, Any]) -> str:
        """Return the location of an upstream asset's dataset, which may be a declared one."""
        is_declared = metadata.get(STORAGE_KIND_KEY) == STORAGE_KIND and URI_KEY in metadata
        return absolute_uri(str(metadata[URI_KEY])) if is_declared else self._uri(key, metadata)

    def _declaration(self, context: dg.OutputContext) -> DatasetDeclaration:
        metadata = context.definition_metadata or {}
        return self._declared(
            context.asset_key.path,
            self._uri(context.asset_key, metadata),
            mode=metadata.get(_MODE_METADATA, self.mode),
            schema_mode=metadata.get(_SCHEMA_MODE_METADATA, self.schema_mode),
            partition_by=_partition_columns(metadata) if context.has_asset_partitions else (),
            upsert_by=metadata.get(_UPSERT_BY_METADATA, ()),
            is_partitioned=context.has_asset_partitions,
        )


def dataset_uri(base_uri: str, key: dg.AssetKey) -> str:
    """Return the location of an asset's dataset: the parts of its key are directories below the base."""
    # A directory "." would be the one that contains it.
    parts = ["%2E" if part == "." else quote(part, safe=" +=,@~").replace("..", "%2E%2E") for part in key.path]
    return f"{base_uri.rstrip('/')}/{'/'.join(parts)}.lance"


def _partition_columns(metadata: Mapping[str, Any]) -> tuple[PartitionColumn, ...]:
    """Return the columns that assign the rows of an asset to its partitions."""
    declared = metadata.get(PARTITION_KEY)
    if isinstance(declared, str):
        return (PartitionColumn(column=declared),)
    if isinstance(declared, Mapping):
        return tuple(PartitionColumn(column=column, dimension=dimension) for dimension, column in declared.items())
    raise InvalidInputError(
        f"the asset has partitions, so its metadata needs {PARTITION_KEY!r}: the column that assigns rows to "
        "partitions, or a mapping of dimensions to columns"
    )


def _partitions(context: dg.OutputContext | dg.InputContext) -> list[Partition]:
    """Return the partitions that a step stores or loads; empty for an asset without partitions."""
    if not context.has_asset_partitions:
        return []
    return partitions_of(context.asset_partitions_def, context.asset_partition_keys)


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as plain values, without the classes in which Dagster wraps them."""
    return {name: value.value if isinstance(value, dg.MetadataValue) else value for name, value in metadata.items()}


def _annotated_type(context: dg.InputContext) -> object:
    annotated = context.dagster_type.typing_type
    if annotated is Any:
        return pa.Table
    # Of ``Optional[DataFrame]``, which is what ``DataFrame | None`` is for Dagster.
    kinds = [kind for kind in get_args(annotated) if kind is not NoneType]
    return kinds[0] if get_origin(annotated) is Union and len(kinds) == 1 else annotated


def _columns(metadata: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the columns that an input requests; None for all."""
    columns = metadata.get(_COLUMNS_METADATA)
    if isinstance(columns, str):
        raise InvalidInputError(
            f"metadata entry {_COLUMNS_METADATA!r} must be a list of column names, found {columns!r}"
        )
    return None if columns is None else list(columns)


def _report(context: dg.OutputContext, committed: CommittedWrite, num_partitions: int) -> None:
    """Add the metadata and the data version to the materialization that Dagster creates for the output."""
    given = context.output_metadata or {}
    metadata = committed.metadata(num_partitions=num_partitions)
    context.add_output_metadata({name: value for name, value in metadata.items() if name not in given})
    # Dagster has no documented way for an IO manager to set the data version.
    context.step_context.set_data_version(context.asset_key, dg.DataVersion(committed.data_version))
