"""Every operation that the reference can commit, on tables of four fragments of ten rows, and our spelling of it.

Three kinds of tables: plain, with indices, with stable row ids and an index that holds them. The columns a and s lie in
files of their own. All files that an operation needs are written when it is built, below the table's root: copies have
them too.
"""

import copy
import dataclasses
import shutil
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance
import lance.fragment
import lance.schema
import pyarrow as pa
from lance import LanceOperation as Theirs
from lance.dataset import Index
from lance.fragment import RowIdSequence

import lance_core
from lance_core import LanceOperation as Ours
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Schema
from tests.support.twin_operations import delete_rows, merge, new_fragment, our_fragments, rows, settings
from tests.support.twin_operations import to_ours as rows_to_ours

KINDS = ("plain", "indexed", "stable")
Build = Callable[[lance.LanceDataset], object]


def create_table(kind: str, uri: str) -> int:
    """Create a table and return its version."""
    lance.write_dataset(rows(0, 40).select(["a"]), uri, max_rows_per_file=10, enable_stable_row_ids=kind == "stable")
    dataset = lance.dataset(uri)
    dataset.add_columns({"s": "concat('v', cast(a as string))"})
    if kind == "indexed":
        dataset.create_scalar_index("a", "BTREE")
    if kind != "plain":
        lance.dataset(uri).create_scalar_index("s", "BITMAP")
    return lance.dataset(uri).version


def _moved(dataset: lance.LanceDataset, start: int, num_rows: int) -> lance.FragmentMetadata:
    """Return a new fragment with rows of the table."""
    fragment = new_fragment(dataset, start, num_rows)
    if dataset.has_stable_row_ids:
        fragment.row_id_meta = RowIdSequence(list(range(start, start + num_rows))).to_inline_metadata()
    return fragment


