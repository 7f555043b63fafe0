"""A writer stops right before it creates its version, while other writers commit and a cleanup removes the version with
that number.

The writer can then create its version. Its report must be true: the latest version contains every acknowledged commit,
no version contains a refused commit, and the commits of the other writers are always kept.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitConflictError, CommitOutcomeUnknownError, VersionNotFoundError
from lance_core.table.version_log import VersionLog
from tests.support.s3_servers import S3Server
from tests.support.store_operations import OPERATIONS, Options, state

pytestmark = pytest.mark.usefixtures("overlays")

REFUSALS = (CommitConflictError, CommitOutcomeUnknownError, VersionNotFoundError)
"""The last one is a restore's: the version to go back to was cleaned up."""
COMMITS = (1, 2, 3, 4, 5)
LAYOUTS = ("plain", "stable", "branch")
NO_AGE = timedelta(0)


def _numbers(dataset: lance_core.LanceDataset) -> set[int]:
    return set(dataset.to_table(columns=["a"]).column("a").to_pylist())


def _fragment_ids(dataset: lance_core.LanceDataset) -> set[int]:
    return {fragment.fragment_id for fragment in dataset.get_fragments()}


def _data_paths(dataset: lance_core.LanceDataset) -> list[str]:
    """Return the data file paths of the first fragment."""
    return [file.path for file in dataset.manifest.fragments[0].files]


Shows = Callable[[lance_core.LanceDataset, lance_core.LanceDataset], bool]

EFFECTS: dict[str, Shows] = {
    "append": lambda dataset, prepared: {4, 5} <= _numbers(dataset),
    "batch": lambda dataset, prepared: {4, 5} <= _numbers(dataset),
    "overwrite": lambda dataset, prepared: {4, 5} <= _numbers(dataset) and not {1, 2, 3} & _numbers(dataset),
    "delete": lambda dataset, prepared: 2 not in _numbers(dataset),
    "update": lambda dataset, prepared: {4, 5} <= _numbers(dataset) and not {1, 2, 3} & _numbers(dataset),
    "replace rows": lambda dataset, prepared: {4, 5} <= _numbers(dataset) and not {2, 3} & _numbers(dataset),
    "update rows": lambda dataset, prepared: 35 in dataset.to_table(columns=["b"])["b"].to_pylist(),
    "upsert": lambda dataset, prepared: 6 in _numbers(dataset) and 61 in dataset.to_table()["b"].to_pylist(),
    "upsert of some columns": lambda dataset, prepared: 6 in _numbers(dataset),
    "update in place": lambda dataset, prepared: 21 in dataset.to_table(columns=["b"])["b"].to_pylist(),
    "replace by source": lambda dataset, prepared: 6 in _numbers(dataset) and 1 not in _numbers(dataset),
    "truncate": lambda dataset, prepared: not {1, 2, 3} & _numbers(dataset),
    "fragment create": lambda dataset, prepared: {4, 5} <= _numbers(dataset),
    "fragment delete": lambda dataset, prepared: not {1, 5} & _numbers(dataset),
    "fragment columns": lambda dataset, prepared: "z" in dataset.schema.names,
    "fragment update": lambda dataset, prepared: 21 in dataset.to_table(columns=["b"])["b"].to_pylist(),
    "add by function": lambda dataset, prepared: "z" in dataset.schema.names,
    "make required": lambda dataset, prepared: not dataset.schema.field("b").nullable,
    "add columns": lambda dataset, prepared: "z" in dataset.schema.names,
    "add values": lambda dataset, prepared: "z" in dataset.schema.names,
    "join columns": lambda dataset, prepared: "z" in dataset.schema.names,
    "cast column": lambda dataset, prepared: dataset.schema.field("z").type == pa.int32(),
    "rename column": lambda dataset, prepared: {"y", "z"} & set(dataset.schema.names) == {"y"},
    "drop column": lambda dataset, prepared: "z" not in dataset.schema.names,
    "merge": lambda dataset, prepared: "z" in dataset.schema.names,
    "project": lambda dataset, prepared: "b" not in dataset.schema.names,
    "create index": lambda dataset, prepared: [each["name"] for each in dataset.list_indices()] == ["i"],
    "drop index": lambda dataset, prepared: not dataset.list_indices(),
    "rewrite": lambda dataset, prepared: 0 not in _fragment_ids(dataset),
    "compaction": lambda dataset, prepared: not {0, 1} & _fragment_ids(dataset),
    "restore": lambda dataset, prepared: not {4, 5} & _numbers(dataset),
    "config": lambda dataset, prepared: dataset.config().get("key") == "value",
    "bases": lambda dataset, prepared: any(base.path == "/cold" for base in dataset.manifest.message.base_paths),
    "data replacement": lambda dataset, prepared: _data_paths(dataset) != _data_paths(prepared),
    "data overlay": lambda dataset, prepared: any(each.message.overlays for each in dataset.manifest.fragments),
    "mem wal": lambda dataset, prepared: bool(
        state(dataset.uri, dataset.storage_options or {}, lambda uri: [])["absorbed"]
    ),
}
REMOVES_ROWS_OF_OTHERS = {"overwrite", "restore", "truncate"}
"""Operations after which rows of commits before them are gone."""
UNREADABLE = {"data overlay", "create index", "drop index", "mem wal"}
"""Operations of the catalogue that name files which need not exist."""


