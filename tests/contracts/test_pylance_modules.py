"""Modules that users of pylance import: which of their names are here, and why the others are not."""

import builtins
import importlib
import operator
import subprocess
import sys
from types import ModuleType

import pytest

import lance_core

_ARROW_SCHEMAS = "schemas are Arrow's, and lance_core.Schema with field ids; there is no third kind"
_COLUMNS = "columns are not added or altered by functions of users"
_INDICES = "indices are kept, not built or searched"
_MERGE = "rows are not merged or updated by key"
_NO_CLASS = "the method returns a plain dictionary or value, or is not supported"
_PROGRESS = "writers do not report progress"
_ROW_IDS = "row ids of fragments are carried as JSON, not interpreted"
_SESSION = "caches do not belong to a session of the user"
_SQL = "scans take a filter, not a query"
_VECTORS = "vectors are stored, not clustered or searched"
_WIRING = "part of the reference's own wiring"

ABSENT = {
    "arrow": {},
    "blob": {"BlobIterator": "a blob file is iterated over directly", "LanceBlobFile": _WIRING},
    "commit": {},
    "dataset": {
        "AlterColumn": _COLUMNS,
        "BatchUDF": _COLUMNS,
        "BatchUDFCheckpoint": _COLUMNS,
        "Bitmap": _ROW_IDS,
        "ColumnOrdering": _SQL,
        "DataStatistics": _NO_CLASS,
        "DatasetStats": _NO_CLASS,
        "DeleteResult": _NO_CLASS,
        "DocumentGranularity": _INDICES,
        "ExecuteResult": _MERGE,
        "FieldStatistics": _NO_CLASS,
        "FullTextQuery": _INDICES,
        "IOStats": _NO_CLASS,
        "IndexConfig": _INDICES,
        "IndexInformation": _INDICES,
        "IndexSegment": _INDICES,
        "LOGGER": _WIRING,
        "LanceSchema": _ARROW_SCHEMAS,
        "LanceStats": _NO_CLASS,
        "MergeInsertBuilder": _MERGE,
        "MinHashQuery": _INDICES,
        "PySearchFilter": _WIRING,
        "ScanStatistics": _NO_CLASS,
        "ScannerBuilder": _SQL,
        "SqlQuery": _SQL,
        "SqlQueryBuilder": _SQL,
        "SupportedDistributedIndices": _INDICES,
        "UpdateResult": _MERGE,
        "VectorIndexReader": _VECTORS,
        "VectorSearchQuery": _VECTORS,
        "VersionRef": _NO_CLASS,
        "batch_udf": _COLUMNS,
        "model_to_dict": _WIRING,
        "normalize_transform": _COLUMNS,
        "serialize_row_addrs": _WIRING,
        "td_to_micros": _WIRING,
    },
    "file": {},
    "fragment": {
        "BatchUDF": _COLUMNS,
        "Bitmap": _ROW_IDS,
        "FragmentSession": _SESSION,
        "FragmentWriteProgress": _PROGRESS,
        "NoopFragmentWriteProgress": _PROGRESS,
        "RowDatasetVersionMeta": _ROW_IDS,
        "RowIdMeta": _ROW_IDS,
        "RowIdSequence": _ROW_IDS,
        "normalize_transform": _COLUMNS,
    },
    "optimize": {},
    "progress": {
        "FileSystemFragmentWriteProgress": _PROGRESS,
        "FragmentWriteProgress": _PROGRESS,
        "IndexProgress": _INDICES,
        "NoopFragmentWriteProgress": _PROGRESS,
    },
    "schema": {"LanceSchema": _ARROW_SCHEMAS, "json_to_schema": _ARROW_SCHEMAS, "schema_to_json": _ARROW_SCHEMAS},
    "types": {"model_to_dict": _WIRING},
    "udf": {
        "BatchUDF": _COLUMNS,
        "BatchUDFCheckpoint": _COLUMNS,
        "batch_udf": _COLUMNS,
        "normalize_transform": _COLUMNS,
    },
    "util": {
        "HNSW": _VECTORS,
        "KMeans": _VECTORS,
        "MetricType": _VECTORS,
        "sanitize_ts": _WIRING,
        "td_to_micros": _WIRING,
        "validate_vector_index": _VECTORS,
    },
}
"""Module -> the reference's names that are not here, and why."""

WITHOUT_NAMES = {"progress", "udf", "util"}
"""Modules of which no name is here. They do not exist: importing a name from them fails in either case."""

