"""Owners: the keys under which manifests reference files."""

import uuid

import pytest

from lance_core.cleanup.ownership import borrowed_owners, owner_of, owners_of
from lance_core.errors import CorruptDataError
from lance_core.proto import pb_table
from lance_core.table.index_directories import index_directories
from lance_core.table.manifest import Manifest
from lance_core.table.paths import ManifestNaming

ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("data/x.lance", "data/x.lance"),
        ("data/sub/x.lance", "data/sub/x.lance"),
        ("data/x/1.blob", "data/x.lance"),
        ("data/x/y/1.blob", "data/x/y/1.blob"),
        ("data/1.blob", "data/1.blob"),
        ("_indices/u/a/b", "_indices/u"),
        ("_indices/u", "_indices/u"),
        ("_deletions/1-2-3.bin", "_deletions/1-2-3.bin"),
        ("_indices", "_indices"),
    ],
)
def test_every_file_of_a_dataset_has_one_owner(path: str, owner: str) -> None:
    assert owner_of(path) == owner


def _manifest() -> Manifest:
    """Return a manifest with owned and borrowed files of each kind."""
    section = pb_table.IndexSection()
    section.indices.add(uuid=pb_table.UUID(uuid=ONE.bytes))
    section.indices.add(uuid=pb_table.UUID(uuid=TWO.bytes), base_id=0)
    message = pb_table.Manifest(transaction_file="1-x.txn")
    own, borrowed = message.fragments.add(id=3), message.fragments.add(id=4)
    own.files.add(path="a.lance")
    own.files.add(path="sub//./b.lance")
    own.deletion_file.CopyFrom(pb_table.DeletionFile(read_version=5, id=6))
    borrowed.files.add(path="c.lance", base_id=0)
    borrowed.deletion_file.CopyFrom(
        pb_table.DeletionFile(file_type=pb_table.DeletionFile.BITMAP, read_version=7, id=8, base_id=0)
    )
    return Manifest(message=message, naming=ManifestNaming.V2, index_section=section.SerializeToString())


BORROWED = {"data/c.lance", "_deletions/4-7-8.bin", f"_indices/{TWO}"}


def test_manifest_owns_all_the_files_it_references() -> None:
    own = {"data/a.lance", "data/sub/b.lance", "_deletions/3-5-6.arrow", f"_indices/{ONE}", "_transactions/1-x.txn"}
    assert owners_of(_manifest(), "/t") == own | BORROWED


def test_branch_manifest_owns_the_files_it_references_in_its_root() -> None:
    assert borrowed_owners(_manifest(), "/t") == BORROWED


def test_a_damaged_index_section_is_refused() -> None:
    with pytest.raises(CorruptDataError, match="cannot be decoded"):
        index_directories(b"\xff")
    section = pb_table.IndexSection()
    section.indices.add(name="i", uuid=pb_table.UUID(uuid=b"short"))
    with pytest.raises(CorruptDataError, match="index 'i': the id has 5 bytes, expected 16"):
        index_directories(section.SerializeToString())
    assert index_directories(None) == {}
