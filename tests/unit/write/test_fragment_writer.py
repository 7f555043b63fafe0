"""Removing finished data files that no version references."""

import pytest

from lance_core.errors import InvalidInputError
from lance_core.io.memory_store import MemoryStore
from lance_core.write.fragment_writer import remove_data_files


@pytest.mark.parametrize("name", ["../_versions/1.manifest", "/t/_versions/1.manifest", "a/../../_versions/1.manifest"])
def test_removing_a_file_outside_the_data_directory_removes_nothing(name: str) -> None:
    store = MemoryStore()
    for path in ("t/data/a.lance", "t/_versions/1.manifest"):
        store.put(path, b"x")
    with pytest.raises(InvalidInputError, match="expected a relative path of a file below data/"):
        remove_data_files(store, "t", ["a.lance", name])
    assert sorted(info.path for info in store.list_recursive("t")) == ["t/_versions/1.manifest", "t/data/a.lance"]
    remove_data_files(store, "t", ["a.lance", "absent.lance"])
    assert [info.path for info in store.list_recursive("t")] == ["t/_versions/1.manifest"]
