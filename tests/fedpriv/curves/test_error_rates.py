"""β at α, and μ, of compositions: both bounds hold, and lie close together."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri

from fedpriv.curves.compose import QUICK, compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

approx = pytest.approx
VOTE = Tradeoff.between([0.55, 0.45], [0.45, 0.55])
GOLDEN = {0.01: 0.626709825857, 0.05: 0.360790895789, 0.1: 0.234379071053, 0.25: 0.0916615674369}
SAMPLED = Tradeoff.gaussian(1.0).subsampled(0.05, "add-remove")
masses = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=4)


def pair(p: list[float], q: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Two distributions over as many outcomes as both lists have."""
    size = min(len(p), len(q))
    first, second = np.array(p[:size]), np.array(q[:size])
    return first / first.sum(), second / second.sum()


def best_test(p: np.ndarray, q: np.ndarray, rounds: int, alpha: np.ndarray) -> np.ndarray:
    """Neyman and Pearson, outcome by outcome: every sequence of outcomes, those that Q makes likelier first."""
    all_p, all_q = np.ones(1), np.ones(1)
    for _ in range(rounds):
        all_p, all_q = np.outer(all_p, p).ravel(), np.outer(all_q, q).ravel()
    order = np.argsort(-all_q / all_p, kind="stable")
    errors = np.concatenate(([0.0], np.cumsum(all_p[order]))), 1 - np.concatenate(([0.0], np.cumsum(all_q[order])))
    return np.interp(alpha, *errors)


@pytest.mark.parametrize(("alpha", "beta"), GOLDEN.items())
def test_a_hundred_votes_are_told_apart_as_two_binomials_are(alpha: float, beta: float) -> None:
    low, high = compose([(VOTE, 100)]).tradeoff(alpha)
    assert low <= beta + 1e-12
    assert high >= beta - 1e-12
    assert high - low < 1e-9


def test_the_smallest_mu_is_known_from_both_sides() -> None:
    low, high, _ = compose([(VOTE, 100)]).mu_between()
    assert (low, high) == (approx(2.01003355263, abs=1e-9), approx(2.01003355263, abs=1e-10))
    assert low <= high


@pytest.mark.parametrize(("up_to", "mu"), [(1e-12, 2.010033552627), (1e-6, 2.01002978)])
def test_mu_up_to_a_failure_is_smaller(up_to: float, mu: float) -> None:
    low, high, left = compose([(VOTE, 100)]).mu_between(up_to)
    assert left == up_to
    assert low <= mu + 5e-9
    assert high == approx(mu, abs=5e-9)


def test_a_sampled_gaussian_is_the_worse_with_its_record_on_one_side() -> None:
    alpha = np.array([0.01, 0.05, 0.1])
    both = compose([(SAMPLED, 100)])
    low, high = both.tradeoff(alpha)
    assert_allclose(low, [0.948658, 0.837080, 0.737419], atol=2e-6)
    assert (high - low < 2e-6).all()
    other = compose([(SAMPLED.inverse, 100)])
    assert_allclose(other.tradeoff(alpha).lower, low, atol=1e-12)  # the worse of the same two


def test_mu_of_a_sampled_gaussian_is_a_tenth_of_the_exact_one_up_to_a_failure() -> None:
    both = compose([(SAMPLED, 100)])
    low, high, _ = both.mu_between(1e-8)
    assert both.mu == approx(10.0)
    assert 0.89 < low < high < 0.896


@pytest.mark.parametrize(("votes", "tolerance"), [(1000, 1e-8), (10_000, 1e-6), (100_000, 1e-5)])
def test_of_many_votes_bounds_lie_about_the_exact_binomials(votes: int, tolerance: float) -> None:
    from scipy.stats import binom

    alpha = np.array([0.001, 0.01, 0.05, 0.1, 0.5, 0.9])
    counts = np.arange(-1, votes + 1)
    truth = np.interp(alpha, binom.sf(counts, votes, 0.495)[::-1], binom.cdf(counts, votes, 0.505)[::-1])
    low, high = compose([(Tradeoff.between([0.505, 0.495], [0.495, 0.505]), votes)]).tradeoff(alpha)
    assert (low <= truth + 1e-10).all()
    assert (truth <= high + 1e-10).all()
    assert (high - low < tolerance).all()


