"""Removes data files that a write or a rewrite left behind and that no version will ever use.

The name of every data file of one job ends in that job's *file token*. A task attempt that failed, or that Spark
replaced with another attempt, can leave files behind. These files are found by the token.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import InvalidInputError, LanceError
from lance_core.metadata import DATA_DIRECTORY, open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["check_token", "discard_files", "discard_lost_attempts", "discard_until_quiet"]

_TOKEN: Final = re.compile(r"[0-9a-f]{16}")

_QUIET_SECONDS: Final = 2.0
_LONGEST_SWEEP_SECONDS: Final = 30.0
_SWEEP_INTERVAL_SECONDS: Final = 0.2

_logger: Final = logging.getLogger(__name__)


def check_token(file_token: str) -> None:
    """Reject a malformed token, which could match the files of other writes.

    Raises:
        InvalidInputError: the token is malformed.
    """
    if not _TOKEN.fullmatch(file_token):
        raise InvalidInputError(f"malformed file token {file_token!r}; expected 16 lowercase hexadecimal digits")


def discard_files(
    dataset_uri: str,
    file_token: str,
    *,
    keep: Iterable[str] = (),
    storage_options: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Delete the data files of one write, whether or not it has finished. It must not be committed afterward.

    Args:
        dataset_uri: the dataset's location.
        file_token: the write's token; files of other writes are never touched.
        keep: names of data files to keep, because they will be committed.
        storage_options: credentials and settings of the dataset's store.

    Returns:
        Paths of the deleted files.

    Raises:
        InvalidInputError: the token is malformed.
        StorageError: a file cannot be deleted.
    """
    check_token(file_token)
    store, root = open_store(dataset_uri, storage_options)
    whole = re.compile(rf"[^.][^/]*{file_token}\.lance")
    unfinished = re.compile(rf"\.tmp[^/]*{file_token}[^/]*")
    kept = frozenset(keep)
    discarded = []
    for entry in list(store.list(store.join(root, DATA_DIRECTORY))):
        name = entry.path.replace("\\", "/").rpartition("/")[2]
        if (whole.fullmatch(name) and name not in kept) or unfinished.fullmatch(name):
            store.delete(entry.path)
            discarded.append(entry.path)
    return tuple(discarded)


def discard_lost_attempts(
    dataset_uri: str,
    file_token: str,
    fragments: Iterable[Mapping[str, Any]],
    *,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Delete the files of a successful job that are not part of its result, which consists of one attempt per task.

    A failure is only logged: leftover files take up space but do no other harm.

    Args:
        dataset_uri: the dataset's location.
        file_token: the job's token.
        fragments: the fragments of the result, each serialized by ``FragmentMetadata.to_json()``.
        storage_options: credentials and settings of the dataset's store.
    """
    keep = [data_file["path"] for fragment in fragments for data_file in fragment["files"]]
    try:
        discard_files(dataset_uri, file_token, keep=keep, storage_options=storage_options)
    except LanceError as error:
        _logger.warning(
            "%s: cannot remove the files of failed attempts (*%s.lance): %s", dataset_uri, file_token, error
        )


def discard_until_quiet(
    uri: str, file_token: str, error: BaseException, *, storage_options: Mapping[str, str] | None = None
) -> None:
    """Delete the data files of a write that failed with ``error``. If the deletion fails, ``error`` gets a note.

    A worker notices that its task was canceled only when it next requests or returns rows; before that, it may finish a
    file. Therefore, the deletion is repeated until no file has appeared for some seconds, or until a time limit is
    reached.
    """
    quiet_since = time.monotonic()
    deadline = quiet_since + _LONGEST_SWEEP_SECONDS
    try:
        while time.monotonic() < min(quiet_since + _QUIET_SECONDS, deadline):
            if discard_files(uri, file_token, storage_options=storage_options):
                quiet_since = time.monotonic()
            time.sleep(_SWEEP_INTERVAL_SECONDS)
    except LanceError as cleanup_error:
        # The failure of the write is the one to report; leftover files have this token in their names.
        error.add_note(f"the files of this write (file token {file_token}) could not be removed: {cleanup_error}")
