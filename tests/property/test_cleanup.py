"""Cleanups of random tables with random arguments leave the same files as in pylance, all of which are needed."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from tests.support.aged_table import (
    AgedTable,
    append,
    compact,
    create,
    delete,
    index,
    overwrite,
    restore,
)

ACTIONS = {"append": append, "overwrite": overwrite, "delete": delete, "compact": compact, "index": index}
PLACES = [
    "data/x.lance",
    "data/.tmpx",
    "_transactions/x.txn",
    "_deletions/x.bin",
    "_indices/x/y",
    "_versions/.tmpx",
    "_versions/18446744073709551500.manifest#1",
    "_transactions/.tmpx",
    "_deletions/.tmpx",
    "x",
]

lives = st.lists(st.one_of(st.sampled_from(sorted(ACTIONS)), st.just("restore")), min_size=1, max_size=8)
ages = st.integers(0, 30)
policies = st.fixed_dictionaries(
    {},
    optional={
        "older_than": ages.map(lambda days: timedelta(days=days + 0.5)),
        "retain_versions": st.integers(1, 6),
        "versions": st.lists(st.integers(1, 10), min_size=1),
        "delete_unverified": st.booleans(),
    },
)
unknown_files = st.dictionaries(st.sampled_from(PLACES), ages, max_size=4)


def _build(root: Path, life: list[str], steps_apart: int, files: dict[str, int], data: st.DataObject) -> AgedTable:
    table = AgedTable(root)
    table.step(len(life) * steps_apart + 1, create)
    for number, name in enumerate(life):
        version = lance.dataset(table.uri).version
        action = ACTIONS.get(name) or restore(data.draw(st.integers(1, version), label="restored version"))
        table.step((len(life) - number) * steps_apart, action)
    version = lance.dataset(table.uri).version
    for tagged in data.draw(st.sets(st.integers(1, version), max_size=2), label="tags"):
        lance_core.dataset(table.uri).tags.create(f"t{tagged}", tagged)
    for path, days_ago in files.items():
        table.put(path, days_ago + 0.25)
    table.save()
    return table


def _residue_that_goes(files: dict[str, int], policy: dict[str, Any]) -> set[str]:
    """Return leftovers of killed writers, which the reference does not remove."""
    residue = {path for path in files if "#" in path or path.startswith(("_transactions/.tmp", "_deletions/.tmp"))}
    return {path for path in residue if files[path] >= 7 or policy.get("delete_unverified")}


def _compare(
    life: list[str], steps_apart: int, files: dict[str, int], policy: dict[str, Any], data: st.DataObject
) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        table = _build(directory / "table", life, steps_apart, files, data)
        version = data.draw(st.integers(1, lance.dataset(table.uri).version), label="version of the handle")
        terms = {**policy, "error_if_tagged_old_versions": False}
        stats = lance.dataset(table.uri, version=version).cleanup_old_versions(**terms)
        theirs = table.files()
        table.go_back()
        explained = lance_core.dataset(table.uri, version=version).explain_cleanup_old_versions(**terms)
        removed = lance_core.dataset(table.uri, version=version).cleanup_old_versions(**terms)
        assert explained.stats == removed
        residue = _residue_that_goes(files, policy)
        assert table.files() == theirs - residue
        assert removed.residue_files_removed == len(residue)
        # Unrecognized files of the test have 7 bytes.
        assert removed.bytes_removed == stats.bytes_removed + 7 * len(residue)
        assert removed.old_versions == stats.old_versions
        for each in lance_core.dataset(table.uri).version_refs():
            lance.dataset(table.uri, version=each["version"]).validate()
    finally:
        shutil.rmtree(directory)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(lives, st.integers(0, 9), unknown_files, policies, st.data())
def test_cleanups_of_a_random_table_leave_the_same_files_as_pylance(
    life: list[str], steps_apart: int, files: dict[str, int], policy: dict[str, Any], data: st.DataObject
) -> None:
    _compare(life, steps_apart, files, policy, data)


@pytest.mark.soak
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(lives, st.integers(0, 9), unknown_files, policies, st.data())
def test_cleanups_of_many_random_tables_leave_the_same_files_as_pylance(
    life: list[str], steps_apart: int, files: dict[str, int], policy: dict[str, Any], data: st.DataObject
) -> None:
    _compare(life, steps_apart, files, policy, data)
