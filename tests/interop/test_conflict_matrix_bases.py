"""New base paths and reserved fragment ids conflict with every other operation exactly as in pylance.

The reference commits base paths by a method of the dataset and reserves ids only within a compaction. A clone is the
first version of another table, so that no operation is concurrent with it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.errors import CommitConflictError, InvalidInputError
from tests.support.matrix_operations import OPERATIONS, build_all, create_table, to_ours

pytestmark = pytest.mark.usefixtures("overlays")


def _outcome(commit: Callable[[], object]) -> str:
    """Return whether the commit succeeds, conflicts, or is refused for another reason."""
    try:
        commit()
    except (CommitConflictError, InvalidInputError):
        return "refused"
    except (OSError, ValueError, RuntimeError):
        return "refused"
    return "committed"


def _bases(module: object, root: Path, *names: str) -> list[object]:
    return [module.DatasetBasePath(str(root / name), name) for name in names]


def _facts(uri: Path) -> tuple[object, ...]:
    message = lance_core.dataset(str(uri)).manifest.message
    fragments = [(each.id, each.physical_rows, each.deletion_file.num_deleted_rows) for each in message.fragments]
    bases = sorted((base.id, base.name, base.path) for base in message.base_paths)
    return message.version, fragments, bases, message.max_fragment_id


@pytest.mark.parametrize(
    "first",
    [
        "bases by theirs",
        pytest.param("bases by ours", marks=pytest.mark.slow),
        pytest.param("reserved by ours", marks=pytest.mark.slow),
    ],
)
def test_every_operation_after_base_paths_or_reservations_conflicts_as_in_pylance(first: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    version = create_table("plain", str(path))
    planned = build_all(lance.dataset(str(path)))
    if first == "reserved by ours":
        lance_core.LanceDataset.commit(str(path), lance_core.LanceOperation.ReserveFragments(3), read_version=version)
    else:
        module = lance if first == "bases by theirs" else lance_core
        module.dataset(str(path)).add_bases(_bases(module, tmp_path, "one"))
    wrong = []
    for name, operation in planned.items():
        twins = [tmp_path / side for side in ("theirs", "ours")]
        for twin in twins:
            shutil.copytree(path, twin)
        expected = _outcome(lambda o=operation, u=twins[0]: lance.LanceDataset.commit(str(u), o, read_version=version))
        found = _outcome(
            lambda o=operation, u=twins[1]: lance_core.LanceDataset.commit(str(u), to_ours(o), read_version=version)
        )
        if expected != found or _facts(twins[0]) != _facts(twins[1]):
            wrong.append((name, expected, found, *map(_facts, twins)))
        for twin in twins:
            shutil.rmtree(twin)
    assert not wrong, "\n".join(map(str, wrong))


def test_new_base_paths_after_every_operation_conflict_as_in_pylance(tmp_path: Path) -> None:
    path = tmp_path / "table"
    version = create_table("plain", str(path))
    planned = build_all(lance.dataset(str(path)))
    wrong = []
    for name in OPERATIONS:
        twins = [tmp_path / side for side in ("theirs", "ours")]
        for twin in twins:
            shutil.copytree(path, twin)
            lance.LanceDataset.commit(str(twin), planned[name], read_version=version)
        outcomes = [
            _outcome(lambda m=module, u=twin: m.dataset(str(u), version=version).add_bases(_bases(m, tmp_path, "one")))
            for module, twin in zip((lance, lance_core), twins, strict=True)
        ]
        if outcomes[0] != outcomes[1] or _facts(twins[0]) != _facts(twins[1]):
            wrong.append((name, *outcomes, *map(_facts, twins)))
        for twin in twins:
            shutil.rmtree(twin)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("second", [("two",), ("one",), ("two", "one")])
@pytest.mark.parametrize("first", [lance, lance_core])
def test_concurrently_added_base_paths_conflict_as_in_pylance(
    first: object, second: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "table"
    version = create_table("plain", str(path))
    first.dataset(str(path)).add_bases(_bases(first, tmp_path, "one"))
    outcomes = []
    for module in (lance, lance_core):
        twin = tmp_path / f"by {module.__name__}"
        shutil.copytree(path, twin)
        stale = module.dataset(str(twin), version=version)
        outcomes.append(
            (_outcome(lambda s=stale, m=module: s.add_bases(_bases(m, tmp_path, *second))), *_facts(twin)[1:])
        )
    assert outcomes[0] == outcomes[1]
