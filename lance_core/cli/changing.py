"""The commands that create versions or remove files: ``restore``, ``plan``, and ``apply``.

A plan is a JSON document, which ``apply`` executes later, possibly after someone has reviewed it. If the dataset has
changed in such a way that the plan would have a different effect or undo a change, ``apply`` does not execute it.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.api.open_dataset import dataset
from lance_core.cleanup.durations import parse_duration
from lance_core.cleanup.plan import plan_for
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.cli.answers import Answer
from lance_core.cli.progress import shown_progress
from lance_core.compaction.commit_rewrites import commit_rewrites
from lance_core.compaction.plan import CompactionPlan, make_plan
from lance_core.compaction.result import content_key
from lance_core.errors import InvalidInputError, RetryableCommitConflictError
from lance_core.public.json_document import mapping, nullable, parse_document, text, whole
from lance_core.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from lance_core.api.dataset import LanceDataset
    from lance_core.cleanup.plan import CleanupPlan
    from lance_core.cleanup.records import CleanupCandidateFile

__all__ = ["apply_plan", "plan_cleanup", "plan_compaction", "plan_deletions", "restore"]

_MAX_FILES: Final = 2**62
_MAX_I64: Final = 2**63


def restore(given: Namespace) -> Answer:
    """Create a version with the content of an earlier one."""
    table = dataset(given.dataset).checkout_version(given.version)
    restored = table.version
    table.restore()
    document = {"dataset": given.dataset, "restored_version": restored, "version": table.version}
    return Answer(document, [f"version {table.version} has the content of version {restored}"])


def plan_compaction(given: Namespace) -> Answer:
    """Plan to rewrite small fragments, and fragments with many deleted rows."""
    options = {} if given.target_rows is None else {"target_rows_per_fragment": given.target_rows}
    return _planned_rewrites(given, make_plan(dataset(given.dataset).view, options))


def plan_deletions(given: Namespace) -> Answer:
    """Plan to rewrite only the fragments whose fraction of deleted rows exceeds a threshold."""
    table = dataset(given.dataset)
    many = [
        fragment.fragment_id
        for fragment in table.get_fragments()
        if fragment.num_deletions > given.threshold * fragment.physical_rows
    ]
    options = {"materialize_deletions_threshold": given.threshold}
    return _planned_rewrites(given, make_plan(table.view, options, only=many))


def _planned_rewrites(given: Namespace, plan: CompactionPlan) -> Answer:
    figures = plan.figures
    lines = [
        f"rewrite {counted(figures.rewritten_fragments, 'fragment')} of version {plan.read_version} in "
        f"{counted(plan.num_tasks(), 'task')}",
        f"fragments: {figures.fragments_before} before, {figures.fragments_after} after",
        f"deleted rows: {figures.deleted_rows} before, {figures.deleted_rows_after} after",
        f"to rewrite: {counted(figures.rewritten_rows, 'row')}, {counted(figures.rewritten_bytes, 'byte')}",
    ]
    return _planned(given, "rewrite", json.loads(plan.json()), lines)


def plan_cleanup(given: Namespace) -> Answer:
    """Plan to remove old versions, and files that no version refers to."""
    policy = {
        "older_than": given.older_than,
        "retain_versions": given.retain_versions,
        "planned_at_ns": time.time_ns(),
    }
    plan = _cleanup(dataset(given.dataset), policy)
    explanation = plan.explanation(include_files=True, max_files=_MAX_FILES)
    stats = explanation.stats
    lines = [
        f"remove {counted(stats.old_versions, 'version')}: {counted(len(explanation.candidate_files), 'file')}, "
        f"{counted(stats.bytes_removed, 'byte')} in total",
        *(f"  {file.path}" for file in explanation.candidate_files),
    ]
    return _planned(given, "cleanup", {**policy, "files": _files(explanation.candidate_files)}, lines)


def _planned(given: Namespace, action: str, plan: dict[str, Any], lines: list[str]) -> Answer:
    document = {"dataset": given.dataset, "action": action, "plan": plan}
    if given.output is not None:
        try:
            Path(given.output).write_text(json.dumps(document, indent=2), encoding="utf-8")
        except OSError as error:
            raise InvalidInputError(f"cannot write {given.output}: {error.strerror}") from error
    return Answer(document, lines)


def apply_plan(given: Namespace) -> Answer:
    """Execute a plan that was saved as a file."""
    try:
        document = parse_document("plan", Path(given.plan).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read {given.plan}: {getattr(error, 'strerror', None) or error}") from error
    uri, action = document.take("dataset", text), document.take("action", text)
    if action not in _ACTIONS:
        raise InvalidInputError(f"plan: unknown action {action!r}; known actions: {', '.join(_ACTIONS)}")
    return document.take("plan", lambda value, where: _ACTIONS[action](uri, dict(mapping(value, where))))


def _rewrite(uri: str, plan: dict[str, Any]) -> Answer:
    table = dataset(uri)
    planned = CompactionPlan.from_json(json.dumps(plan))
    current = {content_key(fragment.metadata) for fragment in table.get_fragments()}
    changed = [each.id for task in planned.tasks for each in task.fragments if content_key(each) not in current]
    if changed:
        raise RetryableCommitConflictError(
            f"the plan is based on version {planned.read_version}, but these fragments have changed since: {changed}; "
            "nothing was rewritten; plan again"
        )
    results = []
    with shown_progress("tasks") as on_task:
        for done, task in enumerate(planned.tasks, 1):
            results.append(task.execute(table))
            on_task(done, len(planned.tasks))
    outcome = commit_rewrites(table, results)
    if outcome.lost:
        raise RetryableCommitConflictError(
            f"{len(outcome.lost)} of {counted(len(results), 'task')} could not be committed, because another "
            "writer changed their fragments in the meantime; plan again"
        )
    metrics = asdict(outcome.metrics)
    line = f"replaced {counted(metrics['fragments_removed'], 'fragment')} with {metrics['fragments_added']}"
    return Answer({"dataset": uri, "version": table.version, "metrics": metrics}, [line])


def _clean_up(uri: str, plan: dict[str, Any]) -> Answer:
    files = plan.pop("files", None)
    current = _cleanup(dataset(uri), plan)
    removable = current.explanation(include_files=True, max_files=_MAX_FILES).candidate_files
    if files != _files(removable):
        raise RetryableCommitConflictError(
            "the files that can be removed have changed since the cleanup was planned; nothing was removed; plan again"
        )
    with shown_progress("files") as on_batch:
        stats = asdict(current.execute(lambda num_files, num_bytes: on_batch(num_files, len(removable))))
    line = f"removed {counted(stats['old_versions'], 'version')}, {counted(stats['bytes_removed'], 'byte')}"
    return Answer({"dataset": uri, "stats": stats}, [line])


def _cleanup(table: LanceDataset, policy: dict[str, Any]) -> CleanupPlan:
    """Plan a cleanup again, as of the time of the original plan."""
    checked = parse_document("plan", json.dumps(policy))
    older_than = checked.take("older_than", nullable(text))
    retained = checked.take("retain_versions", nullable(whole(0, _MAX_I64)))
    chosen = CleanupPolicy.of(
        None if older_than is None else parse_duration(older_than), retained, error_if_tagged_old_versions=False
    )
    view = table.view
    return plan_for(view.log, view.manifest, chosen, now_ns=checked.take("planned_at_ns", whole(0, _MAX_I64)))


def _files(files: list[CleanupCandidateFile]) -> list[dict[str, Any]]:
    return [{"path": file.path, "kind": str(file.kind), "num_bytes": file.size_bytes} for file in files]


_ACTIONS: Final[MappingProxyType[str, Callable[[str, dict[str, Any]], Answer]]] = MappingProxyType(
    {"rewrite": _rewrite, "cleanup": _clean_up}
)