FOR_TYPE_CHECKERS = {"types": {"ReaderLike"}}
"""Names that the reference defines for type checkers only."""

OURS_ONLY = {"optimize": {"PlanFigures", "RewriteCommit", "commit_rewrites", "plan_again"}}
"""Public names of these modules that the reference does not have."""

WITH_NAMES = sorted(ABSENT.keys() - WITHOUT_NAMES - {"schema"})


def reference_names(module: str) -> set[str]:
    """What the reference's module offers: public names, but for those of other libraries that it imports."""
    reference = importlib.import_module(f"lance.{module}")
    names = {name for name, value in vars(reference).items() if not name.startswith("_") and _is_its_own(name, value)}
    return names | FOR_TYPE_CHECKERS.get(module, set())


def _is_its_own(name: str, value: object) -> bool:
    if isinstance(value, ModuleType) or name in {"TYPE_CHECKING", "annotations"}:
        return False
    home = getattr(value, "__module__", None)
    if home is None or home.partition(".")[0] in {"lance", "_lib", builtins.__name__}:
        return True
    return getattr(sys.modules.get(home), name, None) is not value


@pytest.mark.parametrize("module", sorted(ABSENT))
def test_every_name_of_a_pylance_module_is_present_or_listed_as_absent(module: str) -> None:
    # The reference first: its module of Arrow types cannot be imported after ours.
    names = reference_names(module)
    ours = None if module in WITHOUT_NAMES else importlib.import_module(f"lance_core.{module}")
    missing = {name for name in names if not hasattr(ours, name)}
    assert missing == set(ABSENT[module])


@pytest.mark.parametrize("module", WITH_NAMES)
def test_every_listed_name_is_one_of_pylance(module: str) -> None:
    ours = importlib.import_module(f"lance_core.{module}")
    assert set(ours.__all__) - OURS_ONLY.get(module, set()) <= reference_names(module)
    assert all(hasattr(ours, name) for name in ours.__all__)


@pytest.mark.parametrize("module", WITH_NAMES)
def test_a_name_is_the_same_object_in_every_module_that_exports_it(module: str) -> None:
    ours = importlib.import_module(f"lance_core.{module}")
    others = [lance_core, *(importlib.import_module(f"lance_core.{other}") for other in WITH_NAMES)]
    for name in ours.__all__:
        listing = [other for other in others if name in other.__all__]
        assert all(getattr(other, name) is getattr(ours, name) for other in listing), name


@pytest.mark.parametrize("module", sorted(WITHOUT_NAMES))
def test_pylance_modules_without_any_supported_name_do_not_exist(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"lance_core.{module}")


@pytest.mark.parametrize("name", ["LANCE_COMMIT_MESSAGE_KEY", "DEFAULT_BLOB_BUFFER_SIZE"])
def test_constants_of_datasets_have_the_value_of_pylance(name: str) -> None:
    ours, reference = (importlib.import_module(f"{library}.dataset") for library in ("lance_core", "lance"))
    assert getattr(ours, name) == getattr(reference, name)


def test_default_max_bytes_of_a_file_is_that_of_pylance() -> None:
    ours, reference = (importlib.import_module(f"{library}.fragment") for library in ("lance_core", "lance"))
    assert ours.DEFAULT_MAX_BYTES_PER_FILE == reference.DEFAULT_MAX_BYTES_PER_FILE


@pytest.mark.parametrize(
    "statements",
    [
        "from lance_core.dataset import LanceDataset; import lance_core",
        "import lance_core.dataset; lance_core.dataset.__name__",
        "import lance_core; lance_core.dataset; from lance_core.dataset import write_dataset",
        "import importlib; importlib.import_module('lance_core.dataset'); import lance_core",
    ],
)
def test_lance_core_dataset_stays_a_function_whatever_imports_the_module(statements: str) -> None:
    program = f"{statements}\nimport types\nassert type(lance_core.dataset) is types.FunctionType"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("module", sorted({*WITH_NAMES, "errors", "metadata", "repair"} - {"dataset"}))
def test_public_module_is_an_attribute_after_the_import_of_the_package(module: str) -> None:
    program = f"import lance_core, types\nassert type(lance_core.{module}) is types.ModuleType"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_dataset_module_refuses_unknown_names() -> None:
    module = importlib.import_module("lance_core.dataset")
    with pytest.raises(AttributeError, match="no attribute 'teleport'"):
        operator.attrgetter("teleport")(module)
    assert isinstance(module, ModuleType)
    assert set(dir(module)) == set(module.__all__)
