"""Appends rows to a table or replaces them, through Spark's data source API.

``write`` runs in the workers; ``commit`` and ``abort`` run in a process on the driver's machine, with a copy of the
writer.

Source: ``DataSourceArrowWriter`` of PySpark 4.3.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

import lance_core
from lance_core.errors import AlreadyExistsError, DatasetNotFoundError, InvalidInputError, LanceError
from lance_core.metadata import commit_transaction
from lance_pipelines.spark.data_source.staged_write import WritePlan, is_certain_failure
from lance_pipelines.spark.failures import stated_plainly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lance_core import LanceDataset
    from lance_pipelines.spark.data_source.location import Location
    from lance_pipelines.spark.writer import AttemptReport

__all__ = ["LanceWriter", "WrittenMessage", "find_table"]


@dataclass(frozen=True, slots=True)
class WrittenMessage(WriterCommitMessage):
    """The message of one task.

    Attributes:
        report: what the attempt wrote; None if the partition is empty, or the write does nothing.
    """

    report: AttemptReport | None


class LanceWriter(DataSourceArrowWriter):
    """Writes one DataFrame.

    Args:
        plan: the write; None if it does nothing, because the table exists.
        options: the parsed options.
        overwrite: whether the rows replace those of the table.
    """

    def __init__(self, plan: WritePlan | None, options: Mapping[str, Any], *, overwrite: bool) -> None:
        """Initialize."""
        self._plan = plan
        self._properties = dict(options["property"])
        self._stable_row_ids = options.get("stableRowIds", False)
        self._if_exists = options.get("ifExists", "append")
        self._overwrite = overwrite
        self._uuid = str(uuid.uuid4())

    @classmethod
    def plan(cls, location: Location, schema: StructType, options: Mapping[str, Any], *, overwrite: bool) -> Self:
        """Plan the write.

        Raises:
            AlreadyExistsError: the table exists, and ``ifExists`` is "error".
            LanceError: as for :meth:`WritePlan.of`.
        """
        if_exists = options.get("ifExists", "append")
        if overwrite and if_exists != "append":
            raise InvalidInputError(
                f"option 'ifExists' is {if_exists!r}, but mode overwrite allows only 'append'", option="ifExists"
            )
        existing = find_table(location)
        if existing is not None and if_exists == "error":
            raise AlreadyExistsError(f"{location.uri} already exists", path=location.uri)
        if existing is not None and if_exists == "ignore":
            return cls(None, options, overwrite=overwrite)
        return cls(WritePlan.of(location, schema, options, existing, overwrite=overwrite), options, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Write the rows of one partition."""
        return WrittenMessage(None if self._plan is None else self._plan.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Create the version that contains the rows; an append of no rows creates none."""
        if self._plan is None:
            return
        with stated_plainly():
            results = [cast("WrittenMessage", message).report for message in messages]
            reports = [report for report in results if report is not None]
            plan = self._plan
            try:
                self._commit(plan, plan.fragments(reports))
            except AlreadyExistsError:
                plan.discard()
                if self._if_exists != "ignore":
                    raise
                return
            except LanceError as error:
                if is_certain_failure(error):
                    plan.discard()
                raise
            plan.discard_losers(reports)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of the write, unless it may have been committed."""
        if self._plan is not None:
            self._plan.abort(messages)

    def _commit(self, plan: WritePlan, fragments: list[lance_core.FragmentMetadata]) -> None:
        adds = plan.read_version and not self._overwrite
        if adds and not fragments:
            return
        operation: lance_core.LanceOperation.BaseOperation
        if adds:
            operation = lance_core.LanceOperation.Append(fragments)
        else:
            operation = lance_core.LanceOperation.Overwrite(plan.settings.target, fragments)
        version = plan.settings.data_storage_version
        commit_transaction(
            plan.location.uri,
            lance_core.Transaction(plan.read_version, operation, self._uuid, self._properties),
            create_only=not plan.read_version and not self._overwrite,
            stable_row_ids=self._stable_row_ids,
            data_storage_version=None if version is None else lance_core.LanceFileVersion.parse(version),
            storage_options=plan.location.storage_options,
        )


def find_table(location: Location) -> LanceDataset | None:
    """Open the latest version; None if the table does not exist."""
    try:
        return location.open()
    except DatasetNotFoundError:
        return None
