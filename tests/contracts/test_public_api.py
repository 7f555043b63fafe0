"""The public API: its names, and their signatures, which equal those of pylance."""

import inspect
import subprocess
import sys

import lance
import lance.fragment
import pytest

import lance_core
from lance_core.compaction.optimizer import DatasetOptimizer
from lance_core.refs.branches import Branches
from lance_core.refs.tags import Tags

NAMES = {
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
}

DATASET_MEMBERS = {
    "add_bases",
    "add_columns",
    "alter_columns",
    "all_files",
    "base_paths",
    "branches",
    "checkout_latest",
    "checkout_version",
    "cleanup_old_versions",
    "commit",
    "commit_batch",
    "config",
    "count_rows",
    "create_branch",
    "data_storage_version",
    "deep_clone",
    "delete",
    "delete_config_keys",
    "delta",
    "describe_indices",
    "drop",
    "drop_columns",
    "drop_index",
    "explain_cleanup_old_versions",
    "filter",
    "fragment_ids",
    "from_pydantic_model",
    "get_fragment",
    "get_fragments",
    "get_transactions",
    "get_version",
    "has_index",
    "has_stable_row_ids",
    "head",
    "initial_storage_options",
    "insert",
    "io_stats_incremental",
    "io_stats_snapshot",
    "join",
    "join_asof",
    "lance_schema",
    "latest_storage_options",
    "latest_version",
    "list_indices",
    "max_field_id",
    "merge",
    "merge_insert",
    "metadata",
    "migrate_manifest_paths_v2",
    "new_file_session",
    "optimize",
    "partition_expression",
    "read_blob_ranges",
    "read_blobs",
    "read_transaction",
    "replace_field_metadata",
    "replace_schema",
    "replace_schema_metadata",
    "restore",
    "sample",
    "scanner",
    "schema",
    "schema_metadata",
    "session",
    "shallow_clone",
    "slice",
    "sort_by",
    "sql",
    "stats",
    "tags",
    "take",
    "take_blobs",
    "to_batches",
    "to_pandas",
    "to_table",
    "tracked_files",
    "truncate_table",
    "update",
    "update_config",
    "update_field_metadata",
    "update_metadata",
    "update_schema_metadata",
    "uri",
    "validate",
    "version",
    "version_refs",
    "versions",
}
DATASET_EXTRAS = {
    "counted_manifest",
    "from_manifest",
    "locator",
    "line",
    "log",
    "manifest",
    "of",
    "recorded_rows",
    "replace_rows",
    "show",
    "storage_options",
    "view",
}
OPERATION_EXTRAS = {"Other", "ReserveFragments", "UpdateBases", "UpdateMemWalState"}
"""Operations that the reference's Python interface cannot show."""
FRAGMENT_MEMBERS = {
    "count_rows",
    "create",
    "create_from_file",
    "data_files",
    "delete",
    "delete_rows",
    "deletion_file",
    "fragment_id",
    "head",
    "merge",
    "merge_columns",
    "metadata",
    "num_deletions",
    "open_session",
    "partition_expression",
    "physical_rows",
    "physical_schema",
    "scanner",
    "schema",
    "take",
    "to_batches",
    "to_pandas",
    "to_table",
    "update_columns",
    "validate",
}
FRAGMENT_EXTRAS = {"of"}

EXTRA_PARAMETERS = {
    ("LanceDataset.delete", "transaction_properties"),
    ("LanceFragment.scanner", "schema"),
    ("compact_files", "target_bytes_per_fragment"),
    ("compact_files", "transaction_properties"),
    ("write_fragments", "file_token"),
    ("LanceOperation.Update", "inserted_rows"),
    ("LanceOperation.Update", "compacted_sstables"),
}
"""Parameters of ours that the reference does not have."""

