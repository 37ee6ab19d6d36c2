"""Intervals over seeds: Student's, checked against scipy.stats and by drawing; single seeds rank nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simulations.figures.intervals import FEWEST, interval_of, interval_words, paired_interval

shares = st.floats(0, 1)


@given(st.lists(shares, min_size=2, max_size=9), st.integers(1, 40))
def test_an_interval_is_that_of_scipy_stats(values: list[float], together: int) -> None:
    found = interval_of(values, together)
    assert found is not None
    assert found.half is not None
    quantile = stats.t.ppf(1 - 0.05 / (2 * together), len(values) - 1)
    assert found.half == pytest.approx(quantile * stats.sem(values), rel=1e-9, abs=1e-15)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert (found.low, found.high, found.seeds) == (min(values), max(values), len(values))


def test_an_interval_by_hand() -> None:
    found = interval_of([0.50, 0.52, 0.54])  # s = 0.02, and t of 2 degrees of freedom is 4.3027
    assert found is not None
    assert found.half == pytest.approx(4.30265 * 0.02 / 3**0.5, rel=1e-5)
    found = interval_of([0.50, 0.52, 0.54], together=5)  # 99.5% on one side: 9.9248
    assert found is not None
    assert found.half == pytest.approx(9.92484 * 0.02 / 3**0.5, rel=1e-5)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    draws = rng.normal(0.8, 0.01, (4000, 3))
    found = [interval_of(values) for values in draws.tolist()]
    covered = [abs(each.mean - 0.8) <= each.half for each in found if each and each.half is not None]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.0135)  # four standard errors


@given(st.dictionaries(st.integers(0, 20), st.tuples(shares, shares), min_size=1, max_size=8), st.randoms())
def test_the_order_of_seeds_changes_no_interval(pairs: dict[int, tuple[float, float]], random: object) -> None:
    seeds = list(pairs)
    one, other = ({seed: pairs[seed][at] for seed in seeds} for at in (0, 1))
    again = dict(reversed(one.items()))
    assert paired_interval(one, other) == paired_interval(again, other)


@given(st.lists(st.tuples(shares, shares), max_size=FEWEST - 1))
def test_fewer_than_three_seeds_never_tell_one_from_another(pairs: list[tuple[float, float]]) -> None:
    one, other = ({seed: pair[at] for seed, pair in enumerate(pairs)} for at in (0, 1))
    found = paired_interval(one, other)
    assert found is None or not found.side


def test_only_seeds_that_both_have_are_paired() -> None:
    found = paired_interval({1: 0.8, 2: 0.9, 3: 0.7}, {2: 0.6, 3: 0.6, 4: 0.0})
    assert found is not None
    assert (found.seeds, found.low, found.high) == (2, pytest.approx(0.1), pytest.approx(0.3))
    assert paired_interval({1: 0.5}, {2: 0.5}) is None


def test_what_seeds_share_is_no_part_of_a_paired_difference() -> None:
    luck = {seed: 0.1 * seed for seed in range(1, 5)}
    better = {seed: value + 0.01 for seed, value in luck.items()}
    found, alone = paired_interval(better, luck), interval_of(list(luck.values()))
    assert found is not None
    assert found.side
    assert alone is not None
    assert alone.half is not None
    assert alone.half > 0.2


def test_rounding_is_no_difference() -> None:
    found = paired_interval(dict.fromkeys(range(3), 0.1 + 0.2), dict.fromkeys(range(3), 0.3))
    assert found is not None
    assert not found.side


def test_intervals_in_words() -> None:
    found = interval_of([0.50, 0.52, 0.54])
    assert interval_words(found, digits=1, scale=100.0) == "52.0 ± 5.0"
    assert interval_words(interval_of([0.84])) == "0.840"
