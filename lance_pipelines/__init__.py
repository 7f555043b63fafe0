"""Lance datasets as Dagster assets: Spark writes the fragments, and a commit creates the version.

::

    import dagster as dg
    from lance_pipelines import DatasetDeclaration, FileSource, SourceFormat, build_definitions

    events = DatasetDeclaration(
        key="lake/events",
        uri="s3://lake/events.lance",
        source=FileSource(format=SourceFormat.PARQUET, paths=("s3://landing/events/",)),
    )
    defs = dg.Definitions.merge(build_definitions([events]), dg.Definitions(assets=[...]))

The names of this module are the public API; each is imported on first use, so that a declaration needs neither Dagster
nor Spark. The main packages and modules are as follows.

``ingest``, ``maintenance``, and ``publish`` contain the rules and use neither Spark nor Dagster; ``spark`` contains the
parallel work and does not use Dagster. ``assets``, ``checks``, ``ops``, ``partitions``, ``jobs``, ``sensors``,
``schedules``, ``automation``, and ``resources`` contain one Dagster concept each, and ``build`` puts them together;
``components`` does this for datasets that are declared in YAML. ``io_managers``, ``frames``, and ``reads`` store and
load the data frames of a project's own assets. ``progress`` decides when the progress of a long operation is logged.
``events`` creates and reads the events that Dagster records for commits, and ``runs`` checks the state of other runs.
``definitions`` is the application of this repository, with the datasets of ``declarations``. ``cli`` runs the
maintenance jobs without a server (``command_runs``) and starts the ``demo``. ``settings`` reads the application's
environment variables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lance_pipelines.automation import on_new_data
    from lance_pipelines.build import build_definitions
    from lance_pipelines.components.lance_dataset import LanceDatasetComponent
    from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode
    from lance_pipelines.ingest.partition_rows import PartitionColumn
    from lance_pipelines.ingest.sources import (
        AssetSource,
        FileSource,
        FunctionSource,
        SourceContext,
        SourceFormat,
        SparkSource,
        SqlSource,
        StreamFormat,
        StreamSource,
    )
    from lance_pipelines.io_managers.lance_io_manager import LanceIOManager
    from lance_pipelines.io_managers.lance_table_resource import LanceTableResource
    from lance_pipelines.maintenance.check_settings import CheckSettings, Severity
    from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
    from lance_pipelines.maintenance.policy import (
        CleanupPolicy,
        CompactionPolicy,
        DeletionPolicy,
        IndexPolicy,
        MaintenancePolicy,
    )
    from lance_pipelines.maintenance.retention_rule import RetentionRule
    from lance_pipelines.publish.settings import PublishSettings
    from lance_pipelines.resources.spark import SparkResource
    from lance_pipelines.settings import Settings

__all__ = [
    "AssetSource",
    "CheckSettings",
    "CleanupPolicy",
    "CompactionPolicy",
    "DatasetDeclaration",
    "DeletionPolicy",
    "FileSource",
    "FunctionSource",
    "IndexDeclaration",
    "IndexPolicy",
    "IndexType",
    "LanceDatasetComponent",
    "LanceIOManager",
    "LanceTableResource",
    "MaintenancePolicy",
    "PartitionColumn",
    "PublishSettings",
    "RetentionRule",
    "SchemaMode",
    "Settings",
    "Severity",
    "SourceContext",
    "SourceFormat",
    "SparkResource",
    "SparkSource",
    "SqlSource",
    "StreamFormat",
    "StreamSource",
    "WriteMode",
    "build_definitions",
    "on_new_data",
]

_MODULES: Final = {
    "automation": ("on_new_data",),
    "build": ("build_definitions",),
    "components.lance_dataset": ("LanceDatasetComponent",),
    "ingest.declaration": ("DatasetDeclaration", "SchemaMode", "WriteMode"),
    "ingest.partition_rows": ("PartitionColumn",),
    "ingest.sources": (
        "AssetSource",
        "FileSource",
        "FunctionSource",
        "SourceContext",
        "SourceFormat",
        "SparkSource",
        "SqlSource",
        "StreamFormat",
        "StreamSource",
    ),
    "io_managers.lance_io_manager": ("LanceIOManager",),
    "io_managers.lance_table_resource": ("LanceTableResource",),
    "maintenance.check_settings": ("CheckSettings", "Severity"),
    "maintenance.index_declaration": ("IndexDeclaration", "IndexType"),
    "maintenance.policy": ("CleanupPolicy", "CompactionPolicy", "DeletionPolicy", "IndexPolicy", "MaintenancePolicy"),
    "maintenance.retention_rule": ("RetentionRule",),
    "publish.settings": ("PublishSettings",),
    "resources.spark": ("SparkResource",),
    "settings": ("Settings",),
}
"""Maps each module to its public names."""

_MODULE_OF: Final = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_MODULE_OF[name])
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"lance_pipelines.{name} requires the package {error.name}: pip install 'lance-pipelines[pipelines]'",
            name=error.name,
        ) from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