def _rewrite(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Rewrite:
    old = dataset.get_fragment(fragment_id).metadata
    new = _moved(dataset, fragment_id * 10, 10)
    new.created_at_version_meta = old.created_at_version_meta
    new.last_updated_at_version_meta = old.last_updated_at_version_meta
    return Theirs.Rewrite([Theirs.RewriteGroup([old], [new])], [])


def _update_rows(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    return Theirs.Update(
        updated_fragments=[dataset.get_fragment(fragment_id).delete("a % 10 = 5")],
        new_fragments=[_moved(dataset, fragment_id * 10 + 5, 1)],
        fields_for_preserving_frag_bitmap=[0],
        update_mode="rewrite_rows",
    )


def _update_hides(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    return Theirs.Update(
        updated_fragments=[dataset.get_fragment(fragment_id).delete("a % 10 = 5")], update_mode="rewrite_rows"
    )


def _update_whole(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    return Theirs.Update(
        removed_fragment_ids=[fragment_id],
        new_fragments=[_moved(dataset, fragment_id * 10, 10)],
        update_mode="rewrite_rows",
    )


def _update_columns(column: str, fragment_id: int, dataset: lance.LanceDataset) -> Theirs.Update:
    key = "s" if column == "a" else "a"
    row = {"a": pa.array([fragment_id * 10], pa.int64()), "s": [f"v{fragment_id * 10}"]}
    row[column] = pa.array([77], pa.int64()) if column == "a" else ["changed"]
    updated, fields = dataset.get_fragment(fragment_id).update_columns(pa.table(row), left_on=key, right_on=key)
    return Theirs.Update(updated_fragments=[updated], fields_modified=fields, update_mode="rewrite_columns")


def _file(column: str, dataset: lance.LanceDataset) -> lance.fragment.DataFile:
    side = Path(f"{dataset.uri}-side")
    shutil.rmtree(side, ignore_errors=True)
    written = lance.write_dataset(rows(0, 10).select([column]), str(side)).get_fragments()[0].metadata.files[0]
    shutil.copy(side / "data" / written.path, Path(dataset.uri) / "data" / written.path)
    file = copy.copy(written)
    file.fields, file.column_indices = [["a", "s"].index(column)], [0]
    return file


def _replacement(column: str, fragment_id: int, dataset: lance.LanceDataset) -> Theirs.DataReplacement:
    return Theirs.DataReplacement([Theirs.DataReplacementGroup(fragment_id, _file(column, dataset))])


def _overlay(fragment_id: int, dataset: lance.LanceDataset) -> Theirs.DataOverlay:
    file = Theirs.DataOverlayFile(_file("s", dataset), list(range(10)))
    return Theirs.DataOverlay([Theirs.DataOverlayGroup(fragment_id, [file])])


def _index(name: str, column: str, fragment_ids: set[int], dataset: lance.LanceDataset) -> Theirs.CreateIndex:
    field_id = ["a", "s"].index(column)
    details = ("/lance.table.BTreeIndexDetails", b"")
    index = Index(str(uuid.uuid4()), name, [field_id], dataset.version, fragment_ids, 1, index_details=details)
    return Theirs.CreateIndex([index], [])


def _project(promise: bool, dataset: lance.LanceDataset) -> Theirs.Project:
    return Theirs.Project(lance.schema.LanceSchema.from_pyarrow(pa.schema([dataset.schema.field("a")])), promise)


_K = Theirs.UpdateMap({"k": "1"})

OPERATIONS: dict[str, Build] = {
    "append": lambda dataset: Theirs.Append([new_fragment(dataset)]),
    "overwrite": lambda dataset: Theirs.Overwrite(dataset.schema, [new_fragment(dataset)]),
    "restore": lambda dataset: Theirs.Restore(2),
    "delete 0": partial(delete_rows, 0),
    "delete 3": partial(delete_rows, 3),
    "delete whole 0": lambda dataset: Theirs.Delete([], [0], "a < 10"),
    "delete whole 3": lambda dataset: Theirs.Delete([], [3], "a > 29"),
    "rewrite 0": partial(_rewrite, 0),
    "rewrite 3": partial(_rewrite, 3),
    "config k": partial(settings, config_updates=_K),
    "table metadata k": partial(settings, table_metadata_updates=_K),
    "schema metadata k": partial(settings, schema_metadata_updates=_K),
    "field 0 k": partial(settings, field_metadata_updates={0: _K}),
    "update rows 0": partial(_update_rows, 0),
    "update rows 3": partial(_update_rows, 3),
    "update hides 0": partial(_update_hides, 0),
    "update whole 0": partial(_update_whole, 0),
    "update whole 3": partial(_update_whole, 3),
    "update s 0": partial(_update_columns, "s", 0),
    "update s 3": partial(_update_columns, "s", 3),
    "update a 0": partial(_update_columns, "a", 0),
    "replace s 0": partial(_replacement, "s", 0),
    "replace s 3": partial(_replacement, "s", 3),
    "replace a 0": partial(_replacement, "a", 0),
    "index i a 0-3": partial(_index, "i", "a", {0, 1, 2, 3}),
    "index i a 3": partial(_index, "i", "a", {3}),
    "index j a 0-3": partial(_index, "j", "a", {0, 1, 2, 3}),
    "index j s 0-3": partial(_index, "j", "s", {0, 1, 2, 3}),
    "merge +": partial(merge, True),
    "merge -": partial(merge, False),
    "project +": partial(_project, True),
    "project -": partial(_project, False),
    "overlay s 0": partial(_overlay, 0),
    "overlay s 3": partial(_overlay, 3),
}


def build_all(dataset: lance.LanceDataset) -> dict[str, object]:
    """Return every operation, planned on one version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: build(dataset) for name, build in OPERATIONS.items()}


def to_ours(operation: object) -> Ours.BaseOperation:
    """Return the same operation in our classes."""
    match operation:
        case Theirs.Update():
            return Ours.Update(
                removed_fragment_ids=list(operation.removed_fragment_ids),
                updated_fragments=our_fragments(operation.updated_fragments),
                new_fragments=our_fragments(operation.new_fragments),
                fields_modified=list(operation.fields_modified),
                fields_for_preserving_frag_bitmap=list(operation.fields_for_preserving_frag_bitmap),
                update_mode=operation.update_mode,
                updated_fragment_offsets=operation.updated_fragment_offsets,
            )
        case Theirs.Merge():
            return Ours.Merge(
                our_fragments(operation.fragments), _schema(operation.schema), operation.preserves_nullability
            )
        case Theirs.Project():
            return Ours.Project(_schema(operation.schema), operation.preserves_nullability)
        case Theirs.CreateIndex():
            return Ours.CreateIndex(
                list(map(_our_index, operation.new_indices)), list(map(_our_index, operation.removed_indices))
            )
        case Theirs.DataReplacement():
            return Ours.DataReplacement(
                [
                    Ours.DataReplacementGroup(each.fragment_id, _our_file(each.new_file))
                    for each in operation.replacements
                ]
            )
        case Theirs.DataOverlay():
            return Ours.DataOverlay(
                [
                    Ours.DataOverlayGroup(
                        group.fragment_id,
                        [
                            Ours.DataOverlayFile(_our_file(each.data_file), list(each.offsets))
                            for each in group.overlays
                        ],
                    )
                    for group in operation.groups
                ]
            )
        case _:
            return rows_to_ours(operation)


def _schema(schema: lance.schema.LanceSchema) -> Schema:
    """Convert a flat schema."""
    plain = schema_from_arrow(schema.to_pyarrow())
    ids = [field.id() for field in schema.fields()]
    fields = tuple(dataclasses.replace(field, id=field_id) for field, field_id in zip(plain.fields, ids, strict=True))
    return dataclasses.replace(plain, fields=fields)


def _our_index(index: Index) -> lance_core.Index:
    values = {each.name: getattr(index, each.name) for each in dataclasses.fields(index)}
    files = None if index.files is None else [lance_core.IndexFile(each.path, each.size_bytes) for each in index.files]
    return lance_core.Index(**{**values, "fragment_ids": set(index.fragment_ids), "files": files})


def _our_file(file: lance.fragment.DataFile) -> lance_core.DataFile:
    return lance_core.DataFile(
        **{each.name: getattr(file, each.name) for each in dataclasses.fields(lance_core.DataFile)}
    )
