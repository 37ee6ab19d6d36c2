"""μ of a composition by the vertices of its curve: certified, and no more than what is there."""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import inf, sqrt
from time import perf_counter

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtri_exp

from fedpriv.curves._composed_mu import composed_mu
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import MECHANISMS

VOTE = Tradeoff.between([0.55, 0.45], [0.45, 0.55])
masses = st.lists(st.floats(0.02, 1), min_size=3, max_size=3).map(lambda raw: [x / sum(raw) for x in raw])


def vertices(p: list[float], q: list[float]) -> float:
    """max −Φ⁻¹(a) − Φ⁻¹(b) in forty digits."""
    with mp.workdps(40):
        ranked = sorted(zip(map(mp.mpf, p), map(mp.mpf, q), strict=True), key=lambda pair: -pair[1] / pair[0])
        total_p, total_q = mp.fsum(a for a, _ in ranked), mp.fsum(b for _, b in ranked)
        best, a, b = 0.0, mp.mpf(0), mp.mpf(1)
        for own_p, own_q in ranked[:-1]:
            a, b = a + own_p / total_p, b - own_q / total_q
            best = max(best, -inverse(a) - inverse(b))
        return best


def composed(p: list[float], count: int) -> list[float]:
    return [float(reduce(lambda x, y: x * y, each)) for each in product(p, repeat=count)]


def test_a_hundred_votes_have_the_mu_of_the_theory_and_not_that_of_one_vote_a_hundred_times():
    assert compose([(VOTE, 100)]).mu == approx(2.01003355263, rel=1e-11)
    assert 10 * VOTE.mu == approx(2.5132269371, rel=1e-10)


@given(masses, masses, st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_mu_is_never_below_the_vertices_of_all_outcomes_and_hardly_above(p, q, count):
    curve, truth = Tradeoff.between(p, q), vertices(composed(p, count), composed(q, count))
    found = composed_mu(curve, count)
    assert found >= truth * (1 - 1e-13)
    assert found <= min(truth * 1.01 + 1e-3, sqrt(count) * curve.mu * (1 + 1e-9))


@given(st.floats(0.01, 0.99), st.integers(2, 300))
@settings(max_examples=30, deadline=None)
def test_votes_by_tails_of_binomials_in_all_their_digits(share, count):
    """Both tails of n votes, where the extreme masses are far below what a transform could keep."""
    share = max(share, 1 - share)
    curve = Tradeoff.between([share, 1 - share], [1 - share, share])
    if share - 0.5 < 1e-6:
        return
    with mp.workdps(650):  # what is left of a tail may be 1e−600
        p = mp.mpf(share)
        law = [mp.binomial(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
        tail, best = mp.mpf(0), 0.0
        for k in range(count):
            tail += law[k]  # Bin(n, p) ≤ k, and n − Bin ≤ n − k − 1 is the other side
            other = mp.fsum(law[: count - k])
            best = max(best, -inverse(tail) - inverse(other))
    found = composed_mu(curve, count)
    assert found >= best * (1 - 1e-12)
    if count <= 50:
        assert found == approx(best, rel=1e-9, abs=1e-12)


def inverse(mass: mp.mpf) -> float:
    """Φ⁻¹, from the smaller of the mass and what is left, so that no digits go."""
    small = min(mass, 1 - mass)
    return float(ndtri_exp(float(mp.log(small)))) * (1 if mass == small else -1)


@pytest.mark.parametrize("rounds", [10**6, 10**18])
def test_however_many_rounds_it_takes_no_time_and_holds_for_their_share(rounds):
    curve = MECHANISMS.made("Binomial", {"clip": 0.1, "scale": 1, "trials": 16}).tradeoff("replace")
    start = perf_counter()
    found = composed_mu(curve, rounds)
    assert perf_counter() - start < 5
    assert 0.97 * sqrt(rounds) * curve.mu < found < 0.99 * sqrt(rounds) * curve.mu


def test_more_rounds_never_cost_less():
    found = [composed_mu(VOTE, rounds) for rounds in (1, 2, 5, 17, 100, 101, 999, 1000, 5000)]
    assert found == sorted(found)


def test_where_something_gives_a_record_away_for_certain_there_is_no_mu():
    curve = MECHANISMS.made("BinomialNoise", {"clip": 0.05, "levels": 8, "trials": 20}).tradeoff("replace")
    assert composed_mu(curve, 10) == compose([(curve, 10)]).mu == inf


def test_the_composed_curve_lies_above_the_gaussian_one():
    found, alpha = composed_mu(Tradeoff.laplace(0.3), 30), np.linspace(0.01, 0.99, 50)
    assert found < sqrt(30) * Tradeoff.laplace(0.3).mu
    gaussian = Tradeoff.gaussian(found)
    together = compose([(Tradeoff.laplace(0.3), 30)])
    assert all(together.delta(epsilon).lower <= gaussian.delta(epsilon) for epsilon in (0.0, 0.5, 1, 2, 4))
    assert (gaussian(alpha) <= 1 - alpha).all()
