"""Content digests change with the data, and not with maintenance or metadata."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

import lance_core
from lance_core.transactions.transaction import read_transaction
from lance_pipelines.maintenance.content import content_digest, content_digest_before


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = str(tmp_path / "events.lance")
    for part in range(4):
        lance_core.write_dataset(pa.table({"id": [part, part + 10]}), path, mode="append" if part else "create")
    lance.dataset(path).delete("id = 1")
    return path


def digest(uri: str, version: int | None = None) -> str:
    return content_digest(lance_core.dataset(uri, version=version).manifest)


def test_content_digest_changes_with_rows_and_columns(uri) -> None:
    reference = lance.dataset(uri)
    reference.delete("id = 11")
    reference.add_columns({"twice": "id * 2"})
    reference.drop_columns(["id"])
    latest = lance_core.dataset(uri).version
    digests = [digest(uri, version) for version in range(1, latest + 1)]
    assert len(set(digests)) == latest


def test_content_digest_ignores_config_and_index_changes(uri) -> None:
    before = digest(uri)
    lance.dataset(uri).update_config({"owner": "me"})
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    assert digest(uri) == before


def test_content_digest_before_a_rewrite_is_computed_from_the_rewrite(uri) -> None:
    """The versions before the compaction may have been removed by the time the digest is requested."""
    before = digest(uri)
    lance.dataset(uri).optimize.compact_files()
    dataset = lance_core.dataset(uri)
    rewrite = read_transaction(dataset.log, dataset.manifest).operation
    assert digest(uri) != before
    assert content_digest_before(dataset.manifest, rewrite.groups) == before


def test_content_digest_before_a_rewrite_includes_a_concurrent_append(uri) -> None:
    before = digest(uri)
    stale = lance.dataset(uri)
    plan = Compaction.plan(stale, {})
    results = [task.execute(stale) for task in plan.tasks]
    lance_core.write_dataset(pa.table({"id": [99]}), uri, mode="append")
    appended = digest(uri)
    Compaction.commit(stale, results)
    dataset = lance_core.dataset(uri)
    rewrite = read_transaction(dataset.log, dataset.manifest).operation
    assert content_digest_before(dataset.manifest, rewrite.groups) == appended != before


def test_content_digest_changes_with_an_overlay(uri) -> None:
    manifest = lance_core.dataset(uri).manifest
    before = content_digest(manifest)
    manifest.message.fragments[0].overlays.add().data_file.path = "newer.lance"
    assert content_digest(manifest) != before
