"""Every operation that changes a dataset, on a small table, and what the table shows before and after.

An entry prepares a table and acts on it; nobody has to write down what it should do. A dry run tells what the table
shows afterwards, and a run with faults is compared with that.
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import lance_core
from lance_core import LanceOperation
from lance_core.commit.commit import commit
from lance_core.errors import DatasetNotFoundError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.fragment_conversion import fragment_to_record
from lance_core.table.index_metadata import MEM_WAL_INDEX
from lance_core.table.index_rules import decode_index_section
from lance_core.table.paths import is_detached_manifest_name
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.registry import EXECUTABLE
from lance_core.transactions.transaction import Transaction

OLD = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": pa.array([10, 20, 30], pa.int64())})
NEW = pa.table({"a": pa.array([4, 5], pa.int64()), "b": pa.array([40, 50], pa.int64())})

UPSERTED = pa.table({"a": pa.array([2, 5, 6], pa.int64()), "b": pa.array([21, 51, 61], pa.int64())})

Options = dict[str, str]
Action = Callable[[str, Options], object]


@dataclass(frozen=True)
class StoreOperation:
    """An operation.

    Attributes:
        act: does it.
        prepare: makes what is there before.
        is_atomic: whether it makes one version, tag or record, or nothing. Of others each part is such, and doing it
            again after a failure finishes it.
        needs_listing: whether the versions that are listed belong to what it changes.
        on_external_stores: whether a dataset of an external manifest store has it.
        makes_clone: whether it makes a table beside the table.
    """

    act: Action
    prepare: Action
    is_atomic: bool = True
    needs_listing: bool = False
    on_external_stores: bool = True
    makes_clone: bool = False


def beside(uri: str, suffix: str) -> str:
    """Another place next to a table's."""
    place, mark, query = uri.partition("?")
    return f"{place}{suffix}{mark}{query}"


def state(uri: str, options: Options, keys: Callable[[str], list[str]], *, listing: bool = False) -> dict[str, Any]:
    """What a table shows, without names that are made anew each time; empty when there is none.

    Args:
        uri: the table.
        options: of its store.
        keys: lists what is stored below a URI.
        listing: with the numbers of its versions.
    """
    try:
        dataset = lance_core.dataset(uri, storage_options=options)
    except DatasetNotFoundError:
        return {}
    # The file of an overlay, an index and a base path need not exist for what is tested here.
    bare = not dataset.list_indices() and not any(each.message.overlays for each in dataset.manifest.fragments)
    if bare:
        dataset.validate()
    table = dataset.to_table() if bare or not _has_overlays(dataset) else None
    shown = {
        "version": dataset.version,
        "rows": None if table is None else sorted(map(repr, table.to_pylist())),
        "columns": dataset.schema.names,
        "fragments": len(dataset.get_fragments()),
        "max fragment": dataset.manifest.message.max_fragment_id,
        "config": dataset.config(),
        "bases": sorted(base.path for base in dataset.manifest.message.base_paths if "://" not in base.path),
        "indices": sorted(each["name"] for each in dataset.list_indices()),
        "absorbed": _absorbed_generations(dataset),
        "overlays": _has_overlays(dataset),
        "tags": {name: (tag["version"], tag["metadata"]) for name, tag in dataset.tags.list().items()},
        "branches": {name: dataset.checkout_version((name, None)).count_rows() for name in dataset.branches.list()},
        "detached": sum(is_detached_manifest_name(key.rpartition("/")[2]) for key in keys(uri)),
        "files": sorted(len(fragment.data_files()) for fragment in dataset.get_fragments()),
        "naming": dataset.manifest.naming.name,
    }
    if listing:
        shown["versions"] = [each["version"] for each in dataset.version_refs()]
    return shown


