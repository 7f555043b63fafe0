"""LanceFileVersion: names, aliases, number pairs, and which versions can be read and written."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, UnsupportedVersionError
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(version.value, version.value) for version in LanceFileVersion],
        ("legacy", "0.1"),
        ("LEGACY", "0.1"),
        ("0.3", "2.0"),
        ("stable", "2.2"),
        ("next", "2.3"),
    ],
)
def test_file_version_names_and_aliases_are_parsed(text: str, value: str) -> None:
    assert LanceFileVersion.parse(text).value == value


@pytest.mark.parametrize("text", ["", "2", "v2.0", " 2.0", "2.0 ", "2.4", "0.2", "1.0", "default"])
def test_unknown_file_version_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="unknown data storage version"):
        LanceFileVersion.parse(text)


def test_file_version_given_as_a_number_raises_invalid_type() -> None:
    with pytest.raises(InvalidTypeError):
        LanceFileVersion.parse(2.0)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ((0, 0), "0.1"),
        ((0, 1), "0.1"),
        ((0, 2), "0.1"),
        ((0, 3), "2.0"),
        ((2, 0), "2.0"),
        ((2, 1), "2.1"),
        ((2, 2), "2.2"),
        ((2, 3), "2.3"),
    ],
)
def test_file_version_number_pairs_on_disk_are_recognized(pair: tuple[int, int], value: str) -> None:
    assert LanceFileVersion.from_pair(*pair).value == value


@pytest.mark.parametrize("version", LanceFileVersion)
def test_written_file_version_number_pairs_survive_a_round_trip(version: LanceFileVersion) -> None:
    assert LanceFileVersion.from_pair(*version.footer_pair) is version
    assert LanceFileVersion.from_pair(*version.manifest_pair) is version


@pytest.mark.parametrize("pair", [(2, 4), (3, 0), (65535, 65535)])
def test_newer_file_version_number_pairs_are_refused_and_named_in_the_error(pair: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{pair[0]}.{pair[1]} is newer"):
        LanceFileVersion.from_pair(*pair)


@pytest.mark.parametrize("pair", [(0, 4), (1, 0), (1, 2)])
def test_invalid_file_version_number_pairs_raise_corrupt_data(pair: tuple[int, int]) -> None:
    with pytest.raises(CorruptDataError):
        LanceFileVersion.from_pair(*pair)


def test_every_file_version_except_2_3_is_readable_and_writable() -> None:
    for version in LanceFileVersion:
        if version is LanceFileVersion.V2_3:
            with pytest.raises(UnsupportedVersionError, match=r"reading data files in format 2\.3"):
                version.require_readable()
            with pytest.raises(UnsupportedVersionError, match=r"writing data files in format 2\.3"):
                version.require_writable()
        else:
            assert version.require_readable() is version.require_writable() is version
    assert DEFAULT_VERSION.value == "2.2"


def test_only_file_version_0_1_does_not_mix_with_other_versions() -> None:
    for one in LanceFileVersion:
        for other in LanceFileVersion:
            assert one.mixes_with(other) == ((one.value == "0.1") == (other.value == "0.1"))
