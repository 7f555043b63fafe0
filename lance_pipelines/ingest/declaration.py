"""The declaration of a dataset: its asset key, its location, its source, and how it is written and shown.

A :class:`DatasetDeclaration` is plain data. ``build_definitions`` turns each into a graph-backed asset; the Spark
layer reads its source; the commit step reads its mode. A run configuration can replace individual values for one run.
Values that only Dagster uses (tags, conditions) are passed on unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lance_core import LanceFileVersion
from lance_core.errors import InvalidInputError, UnsupportedVersionError
from lance_pipelines.ingest.partition_rows import PartitionColumn, partition_columns
from lance_pipelines.ingest.sources import (
    Options,
    Source,
    StreamSource,
    check_literals,
    check_not_text,
    member_of,
    resolved_options,
)
from lance_pipelines.maintenance.check_settings import CheckSettings
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, check_indices, indices_digest
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.maintenance.retention_rule import RetentionRule
from lance_pipelines.publish.settings import PublishSettings

if TYPE_CHECKING:
    import dagster as dg

__all__ = [
    "DECLARED_MAX_BYTES_PER_FILE",
    "DECLARED_MAX_ROWS_PER_FILE",
    "DatasetDeclaration",
    "DatasetKey",
    "SchemaMode",
    "WriteMode",
    "dataset_name",
    "key_parts",
    "maintenance_key",
    "published_key",
    "required_publishing",
    "required_source",
]

DECLARED_MAX_ROWS_PER_FILE: Final = 1024 * 1024
"""Default number of rows at which a writing task starts a new data file.

This and :data:`DECLARED_MAX_BYTES_PER_FILE` are the limits for a declared dataset. A write without a declaration uses
the limits in ``lance_core/file/write_config.py``: the same number of rows, but 90 GiB.
"""

DECLARED_MAX_BYTES_PER_FILE: Final = 2 * 1024**3
"""Default number of bytes at which a writing task starts a new data file.

A file of this size is large enough for efficient scans, and small enough to be rewritten by one task.
"""

DatasetKey: TypeAlias = str | Sequence[str]
"""An asset key: its parts, or one string, in which slashes separate the parts."""

_OF_THE_ASSET: Final = (
    "vector_columns",
    "description",
    "group",
    "owners",
    "tags",
    "kinds",
    "deps",
    "automation_condition",
    "freshness",
    "partitions",
    "column_descriptions",
    "column_lineage",
)
"""Fields that only the asset that ingests a source uses."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


class WriteMode(StrEnum):
    """What a run does with existing rows."""

    APPEND = "append"
    """Add the new rows; the first run creates the dataset."""

    OVERWRITE = "overwrite"
    """Replace all rows and the schema with the new ones; the first run creates the dataset."""

    CREATE = "create"
    """Create the dataset; fail if it exists."""

    OVERWRITE_PARTITION = "overwrite_partition"
    """Replace the rows of the run's partitions with the new ones, in one version; the first run creates the dataset."""

    UPSERT = "upsert"
    """Replace rows whose keys are in the new rows, and add the other new rows; the first run creates the dataset."""

    @property
    def takes_effect_again(self) -> bool:
        """Whether a second commit of the same rows would change the dataset, or fail."""
        return self in (WriteMode.APPEND, WriteMode.CREATE)