def without_numbers(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """States without the version and the fragment ids, which an attempt that failed may have used up."""
    return [{name: value for name, value in part.items() if name not in ("version", "max fragment")} for part in parts]


def files_below(uri: str) -> list[str]:
    """The files of a table on a local disk, relative to it."""
    return [str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()]


def _absorbed_generations(dataset: lance_core.LanceDataset) -> list[int]:
    details = [
        pb_table.MemWalIndexDetails.FromString(index.index_details.value)
        for index in decode_index_section(dataset.manifest.index_section)
        if index.name == MEM_WAL_INDEX
    ]
    return [table.generation for each in details for table in each.compacted_sstables]


def _has_overlays(dataset: lance_core.LanceDataset) -> bool:
    return any(each.message.overlays for each in dataset.manifest.fragments)


def _open(uri: str, options: Options, version: int | None = None) -> lance_core.LanceDataset:
    return lance_core.dataset(uri, version, storage_options=options)


def _write(rows: pa.Table, mode: str, **more: object) -> Action:
    return lambda uri, options: lance_core.write_dataset(rows, uri, mode=mode, storage_options=options, **more)


def _steps(*actions: Action) -> Action:
    def run(uri: str, options: Options) -> None:
        for action in actions:
            action(uri, options)

    return run


def _nothing(uri: str, options: Options) -> None:
    """There is no table."""


_table = _write(OLD, "create")
_append = _write(NEW, "append")
_wide_table = _write(OLD.append_column("z", pa.array([7, 8, 9], pa.int64())), "create")


def _committed(
    make: Callable[[lance_core.LanceDataset, list[Any]], object], rows: pa.Table = NEW, **more: object
) -> Action:
    """Commit an operation that is made of a handle and of fragments of new rows."""

    def act(uri: str, options: Options) -> object:
        dataset = _open(uri, options)
        operation = make(dataset, lance_core.write_fragments(rows, dataset))
        return lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version, **more)

    return act


def _record(arm: str, fill: Callable[[lance_core.LanceDataset, Any], None]) -> Action:
    """Commit an operation by its message."""

    def act(uri: str, options: Options) -> object:
        dataset = _open(uri, options)
        message = pb_transaction.Transaction()
        fill(dataset, getattr(message, arm))
        operation = EXECUTABLE[arm].from_proto(getattr(message, arm))
        transaction = Transaction(read_version=dataset.version, operation=operation)
        given = CommitOptions(storage_options=options)
        return commit(dataset.log, transaction, given, known=dataset.manifest)

    return act


def _new_column(dataset: lance_core.LanceDataset, fragments: list[Any]) -> object:
    column = lance_core.Field(id=7, name="z", logical_type="int32")
    schema = replace(dataset.lance_schema, fields=(*dataset.lance_schema.fields, column))
    return LanceOperation.Merge([each.metadata for each in dataset.get_fragments()], schema)


def _first_column(dataset: lance_core.LanceDataset, fragments: list[Any]) -> object:
    return LanceOperation.Project(replace(dataset.lance_schema, fields=dataset.lance_schema.fields[:1]))


def _index(dataset: lance_core.LanceDataset, message: Any) -> None:
    index = message.new_indices.add()
    index.uuid.uuid = uuid.uuid4().bytes
    index.fields.append(0)
    index.name = "i"
    index.dataset_version = dataset.version


def _other_files(dataset: lance_core.LanceDataset, message: Any) -> None:
    written = lance_core.write_fragments(OLD, dataset)
    for group, fragment in zip(dataset.get_fragments(), written, strict=False):
        replacement = message.replacements.add()
        replacement.fragment_id = group.fragment_id
        replacement.new_file.CopyFrom(fragment_to_record(fragment).message.files[0])


def _overlay(dataset: lance_core.LanceDataset, message: Any) -> None:
    from pyroaring import BitMap

    (written,) = lance_core.write_fragments(OLD.select(["b"]), dataset, mode="append")
    group = message.groups.add()
    group.fragment_id = 0
    overlay = group.overlays.add()
    overlay.data_file.CopyFrom(fragment_to_record(written).message.files[0])
    overlay.shared_offset_bitmap = BitMap([0, 1, 2]).serialize()


def _write_ahead_log(dataset: lance_core.LanceDataset, message: Any) -> None:
    index = message.new_indices.add()
    index.uuid.uuid = uuid.uuid4().bytes
    index.name = MEM_WAL_INDEX
    index.dataset_version = dataset.version
    index.index_details.type_url = "/lance.table.MemWalIndexDetails"


def _absorbed(dataset: lance_core.LanceDataset, message: Any) -> None:
    generation = message.compacted_sstables.add()
    generation.shard_id.uuid = uuid.UUID(int=7).bytes
    generation.generation = 3


def _batch(uri: str, options: Options) -> object:
    dataset = _open(uri, options)
    transactions = [lance_core.write_fragments(NEW, dataset, return_transaction=True) for _ in range(2)]
    return lance_core.LanceDataset.commit_batch(dataset, transactions)


def _on(method: Callable[[lance_core.LanceDataset], object], version: int | None = None) -> Action:
    return lambda uri, options: method(_open(uri, options, version))


def _clone(deep: bool) -> Action:
    def act(uri: str, options: Options) -> object:
        dataset = _open(uri, options)
        return (dataset.deep_clone if deep else dataset.shallow_clone)(beside(uri, "-clone"), None)

    return act


