"""write_dataset and write_fragments: modes, limits, ids, names, refused arguments, and leftover files."""

import re

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotSupportedError,
    SchemaMismatchError,
    UnsupportedVersionError,
)
from tests.support.counting_store import CountingStore

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": ["x", "y", "z"]})


def _data_files(store: CountingStore) -> set[str]:
    return {info.path.rpartition("/")[2] for info in store.inner.list("table/data")}


# ── Modes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["create", "append", "overwrite", "CREATE"])
def test_every_mode_creates_an_absent_dataset(uri: str, mode: str) -> None:
    assert lance_core.write_dataset(ROWS, uri, mode=mode).version == 1
    assert lance_core.dataset(uri).to_table().equals(ROWS)


def test_create_mode_refuses_an_existing_dataset(uri: str, store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, uri)
    before = _data_files(store)
    with pytest.raises(AlreadyExistsError) as caught:
        lance_core.write_dataset(ROWS, uri)
    assert isinstance(caught.value, OSError)
    assert _data_files(store) == before
    assert lance_core.dataset(uri).version == 1


def test_append_adds_rows_and_overwrite_replaces_them(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    assert lance_core.write_dataset(ROWS, uri, mode="append").to_table()["a"].to_pylist() == [1, 2, 3, 1, 2, 3]
    other = pa.table({"z": [1.5]})
    replaced = lance_core.write_dataset(other, uri, mode="overwrite")
    assert replaced.version == 3
    assert replaced.to_table().equals(other)
    assert [fragment.fragment_id for fragment in replaced.get_fragments()] == [2]
    assert lance_core.dataset(uri, version=2).count_rows() == 6


def test_unknown_write_modes_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="mode 'replace'"):
        lance_core.write_dataset(ROWS, uri, mode="replace")


def test_dataset_handle_can_be_the_destination_of_a_write(uri: str) -> None:
    handle = lance_core.write_dataset(ROWS, uri)
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert lance_core.write_dataset(ROWS, handle, mode="append").count_rows() == 9
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    with pytest.raises(lance_core.RetryableCommitConflictError):
        lance_core.write_dataset(ROWS, handle, mode="overwrite")


def test_append_without_rows_creates_a_version_without_a_new_fragment(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    appended = lance_core.write_dataset(ROWS.slice(0, 0), uri, mode="append")
    assert (appended.version, len(appended.get_fragments())) == (2, 1)


# ── Several first appends ─────────────────────────────────────────────────────────────────────────────────────────


def _while_another_creates(uri: str, other: pa.Table, rows: pa.Table):
    """Yield the batches of ``rows``, and create the dataset after the first one."""
    yield from rows.to_batches()
    lance_core.write_dataset(other, uri)


def test_append_to_a_concurrently_created_dataset_keeps_its_rows(uri: str) -> None:
    other = pa.table({"a": pa.array([7, 8], pa.int64()), "b": ["v", "w"]})
    appended = lance_core.write_dataset(_while_another_creates(uri, other, ROWS), uri, mode="append")
    assert appended.version == 2
    assert appended.to_table().equals(pa.concat_tables([other, ROWS]))
    appended.validate()


def test_append_without_some_columns_to_a_concurrently_created_dataset_is_committed(uri: str) -> None:
    other = ROWS.append_column("c", pa.array([1.0, 2.0, 3.0]))
    appended = lance_core.write_dataset(_while_another_creates(uri, other, ROWS), uri, mode="append")
    assert appended.to_table()["c"].to_pylist() == [1.0, 2.0, 3.0, None, None, None]


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (pa.table({"z": [1]}), SchemaMismatchError),
        (pa.table({"a": ["1"], "b": ["x"]}), SchemaMismatchError),
        (pa.table({"b": ["x"], "a": [1]}), lance_core.RetryableCommitConflictError),
        (
            pa.table(
                {"a": [1], "b": ["x"]},
                schema=pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]),
            ),
            lance_core.RetryableCommitConflictError,
        ),
    ],
    ids=["columns", "type", "ids", "nulls"],
)
def test_incompatible_append_to_a_concurrently_created_dataset_changes_nothing(
    uri: str, other: pa.Table, error: type[Exception]
) -> None:
    with pytest.raises(error):
        lance_core.write_dataset(_while_another_creates(uri, other, ROWS), uri, mode="append")
    assert lance_core.dataset(uri).version == 1
    assert lance_core.dataset(uri).to_table().equals(other)


