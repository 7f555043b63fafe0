"""Random deletes, all planned on an early version and committed one after the other.

The model is a set of rows per fragment. A delete is committed unless one of its rows or fragments was removed; then
the table is unchanged.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_core.io.memory_store import MemoryStore
from lance_core.table.version_log import VersionLog
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import Committed, Conflicted
from lance_core.transactions.transaction import Transaction
from tests.support.commits import commit_transaction
from tests.support.deletes import deleted_rows, planned_delete
from tests.support.records import fragment, overwrite

NUM_FRAGMENTS = 3
NUM_ROWS = 6
Rows = dict[int, frozenset[int]]

DELETES: st.SearchStrategy[list[Rows]] = st.lists(
    st.dictionaries(
        st.integers(0, NUM_FRAGMENTS - 1),
        st.frozensets(st.integers(0, NUM_ROWS - 1), min_size=1),
        min_size=1,
        max_size=NUM_FRAGMENTS,
    ),
    min_size=1,
    max_size=6,
)


def _commit(log: VersionLog, transaction: Transaction, rows: dict[int, BitMap] | None) -> bool:
    """Return whether the delete was committed; the only other permitted outcome is a retryable conflict."""
    settings = CommitOptions(affected_rows=rows, rng=random.Random(1), wait=lambda seconds: None)
    outcome = commit_transaction(log, transaction, settings)
    if isinstance(outcome, Committed):
        return True
    assert isinstance(outcome, Conflicted)
    assert outcome.verdict is Verdict.RETRYABLE
    return False


def _table() -> VersionLog:
    log = VersionLog(MemoryStore(), "table")
    assert _commit(log, overwrite(*(fragment(NUM_ROWS) for _ in range(NUM_FRAGMENTS))), None)
    return log


def _live(log: VersionLog) -> dict[int, set[int]]:
    manifest = log.read(log.latest())
    return {each: set(range(NUM_ROWS)) - set(rows) for each, rows in deleted_rows(log, manifest).items()}


def _lands(model: dict[int, set[int]], rows: Rows) -> bool:
    everything = set(range(NUM_ROWS))
    return all(
        fragment_id in model
        and offsets <= model[fragment_id]
        # A fragment that the delete removes entirely must be unchanged.
        and (offsets != everything or model[fragment_id] == everything)
        for fragment_id, offsets in rows.items()
    )


@given(deletes=DELETES)
@settings(max_examples=60, deadline=None)
def test_stale_deletes_are_committed_only_if_their_rows_still_exist(deletes: list[Rows]) -> None:
    log = _table()
    bitmaps = [{each: BitMap(offsets) for each, offsets in rows.items()} for rows in deletes]
    planned = [planned_delete(log, 1, rows) for rows in bitmaps]
    model = {each: set(range(NUM_ROWS)) for each in range(NUM_FRAGMENTS)}
    for transaction, rows, offsets in zip(planned, bitmaps, deletes, strict=True):
        expected = _lands(model, offsets)
        assert _commit(log, transaction, rows) is expected
        if expected:
            model = {each: live - offsets.get(each, frozenset()) for each, live in model.items()}
            model = {each: live for each, live in model.items() if live}
        assert _live(log) == model
    latest = log.read(log.latest())
    assert latest.message.max_fragment_id == NUM_FRAGMENTS - 1
    assert bool(latest.message.reader_feature_flags & 1) is any(each.deletion_file for each in latest.fragments)


@given(deletes=DELETES)
@settings(max_examples=30, deadline=None)
def test_stale_deletes_without_affected_rows_are_committed_only_on_unchanged_fragments(deletes: list[Rows]) -> None:
    log = _table()
    planned = [planned_delete(log, 1, {each: BitMap(offsets) for each, offsets in rows.items()}) for rows in deletes]
    touched: set[int] = set()
    for transaction, offsets in zip(planned, deletes, strict=True):
        expected = touched.isdisjoint(offsets)
        assert _commit(log, transaction, None) is expected
        if expected:
            touched.update(offsets)