@given(p=masses, q=masses, rounds=st.integers(1, 5))
def test_no_test_is_better_than_the_lower_bound_and_the_best_reaches_the_upper(
    p: list[float], q: list[float], rounds: int
) -> None:
    first, second = pair(p, q)
    alpha = np.array([0.0, 0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0])
    ways = [best_test(one, two, rounds, alpha) for one, two in ((first, second), (second, first))]
    low, high = compose([(Tradeoff.between(first, second), rounds)]).tradeoff(alpha)
    assert (low <= np.minimum(*ways) + 1e-9).all()
    assert (np.minimum(*ways) <= high + 1e-9).all()
    assert (high - low <= 1e-4).all()


@given(p=masses, q=masses, rounds=st.integers(1, 4), up_to=st.sampled_from([0.0, 1e-8, 1e-3]))
def test_the_gaussian_curve_lies_below_every_test_and_no_lower_one_does(
    p: list[float], q: list[float], rounds: int, up_to: float
) -> None:
    first, second = pair(p, q)
    low, high, _ = compose([(Tradeoff.between(first, second), rounds)]).mu_between(up_to)
    alpha = np.concatenate((np.linspace(0, 1, 400), np.geomspace(1e-6, 0.1, 100)))
    truth = np.minimum(*(best_test(one, two, rounds, alpha) for one, two in ((first, second), (second, first))))
    assert (ndtr(-ndtri(alpha) - high) - up_to <= truth + 1e-9).all()
    assert low <= high
    if low > 1e-3:  # a smaller one lies above the curve somewhere
        fine = np.concatenate((np.linspace(0, 1, 20_001), np.geomspace(1e-6, 0.1, 2000)))
        below = np.minimum(*(best_test(one, two, rounds, fine) for one, two in ((first, second), (second, first))))
        assert (ndtr(-ndtri(fine) - 0.98 * low) - up_to > below).any()


def test_beta_falls_in_alpha_and_in_the_rounds() -> None:
    alpha = np.linspace(0, 1, 101)
    before = 1 - alpha
    for rounds in (1, 10, 100, 1000, 10_000):
        low, high = compose([(VOTE, rounds)]).tradeoff(alpha, QUICK)
        assert (np.diff(low) <= 1e-12).all()
        assert (low <= high).all()
        assert (low <= before + 1e-9).all()
        before = high


def test_what_gives_everything_away_leaves_no_error_and_has_no_mu() -> None:
    disjoint = compose([(Tradeoff.between([1, 0], [0, 1]), 3)])
    assert disjoint.tradeoff(0.1) == (0.0, 0.0)
    assert disjoint.mu_between(1e-6)[:2] == (inf, inf)


def test_mass_that_one_side_alone_gives_leaves_a_mu_up_to_it() -> None:
    rare = compose([(Tradeoff.pure(0.1, 1e-7), 10)])
    assert rare.mu_between().upper == inf
    assert rare.mu_between(1e-7).upper == inf  # ten times as much is likelier
    assert rare.mu_between(1e-5).upper < 0.5


def test_nothing_released_is_nothing_told_apart() -> None:
    assert compose([]).tradeoff(0.25) == (0.75, 0.75)
    assert compose([]).mu_between() == (0, 0, 0)
    assert compose([]).advantage == (0, 0)


def test_a_gaussian_is_itself() -> None:
    three = compose([(Tradeoff.gaussian(0.5), 4)])
    low, high = three.tradeoff(0.05)
    assert low <= float(ndtr(-ndtri(0.05) - 1)) <= high <= low + 1e-10
    assert three.mu_between().upper == approx(1.0)
    low, high = three.true_positive_rate(0.05)
    assert low <= 0.2595110228414442 <= high
    assert three.advantage.upper == approx(0.3829249, abs=1e-7)


def test_more_rounds_than_can_be_followed_still_have_both_bounds() -> None:
    low, high = compose([(Tradeoff.between([0.500001, 0.499999], [0.499999, 0.500001]), 1 << 36)]).tradeoff(0.05)
    assert 0 <= low <= high < 1


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan"), [0.1, 2.0]])
def test_a_rate_that_is_none_is_refused(alpha: object) -> None:
    with pytest.raises(FedprivError, match="alpha must be between 0 and 1"):
        compose([(VOTE, 2)]).tradeoff(alpha)  # type: ignore[arg-type]
