"""The report of a committed write, with statistics of the version that it created."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import lance_core
from lance_core.errors import VersionNotFoundError
from lance_pipelines.ingest.declaration import WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_pipelines.ingest.staged_write import StagedWrite
    from lance_pipelines.ingest.write_commit import WriteOutcome

__all__ = ["WriteReport", "combine_reports", "report_no_write", "report_write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReport:
    """Statistics of one committed write, and of the version that contains it.

    Attributes:
        dataset: the declaration's name.
        uri: the dataset's location.
        mode: what was done with existing rows.
        version: the new version; the latest version if there was nothing to commit.
        read_version: the version that the write is based on; 0 if the dataset did not exist.
        transaction_uuid: UUID of the transaction that created ``version``; None if the version records none.
        committed: False if there was nothing to commit.
        repeated: True if an earlier commit attempt had already created the version.
        attempts: number of commit attempts.
        schema: the dataset's schema at ``version``.
        rows_total: number of live rows at ``version``.
        fragments_total: number of fragments at ``version``.
        bytes_total: total size of the data files at ``version``, in bytes; None if the size of a file is not recorded.
        rows_written: number of rows that this write added.
        fragments_written: number of fragments that this write added.
        bytes_written: total size of the data files that this write added, in bytes.
        rows_replaced: number of rows that this write removed, because they had the keys of new rows or belonged to the
            run's partitions; None in other modes, and if the version before no longer exists.
        versions_written: number of versions in which the rows were added; more than one only for a stream.
    """

    dataset: str
    uri: str
    mode: WriteMode
    version: int
    read_version: int
    transaction_uuid: str | None
    committed: bool
    repeated: bool
    attempts: int
    schema: pa.Schema
    rows_total: int
    fragments_total: int
    bytes_total: int | None
    rows_written: int
    fragments_written: int
    bytes_written: int
    rows_replaced: int | None = None
    versions_written: int = 1

    def headline(self) -> str:
        """Return the summary of the event: what changed, and the version."""
        several = f" in {self.versions_written} versions" if self.versions_written > 1 else ""
        rows = f"{self.rows_written:,} row{'s' * (self.rows_written != 1)}{several}"
        if self.mode is WriteMode.UPSERT and self.rows_replaced is not None:
            added = self.rows_written - self.rows_replaced
            updated = f"{self.rows_replaced:,} updated{several}"
            return f"{self.mode}: {added:+,} row{'s' * (added != 1)}, {updated}, v{self.version}"
        if self.rows_replaced is not None:
            return f"{self.mode}: {rows} written, {self.rows_replaced:,} replaced, v{self.version}"
        return f"{self.mode}: {'+' if self.mode is WriteMode.APPEND else ''}{rows}, v{self.version}"

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        line = f"{self.uri} version {self.version}: {_amount(self.rows_total, self.fragments_total)}"
        if not self.committed:
            return f"{line}; this run added no rows"
        return f"{line}; this run wrote {_amount(self.rows_written, self.fragments_written)}"


def report_write(
    staged: StagedWrite, outcome: WriteOutcome, *, storage_options: dict[str, str] | None = None
) -> WriteReport:
    """Return the report of a staged write; reads the manifest of the version that contains it, but no data file."""
    dataset = lance_core.dataset(staged.uri, version=outcome.version, storage_options=storage_options)
    return replace(
        report_no_write(dataset, staged.dataset, staged.mode),
        read_version=staged.read_version,
        transaction_uuid=outcome.transaction_uuid,
        committed=outcome.committed,
        repeated=outcome.repeated,
        attempts=outcome.attempts,
        rows_written=staged.rows_written,
        fragments_written=len(staged.fragments),
        bytes_written=staged.bytes_written,
        rows_replaced=_rows_replaced(staged, outcome, dataset),
        versions_written=1,
    )


def report_no_write(dataset: lance_core.LanceDataset, name: str, mode: WriteMode) -> WriteReport:
    """Return the report of a run that added no rows.

    Args:
        dataset: a handle to the latest version.
        name: the declaration's name.
        mode: what would have been done with existing rows.
    """
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    sizes = [data_file.file_size_bytes for fragment in fragments for data_file in fragment.files]
    known_sizes = [size for size in sizes if size]
    return WriteReport(
        dataset=name,
        uri=dataset.uri,
        mode=mode,
        version=dataset.version,
        read_version=dataset.version,
        transaction_uuid=None,
        committed=False,
        repeated=False,
        attempts=0,
        schema=dataset.schema,
        rows_total=dataset.count_rows(),
        fragments_total=len(fragments),
        bytes_total=sum(known_sizes) if len(known_sizes) == len(sizes) else None,
        rows_written=0,
        fragments_written=0,
        bytes_written=0,
        versions_written=0,
    )


def combine_reports(reports: Sequence[WriteReport]) -> WriteReport:
    """Return one report of the writes of a run, which are given in the order of their versions; at least one."""
    replaced = [report.rows_replaced for report in reports if report.rows_replaced is not None]
    return replace(
        reports[-1],
        read_version=reports[0].read_version,
        attempts=sum(report.attempts for report in reports),
        rows_written=sum(report.rows_written for report in reports),
        fragments_written=sum(report.fragments_written for report in reports),
        bytes_written=sum(report.bytes_written for report in reports),
        rows_replaced=sum(replaced) if len(replaced) == len(reports) else None,
        versions_written=len(reports),
    )


def _rows_replaced(staged: StagedWrite, outcome: WriteOutcome, dataset: lance_core.LanceDataset) -> int | None:
    if staged.mode not in (WriteMode.UPSERT, WriteMode.OVERWRITE_PARTITION) or not outcome.committed:
        return None
    if dataset.version == 1:
        return 0
    try:
        before = dataset.checkout_version(dataset.version - 1)
    except VersionNotFoundError:
        return None
    return before.count_rows() + staged.rows_written - dataset.count_rows()


def _amount(rows: int, fragments: int) -> str:
    return f"{rows} row{'s' * (rows != 1)} in {fragments} fragment{'s' * (fragments != 1)}"
