"""Reads the rows that each version appends to a table, as a stream.

The position of a query is the next row to read: a version, and the number of fragments of this version that have been
read. Only what a version adds is read, except at the start of a query, where the whole latest version, the *snapshot*,
is read first::

    {"version": 7, "fragments": 0, "snapshot": true}     all fragments of version 7 are next
    {"version": 7, "fragments": 2, "snapshot": true}     all but the first two
    {"version": 8, "fragments": 0, "snapshot": false}    what version 8 adds is next; it need not exist yet

It also contains the location of the table: a position in one table has no meaning in another one.

=====================================================  ==============================================================
operation of a version                                 rows of the stream
=====================================================  ==============================================================
append; the first version                              the rows of the new fragments
compaction, index, configuration, base paths,          none; nothing is read again
added and dropped columns
delete, update, upsert, overwrite, restore, and all    ``onChange``: the query fails, none ("skip"), or the rows of
others                                                 new fragments ("append"): those that an update rewrites and an
                                                       upsert adds, and all rows of an overwrite
=====================================================  ==============================================================

The rows are those of the version that added them: a later delete does not change what a query reads, and a repeated
micro-batch has the same rows. A column that a version does not have is read as null.

Source: ``DataSourceStreamReader`` of PySpark 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lance_core.errors import InvalidInputError, NotFoundError, NotSupportedError, VersionNotFoundError
from lance_core.metadata import MAY_CHANGE_ROWS, read_transaction, recorded_uri
from lance_pipelines.spark.data_source.reader import plan_scan
from lance_pipelines.spark.failures import reported_to_driver, stated_plainly
from lance_pipelines.spark.read_tasks import TASK_BYTES, ReadTask, column_share, plan_tasks, read_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lance_core.metadata import Fragment, Manifest, TransactionRecord, VersionLog
    from lance_pipelines.spark.data_source.location import Location

__all__ = ["LanceStreamReader"]

_CHANGES_COLUMNS_ONLY: Final = frozenset({"merge", "project"})
"""Operations that add and drop columns, but no rows."""

_LIMITS: Final[Mapping[str, Callable[[int], ReadLimit]]] = MappingProxyType(
    {"maxRowsPerTrigger": ReadMaxRows, "maxBytesPerTrigger": ReadMaxBytes, "maxFilesPerTrigger": ReadMaxFiles}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """What a query reads next."""

    version: int
    fragments: int = 0
    snapshot: bool = False

    @classmethod
    def parse(cls, offset: Mapping[str, Any]) -> Self:
        return cls(
            version=int(offset["version"]), fragments=int(offset["fragments"]), snapshot=bool(offset["snapshot"])
        )

    def to_offset(self, table: str) -> dict[str, Any]:
        return {"table": table, "version": self.version, "fragments": self.fragments, "snapshot": self.snapshot}


class _Piece(InputPartition):
    """The rows of one task, which may come from several versions."""

    def __init__(self, parts: tuple[tuple[int, ReadTask], ...]) -> None:
        super().__init__(None)
        self.parts = parts


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one table as a stream.

    Args:
        location: the table.
        schema: the columns that Spark asks for.
        options: the parsed options.
    """

    def __init__(self, location: Location, schema: StructType, options: Mapping[str, Any]) -> None:
        """Check the schema and the filter against the latest version; no rows are read."""
        dataset = location.open()
        self._location = location
        self._table = recorded_uri(dataset.uri)
        self._options = dict(options)
        self._scan = plan_scan(dataset, schema, options)
        dataset.scanner(columns=[], filter=self._scan.filter)
        self._share = column_share(dataset.schema, self._scan.columns)
        self._last: int | None = None
        self._added: dict[tuple[int, bool], list[Fragment]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need; they do not need the fragments of other tasks."""
        return {**self.__dict__, "_added": {}}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the position of a new query."""
        with stated_plainly():
            start = self._options.get("startingVersion")
            if isinstance(start, int):
                return _Position(version=start).to_offset(self._table)
            latest = self._location.open().version
            if start == "latest":
                return _Position(version=latest + 1).to_offset(self._table)
            return _Position(version=latest, snapshot=True).to_offset(self._table)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of a micro-batch that the options set."""
        for name, limit in _LIMITS.items():
            if name in self._options:
                return limit(self._options[name])
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the position at which the next micro-batch ends."""
        with stated_plainly():
            begin = self._position(start)
            log = self._log()
            last = self._location.open().version if self._last is None else self._last
            if last < begin.version:
                self._check_not_replaced(begin, last)
                return start
            if isinstance(limit, ReadAllAvailable):
                return _Position(version=last + 1).to_offset(self._table)
            return self._limited(log, begin, last, limit).to_offset(self._table)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Remember the latest version; the query ends once that version has been read."""
        with stated_plainly():
            self._last = self._location.open().version

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide the rows between two positions into tasks."""
        with stated_plainly():
            log = self._log()
            task_bytes = self._options.get("taskBytes", TASK_BYTES)
            pieces: list[InputPartition] = []
            group: list[tuple[int, ReadTask]] = []
            room = float(task_bytes)
            for version, fragments in self._between(log, self._position(start), self._position(end)):
                num_bytes = sum(size or task_bytes for each in fragments for size in each.data_file_bytes) * self._share
                if num_bytes > room and group:
                    pieces.append(_Piece(tuple(group)))
                    group, room = [], float(task_bytes)
                tasks = plan_tasks(fragments, share=self._share, task_bytes=task_bytes)
                if len(tasks) == 1:
                    group.append((version, tasks[0]))
                    room -= num_bytes
                else:
                    pieces += [_Piece(((version, task),)) for task in tasks]
            return [*pieces, _Piece(tuple(group))] if group else pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        if isinstance(partition, _Piece):
            with reported_to_driver():
                for version, task in partition.parts:
                    yield from read_task(self._location.open(version), task, self._scan)

    def commit(self, end: dict[str, Any]) -> None:
        """Forget the fragments of the versions that were read."""
        version = _Position.parse(end).version
        self._added = {key: found for key, found in self._added.items() if key[0] >= version}

    def stop(self) -> None:
        """Do nothing: the reader holds no resources."""

    def _position(self, offset: Mapping[str, Any]) -> _Position:
        """Return the position that an offset describes; refuse the offsets of other tables and of other sources."""
        if "version" not in offset:
            raise InvalidInputError(
                f"the checkpoint contains the position {dict(offset)}, which is not a position in a Lance table; "
                "start a query with a new checkpoint"
            )
        read = offset.get("table", self._table)
        if read != self._table and self._options.get("failOnDataLoss", True):
            raise InvalidInputError(
                f"the streaming query has read {read}, and cannot continue with {self._table}; start a query with a "
                "new checkpoint, or, if the table was only moved, set the option 'failOnDataLoss' to false",
                table=read,
            )
        return _Position.parse(offset)

    def _check_not_replaced(self, begin: _Position, last: int) -> None:
        """Refuse a table that has lost versions that the query has read: it is another table at the same location."""
        is_awaited = begin.version in {last + 1, self._options.get("startingVersion")}
        if not is_awaited and self._options.get("failOnDataLoss", True):
            raise NotFoundError(
                f"the latest version of {self._location.uri} is {last}, but the streaming query has read version "
                f"{begin.version - 1}, so the table was replaced by another; start a query with a new checkpoint",
                version=begin.version - 1,
            )

    def _log(self) -> VersionLog:
        return self._location.open().log

    def _limited(self, log: VersionLog, begin: _Position, last: int, limit: ReadLimit) -> _Position:
        room = next(value for value in vars(limit).values())
        position, taken = begin, 0
        while position.version <= last:
            fragments = self._fragments(log, position)
            for index in range(position.fragments, len(fragments)):
                size = _size(fragments[index], limit)
                if taken and size > room:
                    return replace(position, fragments=index)
                room -= size
                taken += 1
            position = _Position(version=position.version + 1)
        return position

    def _between(self, log: VersionLog, start: _Position, end: _Position) -> Iterator[tuple[int, list[Fragment]]]:
        """Yield the fragments to read, by version."""
        position = start
        while position.version < end.version or (position.version == end.version and end.fragments):
            fragments = self._fragments(log, position)
            stop = end.fragments if position.version == end.version else len(fragments)
            if fragments[position.fragments : stop]:
                yield position.version, fragments[position.fragments : stop]
            position = _Position(version=position.version + 1)

    def _fragments(self, log: VersionLog, position: _Position) -> list[Fragment]:
        """Return the fragments of a version that belong to the stream."""
        key = (position.version, position.snapshot)
        if key not in self._added:
            self._added[key] = self._find_fragments(log, position)
        return self._added[key]

    def _find_fragments(self, log: VersionLog, position: _Position) -> list[Fragment]:
        version = position.version
        try:
            manifest = log.read_version(version)
        except VersionNotFoundError as error:
            if not self._options.get("failOnDataLoss", True):
                return []
            raise NotFoundError(
                f"version {version} of {self._location.uri} no longer exists, and the streaming query has not read it; "
                "start a query with a new checkpoint, or set the option 'failOnDataLoss' to false to skip this version",
                version=version,
            ) from error
        if position.snapshot or version == 1:
            return list(manifest.fragments)
        made_by = read_transaction(log, manifest)
        name = None if made_by is None else made_by.operation_name
        if made_by is not None and name == "append":
            # New fragments are the last ones.
            return list(manifest.fragments)[len(manifest.fragments) - len(made_by.operation.added_fragments()) :]
        if name is not None and (name in _CHANGES_COLUMNS_ONLY or not MAY_CHANGE_ROWS[name]):
            return []
        return self._changed(log, manifest, made_by)

    def _changed(self, log: VersionLog, manifest: Manifest, made_by: TransactionRecord | None) -> list[Fragment]:
        """Return the fragments of a version that does more than append rows."""
        choice = self._options.get("onChange", "fail")
        if choice == "skip":
            return []
        name = "an operation that is not recorded and may do"
        if made_by is not None:
            name = f"the operation {made_by.operation_name!r}, which does"
        if choice == "fail":
            raise NotSupportedError(
                f"version {manifest.version} of {self._location.uri} was created by {name} more than append "
                "rows; set the option 'onChange' to 'skip' or 'append' to continue",
                version=manifest.version,
            )
        if made_by is not None and made_by.operation_name == "overwrite":
            return list(manifest.fragments)
        try:
            before = {fragment.id for fragment in log.read_version(manifest.version - 1).fragments}
        except VersionNotFoundError as error:
            raise NotFoundError(
                f"version {manifest.version - 1} of {self._location.uri} no longer exists, so the rows that version "
                f"{manifest.version} added cannot be determined",
                version=manifest.version - 1,
            ) from error
        return [fragment for fragment in manifest.fragments if fragment.id not in before]


def _size(fragment: Fragment, limit: ReadLimit) -> int:
    if isinstance(limit, ReadMaxRows):
        return fragment.num_live_rows
    if isinstance(limit, ReadMaxBytes):
        return sum(fragment.data_file_bytes)
    return 1
