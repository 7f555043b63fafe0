"""Resolves base paths: those that an operation adds to a table, and those to which new data files are written.

Source: arguments of pylance 14.0.2, which accepts two bases with the same name or path; this library rejects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.places.uris import recorded_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.table.base_paths import BasePath, DataPlace, FileLocator
    from lance_core.transactions.operations.operation import Operation

__all__ = ["data_places", "declared_bases"]


def declared_bases(operation: Operation) -> list[str]:
    """Return the paths of the bases that an operation adds to a table."""
    return [base.path for base in operation.added_bases()]


def data_places(
    locator: FileLocator, target_bases: Sequence[str] | None, *, target_all_bases: bool | None
) -> list[DataPlace]:
    """Return the directories for new data files, to be used in turn; an empty list means the table's own root.

    Args:
        locator: locates the bases of the table.
        target_bases: names or paths of the bases to use.
        target_all_bases: whether to use the root and all bases in turn.

    Raises:
        InvalidInputError: no base has a requested name or path, or both arguments are given.
        InvalidTypeError: ``target_bases`` is not a list of strings.
    """
    if target_all_bases and target_bases:
        raise InvalidInputError("target_all_bases cannot be given together with target_bases")
    if target_all_bases:
        ids = sorted(base.id for base in locator.base_paths)
        return [locator.data_place(base_id) for base_id in (None, *ids)]
    if target_bases is None:
        return []
    if isinstance(target_bases, str) or not all(isinstance(name, str) for name in target_bases):
        raise InvalidTypeError(f"target_bases must be a list of names or paths, found {target_bases!r:.80}")
    return [locator.data_place(_find(locator.base_paths, name).id) for name in target_bases]


def _find(bases: Sequence[BasePath], name: str) -> BasePath:
    for base in bases:
        if base.name == name or base.path == name or base.path == _recorded(name):
            return base
    known = sorted(base.name or base.path for base in bases)
    raise InvalidInputError(f"unknown target base {name!r}; the table has: {known}", argument="target_bases")


def _recorded(name: str) -> str | None:
    try:
        return recorded_root(name)
    except InvalidInputError:
        return None
