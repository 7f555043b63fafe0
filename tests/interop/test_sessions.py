"""Sessions have the names and the behavior of pylance."""

import inspect
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError

both = pytest.mark.parametrize("library", [lance, lance_core])


@both
def test_versions_opened_from_a_handle_share_its_session_and_new_handles_do_not(
    library: ModuleType, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = library.write_dataset(pa.table({"a": [1]}), uri)
    session = dataset.session()
    assert dataset.checkout_version(1).session().is_same_as(session)
    assert library.dataset(uri, session=session).session().is_same_as(session)
    assert not library.dataset(uri).session().is_same_as(session)


@both
def test_session_size_grows_when_rows_are_read(library: ModuleType, tmp_path: Path) -> None:
    uri, session = str(tmp_path / "t.lance"), library.Session(index_cache_size_bytes=0)
    library.write_dataset(pa.table({"a": [1]}), uri)
    before = session.size_bytes()
    assert library.dataset(uri, session=session).to_table().num_rows == 1
    assert session.size_bytes() > before


@both
@pytest.mark.parametrize("size", [1.5, float("nan"), "x"])
def test_session_size_that_is_not_a_whole_number_raises_type_error(library: ModuleType, size: object) -> None:
    with pytest.raises(TypeError):
        library.Session(metadata_cache_size_bytes=size)


@both
@pytest.mark.parametrize("size", [2**63, 2**64 - 1])
def test_session_size_that_fits_into_64_bits_is_accepted(library: ModuleType, size: int, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    library.write_dataset(pa.table({"a": [1]}), uri)
    assert library.dataset(uri, session=library.Session(size, size)).to_table().num_rows == 1


def test_session_size_that_does_not_fit_into_64_bits_raises_invalid_input() -> None:
    with pytest.raises(InvalidInputError, match=f"^metadata_cache_size_bytes must be at most {2**64 - 1}, found"):
        lance_core.Session(metadata_cache_size_bytes=2**64)


def test_session_constructor_accepts_the_same_positional_arguments_as_in_pylance() -> None:
    ours = list(inspect.signature(lance_core.Session).parameters)
    assert ours == list(inspect.signature(lance.Session).parameters)[: len(ours)]


@both
def test_write_returns_a_handle_with_the_given_session(library: ModuleType, tmp_path: Path) -> None:
    rows, session, other = pa.table({"a": [1]}), library.Session(), library.Session()
    dataset = library.write_dataset(rows, str(tmp_path / "t.lance"), session=session)
    assert dataset.session().is_same_as(session)
    assert library.write_dataset(rows, dataset, mode="append").session().is_same_as(session)
    assert library.write_dataset(rows, dataset, mode="append", session=other).session().is_same_as(other)
    assert dataset.session().is_same_as(session)


@both
def test_fragments_are_written_only_with_the_session_of_the_handle(library: ModuleType, tmp_path: Path) -> None:
    rows, session, other = pa.table({"a": [1]}), library.Session(), library.Session()
    dataset = library.write_dataset(rows, str(tmp_path / "t.lance"), session=session)
    write_fragments = library.fragment.write_fragments
    assert write_fragments(rows, dataset, session=session)[0].physical_rows == 1
    assert write_fragments(rows, dataset.uri, session=other)[0].physical_rows == 1
    with pytest.raises(ValueError, match="session"):
        write_fragments(rows, dataset, session=other)


@both
def test_session_argument_of_the_wrong_type_raises_type_error(library: ModuleType, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    library.write_dataset(pa.table({"a": [1]}), uri)
    for call in (library.dataset, lambda uri, session: library.write_dataset({"a": [1]}, uri, session=session)):
        with pytest.raises(TypeError):
            call(uri, session=3)


@both
def test_fragment_session_takes_only_rows_that_are_not_deleted(library: ModuleType, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"a": range(100), "s": [{"x": row, "y": str(row)} for row in range(100)]})
    library.write_dataset(rows, uri)
    library.dataset(uri).delete("a < 5")
    [fragment] = library.dataset(uri).get_fragments()
    session = fragment.open_session(["a"])
    assert type(session).__name__ == "FragmentSession"
    assert session.take([1, 3, 94]).to_pydict() == {"a": [6, 8, 99]}
    assert session.take(pa.array([0])).to_pydict() == {"a": [5]}
    assert fragment.open_session().take([2]).equals(rows.slice(7, 1))
    assert fragment.open_session(["a"], True).take([1, 3]).to_pydict() == {"a": [6, 8], "_rowaddr": [6, 8]}
    for wrong in ([95], [-1], [1.5]):
        with pytest.raises((OSError, OverflowError, TypeError, ValueError)):
            session.take(wrong)
    with pytest.raises((OSError, ValueError), match="nope"):
        fragment.open_session(["nope"])


def test_fragment_session_takes_rows_in_any_order(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(pa.table({"a": range(100)}), tmp_path / "t.lance")
    [fragment] = dataset.get_fragments()
    assert fragment.open_session().take([7, 3, 3])["a"].to_pylist() == [7, 3, 3]


@both
def test_file_session_of_a_dataset_lists_its_files(library: ModuleType, tmp_path: Path) -> None:
    dataset = library.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t.lance"))
    session = dataset.new_file_session()
    assert type(session).__name__ == "LanceFileSession"
    [file] = dataset.get_fragments()[0].data_files()
    assert session.contains(f"data/{file.path}")


@both
def test_new_session_has_an_empty_cache_for_indices(library: ModuleType) -> None:
    assert library.Session().index_cache_size_bytes() == 0
