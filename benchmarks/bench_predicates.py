"""Predicates by lance_core's own kernels and by DataFusion: agreement with pylance, and time per batch.

    python benchmarks/bench_predicates.py                                   # a minute or two
    python benchmarks/bench_predicates.py --predicates 50 --rows 100 --runs 1      # seconds: does it work?

The predicates of the first table are those of the property tests, over tables of all types. Both engines evaluate a
predicate in turn; a time is the least of the runs, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lance
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from rich.console import Console
from rich.table import Table

from lance_core.errors import LanceError
from lance_core.predicate.predicate import Predicate
from lance_core.schema.convert import schema_from_arrow

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "property"))
import test_predicate_precedence
import test_predicate_types
import test_predicates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENGINES: Final[dict[str, Callable[..., Predicate]]] = {
    "own kernels": Predicate._of_text,
    "DataFusion": lambda schema, text: Predicate._of_engine(schema, text, LanceError(text)),
}
TIMED: Final = (
    "k < 100",
    "k % 7 = 3 and x > 0",
    "s like '%99@%' and x > 0",
    "lower(s) = 'user5@5.org'",
    "x = 0 or x < -3",
    "t > timestamp '1990-01-01 00:00:00'",
    "k in (1, 2, 3, 5, 8, 13)",
    "s in ('a', 'b', 'user3@3.org')",
)


def main() -> None:
    """Compare answers, then times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--predicates", type=int, default=1000, help="number of predicates of each generator")
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 10_000, 1_000_000])
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    console = Console()
    agreement = Table(
        "predicates", "engine", "same rows", "both refuse", "refused here alone", "by pylance alone", "other"
    )
    for name, table, predicates in generated(given.predicates):
        for engine, counts in compared(table, predicates):
            kinds = ("same", "both", "here", "pylance", "other")
            agreement.add_row(f"{len(predicates)} {name}", engine, *(str(counts[kind]) for kind in kinds))
    console.print(agreement)
    times = Table("rows", "predicate", *(f"{engine}, µs" for engine in ENGINES))
    for num_rows in given.rows:
        batch = numbered(num_rows)
        for text in TIMED:
            predicates = [plan(schema_from_arrow(batch.schema), text) for plan in ENGINES.values()]
            found = [least(lambda each=each, batch=batch: each.matches(batch), given.runs) for each in predicates]
            times.add_row(f"{num_rows:,}", text, *(f"{1e6 * seconds:,.0f}" for seconds in found))
    console.print(times)


def generated(number: int) -> Iterator[tuple[str, pa.Table, list[str]]]:
    """Yield the name of each generator, its table, and its predicates."""
    yield "conditions", test_predicates._rows(7, 240), drawn(test_predicates.CONDITIONS, number)
    precedence = test_predicate_precedence
    yield "without parentheses", precedence.ROWS, drawn(precedence.MIXTURES, number)
    types = test_predicate_types
    for name in ("mild", "wild"):
        mixed = [mixture(seed) for seed in range(number)]
        yield f"of mixed types, {name} values", types._table(types.NAMES, is_wild=name == "wild"), mixed


def drawn(strategy: object, number: int) -> list[str]:
    """Return examples of a strategy, the same ones in every run."""
    examples: dict[str, None] = {}

    @settings(max_examples=number, deadline=None, derandomize=True, database=None, suppress_health_check=HealthCheck)
    @given(strategy)
    def collect(example: str) -> None:
        examples[example] = None

    collect()
    return list(examples)


def mixture(seed: int) -> str:
    """Return a predicate on columns and literals of any types."""
    choose = random.Random(seed)
    types = test_predicate_types
    operands = (choose.choice(types.NAMES), *(choose.choice(list(types.OPERANDS)) for _ in range(2)))
    return choose.choice(types.FORMS).format(*operands)


def compared(table: pa.Table, predicates: list[str]) -> Iterator[tuple[str, Counter[str]]]:
    """Yield how often each engine answers as pylance does."""
    with tempfile.TemporaryDirectory() as directory:
        theirs = lance.write_dataset(table, directory, data_storage_version="2.2")
        expected = [
            answered(lambda text=text: theirs.to_table(filter=text, columns=[], with_row_id=True)["_rowid"].to_pylist())
            for text in predicates
        ]
    schema, [batch] = schema_from_arrow(table.schema), table.combine_chunks().to_batches()
    for engine, plan in ENGINES.items():
        found = [
            answered(lambda text=text, plan=plan: np.flatnonzero(plan(schema, text).matches(batch)).tolist())
            for text in predicates
        ]
        yield engine, Counter(map(outcome, found, expected))


def answered(ask: Callable[[], list[int]]) -> list[int] | None:
    """Return the matching rows, or None for a predicate that is refused."""
    try:
        return ask()
    except BaseException as error:  # a panic in Rust is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def outcome(found: list[int] | None, expected: list[int] | None) -> str:
    """Return the kind of an answer."""
    if found is None or expected is None:
        return {(True, True): "both", (True, False): "here", (False, True): "pylance"}[found is None, expected is None]
    return "same" if found == expected else "other"


def numbered(num_rows: int) -> pa.RecordBatch:
    """Return rows for the predicates that are timed."""
    rng = np.random.default_rng(0)
    return pa.RecordBatch.from_pydict(
        {
            "k": rng.integers(0, 10**6, num_rows),
            "x": rng.normal(size=num_rows).astype(np.float32),
            "s": [f"user{number}@{number % 100}.org" for number in range(num_rows)],
            "t": pa.array(rng.integers(0, 10**15, num_rows)).cast(pa.timestamp("us")),
        }
    )


def least(run: Callable[[], object], runs: int) -> float:
    """Return the seconds of the fastest run."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


if __name__ == "__main__":
    main()
