"""Describes how a scan reads its rows, as text: one line per step, each indented below the step that uses its rows.

Source: ``explain_plan`` and ``analyze_plan`` of pylance 14.0.2. The steps are those of this library, so the text
differs.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.scan_source import ScanSource
    from lance_core.table.fragment import Fragment

__all__ = ["fragment_lines", "measured", "plan_step", "plan_text"]


def plan_text(
    source: ScanSource,
    columns: Sequence[str],
    *,
    computed: Mapping[str, str] | None,
    predicate: Predicate | None,
    offset: int | None,
    limit: int | None,
    verbose: bool,
) -> str:
    """Return the description of a scan.

    Args:
        source: the fragments to scan.
        columns: names of the top-level columns to read for the result, besides those of the filter.
        computed: the SQL expressions of the result columns; None if these are columns of the table.
        predicate: the filter; None if there is none.
        offset: number of rows to skip; None means 0.
        limit: maximum number of rows; None means no limit.
        verbose: whether to list the fragments and their files.
    """
    cut = {"offset": offset or 0, "limit": limit}
    steps = []
    if computed is not None:
        steps.append(plan_step("Compute", columns=[f"{name}: {text}" for name, text in computed.items()]))
    if predicate is None:
        steps.append(plan_step("Read", columns=columns, **cut))
    else:
        if columns:
            steps.append(plan_step("Fetch", columns=columns))
        steps.append(plan_step("Filter", columns=predicate.wanted.names, predicate=predicate.text, **cut))
    steps.append(plan_step("Fragments", count=len(source.fragments), include_deleted_rows=source.includes_deleted))
    lines = [f"{'  ' * depth}{step}" for depth, step in enumerate(steps)]
    if verbose:
        lines += [f"{'  ' * len(steps)}{line}" for line in fragment_lines(source.fragments)]
    return "".join(f"{line}\n" for line in lines)


def measured(batches: Iterable[pa.RecordBatch], source: ScanSource) -> str:
    """Consume the batches of a scan, and return a line about the batches and the requests for them."""
    counters = source.locator.counters
    before, started = counters.total(), perf_counter()
    num_batches = num_rows = num_bytes = 0
    for batch in batches:
        num_batches += 1
        num_rows += batch.num_rows
        num_bytes += batch.nbytes
    seconds = perf_counter() - started
    added = counters.total().since(before)
    result = {"rows": num_rows, "batches": num_batches, "bytes": num_bytes}
    reads = {"iops": added.read_iops, "bytes_read": added.read_bytes}
    return plan_step("Result", **result, **reads, elapsed=f"{seconds * 1000:.3f}ms") + "\n"


def fragment_lines(fragments: Sequence[Fragment]) -> Iterator[str]:
    """Yield a line about each fragment and its files."""
    for fragment in fragments:
        yield plan_step(
            f"Fragment {fragment.id}",
            rows=fragment.physical_rows,
            deleted=fragment.num_deleted_rows,
            files=fragment.data_file_paths,
        )


def plan_step(name: str, **values: object) -> str:
    """Return the line of a step."""
    return f"{name}: {', '.join(_shown(values))}"


def _shown(values: Mapping[str, object]) -> Iterator[str]:
    for name, value in values.items():
        text = f"[{', '.join(value)}]" if isinstance(value, (list, tuple)) else str(value)
        yield f"{name}={text}"
