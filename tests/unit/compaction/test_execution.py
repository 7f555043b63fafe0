"""Executing compaction tasks: what is refused, which errors are detected, and what the planner reads from files."""

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core.compaction import execution
from lance_core.compaction.checks import check_rewritable, output_version
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.output_files import OutputFiles
from lance_core.compaction.plan import survey
from lance_core.errors import (
    CorruptDataError,
    NotSupportedError,
    RetryableCommitConflictError,
    UnsupportedFeatureFlagError,
)
from lance_core.file.reader import FileReader
from lance_core.optimize import Compaction
from lance_core.proto import pb_table
from lance_core.table.index_metadata import parse_index_section
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming
from lance_core.versions import LanceFileVersion


@pytest.fixture
def dataset(tmp_path: Path) -> lance_core.LanceDataset:
    """A dataset of three fragments of ten rows."""
    for start in (0, 10, 20):
        lance_core.write_dataset(pa.table({"a": range(start, start + 10)}), tmp_path / "t", mode="append")
    return lance_core.dataset(tmp_path / "t")


def changed(manifest: Manifest, **parts: object) -> Manifest:
    """Return a copy whose message can be changed."""
    message = pb_table.Manifest()
    message.CopyFrom(manifest.message)
    values = {"index_section": manifest.index_section, "transaction": None, **parts}
    return Manifest(message=message, naming=ManifestNaming.V2, **values)


def index_section(*indices: tuple[str, bytes]) -> bytes:
    messages = [pb_table.IndexMetadata(name=name, fields=[0], fragment_bitmap=bitmap) for name, bitmap in indices]
    return pb_table.IndexSection(indices=messages).SerializeToString()


@pytest.mark.parametrize("asked", ["2.0", "2.1", "2.2"])
def test_compaction_rewrites_files_in_the_requested_format_version(
    dataset: lance_core.LanceDataset, asked: str
) -> None:
    assert output_version(dataset.manifest, CompactionSettings(data_storage_version=asked)).value == asked
    assert output_version(dataset.manifest, CompactionSettings()) is LanceFileVersion.V2_2


def test_compaction_of_a_newer_table_into_format_0_1_raises_not_supported(dataset: lance_core.LanceDataset) -> None:
    with pytest.raises(NotSupportedError, match=r"is 0\.1, but the table's files have format 2\.2"):
        output_version(dataset.manifest, CompactionSettings(data_storage_version="0.1"))


def test_compaction_of_a_table_with_unsupported_features_is_refused(dataset: lance_core.LanceDataset) -> None:
    settings = CompactionSettings()
    check_rewritable(dataset.manifest, settings)
    flagged = changed(dataset.manifest)
    flagged.message.reader_feature_flags = flagged.message.writer_feature_flags = 1024
    with pytest.raises(UnsupportedFeatureFlagError, match="1024"):
        check_rewritable(flagged, settings)
    deferred = changed(dataset.manifest, index_section=index_section(("a", b""), ("__lance_frag_reuse", b"")))
    with pytest.raises(NotSupportedError, match="__lance_frag_reuse"):
        check_rewritable(deferred, settings)


def test_compaction_survey_reads_files_for_information_missing_from_the_manifest(
    dataset: lance_core.LanceDataset,
) -> None:
    dataset.delete("a in (3, 4, 15)")
    known = survey(dataset.manifest, dataset.locator)
    assert [(each.physical_rows, each.deleted_rows, each.num_files) for each in known] == [
        (10, 2, 2),
        (10, 1, 2),
        (10, 0, 1),
    ]
    unknown = changed(dataset.manifest)
    for fragment in unknown.message.fragments:
        fragment.files[0].file_size_bytes = 0
        fragment.deletion_file.num_deleted_rows = 0
    del unknown.message.fragments[2:]
    assert survey(unknown, dataset.locator) == known[:2]


def test_compaction_survey_refuses_an_index_without_readable_fragments(dataset: lance_core.LanceDataset) -> None:
    silent = changed(dataset.manifest, index_section=index_section(("__lance_mem_wal", b""), ("a", b"")))
    with pytest.raises(NotSupportedError, match="'a' does not record the fragments"):
        survey(silent, dataset.locator)
    with pytest.raises(CorruptDataError, match="index 'a': the fragment bitmap cannot be read"):
        parse_index_section(index_section(("a", b"\xff")))[0].fragment_ids()


