"""Names of files in the root directory of a table."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.table.paths import (
    ManifestName,
    ManifestNaming,
    data_file_name,
    file_token_of,
    is_detached_manifest_name,
    is_staged_manifest_name,
    manifest_name,
    new_file_token,
    newer_manifest_names,
    newest_manifest_names,
    parse_manifest_name,
    transaction_file_name,
)


def test_manifest_names_follow_both_naming_schemes() -> None:
    assert manifest_name(1) == "18446744073709551614.manifest"
    assert manifest_name(12, ManifestNaming.V2) == "18446744073709551603.manifest"
    assert manifest_name(12, ManifestNaming.V1) == "12.manifest"


@given(st.integers(1, 2**63 - 1))
def test_v2_manifest_names_survive_a_round_trip_and_are_sorted_newest_first(version: int) -> None:
    assert parse_manifest_name(manifest_name(version)) == ManifestName(version, ManifestNaming.V2)
    if version > 1:
        assert manifest_name(version) < manifest_name(version - 1)


@pytest.mark.parametrize("version", [0, -1, 2**64])
def test_manifest_name_of_an_invalid_version_is_refused(version: int) -> None:
    with pytest.raises(InvalidInputError):
        manifest_name(version)


@pytest.mark.parametrize(
    "name",
    [
        "18446744073709551614.manifest#1",
        "18446744073709551614.manifest-0f0e",
        "d9223372036854775809.manifest",
        "latest_version_hint.json",
        ".tmpa1b2c3",
        "18446744073709551615.manifest",
        "manifest",
        "x.manifest",
    ],
)
def test_other_files_in_the_versions_directory_are_not_versions(name: str) -> None:
    assert parse_manifest_name(name) is None


@given(
    st.lists(st.integers(1, 2**63 - 1), max_size=8),
    st.lists(st.integers(1, 10**18), max_size=4),
    st.lists(st.sampled_from(["d9223372036854775809.manifest", "x.manifest", ".tmpabc", "9" * 19 + "x.manifest"])),
    st.randoms(use_true_random=False),
)
def test_newest_manifest_of_each_naming_scheme_is_found_in_any_order(
    v2: list[int], v1: list[int], others: list[str], order: random.Random
) -> None:
    expected = {
        ManifestName(max(versions), naming)
        for versions, naming in ((v2, ManifestNaming.V2), (v1, ManifestNaming.V1))
        if versions
    }
    names = [manifest_name(each) for each in v2] + [manifest_name(each, ManifestNaming.V1) for each in v1] + others
    order.shuffle(names)
    assert set(newest_manifest_names(names)) == expected


@given(
    st.lists(st.integers(1, 12) | st.integers(1, 2**63 - 1), max_size=8),
    st.lists(st.integers(1, 12) | st.integers(1, 10**18), max_size=4),
    st.integers(0, 12) | st.integers(0, 2**63 - 1),
    st.randoms(use_true_random=False),
)
def test_newer_manifest_names_of_both_naming_schemes_are_found_in_any_order(
    v2: list[int], v1: list[int], version: int, order: random.Random
) -> None:
    every = {ManifestName(each, ManifestNaming.V2) for each in v2} | {ManifestName(e, ManifestNaming.V1) for e in v1}
    residue = ["d9223372036854775809.manifest", "x.manifest", ".tmpabc", f"{manifest_name(1)}#1", "9" * 29]
    names = [manifest_name(each.version, each.naming) for each in every] + residue
    order.shuffle(names)
    found = newer_manifest_names(names, version)
    assert len(found) == len(set(found))
    assert set(found) <= every
    assert {name for name in found if name.version > version} == {name for name in every if name.version > version}
    assert {name.naming for name in found} == {name.naming for name in every}


def test_detached_and_staged_manifest_names_are_recognized() -> None:
    detached = "d9223372036854775809.manifest"
    staged = ["18446744073709551614.manifest#1", "7.manifest#12", f"{detached}#1"]
    staged += ["18446744073709551614.manifest-0b9aa9c3-1f2b-4a2f-9c53-6b7a6c9a2d11"]
    others = ["18446744073709551614.manifest", "x.manifest#1", "7.manifest#", "7.manifest-x", "d.manifest"]
    assert [name for name in [detached, *staged, *others] if is_detached_manifest_name(name)] == [detached]
    assert [name for name in [detached, *staged, *others] if is_staged_manifest_name(name)] == staged


def test_v1_manifest_names_are_recognized_by_their_length() -> None:
    assert parse_manifest_name("7.manifest") == ManifestName(7, ManifestNaming.V1)


def test_data_file_names_have_the_same_form_as_in_pylance() -> None:
    names = {data_file_name() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", name) for name in names)


def test_data_file_name_ends_with_its_file_token() -> None:
    token = new_file_token()
    names = {data_file_name(token) for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(rf"[01]{{24}}[0-9a-f]{{10}}{token}\.lance", name) for name in names)
    assert {file_token_of(name) for name in names} == {token}


@pytest.mark.parametrize("token", ["", "0123", "0123456789ABCDEF", "0123456789abcdeg", "../../etc/passwd1"])
def test_malformed_file_tokens_are_refused(token: str) -> None:
    with pytest.raises(InvalidInputError, match="16 lowercase hexadecimal digits"):
        data_file_name(token)


def test_transaction_file_name_has_read_version_and_uuid() -> None:
    assert transaction_file_name(3, "93adea1b-ffcc-43bf-a62c-f078ef77475f") == (
        "3-93adea1b-ffcc-43bf-a62c-f078ef77475f.txn"
    )
