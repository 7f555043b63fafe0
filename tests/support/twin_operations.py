"""Operations as the reference spells them, on a table of four fragments of ten rows, and their translation to ours.

The files that an operation needs are written by the reference when it is built.
"""

import copy
import json
import shutil
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance
import lance.fragment
import lance.schema
import pyarrow as pa
from lance import LanceOperation as Theirs
from lance.dataset import Index

import lance_core
from lance_core import LanceOperation as Ours

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())])


def rows(start: int, stop: int) -> pa.Table:
    """Rows of both columns."""
    numbers = range(start, stop)
    return pa.table(
        {"a": pa.array(numbers, pa.int64()), "s": pa.array([f"v{number}" for number in numbers], pa.string())}
    )


def create_table(uri: str) -> None:
    """Version 1: fragments 0 to 3. Version 2: column s, in files of its own."""
    lance.write_dataset(rows(0, 40).select(["a"]), uri, max_rows_per_file=10)
    lance.dataset(uri).add_columns({"s": "concat('v', cast(a as string))"})


READ_VERSION = 2

Build = Callable[[lance.LanceDataset], object]


def new_fragment(dataset: lance.LanceDataset, start: int = 100, num_rows: int = 10) -> lance.FragmentMetadata:
    return lance.fragment.LanceFragment.create(dataset.uri, rows(start, start + num_rows))


