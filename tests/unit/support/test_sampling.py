"""The cases of a sampled test that run by default."""

import itertools

from tests.support.sampling import samples


def _grid(*sizes: int) -> dict[str, dict[str, int]]:
    places = itertools.product(*(range(size) for size in sizes))
    return {str(place): {f"p{number}": value for number, value in enumerate(place)} for place in places}


def test_samples_contain_every_value_of_every_parameter_when_possible() -> None:
    cases = _grid(7, 5, 3)
    chosen = samples(cases, 7)
    assert len(chosen) == 7
    seen = {pair for name in chosen for pair in cases[name].items()}
    assert seen == {pair for case in cases.values() for pair in case.items()}


def test_samples_do_not_depend_on_the_order_of_the_cases() -> None:
    cases = _grid(6, 4)
    assert samples(cases, 8) == samples(dict(reversed(cases.items())), 8)


def test_sample_larger_than_the_number_of_cases_contains_every_case() -> None:
    assert samples(_grid(2, 2), 9) == set(_grid(2, 2))
