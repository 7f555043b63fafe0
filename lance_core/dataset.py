"""Datasets, scans, transactions, and related types; the names follow ``lance.dataset``.

As in pylance, ``lance_core.dataset(uri)`` is a function, and ``from lance_core.dataset import LanceDataset`` also
works: the package imports this module and then binds the name ``dataset`` to the function. Therefore, this module loads
nothing until one of its names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from lance_core.absent import missing_name

if TYPE_CHECKING:
    from lance_core.api.dataset import BulkCommitResult, LanceDataset
    from lance_core.api.fragment import LanceFragment
    from lance_core.api.merge_insert_builder import ExecuteResult, MergeInsertBuilder
    from lance_core.api.scanner_builder import ScannerBuilder
    from lance_core.api.sql_query import SqlQuery, SqlQueryBuilder
    from lance_core.api.write_dataset import write_dataset
    from lance_core.blobs.files import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
    from lance_core.cleanup.automatic import AutoCleanupConfig
    from lance_core.cleanup.records import CleanupExplanation, CleanupStats
    from lance_core.columns.alter import AlterColumn
    from lance_core.columns.batch_udf import BatchUDF, BatchUDFCheckpoint, batch_udf
    from lance_core.compaction.optimizer import Compaction, DatasetOptimizer
    from lance_core.compaction.result import CompactionMetrics
    from lance_core.delete.delete import DeleteResult
    from lance_core.file.session import Session
    from lance_core.io.io_counters import IOStats
    from lance_core.public.bitmap import Bitmap
    from lance_core.public.column_ordering import ColumnOrdering
    from lance_core.public.data_file_metadata import DataFile
    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.public.index_records import Index, IndexFile, IndexInformation
    from lance_core.public.times import td_to_micros
    from lance_core.public.version_info import Version, VersionRef
    from lance_core.refs.branches import Branch, Branches
    from lance_core.refs.tags import Tag, Tags
    from lance_core.scan.dataset_statistics import DatasetStats, DataStatistics, FieldStatistics, LanceStats
    from lance_core.scan.delta import DatasetDelta
    from lance_core.scan.row_mask import serialize_row_addrs
    from lance_core.scan.scan_statistics import ScanStatistics
    from lance_core.scan.scanner import LanceScanner
    from lance_core.schema.lance_schema import LanceSchema
    from lance_core.transactions.public_transaction import LanceOperation, Transaction
    from lance_core.transactions.transaction import COMMIT_MESSAGE_KEY as LANCE_COMMIT_MESSAGE_KEY
    from lance_core.update.update import UpdateResult

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "BatchUDF",
    "BatchUDFCheckpoint",
    "Bitmap",
    "BlobFile",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CleanupExplanation",
    "CleanupStats",
    "ColumnOrdering",
    "Compaction",
    "CompactionMetrics",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "ExecuteResult",
    "FieldStatistics",
    "FragmentMetadata",
    "IOStats",
    "Index",
    "IndexFile",
    "IndexInformation",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "SqlQuery",
    "SqlQueryBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "Version",
    "VersionRef",
    "batch_udf",
    "serialize_row_addrs",
    "td_to_micros",
    "write_dataset",
]

_HOMES: Final = {
    "DEFAULT_BLOB_BUFFER_SIZE": "lance_core.blobs.files",
    "LANCE_COMMIT_MESSAGE_KEY": "lance_core.transactions.transaction",
    "AlterColumn": "lance_core.columns.alter",
    "BatchUDF": "lance_core.columns.batch_udf",
    "BatchUDFCheckpoint": "lance_core.columns.batch_udf",
    "batch_udf": "lance_core.columns.batch_udf",
    "AutoCleanupConfig": "lance_core.cleanup.automatic",
    "Bitmap": "lance_core.public.bitmap",
    "BlobFile": "lance_core.blobs.files",
    "Branch": "lance_core.refs.branches",
    "Branches": "lance_core.refs.branches",
    "BulkCommitResult": "lance_core.api.dataset",
    "CleanupExplanation": "lance_core.cleanup.records",
    "CleanupStats": "lance_core.cleanup.records",
    "Compaction": "lance_core.compaction.optimizer",
    "CompactionMetrics": "lance_core.compaction.result",
    "DataFile": "lance_core.public.data_file_metadata",
    "ColumnOrdering": "lance_core.public.column_ordering",
    "DatasetBasePath": "lance_core.public.dataset_base_path",
    "DatasetDelta": "lance_core.scan.delta",
    "DatasetOptimizer": "lance_core.compaction.optimizer",
    "DeleteResult": "lance_core.delete.delete",
    "ExecuteResult": "lance_core.api.merge_insert_builder",
    "FragmentMetadata": "lance_core.public.fragment_metadata",
    "IOStats": "lance_core.io.io_counters",
    "Index": "lance_core.public.index_records",
    "IndexFile": "lance_core.public.index_records",
    "IndexInformation": "lance_core.public.index_records",
    "LanceDataset": "lance_core.api.dataset",
    "LanceFragment": "lance_core.api.fragment",
    "LanceOperation": "lance_core.transactions.public_transaction",
    "LanceSchema": "lance_core.schema.lance_schema",
    "LanceScanner": "lance_core.scan.scanner",
    "DataStatistics": "lance_core.scan.dataset_statistics",
    "DatasetStats": "lance_core.scan.dataset_statistics",
    "FieldStatistics": "lance_core.scan.dataset_statistics",
    "LanceStats": "lance_core.scan.dataset_statistics",
    "ScanStatistics": "lance_core.scan.scan_statistics",
    "MergeInsertBuilder": "lance_core.api.merge_insert_builder",
    "ScannerBuilder": "lance_core.api.scanner_builder",
    "Session": "lance_core.file.session",
    "SqlQuery": "lance_core.api.sql_query",
    "SqlQueryBuilder": "lance_core.api.sql_query",
    "Tag": "lance_core.refs.tags",
    "Tags": "lance_core.refs.tags",
    "Transaction": "lance_core.transactions.public_transaction",
    "UpdateResult": "lance_core.update.update",
    "Version": "lance_core.public.version_info",
    "VersionRef": "lance_core.public.version_info",
    "serialize_row_addrs": "lance_core.scan.row_mask",
    "td_to_micros": "lance_core.public.times",
    "write_dataset": "lance_core.api.write_dataset",
}
_NAMES_ELSEWHERE: Final = {"LANCE_COMMIT_MESSAGE_KEY": "COMMIT_MESSAGE_KEY"}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise missing_name(__name__, name)
    value: object = getattr(import_module(_HOMES[name]), _NAMES_ELSEWHERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
