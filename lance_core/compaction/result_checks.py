"""What is checked of results before a version is built from them: they may come from other processes."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from lance_core.compaction.result import CompactionMetrics, RewriteResult
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.public.arguments import whole_number
from lance_core.write.new_data_file import check_data_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["check_planned_versions", "checked_results"]


def checked_results(rewrites: Iterable[RewriteResult]) -> list[RewriteResult]:
    """The results, when each of them, and all of them together, make sense.

    Raises:
        InvalidTypeError: something else than results, or a number that is none.
        InvalidInputError: nothing is rewritten, a fragment is rewritten twice, or new files lie elsewhere than in the
            dataset's ``data/`` or are named twice.
    """
    results = list(rewrites)
    old: set[int] = set()
    new: set[str] = set()
    for result in results:
        _check_types(result)
        for fragment in result.original_fragments:
            if fragment.id in old:
                raise InvalidInputError(f"fragment {fragment.id} is rewritten twice", fragment=fragment.id)
            old.add(fragment.id)
        for file in (file for fragment in result.new_fragments for file in fragment.files):
            if file.path in new:
                raise InvalidInputError(f"data file {file.path} occurs twice in the new fragments", path=file.path)
            if file.base_id is not None:
                raise InvalidInputError(
                    f"data file {file.path} of a new fragment lies in base path {file.base_id}, expected the dataset's "
                    "own root",
                    path=file.path,
                )
            new.add(file.path)
    check_data_names(new)
    return results


def check_planned_versions(results: Sequence[RewriteResult], latest_version: int) -> None:
    """Check that results were planned on versions that have been made.

    Raises:
        InvalidInputError: one was not.
    """
    for result in results:
        if not 1 <= result.read_version <= latest_version:
            raise InvalidInputError(
                f"a rewrite result was planned on version {result.read_version}, but the latest version is "
                f"{latest_version}: it belongs to another dataset",
                expected=latest_version,
                found=result.read_version,
            )


def _check_types(result: RewriteResult) -> None:
    if not isinstance(result, RewriteResult):
        raise InvalidTypeError(f"rewrites must be RewriteResult objects, found {type(result).__name__}")
    if not result.original_fragments:
        raise InvalidInputError("a rewrite result has no original fragments")
    if not isinstance(result.metrics, CompactionMetrics):
        raise InvalidTypeError(f"metrics of a rewrite result must be CompactionMetrics, found {result.metrics!r:.80}")
    for number in (result.read_version, *astuple(result.metrics)):
        whole_number("a number of a rewrite result", number)
