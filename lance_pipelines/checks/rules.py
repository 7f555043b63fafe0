"""The checks: one function each, in :data:`RULES`.

=============  ===========================================================================  =======================
Check          Fails if                                                                      Reads
=============  ===========================================================================  =======================
rows           manifest, event, and files disagree on the number of rows                     up to 100 fragments
fragments      compaction is due                                                             manifest
deletions      a fragment has too many deleted rows                                          manifest
schema         columns were added, removed, or changed since the last evaluation              manifest
freshness      the last change of rows is older than allowed                                 one manifest
key_nulls      a key column contains nulls                                                   the key columns
key_unique     several rows have the same key                                                the key columns
orphans        files that no version references take too much space                          all manifests, names
verify         the doctor finds a problem, or a file contradicts the manifest                all footers
pylance        pylance cannot read the version, or counts a different number of rows         all rows
=============  ===========================================================================  =======================

The first five are cheap and also run after every ingest.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

import lance_core.metadata
from lance_core.errors import CorruptDataError, LanceError, StorageError, VersionNotFoundError
from lance_core.metadata import plan_cleanup
from lance_core.repair import diagnose, verify
from lance_pipelines.checks.unique_keys import find_duplicates, require_key_columns
from lance_pipelines.maintenance.evaluate import Due, Verdict, evaluate_compaction, evaluate_deletions
from lance_pipelines.maintenance.plan_table import amount, format_bytes, format_duration
from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy
from lance_pipelines.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.metadata import ClassifiedPath
    from lance_core.repair import Problem
    from lance_pipelines.checks.subject import CheckedVersion

__all__ = ["COLUMNS", "RULES", "Finding", "Rule", "evaluate"]

COLUMNS: Final = "columns"
"""Name of the recorded fact with which the next evaluation of the schema check compares the columns."""

_SAMPLED_FRAGMENTS: Final = 100
_NAMED: Final = 5
_REFERENCE_MODULE: Final = "lance"
_READ_BY_REFERENCE: Final = """
import importlib, json, sys
reference = importlib.import_module(sys.argv[1])
# Storage options may be secret, and the arguments of a process are not.
dataset = reference.dataset(sys.argv[2], version=int(sys.argv[3]), storage_options=json.load(sys.stdin))
dataset.validate()
print(json.dumps([dataset.count_rows(), sum(batch.num_rows for batch in dataset.to_batches())]))
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        passed: whether the version is as it should be.
        text: what was found, and where.
        facts: metadata values for the event: numbers, strings, and mappings of strings to strings.
    """

    passed: bool
    text: str
    facts: Mapping[str, int | float | str | dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check.

    Attributes:
        description: what a passed check guarantees.
        examine: examines a version.
        is_cheap: whether the cost of the check is independent of the number of rows and files.
    """

    description: str
    examine: Callable[[CheckedVersion], Finding]
    is_cheap: bool = False


def evaluate(name: str, subject: CheckedVersion) -> Finding:
    """Run one check. An error that the data causes is returned as a finding.

    Raises:
        StorageError: a storage operation failed, so the check has no result.
    """
    try:
        return RULES[name].examine(subject)
    except StorageError:
        raise
    except LanceError as error:
        return Finding(passed=False, text=str(error), facts={"error": error.kind.value})


def _check_rows(subject: CheckedVersion) -> Finding:
    rows = subject.health.rows
    facts = {"rows": rows}
    if subject.recorded_rows not in (None, rows):
        text = (
            f"the manifest records {amount(rows, 'row')}, but Dagster's event for this version records "
            f"{subject.recorded_rows}"
        )
        return Finding(passed=False, text=text, facts=facts)
    fragments = subject.dataset.get_fragments()
    places = np.unique(np.linspace(0, len(fragments) - 1, min(len(fragments), _SAMPLED_FRAGMENTS)).astype(int))
    for done, place in enumerate(places.tolist(), 1):
        fragments[place].validate()
        subject.report(Progress(stage="checking rows", tasks=done, total_tasks=len(places), unit="fragments"))
    event = "" if subject.recorded_rows is None else ", as Dagster's event for this version records"
    text = f"{amount(rows, 'row')}{event}; checked the files of {len(places)} of {amount(len(fragments), 'fragment')}"
    return Finding(passed=True, text=text, facts=facts)


def _check_fragments(subject: CheckedVersion) -> Finding:
    verdict = evaluate_compaction(subject.policy.compaction or CompactionPolicy(), subject.health)
    return _by_verdict(verdict, {"small_fragments": subject.health.small_fragments})


