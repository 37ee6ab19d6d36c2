"""Margins of robust statistics: looked for among all small data sets, and one record changes them by one at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import combinations_with_replacement
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.errors import FedprivError
from fedpriv.estimation.margins import (
    margin_by_sensitivity,
    median_margin,
    mode_margin,
    rank_margin,
    trimmed_margin,
)
from fedpriv.trust import Adjacency

VALUES = range(4)
FAR = 99
Data = tuple[int, ...]  # rising
TAUS = (0.5, 1.0, 1.5, 2.5)


def data_sets(sizes: Iterable[int]) -> list[Data]:
    return [own for n in sizes for own in combinations_with_replacement(VALUES, n)]


@cache
def neighbours(data: Data, adjacency: Adjacency) -> set[Data]:
    fewer = [data[:i] + data[i + 1 :] for i in range(len(data))]
    if adjacency == "add-remove":
        return {*fewer, *(tuple(sorted((*data, value))) for value in VALUES)}
    return {tuple(sorted((*own, value))) for own in fewer for value in VALUES}


def distances(
    statistic: Callable[[Data], float], data: list[Data], tau: float, adjacency: Adjacency
) -> dict[Data, int]:
    """How many changes there are from each data set to one whose statistic a neighbour moves by more than τ."""
    known = set(data)
    found = {
        own: 0 for own in data if max(abs(statistic(own) - statistic(x)) for x in neighbours(own, adjacency)) > tau
    }
    queue = list(found)
    while queue:
        own = queue.pop(0)
        for other in neighbours(own, adjacency):
            if other in known and other not in found:
                found[other] = found[own] + 1
                queue.append(other)
    return {own: found.get(own, FAR) for own in data}


def at_rank(rank: int, data: Data) -> float:
    return data[rank - 1]


def quartiles(data: Data) -> tuple[int, int]:
    return ceil(len(data) / 4), len(data) + 1 - ceil(len(data) / 4)


def between_quartiles(data: Data) -> float:
    low, high = quartiles(data)
    return data[high - 1] - data[low - 1]


def median(data: Data) -> float:
    return data[(len(data) + 1) // 2 - 1] if data else 0


def most_frequent(data: Data) -> float:
    return min(Counter(data).items(), key=lambda own: (-own[1], own[0]))[0] if data else 0


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("tau", TAUS)
def test_the_margin_of_a_rank_is_the_number_of_replacements_that_an_attacker_needs(n: int, tau: float) -> None:
    for rank in range(1, n + 1):
        exact = distances(partial(at_rank, rank), data_sets([n]), tau, "replace")
        assert {own: rank_margin(own, rank, tau, most=FAR, low=0, high=3) for own in exact} == exact


@pytest.mark.parametrize("tau", TAUS)
def test_the_margin_of_a_median_is_the_number_of_records_that_must_come_or_go(tau: float) -> None:
    exact = distances(median, data_sets(range(9)), tau, "add-remove")  # of up to 8 records, to get at those of up to 5
    for data in data_sets(range(6)):
        found = median_margin(data, tau, most=FAR, low=0, high=3, adjacency="add-remove")
        assert found == exact[data]
    for data in data_sets([5]):
        assert median_margin(data, tau, most=FAR, low=0, high=3) == rank_margin(data, 3, tau, most=FAR, low=0, high=3)


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("tau", TAUS)
def test_the_margin_between_quartiles_is_never_more_than_an_attacker_needs(n: int, tau: float) -> None:
    exact = distances(between_quartiles, data_sets([n]), tau, "replace")
    for data, needed in exact.items():
        assert min(rank_margin(data, rank, tau, most=FAR, low=0, high=3) for rank in quartiles(data)) <= needed


@pytest.mark.parametrize(("adjacency", "sizes"), [("replace", range(1, 7)), ("add-remove", range(9))])
def test_the_margin_of_a_mode_is_never_more_than_an_attacker_needs(adjacency: Adjacency, sizes: range) -> None:
    groups = [[n] for n in sizes] if adjacency == "replace" else [sizes]
    for group in groups:
        exact = distances(most_frequent, data_sets(group), 0.0, adjacency)
        assert all(mode_margin(own, adjacency) <= exact[own] for own in exact if len(own) <= 6)


def trimmed(kept: int, data: Data) -> float:
    return sum(data[:kept])


@pytest.mark.parametrize("cut", [1, 2, 3])
@pytest.mark.parametrize("tau", [1.0, 2.0])
def test_a_trimmed_sum_with_a_margin_moves_by_no_more_than_it_says(cut: int, tau: float) -> None:
    for data in data_sets(range(6)):
        own = sum(data[: max(len(data) - cut, 0)])
        for adjacency, most in (("replace", 2 * tau), ("add-remove", tau)):
            for other in neighbours(data, adjacency):  # type: ignore[arg-type]
                pair = [trimmed_margin(each, tau, cut) for each in (data, other)]
                assert abs(pair[0] - pair[1]) <= 1
                if max(pair) > 0:
                    assert abs(own - sum(other[: max(len(other) - cut, 0)])) <= most


numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


@given(numbers, st.floats(0, 1e6), st.floats(-2e6, 2e6), st.integers(0, 29))
def test_one_record_changes_no_margin_by_more_than_one(
    data: list[float], moved: float, other: float, place: int
) -> None:
    changed = list(data)
    changed[place % len(data)] = other
    middle = (len(data) + 1) // 2
    fewer = data[: place % len(data)] + data[place % len(data) + 1 :]
    pairs = [
        [rank_margin(own, middle, moved, most=FAR) for own in (data, changed)],
        [median_margin(own, moved, most=FAR, adjacency="add-remove") for own in (data, fewer)],
        [mode_margin(np.round(own, -5)) for own in (data, changed)],
        [mode_margin(np.round(own, -5), "add-remove") for own in (data, fewer)],
    ]
    assert all(abs(a - b) <= 1 for a, b in pairs)
    if max(pairs[0]) > 0:
        assert abs(sorted(data)[middle - 1] - sorted(changed)[middle - 1]) <= moved


def test_rounding_hides_no_gap_that_is_too_wide() -> None:
    apart = [1.0, 1.0 + 2**-52, 1e17, 1e17 + 16, 1e17 + 32]
    assert rank_margin(apart, 4, 15.0, most=9, low=-inf) == 0  # 1e17 + 15 is no float, and rounds to 1e17 + 16
    assert rank_margin([0.0, 0.1 + 0.2, 5.0], 1, 0.3, most=9) == 0  # 0.1 + 0.2 is a little more than 0.3


def test_a_margin_counts_no_farther_than_it_was_told() -> None:
    assert rank_margin(np.zeros(1000), 500, 1.0, most=7) == 7
    assert median_margin(np.zeros(1000), 1.0, most=7, adjacency="add-remove") == 7


def test_a_margin_by_sensitivity_is_the_first_distance_at_which_it_passes() -> None:
    assert margin_by_sensitivity([0.1, 0.2, 0.5, 0.9].__getitem__, 0.5, most=4) == 3
    assert margin_by_sensitivity(lambda r: 0.0, 0.5, most=4) == 4
    assert margin_by_sensitivity(lambda r: float("nan"), 0.5, most=4) == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: rank_margin([1.0, np.nan], 1, 1.0, most=5), "values must be numbers, got nan"),
        (lambda: rank_margin([1.0], 2, 1.0, most=5), "rank must be at most the number of records, 1, got 2"),
        (lambda: trimmed_margin([1.0], 1.0, trimmed=0), "trimmed must be at least 1"),
    ],
)
def test_what_has_no_margin_is_refused(ask: Callable[[], int], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        ask()
