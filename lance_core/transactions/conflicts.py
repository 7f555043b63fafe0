"""Conflict matrix: determines whether a change planned on version n may be committed on top of later versions.

The matrix has one column per operation that is about to be committed, and one row per operation that may have been
committed in the meantime. Cells that depend on the content of the two operations are decided in
:mod:`~lance_core.transactions.clashes`; merging two deletes is described in
:mod:`~lance_core.transactions.delete_rebase`. Merges and projections have two rows each: with ``+`` the change promises
that no field became required; with ``-`` it makes no such promise. Updates have one row for each way to store the new
values. An update of settings counts once for each of the four maps that it changes; the most severe verdict applies.

=====  ========================================================================================================
``.``  compatible
``R``  retryable: plan again on the newer version
``X``  incompatible: the change is no longer valid
other  depends on the content of both; the function for that letter in :mod:`~lance_core.transactions.clashes` decides
=====  ========================================================================================================

The most frequent letters are ``r`` (both modify the same fragment), ``m`` (both delete rows of the same fragment; the
deletes can be merged if the rows are known), and ``x`` (both set the same key).

Source: matrix of pylance 14.0.2, verified by executing every cell. The row "unknown" is an addition: an unknown
operation counts as a conflict.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from lance_core.errors import InternalError
from lance_core.transactions.clashes import CLASHES
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.update import Update, UpdateMode
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.transactions.operations.operation import Operation

__all__ = ["MATRIX", "TABLE", "Verdict", "judge", "lines_of"]

_COLUMNS: Final = (
    ("ap", "append"),
    ("de", "delete"),
    ("ow", "overwrite"),
    ("ix", "create_index"),
    ("rw", "rewrite"),
    ("m+", "merge+"),
    ("m-", "merge-"),
    ("rs", "restore"),
    ("rf", "reserve_fragments"),
    ("ur", "update.rows"),
    ("uc", "update.columns"),
    ("p+", "project+"),
    ("p-", "project-"),
    ("sc", "update_config.config"),
    ("st", "update_config.table_metadata"),
    ("ss", "update_config.schema_metadata"),
    ("sf", "update_config.field_metadata"),
    ("re", "data_replacement"),
    ("ov", "data_overlay"),
    ("wl", "update_mem_wal_state"),
    ("ba", "update_bases"),
    ("cl", "clone"),
)
"""The columns of the conflict table: the heading of each column, and the operation that the heading stands for."""

TABLE: Final = """
committed                     ap de ow ix rw m+ m- rs rf ur uc p+ p- sc st ss sf re ov wl ba cl
append                        .  .  .  .  .  R  R  .  .  k  k  .  R  .  .  .  .  .  .  X  a  .
delete                        .  m  .  .  r  R  R  .  .  m  r  .  .  .  .  .  .  g  e  X  .  .
overwrite                     X  X  R  X  X  X  X  .  X  X  X  X  X  x  .  X  X  X  X  X  a  .
create_index                  .  .  .  n  r  .  .  .  .  .  .  .  .  .  .  .  .  f  .  l  .  .
rewrite                       .  r  .  r  r  R  R  .  .  r  r  .  .  .  .  .  .  r  r  .  a  .
merge+                        .  R  .  .  R  R  R  .  .  R  R  R  R  .  .  R  R  R  R  X  .  .
merge-                        R  R  .  .  R  R  R  .  .  R  R  R  R  .  .  R  R  R  R  X  .  .
restore                       X  X  .  X  X  X  X  .  X  X  X  X  X  .  .  X  X  X  X  X  .  .
reserve_fragments             .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
update.rows                   .  m  .  .  r  R  R  .  .  m  i  .  R  .  .  .  .  h  o  w  a  .
update.columns                .  m  .  .  r  R  R  .  .  m  i  .  R  .  .  .  .  h  e  w  a  .
project+                      .  .  .  .  .  X  X  .  .  .  u  R  R  .  .  .  .  d  .  X  .  .
project-                      R  .  .  .  .  X  X  .  .  R  R  R  R  .  .  .  .  R  R  X  .  .
update_config.config          .  .  x  .  .  .  .  .  .  .  .  .  .  x  .  .  .  .  .  .  .  .
update_config.table_metadata  .  .  .  .  .  .  .  .  .  .  .  .  .  .  x  .  .  .  .  .  .  .
update_config.schema_metadata .  .  .  .  .  R  R  X  .  .  .  .  .  .  .  X  .  .  .  .  .  .
update_config.field_metadata  .  .  .  .  .  R  R  X  .  .  .  .  .  .  .  .  x  .  .  .  .  .
data_replacement              .  r  .  f  r  R  R  .  .  r  r  .  R  .  .  .  .  c  .  X  .  .
data_overlay                  .  .  .  .  r  R  R  .  .  o  v  .  R  .  .  .  .  .  .  X  .  .
update_mem_wal_state          X  X  X  X  .  X  X  X  .  w  w  X  X  .  .  .  .  X  X  w  .  .
update_bases                  a  .  .  .  a  .  .  .  .  a  a  .  .  .  .  .  .  .  .  .  b  .
clone                         .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  X  .  .
unknown                       R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R  R
"""
"""The rules: rows are committed operations, columns are operations about to be committed."""

_ALWAYS: Final = MappingProxyType(
    {".": Verdict.COMPATIBLE, "R": Verdict.RETRYABLE, "X": Verdict.INCOMPATIBLE},
)


def _parse(table: str) -> Mapping[str, Mapping[str, str]]:
    head, *lines = table.strip().splitlines()
    if head.split()[1:] != [short for short, _ in _COLUMNS]:
        raise InternalError(f"unexpected header of the conflict table: {head!r}")
    columns = [line for _, line in _COLUMNS]
    return MappingProxyType(
        {
            name: MappingProxyType(dict(zip(columns, cells, strict=True)))
            for name, *cells in (line.split() for line in lines)
        }
    )


MATRIX: Final = _parse(TABLE)
"""The cells by row (the committed operation) and column (the one about to be committed); see :func:`lines_of`."""


def judge(ours: Operation, theirs: Operation) -> Verdict:
    """Return the effect of a committed operation on an operation that is about to be committed.

    Args:
        ours: the operation about to be committed.
        theirs: the operation of a version that was committed after our operation was planned.
    """
    verdicts = [_verdict(row, column, ours, theirs) for row in lines_of(theirs) for column in lines_of(ours)]
    return max(verdicts, key=lambda verdict: verdict.value, default=Verdict.COMPATIBLE)


def lines_of(operation: Operation) -> tuple[str, ...]:
    """Return the names of an operation in the conflict table; empty for an update of settings that changes nothing."""
    match operation:
        case UpdateConfig():
            parts = ("config", "table_metadata", "schema_metadata", "field_metadata")
            changed = [part for part in parts if getattr(operation, part) not in (None, {})]
            return tuple(f"{operation.arm}.{part}" for part in changed)
        case Merge() | Project():
            return (f"{operation.arm}{'+' if operation.preserves_nullability else '-'}",)
        case Update():
            return (f"{operation.arm}.{'columns' if operation.mode is UpdateMode.COLUMNS else 'rows'}",)
        case _:
            return (operation.arm,)


def _verdict(row: str, column: str, ours: Operation, theirs: Operation) -> Verdict:
    cell = MATRIX[row].get(column)
    if cell is None:
        raise InternalError(f"no conflict rules for the operation {ours.arm!r}", arm=ours.arm)
    always = _ALWAYS.get(cell)
    return CLASHES[cell](ours, theirs) if always is None else always
