"""The Lance format in Python: datasets, fragments, commits, and single data files.

::

    import lance_core

    lance_core.write_dataset(table, "/data/points")
    lance_core.dataset("/data/points").to_table(columns=["x", "y"])

Names, arguments, and defaults follow pylance. The public API consists of the names in this module, the modules
``errors``, ``metadata``, ``optimize``, and ``repair``, and the names exported by ``arrow``, ``blob``, ``commit``,
``dataset``, ``file``, ``fragment``, ``progress``, ``sampler``, ``schema``, ``types``, ``udf``, ``util``, and
``vector``, which correspond to the pylance modules with the same names. Everything else is internal. Each name is
imported on first use, so a program that needs only the errors does not load the readers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from lance_core.absent import missing_name

if TYPE_CHECKING:
    from lance_core import arrow as arrow
    from lance_core import bitmap as bitmap
    from lance_core import blob as blob
    from lance_core import commit as commit
    from lance_core import debug as debug
    from lance_core import errors as errors
    from lance_core import file as file
    from lance_core import fragment as fragment
    from lance_core import log as log
    from lance_core import metadata as metadata
    from lance_core import optimize
    from lance_core import progress as progress
    from lance_core import pydantic as pydantic
    from lance_core import repair as repair
    from lance_core import sampler as sampler
    from lance_core import schema as schema
    from lance_core import types as types
    from lance_core import udf as udf
    from lance_core import util as util
    from lance_core import vector as vector
    from lance_core.api.dataset import LanceDataset
    from lance_core.api.fragment import LanceFragment
    from lance_core.api.merge_insert_builder import MergeInsertBuilder
    from lance_core.api.open_dataset import dataset, migrate_manifest_paths_v2
    from lance_core.api.write_dataset import write_dataset, write_fragments
    from lance_core.blobs.files import BlobColumn, BlobFile
    from lance_core.cleanup.records import (
        CleanupCandidateFile,
        CleanupExplanation,
        CleanupReferencedBranch,
        CleanupStats,
    )
    from lance_core.columns.batch_udf import batch_udf
    from lance_core.errors import (
        AccessDeniedError,
        AlreadyExistsError,
        CommitConflictError,
        CommitOutcomeUnknownError,
        CommitOvertakenError,
        CorruptDataError,
        DatasetNotFoundError,
        ErrorKind,
        IncompatibleTransactionError,
        IndexNotFoundError,
        InternalError,
        InvalidCleanupError,
        InvalidInputError,
        InvalidMergeError,
        InvalidRefError,
        InvalidSchemaError,
        InvalidTypeError,
        LanceError,
        NotFoundError,
        NotSupportedError,
        OutOfMemoryError,
        RefAlreadyExistsError,
        RefConflictError,
        RefNotFoundError,
        RetryableCommitConflictError,
        RowOutOfRangeError,
        SchemaMismatchError,
        StorageError,
        TooMuchWriteContentionError,
        UnsafeStoreError,
        UnsupportedEncodingError,
        UnsupportedFeatureFlagError,
        UnsupportedSchemeError,
        UnsupportedVersionError,
        VersionNotFoundError,
    )
    from lance_core.file.blob_descriptors import BlobDescriptor, BlobDescriptorArrayBuilder
    from lance_core.file.blob_writers import DedicatedBlobWriter, PackedBlobWriter
    from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
    from lance_core.file.lance_session import LanceFileSession
    from lance_core.file.session import Session
    from lance_core.io.io_counters import bytes_read_counter, iops_counter
    from lance_core.log import set_logger
    from lance_core.public.column_ordering import ColumnOrdering
    from lance_core.public.data_file_metadata import DataFile
    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.public.fragment_metadata import DeletionFile, FragmentMetadata
    from lance_core.public.index_records import Index, IndexDescription, IndexFile, IndexSegmentDescription
    from lance_core.public.times import sanitize_ts
    from lance_core.scan.dataset_statistics import DataStatistics, FieldStatistics
    from lance_core.scan.scan_statistics import ScanStatistics
    from lance_core.scan.scanner import LanceScanner
    from lance_core.schema.blob_types import Blob, BlobArray, BlobType, blob_array, blob_field
    from lance_core.schema.field import Field, Schema
    from lance_core.schema.schema_json import json_to_schema, schema_to_json
    from lance_core.transactions.public_transaction import LanceOperation, Transaction
    from lance_core.versions import LanceFileVersion

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "BlobType",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "ColumnOrdering",
    "CommitConflictError",
    "CommitOutcomeUnknownError",
    "CommitOvertakenError",
    "CorruptDataError",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetNotFoundError",
    "DedicatedBlobWriter",
    "DeletionFile",
    "ErrorKind",
    "Field",
    "FieldStatistics",
    "FragmentMetadata",
    "IncompatibleTransactionError",
    "Index",
    "IndexDescription",
    "IndexFile",
    "IndexNotFoundError",
    "IndexSegmentDescription",
    "InternalError",
    "InvalidCleanupError",
    "InvalidInputError",
    "InvalidMergeError",
    "InvalidRefError",
    "InvalidSchemaError",
    "InvalidTypeError",
    "LanceDataset",
    "LanceError",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileVersion",
    "LanceFileWriter",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "MergeInsertBuilder",
    "NotFoundError",
    "NotSupportedError",
    "OutOfMemoryError",
    "PackedBlobWriter",
    "RefAlreadyExistsError",
    "RefConflictError",
    "RefNotFoundError",
    "RetryableCommitConflictError",
    "RowOutOfRangeError",
    "ScanStatistics",
    "Schema",
    "SchemaMismatchError",
    "Session",
    "StorageError",
    "TooMuchWriteContentionError",
    "Transaction",
    "UnsafeStoreError",
    "UnsupportedEncodingError",
    "UnsupportedFeatureFlagError",
    "UnsupportedSchemeError",
    "UnsupportedVersionError",
    "VersionNotFoundError",
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "dataset",
    "iops_counter",
    "json_to_schema",
    "migrate_manifest_paths_v2",
    "optimize",
    "sanitize_ts",
    "schema_to_json",
    "set_logger",
    "write_dataset",
    "write_fragments",
]

__version__: str

# ``lance_core.dataset`` is a function; the module of the same name exists for ``from lance_core.dataset import …``.
# The first import of a module binds its name in the package. Doing that here, and deleting the name, ensures that no
# later import replaces the function with the module.
import_module("lance_core.dataset")
del globals()["dataset"]

_MODULES: Final = (
    "arrow",
    "bitmap",
    "blob",
    "commit",
    "debug",
    "errors",
    "file",
    "fragment",
    "log",
    "metadata",
    "optimize",
    "repair",
    "progress",
    "pydantic",
    "sampler",
    "schema",
    "types",
    "udf",
    "util",
    "vector",
)
"""The public modules that ``import lance_core`` makes available as attributes; ``lance_core.dataset`` is a function."""

_ERRORS: Final = "lance_core.errors"
_HOMES: Final = {
    "Blob": "lance_core.schema.blob_types",
    "BlobArray": "lance_core.schema.blob_types",
    "BlobColumn": "lance_core.blobs.files",
    "BlobDescriptor": "lance_core.file.blob_descriptors",
    "BlobDescriptorArrayBuilder": "lance_core.file.blob_descriptors",
    "BlobFile": "lance_core.blobs.files",
    "BlobType": "lance_core.schema.blob_types",
    "CleanupCandidateFile": "lance_core.cleanup.records",
    "CleanupExplanation": "lance_core.cleanup.records",
    "CleanupReferencedBranch": "lance_core.cleanup.records",
    "CleanupStats": "lance_core.cleanup.records",
    "DataFile": "lance_core.public.fragment_metadata",
    "ColumnOrdering": "lance_core.public.column_ordering",
    "DataStatistics": "lance_core.scan.dataset_statistics",
    "DatasetBasePath": "lance_core.public.dataset_base_path",
    "DedicatedBlobWriter": "lance_core.file.blob_writers",
    "DeletionFile": "lance_core.public.fragment_metadata",
    "Field": "lance_core.schema.field",
    "FieldStatistics": "lance_core.scan.dataset_statistics",
    "FragmentMetadata": "lance_core.public.fragment_metadata",
    "Index": "lance_core.public.index_records",
    "IndexDescription": "lance_core.public.index_records",
    "IndexFile": "lance_core.public.index_records",
    "IndexSegmentDescription": "lance_core.public.index_records",
    "LanceDataset": "lance_core.api.dataset",
    "LanceFileReader": "lance_core.file.lance_file",
    "LanceFileSession": "lance_core.file.lance_session",
    "LanceFileVersion": "lance_core.versions",
    "LanceFileWriter": "lance_core.file.lance_file",
    "LanceFragment": "lance_core.api.fragment",
    "LanceOperation": "lance_core.transactions.public_transaction",
    "LanceScanner": "lance_core.scan.scanner",
    "MergeInsertBuilder": "lance_core.api.merge_insert_builder",
    "PackedBlobWriter": "lance_core.file.blob_writers",
    "ScanStatistics": "lance_core.scan.scan_statistics",
    "Schema": "lance_core.schema.field",
    "Session": "lance_core.file.session",
    "Transaction": "lance_core.transactions.public_transaction",
    "batch_udf": "lance_core.columns.batch_udf",
    "blob_array": "lance_core.schema.blob_types",
    "blob_field": "lance_core.schema.blob_types",
    "bytes_read_counter": "lance_core.io.io_counters",
    "dataset": "lance_core.api.open_dataset",
    "iops_counter": "lance_core.io.io_counters",
    "json_to_schema": "lance_core.schema.schema_json",
    "migrate_manifest_paths_v2": "lance_core.api.open_dataset",
    "sanitize_ts": "lance_core.public.times",
    "set_logger": "lance_core.log",
    "schema_to_json": "lance_core.schema.schema_json",
    "write_dataset": "lance_core.api.write_dataset",
    "write_fragments": "lance_core.api.write_dataset",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name == "__version__":
        value: object = import_module("lance_core.table.manifest_draft").WRITER_VERSION
    elif name in _MODULES:
        value = import_module(f"lance_core.{name}")
    elif name in __all__:
        value = getattr(import_module(_HOMES.get(name, _ERRORS)), name)
    else:
        raise missing_name(__name__, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
