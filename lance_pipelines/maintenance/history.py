"""The history of maintenance: a Lance dataset with one row for each run of a maintenance job.

Several datasets can share a history, and several runs can append to it at the same time. It maintains itself: a run
that finds more than :data:`MAX_FRAGMENTS` fragments merges them, and versions older than a day are removed by the
automatic cleanup, which every writer of the table performs.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

import lance_core
from lance_core.errors import AlreadyExistsError, CommitConflictError, InvalidInputError
from lance_pipelines.maintenance.plan_table import amount, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_pipelines.maintenance.effect import Effect

__all__ = [
    "CHANGED",
    "FAILED",
    "MAX_FRAGMENTS",
    "NOTHING_TO_DO",
    "HistoryEntry",
    "append_history",
    "read_history",
    "render_history",
]

CHANGED: Final = "changed"
NOTHING_TO_DO: Final = "nothing to do"
FAILED: Final = "failed"

MAX_FRAGMENTS: Final = 32
"""Maximum number of fragments of a history; a run that finds more fragments merges them."""

_TIME: Final = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One run. :class:`Effect` describes the numbers; those that are unknown are None.

    Attributes:
        time: when the run ended.
        run_id: id of the Dagster run.
        dataset: name of the dataset.
        uri: location of the dataset; None if the run failed.
        job: the operation, for example ``compact``.
        outcome: ``changed``, ``nothing to do``, or ``failed``.
        version_before: the version that the run planned on.
        version_after: the latest version after the run.
        fragments_before: number of fragments before the run.
        fragments_after: number of fragments after the run.
        files_before: number of files before the run.
        files_after: number of files after the run.
        bytes_before: total size of the files before the run.
        bytes_after: total size of the files after the run.
        rows_before: number of rows before the run.
        rows_after: number of rows after the run.
        bytes_written: size of the new files.
        bytes_reclaimed: size of the removed files.
        cpu_seconds: CPU time of the run's steps.
        seconds: seconds since the run started.
        message: what the run did, or the error, in one line.
        details: the statistics of the job, as JSON.
    """

    time: datetime
    run_id: str
    dataset: str
    uri: str | None = None
    job: str
    outcome: str
    version_before: int | None = None
    version_after: int | None = None
    fragments_before: int | None = None
    fragments_after: int | None = None
    files_before: int | None = None
    files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows_before: int | None = None
    rows_after: int | None = None
    bytes_written: int | None = None
    bytes_reclaimed: int | None = None
    cpu_seconds: float | None = None
    seconds: float | None = None
    message: str
    details: str | None = None

    @classmethod
    def of(
        cls,
        effect: Effect,
        *,
        run_id: str,
        dataset: str,
        uri: str,
        message: str,
        cpu_seconds: float,
        seconds: float | None,
        details: Mapping[str, int | float | str],
    ) -> Self:
        """Return the entry of a run that did not fail."""
        before, after = effect.before, effect.after
        return cls(
            time=datetime.now(UTC),
            run_id=run_id,
            dataset=dataset,
            uri=uri,
            job=effect.op,
            outcome=CHANGED if effect.has_changed else NOTHING_TO_DO,
            version_before=effect.version_before,
            version_after=effect.version_after,
            fragments_before=before.fragments,
            fragments_after=after.fragments,
            files_before=before.files,
            files_after=after.files,
            bytes_before=before.num_bytes,
            bytes_after=after.num_bytes,
            rows_before=before.rows,
            rows_after=after.rows,
            bytes_written=effect.bytes_written,
            bytes_reclaimed=effect.bytes_reclaimed,
            cpu_seconds=cpu_seconds,
            seconds=seconds,
            message=message,
            details=json.dumps(dict(details), sort_keys=True),
        )

    @classmethod
    def of_failure(cls, *, run_id: str, dataset: str, job: str, message: str) -> Self:
        """Return the entry of a run that failed."""
        return cls(time=datetime.now(UTC), run_id=run_id, dataset=dataset, job=job, outcome=FAILED, message=message)


_ARROW_TYPES: Final = {"datetime": _TIME, "str": pa.string(), "int": pa.int64(), "float": pa.float64()}
_SCHEMA: Final = pa.schema(
    [
        pa.field(field.name, _ARROW_TYPES[str(field.type).split(" | ")[0]], nullable="None" in str(field.type))
        for field in fields(HistoryEntry)
    ]
)