def delete_rows(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Delete:
    """A tenth of the rows of a fragment."""
    return Theirs.Delete([dataset.get_fragment(fragment_id).delete("a % 10 = 3")], [], "a % 10 = 3")


def _rewrite(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Rewrite:
    old = dataset.get_fragment(fragment_id).metadata
    return Theirs.Rewrite([Theirs.RewriteGroup([old], [new_fragment(dataset, fragment_id * 10)])], [])


def _update_rows(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    updated = dataset.get_fragment(fragment_id).delete("a % 10 = 5")
    return Theirs.Update(
        updated_fragments=[updated], new_fragments=[new_fragment(dataset, 500, 1)], update_mode="rewrite_rows"
    )


def _update_columns(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    change = pa.table({"a": pa.array([fragment_id * 10], pa.int64()), "s": ["changed"]})
    updated, fields = dataset.get_fragment(fragment_id).update_columns(change, left_on="a", right_on="a")
    return Theirs.Update(updated_fragments=[updated], fields_modified=fields, update_mode="rewrite_columns")


def _replacement(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.DataReplacement:
    side = Path(f"{dataset.uri}-side")
    shutil.rmtree(side, ignore_errors=True)
    written = lance.write_dataset(rows(0, 10).select(["s"]), str(side)).get_fragments()[0].metadata.files[0]
    shutil.copy(side / "data" / written.path, Path(dataset.uri) / "data" / written.path)
    file = copy.copy(written)
    file.fields, file.column_indices = [1], [0]
    return Theirs.DataReplacement([Theirs.DataReplacementGroup(fragment_id, file)])


def _index(fragment_ids: set[int], dataset: lance.LanceDataset) -> Theirs.CreateIndex:
    index = Index(
        uuid=str(uuid.uuid4()), name="i", fields=[0], dataset_version=2, fragment_ids=fragment_ids, index_version=0
    )
    return Theirs.CreateIndex([index], [])


def merge(promise: bool, dataset: lance.LanceDataset) -> Theirs.Merge:
    """The same fragments and columns, with or without the promise that no column became required."""
    return Theirs.Merge([each.metadata for each in dataset.get_fragments()], dataset.lance_schema, promise)


def _project(promise: bool, dataset: lance.LanceDataset) -> Theirs.Project:
    return Theirs.Project(lance.schema.LanceSchema.from_pyarrow(pa.schema([SCHEMA.field("a")])), promise)


def settings(dataset: lance.LanceDataset, **updates: object) -> Theirs.UpdateConfig:
    """Changes of the maps of settings."""
    return Theirs.UpdateConfig(**updates)


def _map(key: str, value: str | None = "1", *, replace: bool = False) -> Theirs.UpdateMap:
    return Theirs.UpdateMap({key: value}, replace)


COMMITTABLE: dict[str, Build] = {
    # What both implementations commit.
    "append": lambda dataset: Theirs.Append([new_fragment(dataset)]),
    "overwrite": lambda dataset: Theirs.Overwrite(SCHEMA, [new_fragment(dataset)]),
    "restore": lambda dataset: Theirs.Restore(2),
    "delete 0": partial(delete_rows, 0),
    "delete 3": partial(delete_rows, 3),
    "delete whole 0": lambda dataset: Theirs.Delete([], [0], "a < 10"),
    "delete whole 3": lambda dataset: Theirs.Delete([], [3], "a > 29"),
    "rewrite 0": partial(_rewrite, 0),
    "rewrite 3": partial(_rewrite, 3),
    "config k": partial(settings, config_updates=_map("k")),
    "config j": partial(settings, config_updates=_map("j")),
    "config k removed": partial(settings, config_updates=_map("k", None)),
    "config replaced": partial(settings, config_updates=_map("z", replace=True)),
    "table metadata k": partial(settings, table_metadata_updates=_map("k")),
    "table metadata j": partial(settings, table_metadata_updates=_map("j")),
    "table metadata k removed": partial(settings, table_metadata_updates=_map("k", None)),
    "table metadata replaced": partial(settings, table_metadata_updates=_map("z", replace=True)),
    "schema metadata k": partial(settings, schema_metadata_updates=_map("k")),
    "schema metadata j": partial(settings, schema_metadata_updates=_map("j")),
    "field 0 k": partial(settings, field_metadata_updates={0: _map("k")}),
    "field 0 j": partial(settings, field_metadata_updates={0: _map("j")}),
    "field 1 k": partial(settings, field_metadata_updates={1: _map("k")}),
    "config k, schema metadata": partial(settings, config_updates=_map("k"), schema_metadata_updates=_map("k")),
    "no settings": settings,
}
OTHERS: dict[str, Build] = {
    # What only the reference commits.
    "update rows 0": partial(_update_rows, 0),
    "update rows 3": partial(_update_rows, 3),
    "update columns 0": partial(_update_columns, 0),
    "update columns 3": partial(_update_columns, 3),
    "replacement 0": partial(_replacement, 0),
    "replacement 3": partial(_replacement, 3),
    "index 0-3": partial(_index, {0, 1, 2, 3}),
    "index 3": partial(_index, {3}),
    "merge +": partial(merge, True),
    "merge -": partial(merge, False),
    "project +": partial(_project, True),
    "project -": partial(_project, False),
}


def to_ours(operation: object) -> Ours.BaseOperation:
    """The same operation in our classes."""
    match operation:
        case Theirs.Append():
            return Ours.Append(our_fragments(operation.fragments))
        case Theirs.Overwrite():
            return Ours.Overwrite(operation.new_schema, our_fragments(operation.fragments))
        case Theirs.Restore():
            return Ours.Restore(operation.version)
        case Theirs.Delete():
            return Ours.Delete(
                our_fragments(operation.updated_fragments), list(operation.deleted_fragment_ids), operation.predicate
            )
        case Theirs.Rewrite():
            groups = [
                Ours.RewriteGroup(our_fragments(group.old_fragments), our_fragments(group.new_fragments))
                for group in operation.groups
            ]
            return Ours.Rewrite(groups, [])
        case Theirs.UpdateConfig():
            return Ours.UpdateConfig(
                _update(operation.config_updates),
                _update(operation.table_metadata_updates),
                _update(operation.schema_metadata_updates),
                {field_id: _update(update) for field_id, update in (operation.field_metadata_updates or {}).items()}
                or None,
            )
    raise AssertionError(operation)


def our_fragments(fragments: list[lance.FragmentMetadata]) -> list[lance_core.FragmentMetadata]:
    """The same fragments in our class."""
    return [lance_core.FragmentMetadata.from_json(json.dumps(each.to_json())) for each in fragments]


def _update(update: Theirs.UpdateMap | None) -> Ours.UpdateMap | None:
    return None if update is None else Ours.UpdateMap(dict(update.updates), update.replace)
