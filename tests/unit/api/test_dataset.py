"""LanceDataset: opening, versions, reading, and rejected arguments. All datasets are in memory."""

import pickle
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    NotSupportedError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.scan.table_view import TableView
from tests.support.counting_store import CountingStore

ROWS = pa.table(
    {
        "a": pa.array(range(10), pa.int64()),
        "s": pa.array([{"x": i, "y": f"y{i}"} if i % 3 else None for i in range(10)]),
        "b": pa.array([f"row {i}" for i in range(10)]),
    }
)


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of ten rows in fragments of 4, 4, and 2 rows."""
    return lance_core.write_dataset(ROWS, uri, max_rows_per_file=4)


def test_dataset_handle_never_moves_to_a_version_older_than_its_own_commits(uri: str) -> None:
    lance_core.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    dataset = lance_core.dataset(uri)
    first = dataset.view
    dataset.delete("a = 1")
    dataset.show(first)
    assert (dataset.version, dataset.count_rows()) == (2, 2), "a commit of another thread that ends late hides nothing"
    assert dataset.checkout_version(1).count_rows() == 3


def test_checkout_latest_during_a_commit_of_another_thread_does_not_go_back_before_the_commit(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(pa.table({"a": [1, 2, 3]}), uri)
    dataset = lance_core.dataset(uri)
    read_latest = TableView.latest

    def latest_before_a_commit(view: TableView) -> TableView:
        latest = read_latest(view)
        monkeypatch.undo()
        dataset.delete("a = 1")
        return latest

    monkeypatch.setattr(TableView, "latest", latest_before_a_commit)
    dataset.checkout_latest()
    assert (dataset.version, dataset.count_rows()) == (2, 2)


def test_checkout_latest_of_a_recreated_table_moves_to_the_lower_version(uri: str) -> None:
    lance_core.write_dataset(pa.table({"a": [1]}), uri)
    lance_core.write_dataset(pa.table({"a": [1]}), uri, mode="append")
    dataset = lance_core.dataset(uri)
    lance_core.LanceDataset.drop(uri)
    lance_core.write_dataset(pa.table({"a": [7, 8, 9]}), uri)
    dataset.checkout_latest()
    assert (dataset.version, dataset.count_rows()) == (1, 3)


def test_fragment_keeps_the_version_of_its_dataset_handle(uri: str) -> None:
    lance_core.write_dataset(pa.table({"a": range(10)}), uri, max_rows_per_file=5)
    dataset = lance_core.dataset(uri)
    fragment = dataset.get_fragment(1)
    dataset.delete("a < 7")
    assert fragment.to_table()["a"].to_pylist() == [5, 6, 7, 8, 9]
    assert dataset.get_fragment(1).to_table()["a"].to_pylist() == [7, 8, 9]


def test_dataset_reads_back_the_written_table(dataset: lance_core.LanceDataset, uri: str) -> None:
    assert lance_core.dataset(uri).to_table().equals(ROWS)
    assert dataset.schema.equals(ROWS.schema)
    assert len(dataset) == dataset.count_rows() == 10
    assert [fragment.physical_rows for fragment in dataset.get_fragments()] == [4, 4, 2]
    assert dataset.version == dataset.latest_version == 1
    assert dataset.data_storage_version == "2.2"
    assert dataset.max_field_id == 4
    assert not dataset.has_index
    assert not dataset.has_stable_row_ids
    dataset.validate()


@pytest.mark.parametrize("batch_size", [1, 3, 4, 100])
@pytest.mark.parametrize("offset", [None, 0, 3, 4, 9, 10, 50])
@pytest.mark.parametrize("limit", [None, 0, 1, 5, 100])
@pytest.mark.sampled(20)
def test_scan_with_limit_offset_and_batch_size_returns_the_matching_slice(
    dataset: lance_core.LanceDataset, batch_size: int, offset: int | None, limit: int | None
) -> None:
    expected = ROWS.slice(offset or 0, limit)
    assert dataset.to_table(limit=limit, offset=offset, batch_size=batch_size).equals(expected)
    batches = list(dataset.to_batches(limit=limit, offset=offset, batch_size=batch_size))
    assert all(0 < batch.num_rows <= batch_size for batch in batches)
    assert sum(batch.num_rows for batch in batches) == expected.num_rows
    assert dataset.scanner(limit=limit, offset=offset).count_rows() == expected.num_rows


def test_limited_scan_reads_only_the_required_fragments(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    store.reset()
    assert dataset.to_table(columns=["a"], offset=5, limit=2)["a"].to_pylist() == [5, 6]
    [path] = {call.path for call in store.calls}
    assert path.endswith(dataset.get_fragment(1).data_files()[0].path)


def test_counting_rows_makes_no_storage_requests(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    store.reset()
    dataset.count_rows()
    dataset.get_version()
    dataset.get_fragments()[0].count_rows()
    assert store.counts() == {}


def test_opening_a_dataset_lists_once_and_reads_one_manifest(uri: str, store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, uri)
    store.reset()
    lance_core.dataset(uri)
    assert store.counts() == {"list_names": 1, "get": 1}
    store.reset()
    lance_core.dataset(uri, version=1)
    assert store.counts() == {"get": 1}


def test_version_numbers_are_listed_without_reading_manifests(uri: str, store: CountingStore) -> None:
    for _ in range(5):
        dataset = lance_core.write_dataset(ROWS, uri, mode="append")
    store.reset()
    assert dataset.version_refs() == [{"version": each} for each in range(1, 6)]
    assert dataset.latest_version == 5
    assert store.counts() == {"list_names": 2}


def test_scan_selects_columns_by_name_and_path(dataset: lance_core.LanceDataset) -> None:
    assert dataset.to_table(columns=["b", "a"]).equals(ROWS.select(["b", "a"]))
    nested = dataset.to_table(columns=["s.y", "a", "s.x"])
    assert nested.column_names == ["s.y", "a", "s.x"]
    assert nested["s.x"].to_pylist() == [i if i % 3 else None for i in range(10)]
    assert nested["s.y"].to_pylist() == [f"y{i}" if i % 3 else None for i in range(10)]
    assert dataset.to_table(columns=[]).shape == (10, 0)
    assert dataset.scanner(columns=["s.x"]).projected_schema == pa.schema([("s.x", pa.int64())])


@pytest.mark.parametrize("columns", [["nope"], ["a", "a"], "a", ["s.z"], [1]])
def test_scan_of_invalid_columns_raises_invalid_input(dataset: lance_core.LanceDataset, columns: object) -> None:
    with pytest.raises(InvalidInputError):
        dataset.to_table(columns=columns)


@pytest.mark.parametrize(
    "arguments",
    [
        {"full_text_query": "x"},
    ],
)
def test_unsupported_scanner_arguments_are_refused_and_named_in_the_error(
    dataset: lance_core.LanceDataset, arguments: dict[str, object]
) -> None:
    with pytest.raises(NotSupportedError, match=next(iter(arguments))):
        dataset.scanner(**arguments)
    dataset.scanner(use_stats=True, batch_readahead=3, io_buffer_size=1, with_row_id=False, prefilter=True)


@pytest.mark.parametrize("arguments", [{"limit": -1}, {"offset": -1}, {"batch_size": 0}, {"batch_size": -1}])
def test_scan_numbers_out_of_range_are_refused(dataset: lance_core.LanceDataset, arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        dataset.to_batches(**arguments)


def test_head_slice_and_take_return_the_requested_rows(dataset: lance_core.LanceDataset) -> None:
    assert dataset.head(3).equals(ROWS.slice(0, 3))
    assert dataset.slice(2, 9, columns=["a"])["a"].to_pylist() == list(range(2, 9))
    assert dataset.take([9, 0, 5, 5]).equals(ROWS.take([9, 0, 5, 5]))
    assert dataset.take(pa.array([7, 1]), columns=["s.x"]).to_pylist() == [{"s": {"x": 7}}, {"s": {"x": 1}}]
    assert dataset.take([]).num_rows == 0
    for indices in ([10], [-1], ["a"], [0.5], [[1]]):
        with pytest.raises(InvalidInputError):
            dataset.take(indices)
    with pytest.raises(InvalidInputError):
        dataset.slice(3, 2)


def test_scanner_can_be_read_repeatedly(dataset: lance_core.LanceDataset) -> None:
    scanner = dataset.scanner(columns=["s.x", "a"], offset=1, limit=6, batch_size=3)
    assert scanner.dataset_schema.equals(ROWS.schema)
    assert scanner.to_table().equals(scanner.to_table())
    assert scanner.head(2)["a"].to_pylist() == [1, 2]
    assert scanner.head(100)["a"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert sum(batch.num_rows for batch in scanner.scan_batches()) == 6
    assert dataset.scanner().head(3).equals(ROWS.slice(0, 3))
    bigger = lance_core.write_dataset(ROWS, dataset, mode="append")
    with pytest.raises(InvalidInputError, match="no fragment 3"):
        dataset.scanner(fragments=bigger.get_fragments())


def test_fragment_can_be_read_separately(dataset: lance_core.LanceDataset) -> None:
    fragment = dataset.get_fragment(1)
    assert fragment.to_table().equals(ROWS.slice(4, 4))
    assert fragment.to_table(columns=["a"], offset=1, limit=2)["a"].to_pylist() == [5, 6]
    assert fragment.head(1).equals(ROWS.slice(4, 1))
    assert fragment.take([3, 0]).equals(ROWS.take([7, 4]))
    assert (fragment.fragment_id, fragment.num_deletions, fragment.deletion_file()) == (1, 0, None)
    assert fragment.metadata.files == fragment.data_files()
    assert dataset.get_fragment(7) is None
    with pytest.raises(ValueError, match="fragment 7 does not exist in version 1"):
        lance_core.LanceFragment(dataset, 7)
    chosen = dataset.to_table(columns=["a"])
    again = dataset.scanner(columns=["a"], fragments=[dataset.get_fragment(2), fragment]).to_table()
    assert again["a"].to_pylist() == [*chosen["a"].to_pylist()[8:], *chosen["a"].to_pylist()[4:8]]


def test_dataset_without_rows_reads_as_an_empty_table(uri: str) -> None:
    empty = lance_core.write_dataset(ROWS.slice(0, 0), uri)
    assert empty.get_fragments() == []
    assert empty.to_table().equals(ROWS.slice(0, 0))
    assert empty.scanner().to_reader().read_all().equals(ROWS.slice(0, 0))
    assert empty.count_rows() == 0
    assert not empty.manifest.message.HasField("max_fragment_id")


# ── Versions ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def versions(uri: str) -> str:
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append")
    return uri


def test_every_version_of_a_dataset_can_be_opened(versions: str) -> None:
    latest = lance_core.dataset(versions)
    assert latest.version == 3
    assert [each["version"] for each in latest.versions()] == [1, 2, 3]
    assert latest.version_refs() == [{"version": 1}, {"version": 2}, {"version": 3}]
    for version in (1, 2, 3):
        assert lance_core.dataset(versions, version=version).count_rows() == 10 * version
        assert latest.checkout_version(version).version == version
        assert latest.checkout_version((None, version)).version == version
        assert latest.checkout_version(("main", version)).version == version
    assert latest.checkout_version((None, None)).version == 3


def test_dataset_handle_shows_one_version_until_checkout_latest(versions: str) -> None:
    handle = lance_core.dataset(versions)
    lance_core.write_dataset(ROWS, versions, mode="append")
    assert (handle.version, handle.latest_version, handle.count_rows()) == (3, 4, 30)
    handle.checkout_latest()
    assert (handle.version, handle.count_rows()) == (4, 40)


def test_version_metadata_has_the_totals_of_the_version(versions: str) -> None:
    info = lance_core.dataset(versions).get_version()
    assert info["version"] == 3
    assert abs(datetime.now() - info["timestamp"]) < timedelta(minutes=5)
    assert info["metadata"] == {
        "total_data_file_rows": "30",
        "total_data_files": "3",
        "total_deletion_file_rows": "0",
        "total_deletion_files": "0",
        "total_files_size": str(sum(f.data_files()[0].file_size_bytes for f in _fragments(versions))),
        "total_fragments": "3",
        "total_rows": "30",
    }


def _fragments(uri: str) -> list[lance_core.LanceFragment]:
    return lance_core.dataset(uri).get_fragments()


def test_asof_opens_the_last_version_before_a_point_in_time(versions: str) -> None:
    first, second, third = lance_core.dataset(versions).versions()
    assert lance_core.dataset(versions, asof=second["timestamp"]).version == 1
    just_after = second["timestamp"] + timedelta(microseconds=1)
    assert lance_core.dataset(versions, asof=just_after).version == 2
    assert lance_core.dataset(versions, asof=just_after.isoformat()).version == 2
    assert lance_core.dataset(versions, asof=just_after.astimezone()).version == 2
    assert lance_core.dataset(versions, asof="9999-12-31T23:59:59-14:00").version == third["version"]
    assert lance_core.dataset(versions, version=3, asof=first["timestamp"]).version == third["version"]
    with pytest.raises(ValueError, match="no version committed before"):
        lance_core.dataset(versions, asof=first["timestamp"])
    with pytest.raises(ValueError, match="no version committed before"):
        lance_core.dataset(versions, asof="0001-01-01T00:00:00+14:00")


def test_tags_open_the_tagged_version(versions: str, store: CountingStore) -> None:
    store.put("table/_refs/tags/good.json", b'{"branch": null, "version": 2, "manifestSize": 1}')
    store.put("table/_refs/tags/other.json", b'{"branch": "b", "version": 2, "manifestSize": 1}')
    store.put("table/_refs/tags/broken.json", b'{"version": ')
    assert lance_core.dataset(versions, version="good").version == 2
    assert lance_core.dataset(versions).checkout_version("good").version == 2
    with pytest.raises(RefNotFoundError, match=rf"^no branch exists at {versions}/tree/b$"):
        lance_core.dataset(versions, version="other")
    with pytest.raises(CorruptDataError, match=r"broken\.json"):
        lance_core.dataset(versions, version="broken")
    for tag in ("absent", "../x", ""):
        with pytest.raises(RefNotFoundError):
            lance_core.dataset(versions, version=tag)
    with pytest.raises(RefNotFoundError, match=f"no branch exists at {versions}/tree/b"):
        lance_core.dataset(versions).checkout_version(("b", 1))


def test_missing_datasets_and_versions_are_named_in_the_error(uri: str, versions: str) -> None:
    for broken in (lambda: lance_core.dataset(f"{uri}-no"), lambda: lance_core.dataset(f"{uri}-no", version=1)):
        with pytest.raises(DatasetNotFoundError):
            broken()
    with pytest.raises(VersionNotFoundError, match="no version 9"):
        lance_core.dataset(versions, version=9)
    with pytest.raises(OSError, match="no version 77"):
        lance_core.dataset(versions).read_transaction(77)
    with pytest.raises(InvalidInputError, match="uri must be given"):
        lance_core.dataset()
    with pytest.raises(TypeError):
        lance_core.dataset(3)


def test_get_transactions_lists_the_history_newest_first(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, commit_message="first", transaction_properties={"by": "me"})
    dataset = lance_core.write_dataset(ROWS, uri, mode="append")
    newest, oldest = dataset.get_transactions()
    assert isinstance(newest.operation, lance_core.LanceOperation.Append)
    assert isinstance(oldest.operation, lance_core.LanceOperation.Overwrite)
    assert oldest.operation.new_schema == dataset.lance_schema
    assert oldest.transaction_properties == {"by": "me", "__lance_commit_message": "first"}
    assert dataset.read_transaction(1) == oldest
    assert [each.uuid for each in dataset.get_transactions(1)] == [newest.uuid]
    assert dataset.checkout_version(1).get_transactions() == [oldest]


def test_dataset_and_fragment_handles_survive_pickling(tmp_path) -> None:
    lance_core.write_dataset(ROWS, tmp_path / "t")
    lance_core.write_dataset(ROWS, tmp_path / "t", mode="append")
    handle = lance_core.dataset(tmp_path / "t", version=1)
    copy = pickle.loads(pickle.dumps(handle))
    assert (copy.version, copy.uri, copy.count_rows()) == (1, handle.uri, 10)
    fragment = pickle.loads(pickle.dumps(handle.get_fragment(0)))
    assert fragment.to_table().equals(ROWS)


def test_validate_finds_a_damaged_file(uri: str, store: CountingStore) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    path = f"table/data/{dataset.get_fragment(0).data_files()[0].path}"
    store.put(path, bytes(store.get(path))[:-1])
    with pytest.raises(CorruptDataError):
        dataset.validate()
    store.delete(path)
    with pytest.raises(FileNotFoundError):
        dataset.validate()


def test_dataset_constructor_accepts_the_same_options_as_the_dataset_function(versions: str) -> None:
    session = lance_core.Session()
    dataset = lance_core.LanceDataset(versions, 1, metadata_cache_size_bytes=0, session=session)
    assert (dataset.version, dataset.session()) == (1, session)
    assert lance_core.LanceDataset(versions, metadata_cache_size_bytes=0).session().size_bytes() == 0
    for argument in ({"serialized_manifest": b"x"}, {"namespace_client": object()}, {"table_id": ["t"]}):
        with pytest.raises(lance_core.NotSupportedError, match=rf"argument '{next(iter(argument))}' is not supported"):
            lance_core.LanceDataset(versions, **argument)
    with pytest.raises(lance_core.InvalidTypeError, match="session must be a Session"):
        lance_core.LanceDataset(versions, session=object())
