"""When may a change planned on version n be committed on top of later versions?

Everything that decides about conflicts lives in this file, as a table: one column per operation that this library
commits, one row per operation that may have been committed meanwhile. Merges and projections have two rows each: with
``+`` the change promises that no field became required, without it the promise is missing (``-``). An update of
settings counts once for each of the four maps that it changes, and the severest verdict stands.

=====  ========================================================================================================
``.``  compatible
``R``  retryable: plan again on the newer version
``X``  incompatible: the change makes no sense any more
``r``  ``R`` when both touch one fragment, else compatible
``m``  like ``r``, but two writers may have hidden different rows of the fragment: where our rows are known, both
       sets are merged (:mod:`~lance_core.transactions.rebase`)
``x``  ``X`` when both set one key of the config or the table metadata, or metadata of one field, else compatible
=====  ========================================================================================================

Source: matrix of pylance 14.0.2, every cell executed; "unknown" is ours: what is not understood counts as a conflict.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import InternalError
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.update_config import MapUpdate, UpdateConfig
from lance_core.transactions.touched import preserves_nullability, touched_fragments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance_core.transactions.registry import Operation

__all__ = ["MATRIX", "TABLE", "Rule", "Verdict", "judge", "lines_of"]

_OURS: Final = (
    "append",
    "delete",
    "overwrite",
    "rewrite",
    "restore",
    "reserve_fragments",
    "update_config.config",
    "update_config.table_metadata",
    "update_config.schema_metadata",
    "update_config.field_metadata",
)
"""The columns, in their order in the table."""

TABLE: Final = """
committed                      app  del  ovw  rew  rst  rsv  cfg  tbl  sch  fld
append                         .    .    .    .    .    .    .    .    .    .
delete                         .    m    .    r    .    .    .    .    .    .
overwrite                      X    X    R    X    .    X    x    .    X    X
create_index                   .    .    .    r    .    .    .    .    .    .
rewrite                        .    r    .    r    .    .    .    .    .    .
merge+                         .    R    .    R    .    .    .    .    R    R
merge-                         R    R    .    R    .    .    .    .    R    R
restore                        X    X    .    X    .    X    .    .    X    X
reserve_fragments              .    .    .    .    .    .    .    .    .    .
update                         .    m    .    r    .    .    .    .    .    .
project+                       .    .    .    .    .    .    .    .    .    .
project-                       R    .    .    .    .    .    .    .    .    .
update_config.config           .    .    x    .    .    .    x    .    .    .
update_config.table_metadata   .    .    .    .    .    .    .    x    .    .
update_config.schema_metadata  .    .    .    .    X    .    .    .    X    .
update_config.field_metadata   .    .    .    .    X    .    .    .    .    x
data_replacement               .    r    .    r    .    .    .    .    .    .
data_overlay                   .    .    .    r    .    .    .    .    .    .
update_mem_wal_state           X    X    X    .    X    .    .    .    .    .
update_bases                   .    .    .    .    .    .    .    .    .    .
clone                          .    .    .    .    .    .    .    .    .    .
unknown                        R    R    R    R    R    R    R    R    R    R
"""
"""The rules: what was committed down, what is about to be committed across."""


class Verdict(Enum):
    """What a committed change means for one that was planned before it, from mild to severe."""

    COMPATIBLE = 0
    """Both stand."""

    MERGEABLE = 1
    """Both stand when they hide different rows; where our rows are not known, this is ``RETRYABLE``."""

    RETRYABLE = 2
    """The change has to be planned again on the newer version."""

    INCOMPATIBLE = 3
    """The change makes no sense on the newer version."""


class Rule(Enum):
    """A cell of the table."""

    COMPATIBLE = "."
    RETRYABLE = "R"
    INCOMPATIBLE = "X"
    RETRYABLE_ON_ONE_FRAGMENT = "r"
    MERGEABLE_ON_ONE_FRAGMENT = "m"
    INCOMPATIBLE_ON_ONE_TARGET = "x"


def _parse(table: str) -> Mapping[str, Mapping[str, Rule]]:
    rows = (line.split() for line in table.strip().splitlines()[1:])
    return MappingProxyType(
        {name: MappingProxyType(dict(zip(_OURS, map(Rule, cells), strict=True))) for name, *cells in rows}
    )


MATRIX: Final = _parse(TABLE)
"""Committed operation -> operation about to be committed -> rule; see :func:`lines_of` for the names."""


def judge(ours: Operation, theirs: Operation) -> Verdict:
    """What a committed operation means for one that is about to be committed.

    Args:
        ours: the operation about to be committed.
        theirs: the operation of a version that ours was not planned on.
    """
    verdicts = [_verdict(row, column, ours, theirs) for row in lines_of(theirs) for column in lines_of(ours)]
    return max(verdicts, key=lambda verdict: verdict.value, default=Verdict.COMPATIBLE)


def lines_of(operation: Operation) -> tuple[str, ...]:
    """The names of an operation in the table. None for an update of settings that changes nothing."""
    if isinstance(operation, UpdateConfig):
        parts = ("config", "table_metadata", "schema_metadata", "field_metadata")
        changed = [part for part in parts if getattr(operation, part) not in (None, {})]
        return tuple(f"{operation.arm}.{part}" for part in changed)
    promise = preserves_nullability(operation)
    if promise is None:
        return (operation.arm,)
    return (f"{operation.arm}{'+' if promise else '-'}",)


def _verdict(row: str, column: str, ours: Operation, theirs: Operation) -> Verdict:
    rule = MATRIX[row].get(column)
    match rule:
        case None:
            raise InternalError(f"no conflict rules for the operation {ours.arm!r}", arm=ours.arm)
        case Rule.COMPATIBLE | Rule.RETRYABLE | Rule.INCOMPATIBLE:
            return Verdict[rule.name]
        case Rule.INCOMPATIBLE_ON_ONE_TARGET:
            part = next(part for part in _CLASHES if f"update_config.{part}" in (row, column))
            return Verdict.INCOMPATIBLE if _CLASHES[part](ours, theirs) else Verdict.COMPATIBLE
        case _:
            if not _share_fragment(ours, theirs):
                return Verdict.COMPATIBLE
            return Verdict.MERGEABLE if rule is Rule.MERGEABLE_ON_ONE_FRAGMENT else Verdict.RETRYABLE


def _share_fragment(ours: Operation, theirs: Operation) -> bool:
    mine, others = touched_fragments(ours), touched_fragments(theirs)
    return mine is None or others is None or not mine.isdisjoint(others)


def _config_clashes(ours: Operation, theirs: Operation) -> bool:
    """One sets what the other sets or removes; removing a key twice is no contradiction."""
    mine, others = _config_of(ours), _config_of(theirs)
    mine_set, others_set = ({key for key, value in m.items() if value is not None} for m in (mine, others))
    return not (mine_set.isdisjoint(others) and others_set.isdisjoint(mine))


def _table_metadata_clashes(ours: Operation, theirs: Operation) -> bool:
    mine, others = (getattr(operation, "table_metadata", None) for operation in (ours, theirs))
    if not (isinstance(mine, MapUpdate) and isinstance(others, MapUpdate)):
        return False
    return mine.replace or others.replace or not mine.entries.keys().isdisjoint(others.entries)


def _field_metadata_clashes(ours: Operation, theirs: Operation) -> bool:
    if not (isinstance(ours, UpdateConfig) and isinstance(theirs, UpdateConfig)):
        return False
    return not ours.field_metadata.keys().isdisjoint(theirs.field_metadata)


def _config_of(operation: Operation) -> Mapping[str, str | None]:
    if isinstance(operation, Overwrite):
        return operation.config_upserts
    if isinstance(operation, UpdateConfig) and operation.config is not None:
        return operation.config.entries
    return {}


_CLASHES: Final[Mapping[str, Callable[[Operation, Operation], bool]]] = MappingProxyType(
    {
        "config": _config_clashes,
        "table_metadata": _table_metadata_clashes,
        "field_metadata": _field_metadata_clashes,
    }
)
"""How to tell whether two operations set the same thing, by the map in question."""