def _check_deletions(subject: CheckedVersion) -> Finding:
    verdict = evaluate_deletions(subject.policy.deletion or DeletionPolicy(), subject.health)
    return _by_verdict(verdict, {"deletion_ratio": subject.health.deletion_ratio})


def _by_verdict(verdict: Verdict, facts: Mapping[str, int | float]) -> Finding:
    return Finding(passed=not isinstance(verdict, Due), text=verdict.reason, facts=facts)


def _check_schema(subject: CheckedVersion) -> Finding:
    columns = {
        column.name: f"{column.type}{'' if column.nullable else ' not null'}" for column in subject.dataset.schema
    }
    earlier = subject.earlier_columns
    facts = {COLUMNS: columns}
    if earlier is None:
        text = f"{amount(len(columns), 'column')}; no earlier evaluation to compare with"
        return Finding(passed=True, text=text, facts=facts)
    changes = [f"{name} was added" for name in columns if name not in earlier]
    changes += [f"{name} was removed" for name in earlier if name not in columns]
    changes += [
        f"{name} changed from {earlier[name]} to {columns[name]}"
        for name in columns
        if name in earlier and earlier[name] != columns[name]
    ]
    text = "; ".join(changes) or f"{amount(len(columns), 'column')}, unchanged since the last evaluation"
    return Finding(passed=not changes, text=text, facts=facts)


def _check_freshness(subject: CheckedVersion) -> Finding:
    limit = subject.settings.max_age or timedelta.max
    is_known, committed = True, _committed_at(subject, subject.changed_version)
    if committed is None:
        # Removed by a cleanup: the rows are at least as old as the oldest version that is left.
        oldest = subject.dataset.version_refs()[0]["version"]
        is_known, committed = False, _committed_at(subject, oldest)
    if committed is None:
        return Finding(passed=True, text="the age of the rows is unknown, because a cleanup is removing old versions")
    age = datetime.fromtimestamp(subject.now, UTC) - committed
    shown = f"{'' if is_known else 'at least '}{format_duration(timedelta(seconds=round(age.total_seconds())))}"
    which = f" (version {subject.changed_version})" if subject.changed_version is not None else ""
    text = f"the rows last changed {shown} ago{which}; the limit is {format_duration(limit)}"
    return Finding(passed=age <= limit, text=text, facts={"age_seconds": round(age.total_seconds(), 1)})


def _committed_at(subject: CheckedVersion, version: int | None) -> datetime | None:
    if version is None:
        return None
    try:
        timestamp: datetime = subject.dataset.checkout_version(version).get_version()["timestamp"]
    except VersionNotFoundError:
        return None
    return timestamp.astimezone(UTC)


def _check_key_nulls(subject: CheckedVersion) -> Finding:
    require_key_columns(subject.dataset, subject.settings.key)
    found: list[str] = []
    total = 0
    for done, column in enumerate(subject.settings.key, 1):
        is_null = pc.field(column).is_null()
        number = subject.dataset.count_rows(filter=is_null)
        subject.report(
            Progress(stage="looking for nulls", tasks=done, total_tasks=len(subject.settings.key), unit="columns")
        )
        if number:
            total += number
            rows = subject.dataset.scanner(columns=[], filter=is_null, with_row_address=True, limit=1).to_table()
            address = rows["_rowaddr"][0].as_py()
            found.append(f"{column!r} is null in {amount(number, 'row')}, first in {_place(address)}")
    text = "; ".join(found) or f"no nulls in {_names(subject.settings.key)}"
    return Finding(passed=not found, text=text, facts={"nulls": total})


def _check_key_unique(subject: CheckedVersion) -> Finding:
    key = subject.settings.key
    result = find_duplicates(subject.dataset, key, subject.report)
    facts = {"duplicates": result.surplus_rows, "rows_examined": result.rows_examined}
    if not result.surplus_rows:
        text = f"no duplicate keys ({_names(key)}) in {amount(result.rows_examined, 'row')}"
        return Finding(passed=True, text=text, facts=facts)
    examples = "; ".join(
        f"{example.values} in {amount(example.num_rows, 'row')} "
        f"({' … '.join(_place(fragment << 32 | offset) for fragment, offset in example.addresses)})"
        for example in result.examples
    )
    number = f"{'' if result.is_exact else 'about '}{amount(result.surplus_rows, 'row')}"
    verb = "repeats" if result.surplus_rows == 1 else "repeat"
    text = f"{number} {verb} the key ({_names(key)}) of another row: {examples}"
    return Finding(passed=False, text=text, facts=facts)


def _place(address: int) -> str:
    return f"fragment {address >> 32}, offset {address & 0xFFFFFFFF}"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns)


