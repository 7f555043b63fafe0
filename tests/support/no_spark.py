"""Resources for the steps of jobs that run without Spark, and steps that do in this process what Spark would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_pipelines.maintenance.rewrite_commit import Rewritten
from lance_pipelines.resources.spark import SparkResource
from tests.support.local_rewriting import rewrite_locally


class NoSession:
    """What a step without Spark asks of a session."""

    def addTag(self, tag: str) -> None:
        pass

    def removeTag(self, tag: str) -> None:
        pass


class NoSpark(SparkResource):
    """A resource for steps that need no session."""

    @property
    def spark_session(self) -> Any:
        return NoSession()


def rewrite_without_session(session: object, uri: str, tasks: Sequence[str], **options: Any) -> Rewritten:
    """Stands in for ``rewrite_tasks``."""
    return rewrite_locally(uri, tasks, **options)
