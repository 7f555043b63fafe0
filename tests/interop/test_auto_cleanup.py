"""Automatic cleanup after commits, as configured in the table: by lance_core, by pylance, and by both in turn."""

import logging
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
PREFIX = "lance.auto_cleanup."
LIBRARIES = {"ours": lance_core, "theirs": lance}


def _config(**values: str) -> dict[str, str]:
    """Return entries of the table config, which permit removal of versions of any age by default."""
    values = {"min_age": "0s", **values} if "interval" in values else values
    return {f"{PREFIX}{name}": value for name, value in values.items()}


def _table(uri: Path, num_versions: int = 1, **config: str) -> str:
    """Create a table of so many versions, the last of which sets the config."""
    for _ in range(num_versions - 1):
        lance.write_dataset(ROWS, str(uri), mode="append")
    if num_versions == 1:
        lance.write_dataset(ROWS, str(uri))
    else:
        lance.dataset(str(uri)).update_config(_config(**config))
    return str(uri)


def _versions(uri: str, branch: str | None = None) -> list[int]:
    handle = lance.dataset(uri)
    return [each["version"] for each in (handle.checkout_version((branch, None)) if branch else handle).versions()]


def _append(library: object, uri: str) -> None:
    library.write_dataset(ROWS, uri, mode="append")


def _history(library: object, uri: str, num_commits: int) -> list[list[int]]:
    history = []
    for _ in range(num_commits):
        _append(library, uri)
        history.append(_versions(uri))
    return history


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_automatic_cleanup_keeps_the_new_version_and_its_predecessor(library: str, tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 2, interval="3", older_than="0s")
    assert _history(LIBRARIES[library], uri, 4) == [[2, 3], [2, 3, 4], [2, 3, 4, 5], [5, 6]]


def test_versions_of_the_last_ten_minutes_are_kept_unless_the_config_sets_another_age(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 2, interval="1", retain_versions="1", min_age="10m")
    assert _history(lance_core, uri, 3)[-1] == [1, 2, 3, 4, 5]
    lance_core.dataset(uri).update_config({f"{PREFIX}min_age": None})
    assert _history(lance_core, uri, 2)[-1] == list(range(1, 9))
    lance_core.dataset(uri).update_config({f"{PREFIX}min_age": "0s"})
    assert _versions(uri) == [8, 9]


def test_automatic_cleanups_of_lance_core_and_pylance_in_turn_keep_every_row(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 2, interval="3", older_than="0s")
    for number in range(10):
        _append((lance_core, lance)[number % 2], uri)
    assert _versions(uri) == [11, 12]
    for library in (lance_core, lance):
        dataset = library.dataset(uri)
        dataset.validate()
        assert dataset.count_rows() == 22


@pytest.mark.parametrize(
    "config",
    [
        {"interval": "0", "older_than": "0s"},
        {"interval": "1"},
        {"interval": "1", "older_than": "1h"},
        {"interval": "2", "retain_versions": "3"},
        {"interval": "1", "retain_versions": "3", "older_than": "0s"},
        {"interval": "1", "retain_versions": "2", "older_than": "1h"},
        {"interval": "+2", "older_than": "0"},
        {"older_than": "0s"},
        # Values that neither library understands cause a warning, and nothing is removed.
        {"interval": "x", "older_than": "0s"},
        {"interval": "1", "older_than": "3600"},
        {"interval": "1", "retain_versions": "0"},
        {"interval": "1", "delete_rate_limit": "0"},
    ],
    ids=str,
)
@pytest.mark.sampled(5)
def test_automatic_cleanups_of_lance_core_and_pylance_keep_the_same_versions(
    config: dict[str, str], tmp_path: Path
) -> None:
    histories = [_history(library, _table(tmp_path / name, 2, **config), 5) for name, library in LIBRARIES.items()]
    assert histories[0] == histories[1]


def test_a_duration_without_a_unit_is_reported_as_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = _table(tmp_path / "t", 2, interval="1", older_than="3600")
    with caplog.at_level(logging.WARNING, "lance_core"):
        _append(lance_core, uri)
    assert "older_than: '3600' is not a valid duration" in caplog.text
    assert _versions(uri) == [1, 2, 3]
    lance_core.dataset(uri).update_config(_config(older_than="1h30m"))
    caplog.clear()
    with caplog.at_level(logging.WARNING, "lance_core"):
        _append(lance_core, uri)
    assert caplog.records == []
    assert _versions(uri) == [1, 2, 3, 4, 5]


def _fragments(uri: str) -> list[lance_core.FragmentMetadata]:
    return lance_core.write_fragments(ROWS, lance_core.dataset(uri))