SIGNATURES = [
    ("dataset", lance_core.dataset, lance.dataset),
    ("LanceDataset", lance_core.LanceDataset, lance.LanceDataset),
    ("write_dataset", lance_core.write_dataset, lance.write_dataset),
    ("write_fragments", lance_core.write_fragments, lance.fragment.write_fragments),
    *(
        (f"LanceOperation.{name}", getattr(lance_core.LanceOperation, name), getattr(lance.LanceOperation, name))
        for name in (
            "Append",
            "Clone",
            "CreateIndex",
            "DataOverlay",
            "DataOverlayFile",
            "DataOverlayGroup",
            "DataReplacement",
            "DataReplacementGroup",
            "Delete",
            "Merge",
            "Overwrite",
            "Project",
            "Restore",
            "Rewrite",
            "RewriteGroup",
            "RewrittenIndex",
            "Update",
            "UpdateConfig",
            "UpdateMap",
        )
    ),
    *(
        (f"Tags.{name}", getattr(Tags, name), getattr(sys.modules["lance.dataset"].Tags, name))
        for name in ("create", "delete", "get_version", "list", "list_ordered", "replace_metadata", "update")
    ),
    *(
        (f"Branches.{name}", getattr(Branches, name), getattr(sys.modules["lance.dataset"].Branches, name))
        for name in ("delete", "list", "list_ordered", "replace_metadata")
    ),
    ("compact_files", DatasetOptimizer.compact_files, sys.modules["lance.dataset"].DatasetOptimizer.compact_files),
    ("Transaction", lance_core.Transaction, lance.Transaction),
    ("DatasetBasePath", lance_core.DatasetBasePath, lance.DatasetBasePath),
    ("Index", lance_core.Index, sys.modules["lance.dataset"].Index),
    ("IndexFile", lance_core.IndexFile, sys.modules["lance.dataset"].IndexFile),
    ("Blob", lance_core.Blob, lance.Blob),
    ("BlobColumn", lance_core.BlobColumn, lance.BlobColumn),
    ("blob_array", lance_core.blob_array, lance.blob_array),
    ("blob_field", lance_core.blob_field, lance.blob_field),
    ("DataFile", lance_core.DataFile, lance.fragment.DataFile),
    ("FragmentMetadata", lance_core.FragmentMetadata, lance.FragmentMetadata),
    *(
        (f"LanceDataset.{name}", getattr(lance_core.LanceDataset, name), getattr(lance.LanceDataset, name))
        for name in sorted(DATASET_MEMBERS)
        if callable(getattr(lance_core.LanceDataset, name))
    ),
    *(
        (f"LanceFragment.{name}", getattr(lance_core.LanceFragment, name), getattr(lance.LanceFragment, name))
        for name in sorted(FRAGMENT_MEMBERS)
        if callable(getattr(lance_core.LanceFragment, name))
    ),
]


def test_the_package_exports_exactly_the_documented_names() -> None:
    assert set(lance_core.__all__) == NAMES
    assert all(getattr(lance_core, name) is not None for name in NAMES)
    assert set(dir(lance_core)) == NAMES
    with pytest.raises(AttributeError, match="nope"):
        _ = lance_core.nope


@pytest.mark.parametrize(
    ("ours", "members", "theirs"),
    [
        (lance_core.LanceDataset, DATASET_MEMBERS | DATASET_EXTRAS, lance.LanceDataset),
        (lance_core.LanceFragment, FRAGMENT_MEMBERS | FRAGMENT_EXTRAS, lance.LanceFragment),
    ],
)
def test_datasets_and_fragments_have_exactly_the_listed_members_of_pylance(
    ours: type, members: set[str], theirs: type
) -> None:
    assert {name for name in dir(ours) if not name.startswith("_")} == members
    missing = {name for name in members if not hasattr(theirs, name)}
    assert missing <= DATASET_EXTRAS | FRAGMENT_EXTRAS


def test_operation_classes_that_pylance_lacks_are_exactly_the_listed_classes() -> None:
    ours, theirs = (
        {name for name in dir(each) if not name.startswith("_")}
        for each in (lance_core.LanceOperation, lance.LanceOperation)
    )
    assert ours - theirs == OPERATION_EXTRAS


@pytest.mark.parametrize(("name", "ours", "theirs"), SIGNATURES, ids=[name for name, _, _ in SIGNATURES])
def test_parameters_and_defaults_equal_those_of_pylance(name: str, ours: object, theirs: object) -> None:
    mine = [_comparable(parameter) for parameter in _parameters(ours) if (name, parameter.name) not in EXTRA_PARAMETERS]
    assert mine == [_comparable(parameter) for parameter in _parameters(theirs)]


def _parameters(function: object) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _comparable(parameter: inspect.Parameter) -> tuple[str, object, object]:
    default = parameter.default
    # An empty list corresponds to None in the reference's signature.
    return parameter.name, parameter.kind, None if "factory" in type(default).__name__.lower() else default


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_every_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(lance_core, name))


def test_importing_lance_core_loads_neither_pyarrow_nor_numpy() -> None:
    program = "import sys, lance_core; print('pyarrow' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
