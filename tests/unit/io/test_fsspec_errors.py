"""Errors of fsspec packages become typed errors that name the object with its scheme."""

import errno

import pytest

from lance_core.errors import NotFoundError, StorageError
from lance_core.io.fsspec_errors import EXCLUSIVE_VERB, translate_fsspec

PATH = "gs://lake/points/data/1.lance"


class _AnswerError(Exception):
    code = 404


@pytest.mark.parametrize("error", [FileNotFoundError("lake"), _AnswerError("none")])
@pytest.mark.parametrize("verb", ["write", EXCLUSIVE_VERB])
def test_write_error_names_a_container_that_does_not_exist(error: Exception, verb: str) -> None:
    found = translate_fsspec(error, verb, PATH, ())
    assert isinstance(found, StorageError)
    assert str(found) == f"cannot {verb} {PATH}: container 'lake' does not exist"
    assert found.errno == errno.ENOENT


@pytest.mark.parametrize("error", [FileNotFoundError("lake"), _AnswerError("none")])
def test_read_error_names_an_object_that_does_not_exist(error: Exception) -> None:
    found = translate_fsspec(error, "read", PATH, ())
    assert isinstance(found, NotFoundError)
    assert str(found) == f"cannot read {PATH}: the object does not exist"