COMMITS: dict[str, Callable[[str], object]] = {
    "append": lambda uri: _append(lance_core, uri),
    "overwrite": lambda uri: lance_core.write_dataset(ROWS, uri, mode="overwrite"),
    "delete": lambda uri: lance_core.dataset(uri).delete("a = 1"),
    "config": lambda uri: lance_core.dataset(uri).update_config({"x": "y"}),
    "metadata": lambda uri: lance_core.dataset(uri).update_metadata({"x": "y"}),
    "commit": lambda uri: lance_core.LanceDataset.commit(
        uri, lance_core.LanceOperation.Append(_fragments(uri)), read_version=3
    ),
    "stale handle": lambda uri: lance_core.dataset(uri, version=3).delete("a = 1"),
    "restore": lambda uri: lance_core.dataset(uri).restore(),
}


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.sampled(4)
def test_every_kind_of_commit_runs_the_automatic_cleanup(commit: str, tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 6, interval="7", older_than="0s")
    COMMITS[commit](uri)
    # Starting from the version before the commit, regardless of the version of the handle.
    assert _versions(uri) == [6, 7]
    lance.dataset(uri).validate()
    lance.dataset(uri, version=6).validate()


def test_an_automatic_cleanup_follows_the_config_of_the_new_version(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 4, x="y")
    lance_core.dataset(uri).update_config(_config(interval="5", older_than="0s"))
    assert _versions(uri) == [4, 5]
    lance_core.dataset(uri).update_config(_config(interval="1"))
    assert _versions(uri) == [5, 6]
    lance_core.dataset(uri, version=5).restore()
    assert _versions(uri) == [5, 6, 7]
    lance_core.dataset(uri).delete_config_keys(list(_config(interval="", older_than="")))
    assert _versions(uri) == [5, 6, 7, 8]


def test_a_detached_commit_runs_no_automatic_cleanup(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 4, interval="1", older_than="0s")
    left = _versions(uri)
    operation = lance_core.LanceOperation.Append(_fragments(uri))
    lance_core.LanceDataset.commit(uri, operation, read_version=4, detached=True)
    assert _versions(uri) == left


def test_automatic_cleanups_keep_tagged_versions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = _table(tmp_path / "t", 4, x="y")
    lance.dataset(uri).tags.create("kept", 2)
    with caplog.at_level(logging.WARNING, "lance_core"):
        lance_core.dataset(uri).update_config(_config(interval="1", older_than="0s"))
        _append(lance_core, uri)
    assert caplog.records == []
    assert _versions(uri) == [2, 5, 6]
    assert lance.dataset(uri, version="kept").count_rows() == 4


def test_an_automatic_cleanup_of_a_branch_removes_only_versions_of_that_branch(tmp_path: Path) -> None:
    uri = _table(tmp_path / "t", 4, interval="1", older_than="0s")
    branch = lance_core.dataset(uri).create_branch("b")
    assert _versions(uri, "b") == [4]
    branch.delete("a = 1")
    for number in ("1", "2"):
        branch.update_config({"x": number})
    assert _versions(uri, "b") == [6, 7]
    _append(lance_core, uri)
    _append(lance_core, uri)
    # The branch was created from version 4, whose files it still uses.
    assert _versions(uri) == [4, 5, 6]
    assert lance.dataset(uri).checkout_version(("b", None)).count_rows() == 3


def test_a_failed_automatic_cleanup_does_not_fail_the_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = _table(tmp_path / "t", 3, interval="1", older_than="0s")
    tags = Path(uri) / "_refs" / "tags"
    tags.mkdir(parents=True)
    (tags / "broken.json").write_text("{")
    with caplog.at_level(logging.WARNING, "lance_core"):
        assert lance_core.write_dataset(ROWS, uri, mode="append").version == 4
    assert "version 4 was committed, but the cleanup that followed failed" in caplog.text
    assert _versions(uri)[-1] == 4


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
@pytest.mark.parametrize(
    "options", [{"interval": 3, "older_than_seconds": 60}, {"interval": 0}, {"older_than_seconds": 2**40}, {}, None]
)
def test_automatic_cleanup_options_of_a_table_are_stored_as_in_pylance(
    mode: str, options: dict[str, int] | None, tmp_path: Path
) -> None:
    configs, entries = [], []
    for name, library in LIBRARIES.items():
        uri = str(tmp_path / name)
        made = library.write_dataset(ROWS, uri, mode=mode, auto_cleanup_options=options)
        configs.append(made.config())
        transaction = lance_core.dataset(uri).manifest.message
        entries.append(dict(transaction.config))
        again = library.write_dataset(
            ROWS, uri, mode="overwrite", auto_cleanup_options={"interval": 9, "older_than_seconds": 9}
        )
        assert again.config() == made.config()
    assert configs[0] == configs[1] == entries[0] == entries[1]


def test_enabling_and_disabling_automatic_cleanup_changes_the_config_as_in_pylance(tmp_path: Path) -> None:
    states = []
    for name, library in LIBRARIES.items():
        dataset = library.write_dataset(ROWS, str(tmp_path / name))
        dataset.optimize.enable_auto_cleanup({"interval": 3, "older_than_seconds": 60})
        enabled = dataset.config()
        dataset.optimize.disable_auto_cleanup()
        states.append((enabled, dataset.config(), dataset.version))
    assert states[0] == states[1] == ({f"{PREFIX}interval": "3", f"{PREFIX}older_than": "60s"}, {}, 3)
