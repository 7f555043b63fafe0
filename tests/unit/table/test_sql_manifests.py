"""Manifest rows in a relational database: lost responses, one table under several names, and damaged rows."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, CorruptDataError, InvalidInputError, StorageError
from lance_core.table.manifest_stores import sql
from lance_core.table.manifest_stores.api import ManifestRow
from lance_core.table.manifest_stores.opening import open_manifest_store
from lance_core.table.manifest_stores.sql import SqlManifests

ROW = ManifestRow(1, "_versions/x.manifest", 7)


def _unanswered_commits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the connection after COMMIT is sent, so that it is unknown whether the COMMIT is executed."""
    dialect = sql._engine(sqlalchemy, url).dialect

    def do_commit(connection: sqlite3.Connection) -> None:
        connection.rollback()
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", do_commit)


def test_sql_commit_without_a_response_is_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'm.db'}"
    manifests = SqlManifests(url, "t", "file")
    assert manifests.latest("/t") is None
    _unanswered_commits(url, monkeypatch)
    with pytest.raises(StorageError, match="closed the connection") as raised:
        manifests.reserve("/t", ROW)
    assert raised.value.in_flight
    assert raised.value.retryable


def test_sql_commit_without_a_response_removes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path / 'm.db'}"}
    uri = f"file+sql://{tmp_path / 'table'}"
    lance_core.write_dataset({"a": [1]}, uri, storage_options=options)
    fragments = lance_core.write_fragments({"a": [2]}, uri, storage_options=options)
    with monkeypatch.context() as patch:
        _unanswered_commits(options["sql_url"], patch)
        with pytest.raises(CommitOutcomeUnknownError):
            lance_core.LanceDataset.commit(
                uri, lance_core.LanceOperation.Append(fragments), 1, storage_options=options, max_retries=0
            )
    staged = [path for path in (tmp_path / "table" / "_versions").iterdir() if ".manifest-" in path.name]
    assert len(staged) == 1
    assert len(list((tmp_path / "table" / "_transactions").iterdir())) == 2
    # The database finally executes the COMMIT.
    manifests = open_manifest_store(uri, options)
    assert manifests is not None
    row = ManifestRow(2, f"_versions/{staged[0].name}", staged[0].stat().st_size)
    assert manifests.reserve(str(tmp_path / "table"), row)
    assert sorted(lance_core.dataset(uri, storage_options=options).to_table()["a"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    "database",
    [
        "",
        "/:memory:",
        "/file::memory:?cache=shared&uri=true",
        "/file:%3Amemory%3A?cache=shared&uri=true",
        "/file:x?mode=memory&cache=shared&uri=true",
        "/file:/x?vfs=memdb&uri=true",
        "/file:?uri=true",
    ],
)
def test_in_memory_manifest_database_is_refused(database: str) -> None:
    manifests = SqlManifests(f"sqlite://{database}", "t", "file")
    with pytest.raises(InvalidInputError, match="memory"):
        manifests.latest("/t")


def test_table_has_the_same_manifest_rows_under_all_its_uri_schemes(tmp_path: Path) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path / 'm.db'}"}
    for group in (("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss")):
        stores = [open_manifest_store(f"{scheme}+sql://bucket/t", options) for scheme in group]
        won = [store.reserve("bucket/t", ROW) for store in stores if store is not None]
        assert won == [True] + [False] * (len(group) - 1)


def test_table_opened_through_a_link_uses_the_same_manifest_rows(tmp_path: Path) -> None:
    options = {"sql_url": f"sqlite:///{tmp_path / 'm.db'}"}
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    real, link = (f"file+sql://{tmp_path / name / 'table'}" for name in ("real", "link"))
    lance_core.write_dataset({"a": [1]}, real, storage_options=options)
    lance_core.write_dataset({"a": [2]}, link, mode="append", storage_options=options)
    with sqlite3.connect(tmp_path / "m.db") as connection:
        found = connection.execute("select distinct base_uri from lance_manifests").fetchall()
    assert found == [(f"file://{tmp_path / 'real' / 'table'}",)]


def test_manifest_row_with_a_malformed_size_raises_corrupt_data(tmp_path: Path) -> None:
    manifests = SqlManifests(f"sqlite:///{tmp_path / 'm.db'}", "t", "file")
    assert manifests.reserve("/t", ROW)
    with sqlite3.connect(tmp_path / "m.db") as connection:
        connection.execute("update t set size = 'many'")
    with pytest.raises(CorruptDataError, match="malformed number"):
        manifests.find("/t", 1)
