"""LanceDatasetComponent: datasets that a ``defs.yaml`` declares.

The attributes of the component are the fields of ``DatasetDeclaration`` and of :class:`ProjectSettings`. Their schema
and their conversion are derived from these classes (``yaml_types``), so a new field becomes an attribute automatically.

A project can have many such files, but needs its sensors only once. Therefore, each component defines the assets,
checks, ingest jobs, and schedules of its own datasets, and the first one in the project also defines the rest.
"""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import dagster as dg
from dagster.components.core.decl import ComponentDecl
from dagster.components.resolved.scopes import LoadContextScope
from pydantic import BaseModel, ConfigDict

from lance_core.errors import InvalidInputError
from lance_pipelines.automation import on_new_data
from lance_pipelines.components.scaffolder import LanceDatasetScaffolder
from lance_pipelines.components.yaml_types import Node, build, fields_of, read_fields, schema_of, yaml_type
from lance_pipelines.generated_names import check_key
from lance_pipelines.ingest.declaration import DatasetDeclaration

__all__ = ["LanceDatasetComponent", "ProjectSettings"]

_DATASETS: Final = "datasets"
_FOR_EACH: Final = "for_each"
_UNDECODABLE: Final = re.compile("[\ud800-\udfff]")
"""Matches the characters with which Python represents the bytes of a file name that are not valid UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """Settings that all datasets of a project share. One file of the project can set them.

    Attributes:
        namespace: the prefix of the names of the sensors.
        sensor_interval_seconds: seconds between two ticks of each sensor; if None, the default of each sensor.
        maintenance_status: default status of the sensors that request maintenance: RUNNING or STOPPED.
        spark_config: Spark properties that override the defaults: ``{spark.master: "local[4]"}``.
    """

    namespace: str = "lance"
    sensor_interval_seconds: int | None = None
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED
    spark_config: Mapping[str, str] = field(default_factory=dict)


class _Attributes(BaseModel):
    """Accepts any attributes: loading reports a mistake in one line, whereas Dagster's own validation uses several."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        """Return the schema for editors and ``dg check yaml``."""
        dataset = schema_of(DatasetDeclaration)
        required = dataset.pop("required")
        settings = schema_of(ProjectSettings)["properties"]
        return {
            **dataset,
            "title": LanceDatasetComponent.__name__,
            "properties": {
                **dataset["properties"],
                _DATASETS: {
                    "description": "A list of datasets. The other attributes are defaults for the fields of each one.",
                    "type": "array",
                    "items": dataset,
                },
                _FOR_EACH: {
                    "description": "A glob that matches files or directories. Each match becomes a dataset; templates "
                    "can use {{ match }}, {{ match.name }}, and {{ match.stem }}.",
                    **yaml_type(str).full_schema,
                },
                **settings,
            },
            "if": {"not": {"required": [_DATASETS]}},
            "then": {"required": required},
        }


@dg.scaffold_with(LanceDatasetScaffolder)
@dataclass(kw_only=True)
class LanceDatasetComponent(dg.Component):
    """Lance datasets as assets: Spark writes the fragments, and a commit creates the version.

    The attributes are the fields of one dataset, or ``datasets``: a list of datasets. Fields next to the list are
    defaults for all of them.
    """

    datasets: Sequence[DatasetDeclaration]
    settings: ProjectSettings = field(default_factory=ProjectSettings)

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes."""
        return _Attributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Return the component that a file describes.

        Raises:
            InvalidInputError: an attribute is invalid; the message contains file, line, and field.
        """
        project = LoadContextScope(context)  # type: ignore[no-untyped-call]  # Dagster declares no types here
        scope = {"context": project, on_new_data.__name__: on_new_data}
        place = context.with_rendering_scope(scope).resolution_context.at_path("attributes")
        given = {} if attributes is None else attributes.model_extra or {}
        of_project = fields_of(ProjectSettings)
        settings = {name: value for name, value in given.items() if name in of_project}
        others = {name: value for name, value in given.items() if name not in of_project}
        return cls(datasets=_declarations(Node(others, place)), settings=build(ProjectSettings, Node(settings, place)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the datasets.

        The first component of a project also returns the definitions that all components share, such as sensors.
        """
        # Not above: every dg command imports this module, and Spark takes seconds.
        from lance_pipelines.build import build_asset_definitions, build_shared_definitions
        from lance_pipelines.resources.spark import SparkResource

        own = build_asset_definitions(self.datasets)
        project = _components(context, self)
        if self is not project[0]:
            return own
        settings = _common_settings(project)
        shared = build_shared_definitions(
            [declaration for component in project for declaration in component.datasets],
            namespace=settings.namespace,
            spark=SparkResource(spark_config=dict(settings.spark_config)) if settings.spark_config else None,
            sensor_interval_seconds=settings.sensor_interval_seconds,
            maintenance_status=settings.maintenance_status,
        )
        return dg.Definitions.merge(own, shared)


def _components(context: dg.ComponentLoadContext, component: LanceDatasetComponent) -> list[LanceDatasetComponent]:
    # A component without a declaration was created by Python code and does not belong to a project.
    is_in_project = isinstance(context.component_decl, ComponentDecl)
    return context.component_tree.get_all_components(LanceDatasetComponent) if is_in_project else [component]


def _common_settings(components: Sequence[LanceDatasetComponent]) -> ProjectSettings:
    default = ProjectSettings()
    changed = [component.settings for component in components if component.settings != default]
    if any(settings != changed[0] for settings in changed):
        names = ", ".join(fields_of(ProjectSettings))
        raise InvalidInputError(f"the project settings ({names}) differ between files; set them in one file only")
    return changed[0] if changed else default


def _declarations(node: Node) -> list[DatasetDeclaration]:
    if _DATASETS in node.value and _FOR_EACH in node.value:
        raise node.child(_FOR_EACH).error(f"cannot be combined with {_DATASETS!r}")
    fields = Node({name: each for name, each in node.value.items() if name not in (_DATASETS, _FOR_EACH)}, node.context)
    if _DATASETS in node.value:
        optional = {name: (kind, False) for name, (kind, _) in fields_of(DatasetDeclaration).items()}
        defaults = read_fields(fields, optional)
        datasets = node.child(_DATASETS)
        if not isinstance(datasets.value, list):
            raise datasets.expected("a list")
        return [_declaration(datasets.child(index), defaults) for index in range(len(datasets.value))]
    if _FOR_EACH in node.value:
        return [
            _declaration(Node(fields.value, node.context.with_scope(match=match)))
            for match in _matches(node.child(_FOR_EACH))
        ]
    return [_declaration(fields)]


def _declaration(node: Node, defaults: Mapping[str, Any] | None = None) -> DatasetDeclaration:
    if not isinstance(node.value, Mapping):
        raise node.expected("a mapping")
    declaration: DatasetDeclaration = build(DatasetDeclaration, node, defaults or {})
    try:
        check_key(declaration)
    except InvalidInputError as error:
        raise node.child("key").error(error) from error
    return declaration


def _matches(node: Node) -> list[Path]:
    pattern = yaml_type(str).read(node)
    matches = sorted(glob.glob(pattern))
    if not matches:
        raise node.error(f"no file or directory matches {pattern!r}")
    for match in matches:
        if _UNDECODABLE.search(match):
            raise node.error(f"{pattern!r} matches {os.fsencode(match)!r}, which is not valid UTF-8")
    return [Path(match) for match in matches]