@dataclass
class Overtaking:
    """Runs others' commits and a cleanup when a writer is about to create a version.

    Attributes:
        uri: the table.
        options: of its store.
        num_commits: versions that the others make.
        library: of the others.
        added: the rows that they added.
    """

    uri: str
    options: Options
    num_commits: int
    library: object = lance_core
    added: list[int] = field(default_factory=list)
    is_armed: bool = True

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        create = VersionLog.create

        def create_late(log: VersionLog, *arguments: object) -> object:
            if self.is_armed and log.root.rstrip("/").endswith(self.uri.partition("?")[0].rpartition("://")[2][-20:]):
                self.is_armed = False
                self.run()
            return create(log, *arguments)

        VersionLog.create = create_late
        try:
            yield
        finally:
            VersionLog.create = create

    def run(self) -> None:
        options = {"storage_options": self.options} if self.options else {}
        for number in range(self.num_commits):
            self.added.append(100 + number)
            handle = self.library.dataset(self.uri, **options)
            row = pa.table({name: pa.array([100 + number], pa.int64()) for name in handle.schema.names})
            self.library.write_dataset(row, handle if self.library is lance else self.uri, mode="append", **options)
        cleaned = self.library.dataset(self.uri, **options).cleanup_old_versions(older_than=NO_AGE)
        assert cleaned.old_versions >= self.num_commits


def _prepared(name: str, layout: str, uri: str, options: Options) -> str:
    """Prepare a table for an operation, and return the URI of the table or of one of its branches."""
    operation = OPERATIONS[name]
    write = lance_core.write_dataset
    if layout == "stable":
        lance_core.write_dataset = lambda *arguments, **named: write(
            *arguments, **{**named, "enable_stable_row_ids": True}
        )
    try:
        operation.prepare(uri, options)
    finally:
        lance_core.write_dataset = write
    if layout != "branch":
        return uri
    dataset = lance_core.dataset(uri, storage_options=options)
    return dataset.create_branch("side").uri


def _end_of_schedule(name: str, layout: str, uri: str, options: Options, num_commits: int, library: object) -> str:
    """Run one schedule, and return its outcome in one word."""
    uri = _prepared(name, layout, uri, options)
    overtaking = Overtaking(uri, options, num_commits, library)
    prepared = lance_core.dataset(uri, storage_options=options)
    assert not EFFECTS[name](prepared, prepared), "the effect must not be there before"
    raised: lance_core.LanceError | None = None
    with overtaking.armed():
        try:
            OPERATIONS[name].act(uri, options)
        except REFUSALS as error:
            raised = error
    assert not overtaking.is_armed, "the operation made no version"
    latest = lance_core.dataset(uri, storage_options=options)
    shows = EFFECTS[name](latest, prepared)
    if raised is None:
        assert shows, "the commit was acknowledged and is not in the latest version"
    elif not isinstance(raised, CommitOutcomeUnknownError):
        assert not shows, f"the commit was refused and is in the latest version: {raised}"
        assert latest.version_refs()[-1]["version"] == latest.version
        if name not in UNREADABLE:
            # A cleanup by this library keeps a version that is about to be restored.
            held = [1] if name == "restore" and library is lance_core else []
            assert [each["version"] for each in latest.version_refs()] == [*held, latest.version], (
                "nothing else is left"
            )
    if name not in UNREADABLE:
        latest.validate()
        rows = latest.to_table(columns=["a"]).column("a").to_pylist()
        assert len(rows) == len(set(rows)) or name == "batch", f"rows are there twice: {rows}"
        if raised is not None or name not in REMOVES_ROWS_OF_OTHERS:
            assert set(overtaking.added) <= set(rows), f"rows of others are lost: {rows}"
        lance_core.write_dataset(
            pa.table({each: pa.array([900], pa.int64()) for each in latest.schema.names if each != "z"}),
            uri,
            mode="append",
            storage_options=options,
        )
        assert 900 in _numbers(lance_core.dataset(uri, storage_options=options))
    return "kept" if raised is None else type(raised).__name__


