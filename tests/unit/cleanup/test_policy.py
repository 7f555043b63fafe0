"""The settings of a cleanup."""

import math
from datetime import timedelta

import numpy as np
import pytest

from lance_core.cleanup.policy import CleanupPolicy
from lance_core.errors import InvalidCleanupError, InvalidTypeError

DAY_NS = 86_400 * 1_000_000_000
NOW = 100 * DAY_NS
NUMBERS = ["retain_versions", "delete_rate_limit", "delete_concurrency"]
SWITCHES = ["delete_unverified", "error_if_tagged_old_versions"]


def _selected(policy: CleanupPolicy, versions: list[int]) -> list[int]:
    """Return the selected versions, where version n was committed on day n."""
    rule = policy.rule(versions, NOW)
    return [version for version in versions if rule.selects(version, version * DAY_NS)]


def test_cleanup_policy_without_settings_keeps_versions_of_the_last_two_weeks() -> None:
    assert CleanupPolicy.of().older_than == timedelta(days=14)
    assert CleanupPolicy.of(retain_versions=1).older_than is None
    assert CleanupPolicy.of(versions=[1]).older_than is None
    assert CleanupPolicy.of(timedelta(0)).older_than is None


@pytest.mark.parametrize(
    ("policy", "selected"),
    [
        (CleanupPolicy.of(), [80, 85]),
        (CleanupPolicy.of(timedelta(days=10)), [80, 85]),
        (CleanupPolicy.of(timedelta(days=10, microseconds=-1)), [80, 85, 90]),
        (CleanupPolicy.of(timedelta(0)), [80, 85, 90, 95, 99]),
        (CleanupPolicy.of(retain_versions=2), [80, 85, 90]),
        (CleanupPolicy.of(retain_versions=5), []),
        (CleanupPolicy.of(retain_versions=50), []),
        (CleanupPolicy.of(timedelta(days=12), 1), [80, 85]),
        (CleanupPolicy.of(timedelta(days=1), 4), [80]),
        (CleanupPolicy.of(versions=[85, 99, 100]), [85, 99]),
        (CleanupPolicy.of(versions=[85, 99], retain_versions=1), [85]),
        (CleanupPolicy.of(timedelta(days=200)), []),
    ],
)
def test_cleanup_policy_removes_only_versions_that_meet_every_condition(
    policy: CleanupPolicy, selected: list[int]
) -> None:
    assert _selected(policy, [80, 85, 90, 95, 99]) == selected


def test_cleanup_policy_accepts_numpy_integers() -> None:
    policy = CleanupPolicy.of(retain_versions=np.int64(3), versions=np.array([1, 2]), delete_rate_limit=np.int32(5))
    assert (policy.retain_versions, policy.versions, policy.delete_rate_limit) == (3, frozenset({1, 2}), 5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"older_than": timedelta(seconds=-1)},
        {"retain_versions": 0},
        {"retain_versions": -1},
        {"versions": []},
        {"versions": [1, -1]},
        {"delete_rate_limit": 0},
        {"delete_concurrency": 0},
    ],
)
def test_cleanup_policy_with_a_value_out_of_range_raises_invalid_cleanup(arguments: dict) -> None:
    with pytest.raises(InvalidCleanupError, match=next(iter(arguments))):
        CleanupPolicy.of(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        *({"older_than": value} for value in (14, "14", math.nan, True, np.timedelta64(14, "D"))),
        *({name: value} for name in NUMBERS for value in (1.0, math.nan, "3", b"3", True, np.True_, [3], {})),
        *({"versions": value} for value in (5, math.nan, "12", b"12", ["a"], [1.0], [True], [None], [[1]])),
        *({name: value} for name in SWITCHES for value in (0, 1, "no", "", [], math.nan)),
    ],
    ids=repr,
)
def test_cleanup_policy_with_a_value_of_the_wrong_type_raises_invalid_type(arguments: dict) -> None:
    with pytest.raises(InvalidTypeError, match=next(iter(arguments))) as caught:
        CleanupPolicy.of(**arguments)
    assert isinstance(caught.value, TypeError)


def test_cleanup_policy_accepts_numpy_booleans_and_none() -> None:
    policy = CleanupPolicy.of(delete_unverified=np.True_, error_if_tagged_old_versions=np.False_)
    assert (policy.delete_unverified, policy.error_if_tagged_old_versions) == (True, False)
    policy = CleanupPolicy.of(delete_unverified=None, error_if_tagged_old_versions=None)
    assert (policy.delete_unverified, policy.error_if_tagged_old_versions) == (False, True)


def test_cleanup_policy_accepts_versions_from_any_iterable() -> None:
    for versions in ((1, 2), {1, 2}, range(1, 3), iter([1, 2]), np.array([1, 2])):
        assert CleanupPolicy.of(versions=versions).versions == {1, 2}