class SchemaMode(StrEnum):
    """What a run does if the columns of the source differ from those of the dataset."""

    ERROR = "error"
    """Fail before any row is written."""

    ADD = "add"
    """Add new columns to the dataset, with nulls in existing rows. Nullable columns may be missing from the source,
    except in mode ``upsert``."""

    OVERWRITE = "overwrite"
    """Replace the columns together with the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDeclaration:
    """One Lance dataset in the project.

    Attributes:
        key: the asset key: ``"events"``, ``"lake/events"``, or its parts, ``("lake", "events")``.
        uri: the dataset's location.
        source: the source of its rows. If None, an asset of the project writes the dataset, and only its maintenance,
            checks, and events are declared.
        storage_options: credentials and settings of the dataset's store. A value may be ``dagster.EnvVar("NAME")``,
            which every process that opens the dataset resolves for itself. Values are not shown anywhere.
        mode: what a run does with existing rows.
        schema_mode: what a run does if the columns of the source differ from those of the dataset. If None,
            ``overwrite`` if all rows are replaced, and ``error`` otherwise. A column whose type has changed is an
            error, except with ``overwrite``.
        partitions: the partitions of the asset. A run for several partitions makes one commit.
        partition_by: the columns that assign rows to partitions: the name of a column, or a
            ``PartitionColumn`` for each dimension. A run for partitions
            then ingests only the rows of these partitions.
        upsert_by: the key columns of mode ``upsert``: a name, or names. If empty, the primary key that the schema of
            the dataset declares. No key of a new row may contain a null, and no two new rows may have the same key.
        max_rows_per_file: number of rows at which a task starts a new fragment.
        max_bytes_per_file: approximate number of bytes at which a task starts a new fragment.
        data_storage_version: format version of the data files when a run creates the dataset or replaces its content:
            "2.2" ("stable"), "2.1", "2.0", or "0.1" ("legacy"). If None, the dataset's own version, or "2.2" for a new
            dataset. Appended rows use the dataset's version.
        vector_columns: maps each column of float lists to the length that every list must have; these columns are
            stored as fixed-size lists.
        maintenance: the policy that determines when fragments are merged and old versions are removed.
        history: the location of a dataset in which every maintenance run records what it did and cost, opened with the
            same storage options. Several datasets can share it. If None, runs are recorded only in Dagster.
        retention: the rule by which rows expire. The job ``retention`` deletes them; None if rows do not expire.
        indices: the indices that the dataset should have; the jobs ``build_index`` and ``optimize_indices`` build them,
            if the optional extra ``pylance`` is installed.
        checks: the checks that Dagster shows with the asset.
        publish: the tag by which readers see the dataset, and the checks that a version must pass to get the tag. If
            None, readers see every version.
        description: description of the asset.
        group: the asset's group in the web interface.
        owners: email addresses, or teams as ``"team:data"``.
        tags: tags of the asset.
        kinds: kinds that the asset shows in addition to ``lance`` and, if Spark reads the source, ``spark``.
        deps: the assets that must exist before the dataset is ingested: their keys, the assets themselves, or
            ``dagster.AssetDep`` objects.
        automation_condition: the condition under which Dagster ingests the dataset automatically.
        freshness: the policy that says how old the data may be.
        column_descriptions: maps the names of columns to their descriptions.
        column_lineage: maps the name of each column to the columns that it is computed from, as pairs of asset key and
            column.
    """

    key: DatasetKey
    uri: str
    source: Source | None = None
    storage_options: Options = field(default_factory=dict, repr=False)
    mode: WriteMode = WriteMode.APPEND
    schema_mode: SchemaMode | None = None
    partitions: dg.PartitionsDefinition[str] | None = None
    partition_by: str | Sequence[PartitionColumn] = ()
    upsert_by: str | Sequence[str] = ()
    max_rows_per_file: int = DECLARED_MAX_ROWS_PER_FILE
    max_bytes_per_file: int = DECLARED_MAX_BYTES_PER_FILE
    data_storage_version: str | None = None
    vector_columns: Mapping[str, int] = field(default_factory=dict)
    maintenance: MaintenancePolicy = field(default_factory=MaintenancePolicy)
    history: str | None = None
    retention: RetentionRule | None = None
    indices: Sequence[IndexDeclaration] = ()
    checks: CheckSettings = field(default_factory=CheckSettings)
    publish: PublishSettings | None = None
    description: str | None = None
    group: str | None = None
    owners: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    kinds: Sequence[str] = ()
    deps: Sequence[DatasetKey | dg.AssetKey | dg.AssetDep | dg.AssetsDefinition] = ()
    automation_condition: dg.AutomationCondition[Any] | None = None
    freshness: dg.FreshnessPolicy | None = None
    column_descriptions: Mapping[str, str] = field(default_factory=dict)
    column_lineage: Mapping[str, Sequence[tuple[DatasetKey, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_parts(self.key))
        self._convert()
        self._check_owner()
        if not self.uri:
            raise InvalidInputError(f"dataset {self.name}: the URI is empty")
        if self.history is not None and self.history.rstrip("/") in ("", self.uri.rstrip("/")):
            raise InvalidInputError(
                f"dataset {self.name}: the history must have a location other than that of the dataset, found "
                f"{self.history!r}"
            )
        check_literals(f"dataset {self.name}", ("uri", self.uri))
        self._check_modes()
        self._check_stream()
        limits: dict[str, object] = {
            "max_rows_per_file": self.max_rows_per_file,
            "max_bytes_per_file": self.max_bytes_per_file,
            **{f"vector_columns[{column!r}]": length for column, length in self.vector_columns.items()},
        }
        for what, number in limits.items():
            if not isinstance(number, int) or number < 1:
                raise InvalidInputError(
                    f"dataset {self.name}: {what} must be a positive whole number, found {number!r}"
                )
        if self.vector_columns and self.source is not None and not self.source.needs_spark:
            raise InvalidInputError(
                f"dataset {self.name}: vector_columns applies only to rows that Spark reads; "
                "have the source function return fixed-size lists instead"
            )
        if self.publish is not None:
            try:
                self.publish.required_checks(self.checks)
            except InvalidInputError as error:
                raise InvalidInputError(f"dataset {self.name}: {error}") from error
        if self.data_storage_version is not None:
            try:
                LanceFileVersion.parse(self.data_storage_version).require_writable()
            except (InvalidInputError, UnsupportedVersionError) as error:
                raise InvalidInputError(f"dataset {self.name}: {error}") from error

    def _convert(self) -> None:
        """Convert values to the declared types; modes, for example, may be given as text."""
        what = f"dataset {self.name}"
        try:
            object.__setattr__(self, "mode", member_of(WriteMode, "mode", self.mode))
            if self.schema_mode is not None:
                object.__setattr__(self, "schema_mode", member_of(SchemaMode, "schema mode", self.schema_mode))
        except InvalidInputError as error:
            raise InvalidInputError(f"{what}: {error}") from error
        for name in ("uri", "history"):
            if isinstance(getattr(self, name), os.PathLike):
                object.__setattr__(self, name, os.fspath(getattr(self, name)))
        object.__setattr__(self, "upsert_by", _column_names(f"{what}: upsert_by", self.upsert_by))
        if self.source is not None and not isinstance(self.source, Source):
            raise InvalidInputError(
                f"{what}: the source must be a FileSource, SqlSource, AssetSource, FunctionSource, SparkSource, or "
                f"StreamSource, found {self.source!r:.80}"
            )
        if self.retention is not None and not isinstance(self.retention, RetentionRule):
            raise InvalidInputError(f"{what}: retention must be a RetentionRule, found {self.retention!r:.80}")
        object.__setattr__(self, "indices", check_indices(what, self.indices))
        check_not_text(what, ("owners", self.owners), ("kinds", self.kinds), ("deps", self.deps))

    def _check_modes(self) -> None:
        replaces_all = self.mode in (WriteMode.OVERWRITE, WriteMode.CREATE)
        if self.schema_mode is SchemaMode.OVERWRITE and not replaces_all:
            raise InvalidInputError(f"dataset {self.name}: schema_mode overwrite requires mode overwrite or create")
        if self.schema_mode is SchemaMode.ADD and replaces_all:
            raise InvalidInputError(
                f"dataset {self.name}: schema_mode add requires mode append, upsert, or overwrite_partition; mode "
                f"{self.mode} takes all columns from the rows"
            )
        if self.mode is WriteMode.OVERWRITE_PARTITION and not self.partition_by:
            raise InvalidInputError(f"dataset {self.name}: mode overwrite_partition requires partition_by")

    def _check_stream(self) -> None:
        if not isinstance(self.source, StreamSource):
            return
        if self.mode not in (WriteMode.APPEND, WriteMode.UPSERT):
            raise InvalidInputError(
                f"dataset {self.name}: a stream requires mode append or upsert, found {self.mode}, because a run adds "
                "the rows that have arrived since the last run"
            )
        if self.partitions is not None:
            raise InvalidInputError(f"dataset {self.name}: a dataset whose source is a stream cannot have partitions")
        if self.source.checkpoint is None and "://" in self.uri.removeprefix("file://"):
            raise InvalidInputError(
                f"dataset {self.name}: the stream requires a checkpoint, because the dataset is in an object store; "
                "declare a location that Spark can access, such as s3a://lake/checkpoints/events"
            )

    @property
    def checkpoint(self) -> str | None:
        """The directory in which Spark records how far the stream was read; None if the source is not a stream."""
        if not isinstance(self.source, StreamSource):
            return None
        return self.source.checkpoint or f"{self.uri.rstrip('/')}.checkpoint"

    @property
    def effective_schema_mode(self) -> SchemaMode:
        """The schema mode, or the default for the mode if none is declared."""
        if self.schema_mode is not None:
            return self.schema_mode
        return SchemaMode.OVERWRITE if self.mode in (WriteMode.OVERWRITE, WriteMode.CREATE) else SchemaMode.ERROR

    @property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        """The columns that assign rows to partitions, one for each dimension."""
        return partition_columns(self.partition_by)

    def _check_owner(self) -> None:
        """Reject asset properties in a declaration whose asset is defined elsewhere."""
        given = [name for name in _OF_THE_ASSET if getattr(self, name)]
        if self.source is None and given:
            raise InvalidInputError(
                f"dataset {self.name}: {given[0]} applies only to a declaration with a source; "
                "without one, configure the asset that writes the dataset instead"
            )

    def resolved_storage_options(self) -> dict[str, str] | None:
        """Return the storage options with the values of environment variables; None if there are no options.

        Raises:
            InvalidInputError: an environment variable is not set.
        """
        return resolved_options(self.storage_options, f"the storage options of dataset {self.name}") or None

    def upkeep_digest(self) -> str:
        """Return a digest of everything that determines when maintenance is due: the policy and the indices."""
        return self.maintenance.digest() + indices_digest(self.indices)

    @property
    def name(self) -> str:
        """The key as one identifier, which is part of the names of jobs, steps, and pools: ``lake__events``."""
        return dataset_name(self.key)


def _column_names(what: str, given: object) -> tuple[str, ...]:
    """Return a tuple of column names; the argument is a name, a sequence of names, or None for no column."""
    names = [given] if isinstance(given, str) and given else given or ()
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError(f"{what} must be a column name or a sequence of column names, found {given!r:.80}")
    return tuple(names)


def required_source(declaration: DatasetDeclaration) -> Source:
    """Return the source of a dataset.

    Raises:
        InvalidInputError: no source is declared.
    """
    if declaration.source is None:
        raise InvalidInputError(f"dataset {declaration.name}: no source is declared, so there is nothing to ingest")
    return declaration.source


def required_publishing(declaration: DatasetDeclaration) -> PublishSettings:
    """Return how a dataset is published.

    Raises:
        InvalidInputError: the declaration has no ``publish``.
    """
    if declaration.publish is None:
        raise InvalidInputError(f"dataset {declaration.name}: publish is not declared, so no version can be published")
    return declaration.publish


def published_key(declaration: DatasetDeclaration) -> tuple[str, ...]:
    """Return the key of the asset that stands for the published version: the dataset's key and the tag."""
    return (*key_parts(declaration.key), required_publishing(declaration).tag)


def maintenance_key(declaration: DatasetDeclaration) -> tuple[str, ...]:
    """Return the key of the asset that stands for the maintenance of a dataset: ``maintenance`` and its key."""
    return ("maintenance", *key_parts(declaration.key))


def key_parts(key: DatasetKey | dg.AssetKey) -> tuple[str, ...]:
    """Return the parts of an asset key; a string is split at its slashes.

    Raises:
        InvalidInputError: the key, or a part of it, is empty.
    """
    path: Any = key.split("/") if isinstance(key, str) else getattr(key, "path", key)
    parts = tuple(path)
    if not parts or not all(parts):
        raise InvalidInputError(f"invalid asset key {key!r}: expected one or more non-empty parts")
    return parts


def dataset_name(key: DatasetKey | dg.AssetKey) -> str:
    """Return the identifier for an asset key: its parts, joined by ``__``; other special characters become ``_``."""
    return "__".join(_NOT_IN_NAMES.sub("_", part) for part in key_parts(key))