def _check_orphans(subject: CheckedVersion) -> Finding:
    # A retention period that no version exceeds: whatever is still removable belongs to no version.
    policy = lance_core.metadata.CleanupPolicy.of(older_than=timedelta(days=36_500), error_if_tagged_old_versions=False)
    plan = plan_cleanup(subject.dataset, policy)
    removable, other = plan.removable, [*plan.possibly_needed, *plan.unrecognized]
    orphans = [*removable, *other]
    num_bytes = _total(orphans)
    limit = subject.settings.max_orphan_bytes
    text = f"{amount(len(orphans), 'file')} that no version references, {format_bytes(num_bytes)}"
    if orphans:
        named = ", ".join(file.path for file in sorted(orphans, key=lambda file: -file.num_bytes)[:_NAMED])
        text += f" (a cleanup can remove {format_bytes(_total(removable))}): {named}"
        text += ", …" if len(orphans) > _NAMED else ""
    if num_bytes > limit:
        text = f"{text}; the limit is {format_bytes(limit)}"
    facts = {"orphan_files": len(orphans), "orphan_bytes": num_bytes, "unfinished_bytes": _total(plan.protected)}
    return Finding(passed=num_bytes <= limit, text=text, facts=facts)


def _total(files: Sequence[ClassifiedPath]) -> int:
    return sum(file.num_bytes for file in files)


def _check_verify(subject: CheckedVersion) -> Finding:
    problems = diagnose(subject.dataset.log)
    if problems:
        named = "; ".join(_describe(problem) for problem in problems[:_NAMED])
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        text = f"lance-core doctor finds {amount(len(problems), 'problem')}: {named}{more}"
        return Finding(passed=False, text=text, facts={"problems": len(problems)})
    verify(
        subject.dataset,
        lambda done, total: subject.report(
            Progress(stage="verifying files", tasks=done, total_tasks=total, unit="fragments")
        ),
    )
    text = f"no problems; the files of {amount(len(subject.figures), 'fragment')} match the manifest"
    return Finding(passed=True, text=text, facts={"problems": 0})


def _describe(problem: Problem) -> str:
    branch = f" of branch {problem.branch}" if problem.branch else ""
    return f"{problem.kind} {problem.place}{branch} ({problem.advice})"


def _check_pylance(subject: CheckedVersion) -> Finding:
    if importlib.util.find_spec(_REFERENCE_MODULE) is None:
        return Finding(passed=True, text="skipped: pylance is not installed (pip install pylance)")
    # In another process: its threads do not survive a fork of this one.
    command = [sys.executable, "-c", _READ_BY_REFERENCE, _REFERENCE_MODULE, subject.dataset.uri, str(subject.version)]
    done = subprocess.run(
        command, input=json.dumps(subject.dataset.storage_options), capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"the process exited with code {done.returncode}"])[-1]
        raise CorruptDataError(f"pylance could not read version {subject.version}: {reason}")
    counted, read = json.loads(done.stdout)
    if not counted == read == subject.health.rows:
        text = f"pylance counted {amount(counted, 'row')} and read {read}; expected {subject.health.rows}"
        return Finding(passed=False, text=text)
    return Finding(passed=True, text=f"pylance validated the version and read {amount(read, 'row')}")


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "rows": Rule(
            description="The manifest, Dagster's event, and the data files agree on the number of rows.",
            examine=_check_rows,
            is_cheap=True,
        ),
        "fragments": Rule(
            description="The number of small fragments is below the threshold for compaction.",
            examine=_check_fragments,
            is_cheap=True,
        ),
        "deletions": Rule(
            description="No fragment has so many deleted rows that it needs to be rewritten.",
            examine=_check_deletions,
            is_cheap=True,
        ),
        "schema": Rule(
            description="The columns have not changed since the last evaluation.", examine=_check_schema, is_cheap=True
        ),
        "freshness": Rule(
            description="The last commit that changed rows is recent.", examine=_check_freshness, is_cheap=True
        ),
        "key_nulls": Rule(description="The key contains no nulls.", examine=_check_key_nulls),
        "key_unique": Rule(description="No two rows have the same key.", examine=_check_key_unique),
        "orphans": Rule(
            description="Files that no version references do not take up too much space.", examine=_check_orphans
        ),
        "verify": Rule(
            description="lance-core doctor finds no problems, and every file matches the manifest.",
            examine=_check_verify,
        ),
        "pylance": Rule(
            description="pylance, the reference implementation, can read the version.", examine=_check_pylance
        ),
    }
)
"""Maps the name of each check to its rule, cheap ones first."""
