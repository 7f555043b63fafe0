"""How a file is classified by its location, its age, and the versions that reference it."""

import pytest

from lance_core.cleanup.branches import BranchRoot
from lance_core.cleanup.classification import ClassifiedPath, Classifier, PathState
from lance_core.cleanup.inventory import StoredFile
from lance_core.cleanup.reachability import KeepReason, Survey
from lance_core.cleanup.records import FileKind
from lance_core.table.paths import ManifestName, ManifestNaming, manifest_name

DAY = 86_400.0
NOW = 1000 * DAY
UUID = "5079f071-d30d-40dc-b5f8-547aac9cf466"

KEPT, REMOVABLE, PROTECTED = PathState.KEPT, PathState.REMOVABLE, PathState.PROTECTED
POSSIBLY_NEEDED, UNRECOGNIZED = PathState.POSSIBLY_NEEDED, PathState.UNRECOGNIZED


def _branch(name: str, *, is_recorded: bool) -> BranchRoot:
    return BranchRoot(name=name, is_recorded=is_recorded, forked_from=1, held=frozenset())


def _survey(*, oldest_kept: float | None = NOW - 20 * DAY) -> Survey:
    return Survey(
        kept={1: KeepReason.TAGGED, 3: KeepReason.CURRENT},
        removed=(ManifestName(2, ManifestNaming.V2),),
        referenced={"data/kept.lance", "_transactions/kept.txn", "_indices/kept", "_deletions/kept.arrow"},
        verified={
            "data/kept.lance": 2,
            "data/old.lance": 2,
            "_transactions/old.txn": 2,
            f"_indices/{UUID}": 2,
            "_deletions/old.bin": 2,
        },
        oldest_kept=oldest_kept,
        branches=(_branch("x/y", is_recorded=True), _branch("lost", is_recorded=False)),
        branch_manifests=frozenset(),
        referenced_branches=(),
    )


def _classify(
    path: str, *, age: float = 1.0, delete_unverified: bool = False, oldest_kept: float | None = None
) -> ClassifiedPath:
    classifier = Classifier(_survey(oldest_kept=oldest_kept), delete_unverified=delete_unverified, now=NOW)
    return classifier.classify(StoredFile(path, 5, NOW - age * DAY))


OWNED = {
    "data/kept.lance": (KEPT, FileKind.DATA),
    "data/kept/x.blob": (KEPT, FileKind.DATA),
    "data/old.lance": (REMOVABLE, FileKind.DATA),
    "data/old/x.blob": (REMOVABLE, FileKind.DATA),
    "_transactions/kept.txn": (KEPT, FileKind.TRANSACTION),
    "_transactions/old.txn": (REMOVABLE, FileKind.TRANSACTION),
    "_indices/kept/a/b": (KEPT, FileKind.INDEX),
    f"_indices/{UUID}/page": (REMOVABLE, FileKind.INDEX),
    "_deletions/kept.arrow": (KEPT, FileKind.DELETION),
    "_deletions/old.bin": (REMOVABLE, FileKind.DELETION),
    f"_versions/{manifest_name(1)}": (KEPT, FileKind.MANIFEST),
    f"_versions/{manifest_name(2)}": (REMOVABLE, FileKind.MANIFEST),
    f"_versions/{manifest_name(3)}": (KEPT, FileKind.MANIFEST),
    f"_versions/{manifest_name(4)}": (KEPT, FileKind.MANIFEST),
}


@pytest.mark.parametrize("age", [0.0, 1.0, 100.0])
@pytest.mark.parametrize(("path", "expected"), OWNED.items(), ids=OWNED)
def test_referenced_file_is_classified_by_its_versions_regardless_of_its_age(
    path: str, expected: tuple[PathState, FileKind], age: float
) -> None:
    """The age of the file does not matter."""
    found = _classify(path, age=age, oldest_kept=NOW - 20 * DAY)
    assert (found.state, found.kind) == expected
    assert found.verified is (found.state is REMOVABLE)
    assert found.goes_with == (2 if found.state is REMOVABLE else None)


NAMED_BY_NONE = {
    "data/x.lance": FileKind.DATA,
    "data/.tmpx": FileKind.DATA,
    "data/sub/.tmpx": FileKind.DATA,
    "data/sub/x.blob": FileKind.DATA,
    "_blobs/x.blob": FileKind.DATA,
    "_transactions/x.txn": FileKind.TRANSACTION,
    "_transactions/.tmp1-x.txn": FileKind.TRANSACTION,
    "_indices/x/y": FileKind.INDEX,
    "_indices/x": FileKind.INDEX,
    "_fri/x/y": FileKind.INDEX,
    "_deletions/x.arrow": FileKind.DELETION,
    "_deletions/x.bin": FileKind.DELETION,
    "_versions/.tmpx": FileKind.TEMPORARY_MANIFEST,
}


