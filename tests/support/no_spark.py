"""Resources for job steps that run without Spark, and replacements of Spark steps that run in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyarrow import csv

from lance_pipelines.frames.staging import stage_reader
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.spark.staging import Staging
from tests.support.local_rewriting import rewrite_locally


class NoSession:
    """The part of a session that steps without Spark use."""

    def addTag(self, tag: str) -> None:
        pass

    def removeTag(self, tag: str) -> None:
        pass


class NoSpark(SparkResource):
    """A resource for steps that need no session."""

    @property
    def spark_session(self) -> Any:
        return NoSession()


def stage_csv(declaration: DatasetDeclaration, session: object, *, run_id: str, step_key: str, **_: Any) -> Staging:
    """Replace ``stage_write`` for a source of one CSV file."""
    (path,) = declaration.source.paths
    staged = stage_reader(csv.open_csv(path), declaration, run_id=run_id, step_key=step_key)
    return Staging(staged=staged, num_tasks=1)


def rewrite_without_session(session: object, uri: str, tasks: Sequence[str], **options: Any) -> Rewritten:
    """Replace ``rewrite_tasks``."""
    return rewrite_locally(uri, tasks, **options)
