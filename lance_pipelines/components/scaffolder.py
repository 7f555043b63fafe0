"""LanceDatasetScaffolder: writes the ``defs.yaml`` that ``dg scaffold defs`` creates for a dataset."""

import json
import textwrap
from typing import Final

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from lance_pipelines.components.yaml_types import schema_of
from lance_pipelines.ingest.declaration import DatasetDeclaration

__all__ = ["LanceDatasetScaffolder", "ScaffoldParameters"]

_WIDTH: Final = 110

_BEGINNING: Final = """\
# A Lance dataset that Spark writes. To check this file, run: dg check defs
type: lance_pipelines.LanceDatasetComponent

attributes:
  key: {key}
  uri: {uri}
  source:
    format: {source_format}
    paths: {paths}{options}
  mode: append

  # Other fields. Any value can be a template: "{{{{ env.NAME }}}}" is the value of an environment variable. Use
  # this template where a description mentions dagster.EnvVar("NAME").
"""

_CSV_OPTIONS: Final = """
    options: {header: "true"}
    # Without a schema, all columns are strings.
    # schema: id BIGINT, name STRING\
"""


class ScaffoldParameters(BaseModel):
    """The options of the command."""

    key: str = Field(default="", description="Asset key, for example lake/trips; by default, the name of the folder.")
    uri: str = Field(default="", description="Location of the dataset; by default, warehouse/<key>.lance.")
    source_format: str = Field(default="parquet", description="Format of the files: parquet, csv, json, or orc.")
    paths: list[str] = Field(default=[], description="Files, directories, or globs to read; by default, data/<key>.")


class LanceDatasetScaffolder(dg.Scaffolder[ScaffoldParameters]):
    """Writes a file that loads without changes and describes the fields that it omits in comments."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParameters]:
        """Return the options of the command."""
        return ScaffoldParameters

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParameters]) -> None:
        """Write the file, or append a document to it."""
        if request.scaffold_format == "python":
            scaffold_component(request)
        elif request.append:
            with request.target_path.open("a", encoding="utf-8") as file:
                file.write(f"---\n{_document(request.params, request.target_path.parent.name)}")
        else:
            text = _document(request.params, request.target_path.name)
            (request.target_path / "defs.yaml").write_text(text, encoding="utf-8")


def _document(parameters: ScaffoldParameters, folder: str) -> str:
    key = parameters.key or folder
    used = {
        "key": json.dumps(key),
        "uri": json.dumps(parameters.uri or f"warehouse/{key}.lance"),
        "source_format": json.dumps(parameters.source_format),
        "paths": json.dumps(parameters.paths or [f"data/{key}"]),
        "options": _CSV_OPTIONS if parameters.source_format == "csv" else "",
    }
    others = [
        line
        for name, schema in schema_of(DatasetDeclaration)["properties"].items()
        if name not in ("key", "uri", "source", "mode")
        for line in (f"# {name}:", *_comment(schema.get("description", "")))
    ]
    return _BEGINNING.format(**used) + textwrap.indent("\n".join(others), "  ") + "\n"


def _comment(text: str) -> list[str]:
    return [f"#   {line}" for line in textwrap.wrap(text.replace("``", ""), _WIDTH)]