def _upsert(dataset: lance_core.LanceDataset, rows: pa.Table) -> None:
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _update_in_place(dataset: lance_core.LanceDataset) -> None:
    merge = dataset.merge_insert("a").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(UPSERTED)


def _replace_by_source(dataset: lance_core.LanceDataset) -> None:
    merge = dataset.merge_insert("a").when_matched_update_all("source.b > target.b").when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("a < 3").execute(UPSERTED)


def _add_by_function(dataset: lance_core.LanceDataset) -> None:
    @lance_core.batch_udf(pa.schema([("z", pa.int64())]))
    def tripled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"z": pa.array([3 * value for value in batch["a"].to_pylist()], pa.int64())})

    dataset.add_columns(tripled, read_columns=["a"])


def _merge_fragment_columns(dataset: lance_core.LanceDataset) -> None:
    results = [fragment.merge_columns({"z": "a - b"}) for fragment in dataset.get_fragments()]
    operation = LanceOperation.Merge([fragment for fragment, _ in results], schema=results[0][1])
    lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _update_fragment_columns(dataset: lance_core.LanceDataset) -> None:
    results = [fragment.update_columns(UPSERTED, left_on="a") for fragment in dataset.get_fragments()]
    operation = LanceOperation.Update(
        updated_fragments=[fragment for fragment, _ in results],
        fields_modified=results[0][1],
        update_mode="rewrite_columns",
    )
    lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _delete_from_fragments(dataset: lance_core.LanceDataset) -> None:
    """By a condition from the first, by a position from the second."""
    first, second = dataset.get_fragments()
    operation = LanceOperation.Delete([first.delete("a = 1"), second.delete_rows([1])], [], "a in (1, 5)")
    lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def _create_fragment(uri: str, options: Options) -> object:
    fragment = lance_core.LanceFragment.create(uri, NEW, storage_options=options)
    dataset = _open(uri, options)
    return lance_core.LanceDataset.commit(dataset, LanceOperation.Append([fragment]), read_version=dataset.version)


def _cleanup(dataset: lance_core.LanceDataset) -> None:
    stats = dataset.cleanup_old_versions(retain_versions=1)
    if stats.failed_deletes:
        # Told in figures; for the tests here it is a failure like any other.
        raise lance_core.StorageError(f"{stats.failed_deletes} files were not removed")


def _migrate(uri: str, options: Options) -> None:
    lance_core.migrate_manifest_paths_v2(uri, options)


_versions = _steps(_table, _append, _on(lambda dataset: dataset.delete("a = 1")))

_VERSION_5_CLEANS_UP = {
    "lance.auto_cleanup.interval": "5",
    "lance.auto_cleanup.older_than": "0s",
    "lance.auto_cleanup.min_age": "0s",
}

