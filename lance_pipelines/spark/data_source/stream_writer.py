"""Writes the micro-batches of a streaming query, each in one version; ``epochs`` ensures that none is written twice.

Spark creates a writer for each micro-batch, and another one for its commit, so everything that the commit needs is in
the messages. The table is created, without rows, when the query starts.

Source: ``DataSourceStreamArrowWriter`` of PySpark 4.3; the local properties of its tasks.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

import lance_core
from lance_core.errors import AlreadyExistsError, InternalError, LanceError
from lance_core.metadata import commit_transaction
from lance_pipelines.spark.data_source.epochs import begin_epoch, epoch_properties, epoch_uuid
from lance_pipelines.spark.data_source.staged_write import WritePlan, is_certain_failure
from lance_pipelines.spark.data_source.writer import find_table
from lance_pipelines.spark.failures import stated_plainly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lance_core import LanceDataset
    from lance_pipelines.spark.data_source.location import Location
    from lance_pipelines.spark.writer import AttemptReport

__all__ = ["LanceStreamWriter"]

_QUERY_ID: Final = "sql.streaming.queryId"
"""The local property of Spark's tasks that contains the id of their query. A restarted query keeps its id."""


@dataclass(frozen=True, slots=True)
class EpochMessage(WriterCommitMessage):
    """The message of one task.

    Attributes:
        plan: the write.
        report: what the attempt wrote; None if the partition is empty.
        query_id: the streaming query.
    """

    plan: WritePlan
    report: AttemptReport | None
    query_id: str | None


class LanceStreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch.

    Args:
        plan: the write.
        properties: properties of the transactions.
        overwrite: whether each micro-batch replaces all rows, as in the output mode ``complete``.
    """

    def __init__(self, plan: WritePlan, properties: Mapping[str, str], *, overwrite: bool) -> None:
        """Initialize."""
        self._plan = plan
        self._properties = dict(properties)
        self._overwrite = overwrite

    @classmethod
    def plan(cls, location: Location, schema: StructType, options: Mapping[str, Any], *, overwrite: bool) -> Self:
        """Plan the write, and create the table if it does not exist.

        Raises:
            LanceError: as for :meth:`WritePlan.of`.
        """
        existing = find_table(location) or _create(location, schema, options)
        plan = WritePlan.of(location, schema, options, existing, overwrite=overwrite)
        return cls(plan, options["property"], overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> EpochMessage:
        """Write the rows of one partition."""
        query_id = cast("TaskContext", TaskContext.get()).getLocalProperty(_QUERY_ID)
        return EpochMessage(self._plan, self._plan.write(iterator), query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Create the version that contains the rows, unless the epoch is already committed."""
        with stated_plainly():
            given = cast("Sequence[EpochMessage]", messages)
            reports = [each.report for each in given if each.report is not None]
            if not given or (not reports and not self._overwrite):
                return
            query_id = given[0].query_id
            if query_id is None:
                raise InternalError("Spark has not passed the id of the streaming query to its tasks")
            # The plan of the tasks, whose files have its token, and not that of this process.
            _commit(given[0].plan, reports, query_id, batchId, self._properties, overwrite=self._overwrite)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's
        """Delete the files of the micro-batch, unless it may have been committed."""
        plans = [message.plan for message in messages if isinstance(message, EpochMessage)]
        if plans:
            plans[0].abort(messages)


def _commit(
    plan: WritePlan,
    reports: Sequence[AttemptReport],
    query_id: str,
    epoch: int,
    properties: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    try:
        fragments = plan.fragments(reports)
        dataset = plan.location.open()
        if not begin_epoch(dataset, query_id, epoch):
            plan.discard()
            return
        operation: lance_core.LanceOperation.BaseOperation
        if overwrite:
            operation = lance_core.LanceOperation.Overwrite(plan.settings.target, fragments)
        else:
            operation = lance_core.LanceOperation.Append(fragments)
        transaction = lance_core.Transaction(
            dataset.version,
            operation,
            epoch_uuid(query_id, epoch),
            {**properties, **epoch_properties(query_id, epoch)},
        )
        version = commit_transaction(dataset, transaction)
    except LanceError as error:
        if is_certain_failure(error):
            plan.discard()
        raise
    if _has_files(plan.location.open(version), plan.settings.file_token):
        plan.discard_losers(reports)
    elif fragments:
        # Another driver has committed the same epoch.
        plan.discard()


def _has_files(dataset: LanceDataset, file_token: str) -> bool:
    paths = (path for fragment in dataset.manifest.fragments for path in fragment.data_file_paths)
    return any(path.endswith(f"{file_token}.lance") for path in paths)


def _create(location: Location, schema: StructType, options: Mapping[str, Any]) -> LanceDataset:
    plan = WritePlan.of(location, schema, options, None, overwrite=False)
    version = plan.settings.data_storage_version
    # Another query may create the table at the same time.
    with suppress(AlreadyExistsError):
        commit_transaction(
            location.uri,
            lance_core.Transaction(0, lance_core.LanceOperation.Overwrite(plan.settings.target, [])),
            create_only=True,
            stable_row_ids=options.get("stableRowIds", False),
            data_storage_version=None if version is None else lance_core.LanceFileVersion.parse(version),
            storage_options=location.storage_options,
        )
    return location.open()
