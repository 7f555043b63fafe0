"""LanceFileSession: the same calls give the same results in both implementations."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lance_core import LanceFileSession
from lance_core.errors import InvalidInputError, NotFoundError, NotSupportedError
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter

reference = pytest.importorskip("lance.file", reason="pylance is the other implementation")

TABLE = pa.table({"a": list(range(100)), "s": [str(i) for i in range(100)]})
sessions = pytest.mark.parametrize("session_type", [LanceFileSession, reference.LanceFileSession])


@sessions
def test_files_of_a_session_are_written_listed_and_read_as_in_pylance(session_type: type, tmp_path: Path) -> None:
    session = session_type(str(tmp_path))
    for path in ("f.lance", "deep/er/g.lance", "deep/h.lance"):
        with session.open_writer(path, schema=TABLE.schema) as writer:
            writer.write_batch(TABLE)
    assert sorted(session.list()) == ["deep/er/g.lance", "deep/h.lance", "f.lance"]
    assert sorted(session.list("deep")) == ["deep/er/g.lance", "deep/h.lance"]
    assert session.list("nothing") == []
    level = session.list_with_delimiter("deep")
    assert (level.common_prefixes, level.objects) == (["deep/er"], ["deep/h.lance"])
    assert session.list_with_delimiter().common_prefixes == ["deep"]
    assert [session.contains(path) for path in ("f.lance", "deep", "zz", "/f.lance")] == [True, False, False, True]
    assert session.open_reader("deep/h.lance", ["s"]).read_all().to_table().equals(TABLE.select(["s"]))
    assert session.read_range("f.lance", 0, 8) == (tmp_path / "f.lance").read_bytes()[:8]
    session.delete_file("f.lance")
    assert not session.contains("f.lance")
    with pytest.raises(Exception, match=r"(?i)not found|does not exist"):
        session.delete_file("f.lance")


@sessions
def test_files_of_a_session_are_uploaded_and_downloaded(session_type: type, tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"content")
    session = session_type(str(tmp_path / "place"))
    assert session.list() == []
    session.upload_file(str(tmp_path / "local"), "a/b")
    session.download_file("a/b", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"content"
    with pytest.raises(OSError, match=r"."):
        session.upload_file(str(tmp_path / "nothing"), "c")


def test_paths_of_a_session_stay_below_its_root(tmp_path: Path) -> None:
    session = LanceFileSession(tmp_path / "place")
    (tmp_path / "secret").touch()
    with pytest.raises(InvalidInputError):
        session.contains("../secret")
    with pytest.raises(NotFoundError):
        session.open_reader("missing.lance")
    with pytest.raises(NotSupportedError):
        LanceFileSession(tmp_path, table_id=["t"])


def test_a_session_in_memory_lists_and_reads_its_files() -> None:
    session = LanceFileSession("memory://session-test/place")
    with session.open_writer("d/f.lance") as writer:
        writer.write_batch(TABLE)
    assert session.list() == ["d/f.lance"]
    assert session.open_reader("d/f.lance").read_all().to_table().equals(TABLE)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_file_metadata_and_statistics_equal_those_of_pylance(version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "f.lance")
    with reference.LanceFileWriter(path, TABLE.schema, version=version) as writer:
        writer.write_batch(TABLE)
    ours, theirs = LanceFileReader(path), reference.LanceFileReader(path)
    found, expected = ours.metadata(), theirs.metadata()
    for name in ("schema", "num_rows", "num_data_bytes", "num_column_metadata_bytes", "num_global_buffer_bytes"):
        assert getattr(found, name) == getattr(expected, name)
    assert (found.major_version, found.minor_version) == (expected.major_version, expected.minor_version)
    for one, other in zip(found.columns, expected.columns, strict=True):
        for mine, other_page in zip(one.pages, other.pages, strict=True):
            assert [(b.position, b.size) for b in mine.buffers] == [(b.position, b.size) for b in other_page.buffers]
    sizes = [(column.num_pages, column.size_bytes) for column in ours.file_statistics().columns]
    assert sizes == [(column.num_pages, column.size_bytes) for column in theirs.file_statistics().columns]


def test_files_in_format_0_1_have_no_column_statistics(tmp_path: Path) -> None:
    path = str(tmp_path / "f.lance")
    with LanceFileWriter(path, TABLE.schema, version="0.1") as writer:
        writer.write_batch(TABLE)
    reader = LanceFileReader(path)
    assert reader.read_all().to_table().equals(TABLE)
    for ask in (reader.metadata, reader.file_statistics, lambda: reader.read_global_buffer(0)):
        with pytest.raises(NotSupportedError, match=r"0\.1"):
            ask()