OPERATIONS: dict[str, StoreOperation] = {
    "create": StoreOperation(_write(NEW, "create"), _nothing),
    "append": StoreOperation(_append, _table),
    "append, first": StoreOperation(_append, _nothing),
    "overwrite": StoreOperation(_write(NEW, "overwrite"), _table),
    "delete": StoreOperation(_on(lambda dataset: dataset.delete("a = 2")), _table),
    "replace rows": StoreOperation(_on(lambda dataset: dataset.replace_rows("a in (2, 3, 4, 5)", NEW)), _table),
    "update": StoreOperation(
        _committed(lambda dataset, new: LanceOperation.Update(removed_fragment_ids=[0], new_fragments=new)), _table
    ),
    "update rows": StoreOperation(
        _on(lambda dataset: dataset.update({"b": "a * 7"}, "a > 1")), _steps(_table, _append)
    ),
    "upsert": StoreOperation(_on(lambda dataset: _upsert(dataset, UPSERTED)), _steps(_table, _append)),
    "upsert of some columns": StoreOperation(
        _on(lambda dataset: _upsert(dataset, UPSERTED.select(["a"]))), _steps(_wide_table, _append)
    ),
    "update in place": StoreOperation(_on(_update_in_place), _steps(_wide_table, _append)),
    "replace by source": StoreOperation(_on(_replace_by_source), _steps(_table, _append)),
    "truncate": StoreOperation(_on(lambda dataset: dataset.truncate_table()), _steps(_table, _append)),
    "fragment create": StoreOperation(_create_fragment, _table),
    "fragment delete": StoreOperation(_on(_delete_from_fragments), _steps(_table, _append)),
    "fragment columns": StoreOperation(_on(_merge_fragment_columns), _steps(_table, _append)),
    "fragment update": StoreOperation(_on(_update_fragment_columns), _steps(_wide_table, _append)),
    "add by function": StoreOperation(_on(_add_by_function), _steps(_table, _append)),
    "make required": StoreOperation(
        _on(lambda dataset: dataset.alter_columns({"path": "b", "nullable": False})), _steps(_table, _append)
    ),
    "add columns": StoreOperation(_on(lambda dataset: dataset.add_columns(pa.field("z", pa.int32()))), _table),
    "add values": StoreOperation(_on(lambda dataset: dataset.add_columns({"z": "a + b"})), _steps(_table, _append)),
    "join columns": StoreOperation(
        _on(lambda dataset: dataset.merge(pa.table({"a": [1, 2], "z": [10, 20]}), "a")), _steps(_table, _append)
    ),
    "cast column": StoreOperation(
        _on(lambda dataset: dataset.alter_columns({"path": "z", "data_type": pa.int32()})), _steps(_wide_table, _append)
    ),
    "rename column": StoreOperation(
        _on(lambda dataset: dataset.alter_columns({"path": "z", "name": "y"})), _wide_table
    ),
    "drop column": StoreOperation(_on(lambda dataset: dataset.drop_columns(["z"])), _wide_table),
    "merge": StoreOperation(_committed(_new_column), _table),
    "project": StoreOperation(_committed(_first_column), _table),
    "create index": StoreOperation(_record("create_index", _index), _table),
    "drop index": StoreOperation(
        _on(lambda dataset: dataset.drop_index("i")), _steps(_table, _record("create_index", _index))
    ),
    "rewrite": StoreOperation(
        _committed(
            lambda dataset, new: LanceOperation.Rewrite(
                [LanceOperation.RewriteGroup([each.metadata for each in dataset.get_fragments()], new)], []
            ),
            OLD,
        ),
        _table,
    ),
    "compaction": StoreOperation(
        _on(lambda dataset: dataset.optimize.compact_files()), _steps(_table, _append), is_atomic=False
    ),
    "restore": StoreOperation(_on(lambda dataset: dataset.restore(), version=1), _steps(_table, _append)),
    "reserve": StoreOperation(_committed(lambda dataset, new: LanceOperation.ReserveFragments(2)), _table),
    "config": StoreOperation(_on(lambda dataset: dataset.update_config({"key": "value"})), _table),
    "bases": StoreOperation(
        _record("update_bases", lambda dataset, message: message.new_bases.add(id=1, name="cold", path="/cold")), _table
    ),
    "data replacement": StoreOperation(_record("data_replacement", _other_files), _table),
    "data overlay": StoreOperation(_record("data_overlay", _overlay), _table),
    "mem wal": StoreOperation(
        _record("update_mem_wal_state", _absorbed), _steps(_table, _record("create_index", _write_ahead_log))
    ),
    "detached": StoreOperation(_committed(lambda dataset, new: LanceOperation.Append(new), detached=True), _table),
    "batch": StoreOperation(_batch, _table),
    "branch create": StoreOperation(_on(lambda dataset: dataset.create_branch("b")), _table, is_atomic=False),
    "branch delete": StoreOperation(
        _on(lambda dataset: dataset.branches.delete("b")),
        _steps(_table, _on(lambda dataset: dataset.create_branch("b"))),
        is_atomic=False,
        on_external_stores=False,
    ),
    "tag create": StoreOperation(_on(lambda dataset: dataset.tags.create("t")), _table),
    "tag update": StoreOperation(
        _on(lambda dataset: dataset.tags.update("t")),
        _steps(_table, _on(lambda dataset: dataset.tags.create("t")), _append),
    ),
    "tag metadata": StoreOperation(
        _on(lambda dataset: dataset.tags.replace_metadata("t", {"key": "value"})),
        _steps(_table, _on(lambda dataset: dataset.tags.create("t"))),
    ),
    "tag delete": StoreOperation(
        _on(lambda dataset: dataset.tags.delete("t")), _steps(_table, _on(lambda dataset: dataset.tags.create("t")))
    ),
    "shallow clone": StoreOperation(_clone(deep=False), _table, makes_clone=True),
    "deep clone": StoreOperation(_clone(deep=True), _table, makes_clone=True),
    "cleanup": StoreOperation(_on(_cleanup), _versions, is_atomic=False, needs_listing=True),
    "auto cleanup": StoreOperation(
        _append,
        # Four versions, of which the append that makes the fifth leaves one.
        _steps(_table, _append, _append, _on(lambda dataset: dataset.update_config(_VERSION_5_CLEANS_UP))),
    ),
    "migrate": StoreOperation(
        _migrate,
        _steps(_write(OLD, "create", enable_v2_manifest_paths=False), _append),
        is_atomic=False,
        on_external_stores=False,
    ),
}
