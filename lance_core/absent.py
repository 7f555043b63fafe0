"""The names and arguments of pylance that ``lance_core`` does not have: why, and what to use instead.

Error messages and the comparison in ``docs/reference/pylance-surface.md`` both use this table. Keys are written as
follows:

- ``name``: a class, function, or constant, in any module of pylance
- ``Class.member``: a member of a class
- ``lance.module``: a module that does not exist here, or all other absent names of a module
- ``function(argument)``: an argument, with the name of the function as in the error message or as ``Class.method``
- ``(argument)``: an argument of any function

After a change, regenerate the comparison with ``uv run python .ci/pylance_surface.py``. The script fails if a name is
absent without a reason, or if a reason remains for a name that exists.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Final, NoReturn

__all__ = ["ABSENT", "PylanceClass", "missing_name", "reason_of_argument"]

_ARROW: Final = "convert the result with pyarrow instead: `to_table()` returns a `pyarrow.Table`"
_BUILDS_INDICES: Final = (
    "existing indices stay valid, but lance_core neither builds nor updates indices; use pylance, which can open the "
    "same table"
)
_DEPRECATED: Final = "deprecated in pylance"
_FULL_TEXT: Final = "full-text search is not supported; use pylance, which can open the same table"
_MEM_WAL: Final = "the in-memory write-ahead log is not supported; use pylance, which can open the same table"
_METRICS: Final = "these are counters and traces of pylance's runtime, which is not used; use a Python profiler"
_NAMESPACES: Final = "namespaces are not supported; pass the location of the table and its `storage_options`"
_READS_INDICES: Final = (
    "existing indices stay valid, but lance_core does not read them; use pylance, which can open the same table"
)
_TORCH: Final = (
    "data loaders for PyTorch and TensorFlow are not supported; convert the batches that `to_batches()` returns"
)
_WIRING: Final = "internal to pylance"

ABSENT: Final = {
    # Modules.
    "lance.dependencies": _WIRING,
    "lance.download": "language models are needed only for full-text search, which is not supported",
    "lance.hf": _TORCH,
    "lance.indices": _BUILDS_INDICES,
    "lance.lance": "the compiled core of pylance",
    "lance.mem_wal": _MEM_WAL,
    "lance.namespace": _NAMESPACES,
    "lance.otel": _METRICS,
    "lance.query": _FULL_TEXT,
    "lance.torch": _TORCH,
    "lance.tracing": _METRICS,
    "lance.util": "vectors are stored and searched, but not clustered; use pylance, which can open the same table",
    "lance.vector": "vectors are stored and searched, but not clustered; use pylance, which can open the same table",
    # Classes, functions, and constants.
    "BlobIterator": "iterate over the `BlobFile`",
    "CompactedSsTable": _MEM_WAL,
    "DocumentGranularity": _FULL_TEXT,
    "ExecutionPlan": _MEM_WAL,
    "FFILanceTableProvider": "register the dataset itself with DataFusion, as an Arrow dataset",
    "FtsToken": _FULL_TEXT,
    "FullTextQuery": _FULL_TEXT,
    "IndexConfig": _BUILDS_INDICES,
    "IndexProgress": _BUILDS_INDICES,
    "IndexSegment": _BUILDS_INDICES,
    "LOGGER": _WIRING,
    "LanceBlobFile": "use `BlobFile`",
    "LsmPointLookupPlanner": _MEM_WAL,
    "LsmScanner": _MEM_WAL,
    "LsmVectorSearchPlanner": _MEM_WAL,
    "MinHashQuery": _FULL_TEXT,
    "PySearchFilter": _WIRING,
    "QueryVectorLike": "pass a dictionary as `nearest=` to `LanceDataset.scanner`",
    "ShardSnapshot": _MEM_WAL,
    "ShardWriter": _MEM_WAL,
    "ShardingField": _MEM_WAL,
    "ShardingSpec": _MEM_WAL,
    "SupportedDistributedIndices": _BUILDS_INDICES,
    "VectorIndexReader": _READS_INDICES,
    "VectorSearchQuery": "pass a dictionary as `nearest=` to `LanceDataset.scanner`",
    "evaluate_sharding_spec": _MEM_WAL,
    "normalize_transform": _WIRING,
    "simd_info": "kernels are compiled by numba for the machine on which they run",
    "tokenize": _FULL_TEXT,
    "ts_types": _WIRING,
    # Members of LanceDataset.
    "LanceDataset.centroids": _READS_INDICES,
    "LanceDataset.commit_existing_index_segments": _BUILDS_INDICES,
    "LanceDataset.create_index": _BUILDS_INDICES,
    "LanceDataset.create_index_uncommitted": _BUILDS_INDICES,
    "LanceDataset.create_scalar_index": _BUILDS_INDICES,
    "LanceDataset.get_ivf_model": _READS_INDICES,
    "LanceDataset.index_statistics": f"{_DEPRECATED}; use `describe_indices`",
    "LanceDataset.initialize_mem_wal": _MEM_WAL,
    "LanceDataset.mem_wal_index_details": _MEM_WAL,
    "LanceDataset.mem_wal_writer": _MEM_WAL,
    "LanceDataset.merge_existing_index_segments": _BUILDS_INDICES,
    "LanceDataset.merge_index_metadata": _BUILDS_INDICES,
    "LanceDataset.prewarm_index": _READS_INDICES,
    "LanceDataset.remap_row_addrs": _READS_INDICES,
    "LanceDataset.storage_options_accessor": "use `latest_storage_options`",
    # Members of other classes.
    "DatasetOptimizer.optimize_indices": _BUILDS_INDICES,
    "MergeInsertBuilder.analyze_plan_batches": "use `MergeInsertBuilder.analyze_plan`",
    "MergeInsertBuilder.execute_batches": "use `MergeInsertBuilder.execute`",
    "MergeInsertBuilder.execute_uncommitted_batches": "use `MergeInsertBuilder.execute_uncommitted`",
    "MergeInsertBuilder.mark_sstables_as_compacted": _MEM_WAL,
    "ShardedBatchSampler.__len__": "the method fails in pylance; the number of batches depends on the dataset",
    # Arguments.
    "(fragment)": "pass the id of the fragment",
    "(full_text_query)": _FULL_TEXT,
    "(index_cache_backend)": "caches are always in memory",
    "(index_segments)": _READS_INDICES,
    "count_rows(kwargs)": "pylance ignores all arguments except `filter`",
    "(metadata_cache_backend)": "caches are always in memory",
    "(namespace_client)": _NAMESPACES,
    "(namespace_client_managed_versioning)": _NAMESPACES,
    "(serialized_manifest)": "the manifest is always read from the table",
    "(store_registry)": "register stores with `lance_core.metadata.register_store`",
    "(table_id)": _NAMESPACES,
    "CommitConflictError(retryable)": "pass it by keyword",
    "FragmentSession(session)": "create sessions with `LanceFragment.open_session`",
    "SqlQuery(query)": "create queries with `LanceDataset.sql`",
    "SqlQueryBuilder(builder)": "create builders with `LanceDataset.sql`",
    "FragmentSampler.iter_fragments(ds)": "the argument is named `dataset`, as in the subclasses",
    "scanner(aggregate)": "aggregate with `LanceDataset.sql`",
    "scanner(query)": _FULL_TEXT,
}
"""Maps each absent name or argument to the reason why it is absent, or to what to use instead."""


def reason_of_argument(function: str, argument: str) -> str | None:
    """Return the reason why an argument is not supported; None if none is recorded."""
    return ABSENT.get(f"{function}({argument})", ABSENT.get(f"({argument})"))


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a public module does not have; it contains the reason if pylance has the name.

    Args:
        module: dotted name of the module.
        name: the missing name.
    """
    problem = f"module {module!r} has no attribute {name!r}"
    reason = ABSENT.get(name, ABSENT.get(f"lance.{name}"))
    return AttributeError(problem if reason is None else f"{problem}: {reason}")


class _PylanceClassMeta(ABCMeta):  # so that users can combine the classes with abstract ones
    """Metaclass that raises the error for missing static methods and class methods, which are accessed on the class."""

    if not TYPE_CHECKING:  # otherwise, type checkers would accept any name

        def __getattr__(cls, name: str) -> NoReturn:
            reason = _reason_of_member(cls, name)
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{reason}")


class PylanceClass(metaclass=_PylanceClassMeta):
    """Base of classes that lack members of pylance's class: the error for such a member contains the reason."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            reason = _reason_of_member(type(self), name)
            if not reason:
                # Raises the original error: either no such attribute exists, or a property raised an AttributeError.
                return object.__getattribute__(self, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{reason}")


def _reason_of_member(kind: type, name: str) -> str:
    """Return the reason, preceded by a colon; an empty string if none is recorded."""
    keys = (f"{each.__name__}.{name}" for each in kind.__mro__)
    return next((f": {ABSENT[key]}" for key in keys if key in ABSENT), "")