def test_overwrite_of_a_concurrently_created_dataset_replaces_it(uri: str) -> None:
    written = lance_core.write_dataset(_while_another_creates(uri, pa.table({"z": [1]}), ROWS), uri, mode="overwrite")
    assert written.version == 2
    assert written.to_table().equals(ROWS)


# ── Appending to a schema ─────────────────────────────────────────────────────────────────────────────────────────


def test_appended_columns_are_matched_by_name(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    appended = lance_core.write_dataset(ROWS.select(["b", "a"]), uri, mode="append")
    assert appended.to_table().equals(pa.concat_tables([ROWS, ROWS]))


def test_a_missing_nullable_column_reads_as_null(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    appended = lance_core.write_dataset(pa.table({"b": ["w"]}), uri, mode="append")
    assert appended.to_table().to_pylist()[-1] == {"a": None, "b": "w"}
    assert appended.get_fragment(1).data_files()[0].fields == [1]
    assert appended.to_table(columns=["a"])["a"].to_pylist() == [1, 2, 3, None]
    assert appended.take([3], columns=["a"])["a"].to_pylist() == [None]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"a": [1], "b": ["x"], "c": [1]}),
        pa.table({"a": ["1"], "b": ["x"]}),
        pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}),
        pa.table({"c": [1]}),
    ],
    ids=["extra", "type", "width", "unknown"],
)
def test_incompatible_rows_are_refused_before_anything_is_written(
    uri: str, store: CountingStore, rows: pa.Table
) -> None:
    lance_core.write_dataset(ROWS, uri)
    before = _data_files(store)
    for write in (lance_core.write_dataset, lance_core.write_fragments):
        with pytest.raises(SchemaMismatchError):
            write(rows, uri, mode="append")
    assert _data_files(store) == before


def test_required_columns_accept_only_rows_without_nulls(uri: str, store: CountingStore) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    lance_core.write_dataset(ROWS.cast(schema), uri)
    # Data declared nullable is accepted if it contains no null.
    assert lance_core.write_dataset(ROWS, uri, mode="append").count_rows() == 6
    before = _data_files(store)
    for rows in (pa.table({"b": ["x"]}), pa.table({"a": pa.array([None], pa.int64()), "b": ["x"]})):
        with pytest.raises(SchemaMismatchError):
            lance_core.write_dataset(rows, uri, mode="append")
    assert _data_files(store) == before


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_max_rows_per_file_is_exact(uri: str) -> None:
    rows = pa.table({"a": range(1000)})
    batches = rows.to_batches(max_chunksize=77)
    dataset = lance_core.write_dataset(batches, uri, max_rows_per_file=300)
    assert [fragment.physical_rows for fragment in dataset.get_fragments()] == [300, 300, 300, 100]
    assert dataset.to_table().combine_chunks().equals(rows)
    whole = lance_core.write_dataset(rows, uri, mode="overwrite", max_rows_per_file=1000)
    assert len(whole.get_fragments()) == 1


@pytest.mark.parametrize("chunk", [100, 20_000, 200_000])
def test_max_bytes_per_file_is_approximate(uri: str, chunk: int) -> None:
    values = np.random.default_rng(7).integers(0, 2**62, 200_000)
    limit = 200_000
    dataset = lance_core.write_dataset(
        pa.table({"a": values}).to_batches(max_chunksize=chunk), uri, max_bytes_per_file=limit
    )
    sizes = [fragment.data_files()[0].file_size_bytes for fragment in dataset.get_fragments()]
    assert sum(fragment.physical_rows for fragment in dataset.get_fragments()) == 200_000
    assert len(sizes) >= 7
    assert max(sizes) < 1.3 * limit
    assert np.array_equal(dataset.to_table()["a"].to_numpy(), values)


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_bytes_per_file", "data_cache_bytes", "max_page_bytes"])
def test_write_limits_must_be_positive(uri: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        lance_core.write_dataset(ROWS, uri, **{name: 0})


def test_field_ids_in_fragments_for_a_new_dataset_start_at_zero(uri: str) -> None:
    nested = pa.table({"a": [1], "s": [{"x": 1, "y": "z"}], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))})
    [fragment] = lance_core.write_fragments(nested, uri, mode="create")
    assert fragment.id == 0
    [file] = fragment.files
    assert (file.fields, file.column_indices) == ([0, 2, 3, 4], [0, 1, 2, 3])
    assert (file.file_major_version, file.file_minor_version, file.base_id) == (2, 2, None)
    assert re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", file.path)