def test_compaction_that_reads_an_unexpected_number_of_rows_raises_corrupt_data(
    dataset: lance_core.LanceDataset,
) -> None:
    batch = dataset.to_table().to_batches()[0]
    for announced, message in ((5, "5 more rows"), (15, "5 rows fewer")):
        files = OutputFiles(
            dataset.locator.data_place(None),
            dataset.lance_schema,
            LanceFileVersion.V2_2,
            CompactionSettings(),
            announced,
            {},
            None,
        )
        with pytest.raises(CorruptDataError, match=message):
            _fill(files, batch)
        files.abort()
    assert len(list(Path(dataset.uri, "data").iterdir())) == 3


def _fill(files: OutputFiles, batch: pa.RecordBatch) -> None:
    files.write(batch)
    files.finish()


def test_compaction_that_reads_ahead_keeps_all_rows_in_order(
    dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_AHEAD_MIN_BYTES", 0)
    rows = dataset.to_table()
    dataset.optimize.compact_files(batch_size=3)
    assert len(dataset.get_fragments()) == 1
    assert dataset.to_table().equals(rows)


def test_compaction_of_a_constantly_changed_group_ends_with_a_conflict(
    dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of rounds is limited, and no files are left behind."""
    execute = execution.OutputFiles.finish
    other = lance_core.dataset(dataset.uri)
    doomed = iter(range(30))

    def finish_and_be_late(files: OutputFiles) -> list:
        written = execute(files)
        other.checkout_latest()
        other.delete(f"a = {next(doomed)}")
        return written

    monkeypatch.setattr(OutputFiles, "finish", finish_and_be_late)
    with pytest.raises(RetryableCommitConflictError, match="nothing was compacted"):
        Compaction.execute(dataset, {})
    assert len(list(Path(dataset.uri, "data").iterdir())) == 3
    assert lance_core.dataset(dataset.uri).to_table()["a"].to_pylist() == list(range(10, 30))


def batch_sizes(uri: Path, **options: int) -> list[int]:
    dataset = lance_core.dataset(uri)
    rows = execution._Rows(dataset.view, list(dataset.manifest.fragments), CompactionSettings(**options))
    return [batch.num_rows for batch in rows.batches()]


def test_compaction_batches_shrink_as_rows_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_BATCH_BYTES", 10_000)
    # Incompressible, because the stored bytes determine the size of the first batches.
    large = [Random(number).randbytes(5000) for number in range(60)]
    small = [b"s" for _ in range(300)]
    lance_core.write_dataset(pa.table({"a": large[:20]}), tmp_path / "large")
    assert sum(batch_sizes(tmp_path / "large")) == 20
    assert max(batch_sizes(tmp_path / "large")) == 1
    assert max(batch_sizes(tmp_path / "large", batch_size=7)) == 7
    lance_core.write_dataset(pa.table({"a": small + large}), tmp_path / "mixed")
    sizes = batch_sizes(tmp_path / "mixed")
    assert sizes[0] == 1
    assert 64 in accumulate(sizes)
    assert (sum(sizes), set(sizes[-10:])) == (360, {1})


def test_compaction_plans_the_pages_of_several_small_fragments_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(pa.table({"a": range(3_000)}), tmp_path / "t", max_rows_per_file=100)
    dataset = lance_core.dataset(tmp_path / "t")
    dataset.delete("a % 7 = 0")
    expected = dataset.to_table()
    planned: list[int] = []
    read_batches = FileReader.read_batches

    def counted(reader: FileReader, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        planned.append(reader.num_rows)
        return read_batches(reader, *arguments, **options)

    monkeypatch.setattr(FileReader, "read_batches", counted)
    dataset.optimize.compact_files()
    # Two short reads measure the size of the rows.
    assert planned == [100, 100, 3_000]
    assert dataset.to_table().equals(expected)
    assert len(dataset.get_fragments()) == 1
