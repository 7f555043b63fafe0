"""Bases: which places outside its root a new table has, and to which of its places new data files go.

Source: arguments of pylance 14.0.2. It takes two bases of one name or path; here they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.api.dataset_base_path import base_path_to_proto
from lance_core.api.dataset_uris import recorded_root
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.update_bases import UpdateBases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.api.dataset_base_path import DatasetBasePath
    from lance_core.proto import pb_table
    from lance_core.table.base_paths import BasePath, DataPlace, FileLocator
    from lance_core.transactions.registry import Operation

__all__ = ["data_places", "declared_bases", "new_bases", "numbered_bases"]


def new_bases(bases: Sequence[DatasetBasePath]) -> tuple[pb_table.BasePath, ...]:
    """The messages of bases, with absolute paths.

    Raises:
        InvalidTypeError: one is no ``DatasetBasePath``, or they are no list of such.
        InvalidInputError: a path is malformed.
    """
    if not isinstance(bases, (list, tuple)):
        raise InvalidTypeError(f"bases must be a list of DatasetBasePath, found {type(bases).__name__}")
    messages = [base_path_to_proto(base) for base in bases]
    for message in messages:
        message.path = recorded_root(message.path)
    return tuple(messages)


def declared_bases(operation: Operation) -> list[str]:
    """The paths of the bases that an operation adds to a table."""
    if isinstance(operation, Overwrite):
        return [base.path for base in operation.initial_bases]
    return [base.path for base in operation.new_bases] if isinstance(operation, UpdateBases) else []


def numbered_bases(bases: Sequence[DatasetBasePath]) -> tuple[pb_table.BasePath, ...]:
    """The bases of a new table: those without an id get the next ones, from 1. Raises as :func:`new_bases`.

    Raises:
        InvalidInputError: two have the same id, name or path.
    """
    messages = new_bases(bases)
    taken = {message.id for message in messages if message.id}
    free = iter(number for number in range(1, 2 * len(messages) + 1) if number not in taken)
    for message in messages:
        message.id = message.id or next(free)
    for what, values in (
        ("id", [message.id for message in messages]),
        ("path", [message.path for message in messages]),
        ("name", [message.name for message in messages if message.HasField("name")]),
    ):
        if len(set(values)) != len(values):
            raise InvalidInputError(f"two of the new bases have the same {what}: {values}")
    return messages


def data_places(
    locator: FileLocator, target_bases: Sequence[str] | None, *, target_all_bases: bool | None
) -> list[DataPlace]:
    """The places that new data files go to in turn; none for the table's own root.

    Args:
        locator: finds the bases of the table.
        target_bases: names or paths of bases.
        target_all_bases: take turns between the root and every base.

    Raises:
        InvalidInputError: no base has such a name or path, or both arguments are given.
        InvalidTypeError: they are no list of texts.
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
    raise InvalidInputError(f"target base {name!r} is none of the table's bases: {known}", argument="target_bases")


def _recorded(name: str) -> str | None:
    try:
        return recorded_root(name)
    except InvalidInputError:
        return None
