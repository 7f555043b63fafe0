"""Errors of storage have the same attributes as the errors of the operating system."""

import errno
import os
import pickle

import pytest

from lance_core.errors import DatasetNotFoundError, NotFoundError, StorageError


@pytest.mark.parametrize("travel", [lambda error: error, lambda error: pickle.loads(pickle.dumps(error))])
def test_storage_errors_have_the_attributes_of_an_os_error(travel) -> None:
    error = travel(StorageError("cannot write x: disk full", path="/lake/x", errno=errno.ENOSPC))
    assert (error.errno, error.strerror, error.filename) == (errno.ENOSPC, os.strerror(errno.ENOSPC), "/lake/x")
    assert str(error) == "cannot write x: disk full"
    assert error.context["errno"] == errno.ENOSPC


def test_errno_of_a_storage_error_without_an_operating_system_error_is_none() -> None:
    error = pickle.loads(pickle.dumps(StorageError("connection reset", retryable=True)))
    assert (error.errno, error.strerror, error.filename) == (None, None, None)
    assert error.retryable


@pytest.mark.parametrize("kind", [NotFoundError, DatasetNotFoundError])
def test_not_found_errors_have_errno_enoent(kind: type[NotFoundError]) -> None:
    error = pickle.loads(pickle.dumps(kind("no such thing", path="/lake/x")))
    assert (error.errno, error.filename, str(error)) == (errno.ENOENT, "/lake/x", "no such thing")
