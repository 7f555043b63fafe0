"""The commands that look for problems: ``verify`` and ``doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lance_core.cleanup.durations import parse_duration
from lance_core.cli.answers import EXIT_FINE, EXIT_PROBLEMS, Answer
from lance_core.cli.progress import shown_progress
from lance_core.places.location import open_log
from lance_core.repair import diagnose, find_faults, repair

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["doctor", "verify"]


def verify(given: Namespace) -> Answer:
    """Find everything that is wrong with a dataset."""
    with shown_progress("fragments") as on_fragment:
        found = list(
            find_faults(open_log(given.dataset, None), given.version, reads_pages=given.pages, on_fragment=on_fragment)
        )
    lines = [f"{fault.place}: {fault.message}" for fault in found] or ["no problems found"]
    document = {"dataset": given.dataset, "problems": [asdict(fault) for fault in found]}
    return Answer(document, lines, EXIT_PROBLEMS if found else EXIT_FINE)


def doctor(given: Namespace) -> Answer:
    """Report problems left behind by crashed writers, and repair them on request."""
    log = open_log(given.dataset, None)
    lines: list[str] = []
    entries: list[dict[str, Any]] = []
    for problem in diagnose(log, min_age=parse_duration(given.min_age)):
        age = "" if problem.age_seconds is None else f", {problem.age_seconds / 86_400:.1f} days old"
        is_repaired = False
        if problem.reason:
            outcome = f"cannot be repaired: {problem.reason}"
        elif given.apply and problem.is_repairable:
            is_repaired = repair(log, problem)
            outcome = "repaired" if is_repaired else "not repaired: the problem has changed since it was diagnosed"
        elif problem.is_repairable or problem.is_named_only:
            outcome = problem.advice
        else:
            outcome = f"not old enough to repair ({problem.advice})"
        line = f" of branch {problem.branch}" if problem.branch else ""
        lines.append(f"{problem.kind} {problem.place}{line}{age}: {outcome}")
        entries.append(
            {
                "kind": problem.kind.value,
                "branch": problem.branch or None,
                "place": problem.place,
                "age_seconds": problem.age_seconds,
                "is_repairable": problem.is_repairable,
                "is_repaired": is_repaired,
                "outcome": outcome,
            }
        )
    remaining = any(not entry["is_repaired"] for entry in entries)
    document = {"dataset": given.dataset, "problems": entries}
    return Answer(document, lines or ["no problems found"], EXIT_PROBLEMS if remaining else EXIT_FINE)
