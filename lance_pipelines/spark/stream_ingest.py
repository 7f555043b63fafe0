"""Ingests what is new in a stream: every micro-batch becomes a version, exactly once.

A Spark query with the trigger ``availableNow`` reads what has arrived since the last run, as recorded in its
checkpoint, and ends. Each micro-batch is staged and committed like the rows of other sources, so the modes ``append``
and ``upsert``, new columns, and vector columns work in the same way. ``epochs`` prevents a micro-batch that Spark
repeats, because the last run was killed, from being committed again::

    run killed ──▶ micro-batch 4 is committed, but Spark has not recorded it
    next run   ──▶ Spark repeats micro-batch 4: its transaction is found in the table, and its new files are deleted
                   micro-batch 5: committed

Source: ``DataStreamWriter.foreachBatch`` of PySpark 4.3.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from lance_core.errors import DatasetNotFoundError, InternalError, LanceError, NotSupportedError
from lance_pipelines.ingest.declaration import required_source
from lance_pipelines.ingest.sources import StreamSource
from lance_pipelines.ingest.write_commit import commit_staged, transaction_properties
from lance_pipelines.ingest.write_plan import open_dataset
from lance_pipelines.ingest.write_report import combine_reports, report_no_write, report_write
from lance_pipelines.spark.data_source.epochs import begin_epoch, epoch_properties, epoch_uuid
from lance_pipelines.spark.failures import translated
from lance_pipelines.spark.leftovers import discard_files
from lance_pipelines.spark.session import is_connect_session
from lance_pipelines.spark.sources import open_stream, query_rows
from lance_pipelines.spark.staging import stage_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_pipelines.ingest.declaration import DatasetDeclaration
    from lance_pipelines.ingest.staged_write import StagedWrite
    from lance_pipelines.ingest.write_commit import WriteOutcome
    from lance_pipelines.ingest.write_report import WriteReport
    from lance_pipelines.progress import Report

__all__ = ["ingest_available"]

_QUERY_ID: Final = "sql.streaming.queryId"


def ingest_available(
    declaration: DatasetDeclaration,
    session: SparkSession,
    *,
    run_id: str,
    step_key: str,
    report: Report = lambda progress: None,
) -> WriteReport | None:
    """Ingest everything that is available in the source now, and return what was added.

    Args:
        declaration: the dataset, whose source is a stream.
        session: a running Spark session.
        run_id: id of the run; recorded in the transactions.
        step_key: the key of the step in that run.
        report: receives the progress of the checks before each commit.

    Returns:
        One report of all versions that this run created; None if the dataset does not exist, because the stream has had
        no rows yet.

    Raises:
        NotSupportedError: the session is a Spark Connect session.
        DatasetNotFoundError: the dataset was deleted, but not its checkpoint.
        LanceError: the source cannot be read, its rows do not fit the dataset, or a commit failed. Earlier
            micro-batches stay committed, and the next run continues after them.
    """
    source = required_source(declaration)
    if not isinstance(source, StreamSource):
        raise InternalError(f"dataset {declaration.name}: the source is not a stream")
    if is_connect_session(session):
        raise NotSupportedError(
            f"dataset {declaration.name}: a stream cannot be ingested in a Spark Connect session, because its server "
            "would commit the micro-batches; use a SparkResource without the setting 'remote'"
        )
    sink = _Sink(declaration, source, run_id, step_key, report)
    what = f"cannot ingest the {source.kind} of dataset {declaration.name}"
    with translated(what):
        query = (
            open_stream(session, source)
            .writeStream.foreachBatch(sink.write)
            .option("checkpointLocation", declaration.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
    try:
        with translated(what):
            query.awaitTermination()
    except LanceError as error:
        # Spark reports an error of the sink as text.
        raise sink.failure or error from None
    finally:
        query.stop()
    if sink.reports:
        return combine_reports(sink.reports)
    dataset = open_dataset(declaration.uri, declaration.resolved_storage_options())
    return None if dataset is None else report_no_write(dataset, declaration.name, declaration.mode)


@dataclass(slots=True)
class _Sink:
    declaration: DatasetDeclaration
    source: StreamSource
    run_id: str
    step_key: str
    report: Report
    reports: list[WriteReport] = field(default_factory=list)
    failure: LanceError | None = None

    def write(self, frame: DataFrame, epoch: int) -> None:
        try:
            self._write(frame, epoch)
        except LanceError as error:
            self.failure = error
            raise

    def _write(self, frame: DataFrame, epoch: int) -> None:
        query_id = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if query_id is None:
            raise InternalError("Spark has not passed the id of the streaming query to its micro-batch")
        rows = frame if self.source.sql is None else query_rows(frame.sparkSession, frame, self.source.sql)
        self._create(rows, epoch)
        staged = self._stage(rows)
        if not staged.fragments:
            return
        staged = dataclasses.replace(
            staged, write_id=epoch_uuid(query_id, epoch), properties=epoch_properties(query_id, epoch)
        )
        dataset = open_dataset(self.declaration.uri, self._storage_options)
        own = transaction_properties(run_id=self.run_id, step_key=self.step_key, dataset=self.declaration.name)
        if dataset is None or not begin_epoch(dataset, query_id, epoch, own):
            discard_files(staged.uri, staged.file_token, storage_options=self._storage_options)
            return
        outcome = self._commit(staged)
        self.reports.append(report_write(staged, outcome, storage_options=self._storage_options))

    def _create(self, rows: DataFrame, epoch: int) -> None:
        """Create the dataset without rows if it does not exist: its configuration records the micro-batches."""
        if open_dataset(self.declaration.uri, self._storage_options) is not None:
            return
        if epoch:
            # The first micro-batch always creates the dataset.
            raise DatasetNotFoundError(
                f"no dataset exists at {self.declaration.uri}, but the checkpoint {self.declaration.checkpoint} "
                "records that its stream was ingested; to ingest the stream from its beginning, delete the checkpoint",
                uri=self.declaration.uri,
            )
        self._commit(self._stage(rows.limit(0)))

    def _stage(self, rows: DataFrame) -> StagedWrite:
        return stage_frame(self.declaration, rows, run_id=self.run_id, step_key=self.step_key).staged

    def _commit(self, staged: StagedWrite) -> WriteOutcome:
        options = self._storage_options
        discard = partial(discard_files, storage_options=options)
        return commit_staged(staged, discard=discard, storage_options=options, report=self.report)

    @property
    def _storage_options(self) -> dict[str, str] | None:
        return self.declaration.resolved_storage_options()
