"""Describes how a source is merged, as text: one line per step, each indented below the step that uses its rows.

Source: ``explain_plan`` and ``analyze_plan`` of ``MergeInsertBuilder`` in pylance 14.0.2. The steps are those of this
library, so only the first line is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.merge_insert.changed_columns import changed_columns, updates_in_place
from lance_core.merge_insert.new_rows import row_schema
from lance_core.merge_insert.rules import TARGET, WhenMatched, condition_columns, plan_condition
from lance_core.scan.plan_text import fragment_lines, plan_step
from lance_core.schema.blob_fields import stored_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from lance_core.io.io_counters import IOStats
    from lance_core.merge_insert.rules import MergeRules
    from lance_core.scan.table_view import TableView

__all__ = ["merge_plan_text"]


def merge_plan_text(
    view: TableView,
    rules: MergeRules,
    source: pa.Schema,
    *,
    verbose: bool = False,
    elapsed: float | None = None,
    figures: Mapping[str, int] | None = None,
    stats: IOStats | None = None,
) -> str:
    """Return the description of a merge.

    Args:
        view: the version of the table.
        rules: what happens to rows.
        source: the columns of the source.
        verbose: whether to list the fragments and their files.
        elapsed: seconds that the merge took; None if it was not executed.
        figures: the numbers of rows that the merge changed, by name.
        stats: statistics of the requests that the merge sent.
    """
    written = {} if stats is None else {"iops": stats.write_iops, "bytes_written": stats.written_bytes}
    read = {} if stats is None else {"iops": stats.read_iops, "bytes_read": stats.read_bytes}
    steps = [_merge(rules, elapsed, figures)]
    if rules.writes_rows:
        steps.append(_write(view, rules, source, written))
    table_columns = list(rules.keys)
    conditions = {}
    if rules.condition is not None:
        condition = plan_condition(stored_schema(view.schema), source, rules.condition)
        table_columns += condition_columns(condition).get(TARGET, [])
        conditions["update_if"] = rules.condition
    if rules.deleted_if is not None:
        conditions["delete_if"] = rules.deleted_if
    if conditions:
        steps.append(plan_step("Conditions", **conditions))
    steps.append(plan_step("Join", on=rules.keys, columns=list(dict.fromkeys(table_columns)), **read))
    lines = [f"{'  ' * depth}{step}" for depth, step in enumerate(steps)]
    inner = "  " * len(steps)
    lines.append(inner + plan_step("Fragments", count=len(view.fragments)))
    if verbose:
        lines += [f"{inner}  {line}" for line in fragment_lines(view.fragments)]
    lines.append(inner + plan_step("Source", columns=source.names))
    return "".join(f"{line}\n" for line in lines)


def _merge(rules: MergeRules, elapsed: float | None, figures: Mapping[str, int] | None) -> str:
    measured: dict[str, Any] = {} if elapsed is None else {"elapsed": f"{elapsed * 1000:.3f}ms"}
    matched = "UpdateIf" if rules.condition is not None else rules.when_matched.value
    not_matched = "InsertAll" if rules.inserts else WhenMatched.NOTHING.value
    decided = {"on": rules.keys, "when_matched": matched, "when_not_matched": not_matched}
    if rules.when_matched is WhenMatched.DELETE and not rules.inserts and not rules.deletes_unmatched:
        return plan_step("DeleteOnlyMergeInsert", **measured, **decided, **(figures or {}))
    by_source = ("DeleteIf" if rules.deleted_if is not None else "Delete") if rules.deletes_unmatched else "Keep"
    return plan_step("MergeInsert", **measured, **decided, when_not_matched_by_source=by_source, **(figures or {}))


def _write(view: TableView, rules: MergeRules, source: pa.Schema, written: Mapping[str, int]) -> str:
    if updates_in_place(view, rules, source):
        columns = changed_columns(view.schema, rules, source).names
        return plan_step("Write", mode="rewrite_columns", columns=columns, **written)
    return plan_step("Write", mode="rewrite_rows", columns=row_schema(view.schema, source).names, **written)
