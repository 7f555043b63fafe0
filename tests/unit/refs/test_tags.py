"""A tag created during a cleanup is never left on a version that the cleanup removed."""

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, VersionNotFoundError
from lance_core.table.paths import manifest_name
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call, When


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of three versions."""
    for number in range(3):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="overwrite")
    return lance_core.dataset(uri)


def _remove_while_set(store: CountingStore, version: int) -> None:
    """Remove a version after it was checked and just before the tag is written."""

    def fault(call: Call) -> None:
        if call.method in ("put", "put_if_absent") and "_refs/tags" in call.path:
            store.inner.delete(f"table/_versions/{manifest_name(version)}")

    store.fault = fault


def test_tag_is_withdrawn_if_its_version_was_removed_while_the_tag_was_created(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    _remove_while_set(store, 2)
    with pytest.raises(VersionNotFoundError, match="no version 2"):
        dataset.tags.create("late", 2)
    assert dataset.tags.list() == {}


def test_tag_moved_to_a_concurrently_removed_version_is_moved_back(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    dataset.tags.create("x", 1)
    dataset.tags.replace_metadata("x", {"key": "value"})
    before = dataset.tags.list()
    _remove_while_set(store, 2)
    with pytest.raises(VersionNotFoundError, match="no version 2"):
        dataset.tags.update("x", 2)
    assert dataset.tags.list() == before


@pytest.mark.parametrize("moved_to", [3, None])
def test_tag_changed_by_another_process_is_not_withdrawn(
    dataset: lance_core.LanceDataset, store: CountingStore, moved_to: int | None
) -> None:
    manifest = f"table/_versions/{manifest_name(2)}"
    heads: list[str] = []

    def fault(call: Call) -> None:
        if call.method == "head" and call.path == manifest:
            heads.append(call.path)
            if len(heads) == 2:
                store.fault = lambda call: None
                dataset.tags.delete("late") if moved_to is None else dataset.tags.update("late", moved_to)
                store.inner.delete(manifest)

    store.fault = fault
    with pytest.raises(VersionNotFoundError, match="no version 2"):
        dataset.tags.create("late", 2)
    assert {name: tag["version"] for name, tag in dataset.tags.list().items()} == (
        {} if moved_to is None else {"late": moved_to}
    )


def test_tag_is_kept_when_its_version_cannot_be_checked(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    heads: list[str] = []

    def fault(call: Call) -> When | None:
        if call.method == "head":
            heads.append(call.path)
        return When.BEFORE if call.method == "head" and len(heads) == 2 else None

    store.fault = fault
    with pytest.raises(CommitOutcomeUnknownError, match=r"tag 'x' was created.*injected"):
        dataset.tags.create("x", 2)
    assert dataset.tags.get_version("x") == 2
