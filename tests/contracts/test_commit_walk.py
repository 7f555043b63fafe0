"""The descriptions of write and commit in docs/architecture.md match the code, and calls never enter a higher layer."""

import shutil
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceDataset, LanceOperation
from lance_core.optimize import Compaction
from tests.support.walks import check_steps, climbs_of, crossed_by, exceptions_of, steps_of

ROWS = pa.table({"a": range(1_000), "b": ["x"] * 1_000, "c": [[row] for row in range(1_000)]})
STORE_CALLS = {
    "create",
    "delete",
    "get",
    "get_ranges",
    "get_tail",
    "head",
    "list",
    "list_names",
    "put",
    "put_if_absent",
    "write",
}
ONE_OF = "transactions/operations/append"
COMMIT = "commit/commit"
NEW_ROWS = ("write/fragment_writer", "merge_insert/new_rows")

Verb = Callable[[str], Callable[[], object]]


def _append(uri: str) -> Callable[[], object]:
    fragments, version = lance_core.write_fragments(ROWS, uri, mode="append"), lance_core.dataset(uri).version
    return lambda: LanceDataset.commit(uri, LanceOperation.Append(fragments), read_version=version)


def _append_after_another(uri: str) -> Callable[[], object]:
    commit = _append(uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    return commit


def _append_to_its_first_version(uri: str) -> Callable[[], object]:
    """Return an append that is planned on version 1, after which another writer commits."""
    shutil.rmtree(uri)
    lance_core.write_dataset(ROWS, uri)
    return _append_after_another(uri)


def _overwrite(uri: str) -> Callable[[], object]:
    fragments, version = lance_core.write_fragments(ROWS, uri, mode="overwrite"), lance_core.dataset(uri).version
    operation = LanceOperation.Overwrite(ROWS.schema, fragments)
    return lambda: LanceDataset.commit(uri, operation, read_version=version)


def _delete(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.delete("a < 5")


def _update(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.update({"a": "a + 1"}, where="a < 5")


def _replace(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.replace_rows("a < 5", ROWS.slice(0, 5))


def _upsert(uri: str) -> Callable[[], object]:
    merge = lance_core.dataset(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all()
    return lambda: merge.execute(ROWS.slice(500))


def _update_in_place(uri: str) -> Callable[[], object]:
    merge = lance_core.dataset(uri).merge_insert("a").when_matched_update_all().write_mode("rewrite_columns")
    return lambda: merge.execute(ROWS.select(["a", "b"]).slice(500))


def _add_values(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.add_columns({"sum": "a + 1"})


def _add_nulls(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.add_columns(pa.field("empty", pa.int32()))


def _join(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.merge(pa.table({"a": [1], "joined": [2]}), "a")


def _cast(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.alter_columns({"path": "a", "data_type": pa.int32(), "name": "number"})


def _drop(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.drop_columns(["b"])


def _find_stable_ids(uri: str) -> Callable[[], object]:
    dataset = lance_core.write_dataset(ROWS, f"{uri}-stable", enable_stable_row_ids=True)
    dataset.delete("a < 5")
    return lambda: lance_core.dataset(dataset.uri)._take_rows([7, 8])


def _scan_json(uri: str) -> Callable[[], object]:
    documents = pa.table({"json": pa.array(['{"a": 1}', None], pa.json_())})
    dataset = lance_core.write_dataset(documents, f"{uri}-documents")
    return lambda: dataset.to_table()


def _delete_again(uri: str) -> Callable[[], object]:
    late = lance_core.dataset(uri)
    lance_core.dataset(uri).delete("a = 1")
    return lambda: late.delete("a = 1")


def _query(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.sql("SELECT sum(a) FROM dataset").build().to_batch_records()


def _write(uri: str) -> Callable[[], object]:
    return lambda: lance_core.write_dataset(ROWS, uri, mode="append")


def _write_to_a_handle(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: lance_core.write_dataset(ROWS, dataset, mode="append")


def _take(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.take([1, 1_999])


def _compact(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.optimize.compact_files()


def _compact_in_steps(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)

    def steps() -> None:
        tasks = Compaction.plan(dataset, {}).tasks
        assert tasks
        Compaction.commit(dataset, [task.execute(dataset) for task in tasks])

    return steps


def _clean_up(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)


def _tag(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: (dataset.tags.create("t", 1), dataset.tags.list(), dataset.tags.delete("t"))


def _branch(uri: str) -> Callable[[], object]:
    dataset = lance_core.dataset(uri)
    return lambda: dataset.create_branch("b")


def _is_end_of_a_commit(module: str, function: str) -> bool:
    """Return whether a function reads or changes the table, or decides about the change."""
    return (
        (module == "io/local_store" and function in STORE_CALLS)
        or (module.startswith("transactions/operations/") and function == "apply")
        or (module, function) == ("transactions/conflicts", "judge")
    )


def _is_end_of_a_write(module: str, function: str) -> bool:
    return (module, function) == ("encodings/page_encoder", "encode_pages") or (
        module == "io/local_store" and function in STORE_CALLS
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    lance_core.write_dataset(ROWS, tmp_path / "t.lance")
    lance_core.write_dataset(ROWS, tmp_path / "t.lance", mode="append")
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize(
    ("verb", "exceptions"),
    [
        (_append, {"file/file_bytes"}),
        (_append_after_another, {"file/file_bytes"}),
        (_append_to_its_first_version, {"file/file_bytes", "transactions/overtaken"}),
        (_overwrite, {"file/file_bytes"}),
    ],
)
def test_every_module_used_by_a_commit_is_in_the_description_of_commits(
    uri: str, verb: Verb, exceptions: set[str]
) -> None:
    crossed = crossed_by(verb(uri), _is_end_of_a_commit)
    assert {COMMIT, ONE_OF, "io/object_store"} < crossed
    assert crossed - {module for module, _ in steps_of("Commit")} == exceptions
    assert exceptions <= exceptions_of("Commit")


def test_concurrent_deletes_use_only_modules_in_the_description_of_commits(uri: str) -> None:
    late = lance_core.dataset(uri)
    lance_core.dataset(uri).delete("a < 5")
    crossed = crossed_by(lambda: late.delete("a > 995"), _is_end_of_a_commit)
    reads = {"scan/matching", "scan/fragment_group", "scan/row_reader", "scan/fragment_reader", "file/session"}
    before_its_commit = {"delete/delete", "delete/plan", *reads}
    others = crossed - {module for module, _ in steps_of("Commit")} - before_its_commit - {"table/deletion_file"}
    assert {"transactions/delete_rebase", "table/deletion_vector"} <= others <= exceptions_of("Commit")


@pytest.mark.parametrize(
    ("version", "rows", "exceptions"),
    [
        ("2.2", ROWS, set()),
        ("2.0", ROWS, {"file/v2_0/field_writer", "file/v2_0/column_writers", "file/v2_0/list_writer"}),
        ("0.1", ROWS.select(["a", "b"]), {"file/v0_1/writer"}),
    ],
)
@pytest.mark.parametrize("mode", ["create", "append"])
def test_every_module_used_by_a_write_before_its_commit_is_in_the_description_of_writes(
    tmp_path: Path, version: str, rows: pa.Table, exceptions: set[str], mode: str
) -> None:
    # The first write in a format imports its modules, which would then appear in the call stacks.
    lance_core.write_dataset(rows, tmp_path / "first", data_storage_version=version)
    if mode == "append":
        lance_core.write_dataset(rows, tmp_path / "t", data_storage_version=version)
    crossed = crossed_by(
        lambda: lance_core.write_dataset(rows, tmp_path / "t", mode=mode, data_storage_version=version),
        _is_end_of_a_write,
        not_followed={("scan/table_view", "with_latest"), (COMMIT, "commit")},
    )
    assert {COMMIT, "write/fragment_writer", "io/object_store"} < crossed
    assert crossed - {COMMIT} - {module for module, _ in steps_of("Write")} == exceptions
    assert exceptions <= exceptions_of("Write")


@pytest.mark.parametrize("title", ["Write", "Commit"])
def test_description_names_existing_functions_of_at_most_twelve_modules(title: str) -> None:
    check_steps(steps_of(title))


def test_description_of_spark_operations_names_existing_functions() -> None:
    check_steps(steps_of("Verbs"), max_modules=20)


@pytest.mark.parametrize(
    ("verb", "streams"),
    [
        (_append, set()),
        (_append_after_another, set()),
        (_overwrite, set()),
        (_delete, set()),
        (_delete_again, set()),
        (_update, set()),
        (_replace, set()),
        (_upsert, {NEW_ROWS}),
        (_update_in_place, {NEW_ROWS, ("columns/column_files", "merge_insert/changed_columns")}),
        (_add_values, set()),
        (_add_nulls, set()),
        (_join, set()),
        (_cast, set()),
        (_drop, set()),
        (_query, set()),
        (_scan_json, set()),
        (_find_stable_ids, set()),
        (_write, set()),
        (_write_to_a_handle, set()),
        (_take, set()),
        (_compact, set()),
        (_compact_in_steps, set()),
        (_clean_up, set()),
        (_tag, set()),
        (_branch, set()),
    ],
)
def test_spark_operations_never_call_functions_of_a_higher_layer(
    uri: str, verb: Verb, streams: set[tuple[str, str]]
) -> None:
    """The only exceptions are streams of rows that a package passes to a lower one, which runs them."""
    contracts = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
    [contract] = [each for each in contracts["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    heights = {
        package.strip().removeprefix("lance_core."): -depth
        for depth, layer in enumerate(contract["layers"])
        for package in layer.split("|")
    }
    assert climbs_of(verb(uri), heights) == (set(), streams)