def test_fragments_to_append_have_the_field_ids_of_the_dataset(uri: str) -> None:
    lance_core.write_dataset(ROWS, uri)
    [fragment] = lance_core.write_fragments(ROWS.select(["b"]), uri)
    assert fragment.files[0].fields == [1]
    [replaced] = lance_core.write_fragments(ROWS.select(["b"]), uri, mode="overwrite")
    assert replaced.files[0].fields == [0]
    assert lance_core.dataset(uri).version == 1


def test_fragments_are_committed_as_a_transaction(uri: str) -> None:
    created = lance_core.write_fragments(ROWS, uri, return_transaction=True)
    assert created.read_version == 0
    assert isinstance(created.operation, lance_core.LanceOperation.Overwrite)
    lance_core.LanceDataset.commit(uri, created)
    appended = lance_core.write_fragments(ROWS, uri, return_transaction=True)
    assert appended.read_version == 1
    assert isinstance(appended.operation, lance_core.LanceOperation.Append)
    assert lance_core.LanceDataset.commit(uri, appended).count_rows() == 6


def test_write_fragments_without_rows_returns_no_fragments(uri: str) -> None:
    assert lance_core.write_fragments(ROWS.slice(0, 0), uri) == []


def test_every_written_file_name_ends_with_the_file_token(uri: str, store: CountingStore) -> None:
    token = "0123456789abcdef"
    fragments = lance_core.write_fragments(ROWS, uri, max_rows_per_file=1, file_token=token)
    assert len(fragments) == 3
    assert all(fragment.files[0].path.endswith(f"{token}.lance") for fragment in fragments)
    assert _data_files(store) == {fragment.files[0].path for fragment in fragments}


def test_failed_data_source_leaves_no_file(uri: str, store: CountingStore) -> None:
    def batches():
        for index in range(5):
            if index == 3:
                raise RuntimeError("source failed")
            yield from ROWS.to_batches()

    with pytest.raises(RuntimeError, match="source failed"):
        lance_core.write_fragments(batches(), uri, max_rows_per_file=2)
    assert _data_files(store) == set()


def test_batch_that_violates_the_schema_leaves_no_file(uri: str, store: CountingStore) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])

    def batches():
        yield pa.record_batch({"a": pa.array([1, 2, 3], pa.int64())})
        yield pa.record_batch({"a": pa.array([None], pa.int64())})

    lance_core.write_dataset(pa.table({"a": [0]}, schema=schema), uri)
    before = _data_files(store)
    with pytest.raises(SchemaMismatchError):
        lance_core.write_fragments(batches(), uri, max_rows_per_file=2)
    assert _data_files(store) == before


# ── Refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["2.3", "next"])
def test_unwritable_storage_version_is_refused_and_named_in_the_error(uri: str, version: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"2\.3"):
        lance_core.write_dataset(ROWS, uri, data_storage_version=version)


@pytest.mark.parametrize("version", ["9.9", "2", "v2.0", " 2.0", "", "default"])
def test_unknown_storage_version_names_are_refused(uri: str, version: str) -> None:
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        lance_core.write_dataset(ROWS, uri, data_storage_version=version)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, "2.2"),
        ("stable", "2.2"),
        ("Stable", "2.2"),
        ("2.2", "2.2"),
        ("2.1", "2.1"),
        ("2.0", "2.0"),
        ("0.3", "2.0"),
        ("legacy", "0.1"),
        ("0.1", "0.1"),
    ],
)
def test_storage_version_can_be_chosen_by_name_or_alias(uri: str, asked: str | None, found: str) -> None:
    written = lance_core.write_dataset(ROWS, uri, data_storage_version=asked)
    assert written.data_storage_version == found
    assert written.to_table().equals(ROWS)
    written.validate()


