"""WriteRequest checks the arguments of the writing functions."""

from __future__ import annotations

import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.file.write_config import WriteConfig
from lance_core.versions import LanceFileVersion
from lance_core.write.request import WriteRequest
from lance_core.write.target import Mode


def test_write_request_without_arguments_has_the_defaults() -> None:
    request = WriteRequest.of(mode="Append")
    assert request == WriteRequest(mode=Mode.APPEND, files=WriteConfig())


def test_write_request_maps_arguments_to_settings() -> None:
    request = WriteRequest.of(
        mode="create",
        data_storage_version="legacy",
        max_rows_per_file=1,
        data_cache_bytes=2,
        external_blob_mode="ingest",
        blob_pack_file_size_threshold=3,
        target_bases=["b"],
    )
    assert (request.file_version, request.target_bases) == (LanceFileVersion.V0_1, ["b"])
    assert request.files == WriteConfig(
        max_rows_per_file=1, data_cache_bytes=2, ingests_external_blobs=True, blob_pack_bytes=3
    )


@pytest.mark.parametrize(
    "argument",
    [
        {"mode": "replace"},
        {"data_storage_version": "2"},
        {"max_rows_per_file": 0},
        {"max_bytes_per_file": -1},
        {"data_cache_bytes": 0},
        {"max_page_bytes": 0},
        {"max_rows_per_group": 0},
        {"external_blob_mode": "copy"},
        {"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True},
    ],
    ids=lambda argument: next(iter(argument)),
)
def test_write_request_with_an_impossible_value_raises_invalid_input(argument: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        WriteRequest.of(**{"mode": "create", **argument})


@pytest.mark.parametrize("argument", [{"mode": 1}, {"max_rows_per_file": 2.0}, {"data_storage_version": 2.2}], ids=str)
def test_write_request_with_a_value_of_the_wrong_type_raises_invalid_type(argument: dict[str, object]) -> None:
    with pytest.raises(InvalidTypeError):
        WriteRequest.of(**{"mode": "create", **argument})