@pytest.mark.parametrize(("path", "kind"), NAMED_BY_NONE.items(), ids=NAMED_BY_NONE)
def test_file_that_no_version_references_is_protected_until_seven_days_old(path: str, kind: FileKind) -> None:
    assert _classify(path, age=6.99).state is PROTECTED
    assert _classify(path, age=0, delete_unverified=True).state is REMOVABLE
    old = _classify(path, age=7.01)
    assert (old.state, old.kind, old.verified) == (REMOVABLE, kind, False)


BOUNDED = [path for path in NAMED_BY_NONE if path.startswith(("_transactions", "_deletions", "_versions"))]


@pytest.mark.parametrize("path", NAMED_BY_NONE)
def test_unreferenced_file_newer_than_the_oldest_version_is_classified_as_in_pylance(path: str) -> None:
    expected = PROTECTED if path in BOUNDED else REMOVABLE
    assert _classify(path, age=15, oldest_kept=NOW - 20 * DAY).state is expected
    assert _classify(path, age=0, oldest_kept=NOW - 20 * DAY, delete_unverified=True).state is expected
    assert _classify(path, age=21, oldest_kept=NOW - 20 * DAY).state is REMOVABLE


SETTLED = {
    "_versions/latest_version_hint.json": KEPT,
    "_versions/d9223372036854775809.manifest": KEPT,
    f"_versions/{manifest_name(9)}-0b9aa9c3-1f2b-4a2f-9c53-6b7a6c9a2d11": POSSIBLY_NEEDED,
    "_versions/foo.manifest": UNRECOGNIZED,
    f"_versions/sub/{manifest_name(2)}": UNRECOGNIZED,
    "_transactions/sub/.tmpx": POSSIBLY_NEEDED,
    "_transactions/x.bin": UNRECOGNIZED,
    "_transactions/.txn": UNRECOGNIZED,
    "_deletions/sub/.tmpx": POSSIBLY_NEEDED,
    "_deletions/x.lance": UNRECOGNIZED,
    "_blobs/.tmpx": POSSIBLY_NEEDED,
    "_blobs/x": UNRECOGNIZED,
    "data/x.parquet": UNRECOGNIZED,
    "data/x.LANCE": UNRECOGNIZED,
    "data/.lance": UNRECOGNIZED,
    "data/x.blob": UNRECOGNIZED,
    "data/a/b/x.blob": UNRECOGNIZED,
    "_refs/tags/x.json": KEPT,
    "_refs/branches/x%2Fy.json": KEPT,
    "_refs/tags/sub/x.json": UNRECOGNIZED,
    "_refs/x": UNRECOGNIZED,
    f"tree/x/y/_versions/{manifest_name(2)}": KEPT,
    "tree/x/y/data/z.lance": KEPT,
    "tree/lost/data/z.lance": POSSIBLY_NEEDED,
    "tree/x/z": UNRECOGNIZED,
    "tree": UNRECOGNIZED,
    "data": UNRECOGNIZED,
    "x.lance": UNRECOGNIZED,
    "datax/x.lance": UNRECOGNIZED,
}


@pytest.mark.parametrize(("path", "state"), SETTLED.items(), ids=SETTLED)
def test_file_whose_name_determines_its_class_is_classified_by_name(path: str, state: PathState) -> None:
    found = _classify(path, age=1000, delete_unverified=True)
    assert (found.state, found.kind, found.num_bytes) == (state, None, 5)
    assert found.reason


LEFT_BY_KILLED_WRITERS = [
    f"_versions/{manifest_name(9)}#1",
    f"_versions/{manifest_name(3)}#12",
    f"_versions/{manifest_name(2)}#1",
    "_versions/9.manifest#1",
    "_versions/d9223372036854775809.manifest#1",
    "_transactions/.tmpx",
    "_transactions/.tmp1-x.txn#",
    "_deletions/.tmpx",
    "_refs/tags/.tmp1-x.json#",
    "_refs/tags/x.json#1",
    "_refs/branches/.tmpx",
]


@pytest.mark.parametrize("oldest_kept", [None, NOW - 20 * DAY])
@pytest.mark.parametrize("path", LEFT_BY_KILLED_WRITERS)
def test_leftovers_of_crashed_writers_become_removable_by_age_alone(path: str, oldest_kept: float | None) -> None:
    assert _classify(path, age=6.99, oldest_kept=oldest_kept).state is PROTECTED
    assert _classify(path, age=0, delete_unverified=True, oldest_kept=oldest_kept).state is REMOVABLE
    old = _classify(path, age=7.01, oldest_kept=oldest_kept)
    assert (old.state, old.kind, old.verified, old.goes_with) == (REMOVABLE, FileKind.RESIDUE, False, None)