@pytest.mark.parametrize(("use_legacy_format", "found"), [(True, "0.1"), (False, "2.2")])
def test_use_legacy_format_overrides_the_storage_version(uri: str, use_legacy_format: bool, found: str) -> None:
    with pytest.warns(DeprecationWarning, match="data_storage_version instead"):
        written = lance_core.write_dataset(ROWS, uri, data_storage_version="2.1", use_legacy_format=use_legacy_format)
    assert written.data_storage_version == found


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_table_without_rows_keeps_its_format_for_the_first_append(uri: str, version: str) -> None:
    empty = lance_core.write_dataset(ROWS.slice(0, 0), uri, data_storage_version=version)
    assert (empty.data_storage_version, len(empty.get_fragments())) == (version, 0)
    filled = lance_core.write_dataset(ROWS, uri, mode="append")
    assert filled.data_storage_version == version
    assert filled.to_table().equals(ROWS)
    emptied = lance_core.write_dataset(ROWS.slice(0, 0), uri, mode="overwrite", data_storage_version="2.2")
    assert emptied.data_storage_version == "2.2"


def test_data_files_in_format_0_1_do_not_mix_with_other_formats(uri: str, store: CountingStore) -> None:
    lance_core.write_dataset(ROWS, uri, data_storage_version="0.1")
    before = _data_files(store)
    with pytest.raises(NotSupportedError, match=r"2\.2 cannot be added to a table in format 0\.1"):
        lance_core.write_dataset(ROWS, uri, mode="append", data_storage_version="2.2")
    with pytest.raises(SchemaMismatchError, match="column 'b' is missing"):
        lance_core.write_dataset(ROWS.select(["a"]), uri, mode="append")
    fragments = lance_core.write_fragments(ROWS, uri, mode="overwrite", data_storage_version="2.0")
    with pytest.raises(InvalidInputError, match=r"format 2\.0, but the table has format 0\.1"):
        lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(fragments), read_version=1)
    assert len(_data_files(store)) == len(before) + 1
    mixed = lance_core.write_dataset(ROWS, uri, mode="overwrite", data_storage_version="2.0")
    lance_core.write_dataset(ROWS, mixed, mode="append", data_storage_version="2.2")
    with pytest.raises(NotSupportedError, match="several formats"):
        lance_core.write_dataset(ROWS, uri, mode="overwrite", data_storage_version="0.1")


def test_append_to_a_concurrently_created_dataset_does_not_mix_formats(uri: str) -> None:
    def batches():
        yield from ROWS.to_batches()
        lance_core.write_dataset(ROWS, uri, data_storage_version="2.0")

    with pytest.raises(lance_core.RetryableCommitConflictError, match="data file version"):
        lance_core.write_dataset(batches(), uri, schema=ROWS.schema, mode="append")


@pytest.mark.parametrize("max_rows_per_group", [0, -1])
def test_max_rows_per_group_must_be_positive(uri: str, max_rows_per_group: int) -> None:
    with pytest.raises(InvalidInputError, match="max_rows_per_group"):
        lance_core.write_dataset(ROWS, uri, data_storage_version="0.1", max_rows_per_group=max_rows_per_group)


@pytest.mark.parametrize(
    "arguments",
    [
        {"namespace_client": object()},
        {"table_id": ["t"]},
    ],
)
def test_unsupported_write_arguments_are_refused_and_named_in_the_error(uri: str, arguments: dict[str, object]) -> None:
    for write in (lance_core.write_dataset, lance_core.write_fragments):
        with pytest.raises(NotSupportedError, match=next(iter(arguments))):
            write(ROWS, uri, **arguments)


def test_stable_row_ids_and_v1_manifest_names_chosen_at_creation_are_kept(uri: str, store: CountingStore) -> None:
    dataset = lance_core.write_dataset(ROWS, uri, enable_stable_row_ids=True, enable_v2_manifest_paths=False)
    assert dataset.has_stable_row_ids
    dataset = lance_core.write_dataset(ROWS, uri, mode="append")
    assert dataset.has_stable_row_ids
    assert dataset.manifest.message.next_row_id == 6
    names = sorted(info.path.rpartition("/")[2] for info in store.inner.list("table/_versions"))
    assert names == ["1.manifest", "2.manifest"]
    assert lance_core.dataset(uri, version=1).count_rows() == 3


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("num_rows", [0, 2])
def test_rows_with_dictionaries_are_appended_to_a_table_with_and_without_rows(
    uri: str, version: str, num_rows: int
) -> None:
    rows = pa.table({"word": pa.array(["p", "q"]).dictionary_encode()})
    lance_core.write_dataset(rows.slice(0, num_rows), uri, data_storage_version=version)
    dataset = lance_core.write_dataset(rows, uri, mode="append")
    assert dataset.to_table()["word"].to_pylist() == [*["p", "q"][:num_rows], "p", "q"]