def append_history(uri: str, entry: HistoryEntry, storage_options: dict[str, str] | None = None) -> None:
    """Append one entry, and create the history if it does not exist. Merge its fragments if there are many.

    Raises:
        LanceError: the entry could not be appended, or the fragments could not be merged.
    """
    rows = pa.Table.from_pylist([asdict(entry)], schema=_SCHEMA)
    dataset = _append(uri, rows, storage_options)
    if len(dataset.get_fragments()) > MAX_FRAGMENTS:
        with suppress(CommitConflictError):
            # Of several runs that merge the same fragments, one succeeds.
            dataset.optimize.compact_files()


def _append(uri: str, rows: pa.Table, storage_options: dict[str, str] | None) -> lance_core.LanceDataset:
    def append() -> lance_core.LanceDataset:
        return lance_core.write_dataset(
            rows,
            uri,
            mode="append",
            auto_cleanup_options={"interval": 20, "older_than_seconds": 86_400},
            storage_options=storage_options,
        )

    try:
        return append()
    except (AlreadyExistsError, CommitConflictError):
        # Another run created the history at the same time. Appends to an existing one do not conflict.
        return append()


def read_history(
    uri: str,
    *,
    dataset: str | None = None,
    job: str | None = None,
    limit: int | None = None,
    storage_options: dict[str, str] | None = None,
) -> Sequence[HistoryEntry]:
    """Return the entries of a history, the latest first.

    Args:
        uri: the location of the history.
        dataset: name of a dataset; None for all of them.
        job: name of an operation; None for all of them.
        limit: the maximum number of entries; None for all of them.
        storage_options: credentials and settings of the store.

    Raises:
        InvalidInputError: the dataset is not a history of maintenance.
        LanceError: the history does not exist, or cannot be read.
    """
    wanted = {"dataset": dataset, "job": job}
    terms = [f"{column} = {_quoted(value)}" for column, value in wanted.items() if value is not None]
    opened = lance_core.dataset(uri, storage_options=storage_options)
    _require_history(uri, opened.schema)
    table = opened.to_table(filter=" AND ".join(terms) or None)
    table = table.sort_by([("time", "descending")]).slice(0, limit)
    known = {field.name for field in fields(HistoryEntry)}
    return [HistoryEntry(**_known(row, known)) for row in table.to_pylist()]


def _require_history(uri: str, schema: pa.Schema) -> None:
    """Check that a dataset has the columns that every history has; later releases may add others."""
    for field in _SCHEMA:
        found = schema.field(field.name).type if field.name in schema.names else None
        if found != field.type and not (found is None and field.nullable):
            what = "does not exist" if found is None else f"has type {found} instead of {field.type}"
            raise InvalidInputError(f"{uri} is not a maintenance history: column {field.name!r} {what}", uri=uri)


def _known(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in names}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render_history(entries: Sequence[HistoryEntry]) -> str:
    """Return a table of the entries, and the sums of what they reclaimed and cost."""
    lines = [_HEADER, *map(_cells, entries)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(_HEADER))]
    rendered = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    reclaimed = format_bytes(sum(entry.bytes_reclaimed or 0 for entry in entries))
    cpu_seconds = sum(entry.cpu_seconds or 0.0 for entry in entries)
    rendered.append(f"{amount(len(entries), 'run')}: {reclaimed} reclaimed, {cpu_seconds:,.1f} CPU seconds")
    return "\n".join(rendered) + "\n"


_HEADER: Final = (
    "time (UTC)",
    "dataset",
    "job",
    "outcome",
    "version",
    "fragments",
    "size",
    "reclaimed",
    "CPU seconds",
    "seconds",
)


def _cells(entry: HistoryEntry) -> tuple[str, ...]:
    return (
        f"{entry.time:%Y-%m-%d %H:%M:%S}",
        entry.dataset,
        entry.job,
        f"{FAILED}: {entry.message}" if entry.outcome == FAILED else entry.outcome,
        _change(entry.version_before, entry.version_after, str),
        _change(entry.fragments_before, entry.fragments_after, str),
        _change(entry.bytes_before, entry.bytes_after, format_bytes),
        format_bytes(entry.bytes_reclaimed) if entry.bytes_reclaimed else "",
        "" if entry.cpu_seconds is None else f"{entry.cpu_seconds:.1f}",
        "" if entry.seconds is None else f"{entry.seconds:.1f}",
    )


def _change(before: int | None, after: int | None, text: Callable[[int], str]) -> str:
    if before is None or after is None:
        return ""
    return text(before) if before == after else f"{text(before)} → {text(after)}"
