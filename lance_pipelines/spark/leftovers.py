"""Removing the files of a failed write, until no more appear."""

from __future__ import annotations

import time
from typing import Final

from lance_core.errors import LanceError
from lance_pipelines.spark.writer import discard_files

__all__ = ["discard_until_quiet"]

_QUIET_SECONDS: Final = 2.0
_LONGEST_SWEEP_SECONDS: Final = 30.0
_SWEEP_INTERVAL_SECONDS: Final = 0.2


def discard_until_quiet(uri: str, file_token: str, error: BaseException) -> None:
    """Delete the data files of a write that failed with ``error``; a failure to delete is noted on it.

    A worker learns that its task was canceled when it next requests rows or answers; until then it may finish a file.
    So this repeats until no file has appeared for some seconds.
    """
    quiet_since = time.monotonic()
    deadline = quiet_since + _LONGEST_SWEEP_SECONDS
    try:
        while time.monotonic() < min(quiet_since + _QUIET_SECONDS, deadline):
            if discard_files(uri, file_token):
                quiet_since = time.monotonic()
            time.sleep(_SWEEP_INTERVAL_SECONDS)
    except LanceError as cleanup_error:
        # The write's failure is the one to report; what is left is unreferenced and has this token in its name.
        error.add_note(f"the files of this write ({file_token}) could not be removed: {cleanup_error}")