def test_every_operation_has_a_visible_effect_or_is_a_listed_exception() -> None:
    makes_no_version_of_the_table = {
        *("detached", "branch create", "branch delete", "tag create", "tag update", "tag metadata", "tag delete"),
        *("shallow clone", "deep clone", "cleanup", "migrate"),
    }
    # Automatic cleanup is an append, two others create a table, and a reservation is visible in no row.
    of_other_tests = {"auto cleanup", "create", "append, first", "reserve"}
    assert {*EFFECTS, *makes_no_version_of_the_table, *of_other_tests} == set(OPERATIONS)


@pytest.mark.parametrize("name", EFFECTS)
@pytest.mark.sampled(8)
def test_overtaken_commit_on_local_disk_is_kept_or_refused(name: str, tmp_path) -> None:
    for num_commits in (1, 2, 4):
        _end_of_schedule(name, "plain", str(tmp_path / f"table-of-{num_commits}-commits"), {}, num_commits, lance_core)


def _has(layout: str, name: str) -> bool:
    """Return whether an operation fits a layout: the rewrite has no row ids, and the restore needs version 1."""
    return (name, layout) not in {("rewrite", "stable"), ("restore", "branch")}


@pytest.mark.slow
@pytest.mark.parametrize("library", [lance_core, lance], ids=["ours", "pylance"])
@pytest.mark.parametrize(
    ("name", "layout"), [(name, layout) for name in EFFECTS for layout in LAYOUTS if _has(layout, name)]
)
def test_overtaken_commit_in_every_table_layout_is_kept_or_refused(
    name: str, layout: str, library: object, tmp_path
) -> None:
    for num_commits in COMMITS:
        _end_of_schedule(name, layout, str(tmp_path / f"table-of-{num_commits}-commits"), {}, num_commits, library)


STORES: dict[str, Callable[[S3Server, object], tuple[str, Options]]] = {
    "memory": lambda server, directory: ("memory://overtaken/{}", {}),
    "s3": lambda server, directory: (server.uri("{}"), server.options()),
    "dynamodb": lambda server, directory: (
        server.uri("{}", "s3+ddb") + f"?ddbTableName={server.bucket}",
        {**server.options(), "dynamodb_endpoint": server.endpoint},
    ),
    "sqlite": lambda server, directory: (
        server.uri("{}", "s3+sql"),
        {**server.options(), "sql_url": f"sqlite:///{directory}/manifests.db"},
    ),
}


def _on_store(server: S3Server, tmp_path: object, store: str, name: str, layout: str, num_commits: int) -> str:
    uri, options = STORES[store](server, tmp_path)
    place = uri.format(f"{store}-{name.replace(' ', '-')}-{layout}-{num_commits}")
    return _end_of_schedule(name, layout, place, options, num_commits, lance_core)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", ["append", "delete", "config"])
@pytest.mark.sampled(2)
def test_overtaken_commit_on_every_store_is_kept_or_refused(
    server: S3Server, store: str, name: str, tmp_path: object
) -> None:
    _on_store(server, tmp_path, store, name, "plain", 2)


@pytest.mark.soak
@pytest.mark.parametrize("num_commits", COMMITS)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", EFFECTS)
def test_overtaken_commit_of_every_operation_on_every_store_is_kept_or_refused(
    server: S3Server, store: str, name: str, num_commits: int, tmp_path: object
) -> None:
    for layout in filter(lambda layout: _has(layout, name), LAYOUTS):
        if layout != "branch" or store != "dynamodb":
            _on_store(server, tmp_path, store, name, layout, num_commits)


@pytest.mark.parametrize("num_commits", COMMITS[1:])
def test_fragment_ids_of_an_overtaken_reservation_are_assigned_to_no_other_writer(num_commits: int, tmp_path) -> None:
    uri = str(tmp_path / "a-table-with-reserved-ids")
    OPERATIONS["reserve"].prepare(uri, {})
    overtaking = Overtaking(uri, {}, num_commits)
    with overtaking.armed(), pytest.raises(CommitConflictError):
        OPERATIONS["reserve"].act(uri, {})
    assert set(overtaking.added) <= _numbers(lance_core.dataset(uri))


def test_overtaken_commit_with_a_commit_lock_is_kept_or_refused(tmp_path) -> None:
    uri = str(tmp_path / "a-table-under-a-lock")
    OPERATIONS["append"].prepare(uri, {})
    overtaking = Overtaking(uri, {}, 3)
    rows = pa.table({"a": pa.array([4], pa.int64()), "b": pa.array([4], pa.int64())})
    fragments = lance_core.write_fragments(rows, uri)

    with overtaking.armed(), pytest.raises((CommitConflictError, CommitOutcomeUnknownError)):
        lance_core.LanceDataset.commit(
            uri,
            lance_core.LanceOperation.Append(fragments),
            read_version=1,
            commit_lock=lambda version: contextlib.nullcontext(),
        )
    assert _numbers(lance_core.dataset(uri)) == {1, 2, 3, 100, 101, 102}
