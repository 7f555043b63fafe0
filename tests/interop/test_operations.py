"""Every pair of operations, committed by both implementations to identical tables, and the resulting tables."""

import shutil
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.errors import IncompatibleTransactionError, RetryableCommitConflictError, SchemaMismatchError
from lance_core.transactions.conflicts import Verdict
from tests.support.twin_operations import COMMITTABLE, OTHERS, READ_VERSION, create_table, rows, to_ours

COLUMNS = {**COMMITTABLE, **OTHERS}
# Enough operations to cover every column of the matrix with the same and with different fragments, keys, and fields.
PLANNED = (
    "append",
    "overwrite",
    "restore",
    "delete 0",
    "delete whole 0",
    "rewrite 0",
    "config k",
    "config k removed",
    "config replaced",
    "table metadata k",
    "table metadata k removed",
    "table metadata replaced",
    "schema metadata k",
    "field 0 k",
    "config k, schema metadata",
    "no settings",
)


_THEIR_WORDS = {
    "is incompatible with": Verdict.INCOMPATIBLE,
    "Retryable": Verdict.RETRYABLE,
    "Please retry": Verdict.RETRYABLE,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("base") / "table"
    create_table(str(path))
    return path


@pytest.fixture
def twins(base: Path, tmp_path: Path) -> tuple[str, str]:
    """The table of the reference and the location of ours, which is copied from the former before the commit."""
    shutil.copytree(base, tmp_path / "theirs")
    return str(tmp_path / "theirs"), str(tmp_path / "ours")


def _theirs(uri: str, operation: object) -> Verdict:
    try:
        lance.LanceDataset.commit(uri, operation, read_version=READ_VERSION)
    except OSError as error:
        return _THEIR_WORDS[next(word for word in _THEIR_WORDS if word in str(error))]
    return Verdict.COMPATIBLE


def _ours(uri: str, operation: object) -> Verdict:
    try:
        lance_core.LanceDataset.commit(uri, to_ours(operation), read_version=READ_VERSION)
    except IncompatibleTransactionError:
        return Verdict.INCOMPATIBLE
    except RetryableCommitConflictError:
        return Verdict.RETRYABLE
    return Verdict.COMPATIBLE


def _same_tables(left: str, right: str) -> None:
    """Check that both libraries read the same content, counters, and flags in both tables."""
    one, other = lance.dataset(left), lance.dataset(right)
    assert one.version == other.version
    assert one.schema.equals(other.schema, check_metadata=True)
    assert one.to_table().equals(other.to_table())
    assert (one.config(), one.metadata) == (other.config(), other.metadata)
    assert [each.metadata.to_json() | {"deletion_file": None} for each in one.get_fragments()] == [
        each.metadata.to_json() | {"deletion_file": None} for each in other.get_fragments()
    ]
    assert [each.num_deletions for each in one.get_fragments()] == [
        each.num_deletions for each in other.get_fragments()
    ]
    mine, theirs = lance_core.dataset(right), lance_core.dataset(left)
    for name in ("reader_feature_flags", "writer_feature_flags", "max_fragment_id", "next_row_id", "data_format"):
        assert getattr(mine.manifest.message, name) == getattr(theirs.manifest.message, name), name
    assert mine.to_table().equals(one.to_table())
    mine.validate()


@pytest.mark.parametrize("committed", COLUMNS)
@pytest.mark.parametrize("operation", PLANNED)
@pytest.mark.sampled(15)
def test_every_pair_of_operations_conflicts_as_in_pylance(
    operation: str, committed: str, twins: tuple[str, str]
) -> None:
    left, right = twins
    dataset = lance.dataset(left)
    planned = COMMITTABLE[operation](dataset)
    before = COLUMNS[committed](dataset)
    lance.LanceDataset.commit(left, before, read_version=READ_VERSION)
    shutil.copytree(left, right)
    verdict = _theirs(left, planned)
    assert _ours(right, planned) is verdict
    if "index" in committed:
        # The index has no files, so that it cannot be queried.
        return
    _same_tables(left, right)
    if verdict is Verdict.COMPATIBLE:
        lance.dataset(right).validate()


@pytest.mark.parametrize("operation", COMMITTABLE)
@pytest.mark.sampled(12)
def test_reserved_fragment_ids_conflict_with_no_other_operation(operation: str, twins: tuple[str, str]) -> None:
    left, right = twins
    planned = COMMITTABLE[operation](lance.dataset(left))
    reserve = lance_core.LanceOperation.ReserveFragments(3)
    lance_core.LanceDataset.commit(left, reserve, read_version=READ_VERSION)
    shutil.copytree(left, right)
    assert _theirs(left, planned) is _ours(right, planned) is Verdict.COMPATIBLE
    _same_tables(left, right)


@pytest.mark.parametrize("committed", COLUMNS)
@pytest.mark.sampled(18)
def test_reserving_ids_is_refused_only_after_an_overwrite_or_restore(committed: str, twins: tuple[str, str]) -> None:
    uri, _ = twins
    lance.LanceDataset.commit(uri, COLUMNS[committed](lance.dataset(uri)), read_version=READ_VERSION)
    reserve = lance_core.LanceOperation.ReserveFragments(3)
    if committed in ("overwrite", "restore"):
        with pytest.raises(IncompatibleTransactionError):
            lance_core.LanceDataset.commit(uri, reserve, read_version=READ_VERSION)
        return
    before = lance_core.dataset(uri).manifest.message.max_fragment_id
    made = lance_core.LanceDataset.commit(uri, reserve, read_version=READ_VERSION)
    assert made.manifest.message.max_fragment_id == before + 3
    assert lance.dataset(uri).version == made.version


@pytest.mark.parametrize("operation", COMMITTABLE)
def test_an_operation_creates_the_same_version_as_in_pylance(operation: str, twins: tuple[str, str]) -> None:
    left, right = twins
    planned = COMMITTABLE[operation](lance.dataset(left))
    shutil.copytree(left, right)
    assert _theirs(left, planned) is _ours(right, planned) is Verdict.COMPATIBLE
    _same_tables(left, right)
    lance.dataset(right).validate()
    # Both libraries read the same operation from either record.
    version = READ_VERSION + 1
    recorded = [lance.dataset(uri).read_transaction(version).operation for uri in (left, right)]
    assert repr(recorded[0]) == repr(recorded[1])
    understood = [lance_core.dataset(uri).read_transaction(version).operation for uri in (left, right)]
    assert understood[0] == understood[1]
    if operation != "overwrite":
        assert understood[0] == to_ours(recorded[0])


@pytest.mark.parametrize("operation", COMMITTABLE)
def test_pylance_changes_a_table_after_every_operation_by_lance_core(operation: str, twins: tuple[str, str]) -> None:
    uri, _ = twins
    planned = COMMITTABLE[operation](lance.dataset(uri))
    assert _ours(uri, planned) is Verdict.COMPATIBLE
    dataset = lance.dataset(uri)
    dataset.delete("a % 10 = 7")
    dataset.update({"s": "'new'"}, where="a % 10 = 8")
    dataset.optimize.compact_files()
    rows = lance.dataset(uri).to_table()
    assert lance_core.dataset(uri).to_table().equals(rows)
    lance_core.dataset(uri).validate()
    lance.dataset(uri).validate()


def test_metadata_of_a_dropped_column_is_refused_by_lance_core_and_pylance(twins: tuple[str, str]) -> None:
    uri, _ = twins
    dataset = lance.dataset(uri)
    planned = COMMITTABLE["field 1 k"](dataset)
    lance.LanceDataset.commit(uri, COLUMNS["project +"](dataset), read_version=READ_VERSION)
    with pytest.raises(OSError, match="id 1 does not exist"):
        lance.LanceDataset.commit(uri, planned, read_version=READ_VERSION)
    with pytest.raises(SchemaMismatchError, match="has no field with id 1"):
        lance_core.LanceDataset.commit(uri, to_ours(planned), read_version=READ_VERSION)


def test_fragment_ids_reserved_in_an_empty_table_are_never_assigned(tmp_path: Path) -> None:
    uri = str(tmp_path / "empty")
    lance.write_dataset(rows(0, 0), uri)
    assert not lance_core.dataset(uri).manifest.message.HasField("max_fragment_id")
    made = lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.ReserveFragments(3), read_version=1)
    assert made.manifest.message.max_fragment_id == 2
    lance.write_dataset(rows(0, 10), uri, mode="append")
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [3]
    lance.dataset(uri).delete("true")
    lance_core.write_dataset(rows(0, 10), uri, mode="append")
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [4]
    lance.dataset(uri).validate()
