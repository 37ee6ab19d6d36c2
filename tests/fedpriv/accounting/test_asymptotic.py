"""Approximations: right in the limit, close where they should be, and on the wrong side where they are known to be."""

from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from fedpriv.accounting.published import (
    clt_delta,
    clt_epsilon,
    clt_mu,
    edgeworth_delta,
    edgeworth_epsilon,
    edgeworth_tradeoff,
    moments,
    poisson_gaussian_mu,
    subsampled_mu,
)
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

approx = pytest.approx


def binomial(n, p):
    return np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


def composed(p, q, rounds):
    """Brute force: every outcome of every round."""
    p_all, q_all = np.ones(1), np.ones(1)
    for _ in range(rounds):
        p_all, q_all = np.outer(p_all, p).ravel(), np.outer(q_all, q).ravel()
    return Tradeoff.between(p_all / p_all.sum(), q_all / q_all.sum())


VOTES = binomial(16, 0.55), binomial(16, 0.45)
FOUR = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.3, 0.25, 0.2])
EPSILONS = np.linspace(0, 8, 33)


def truths():
    binomials = Tradeoff.between(binomial(160, 0.55), binomial(160, 0.45))  # what ten rounds of the votes come to
    return [("votes", *VOTES, 10, binomials), ("four outcomes", *FOUR, 9, composed(*FOUR, 9))]


@pytest.mark.parametrize(("name", "p", "q", "rounds", "truth"), truths())
def test_the_edgeworth_expansion_is_closer_to_the_truth_than_the_clt(name, p, q, rounds, truth):
    exact = np.array([truth.delta(e) for e in EPSILONS])
    clt = np.array([clt_delta(p, q, rounds, e) for e in EPSILONS])
    edgeworth = np.array([edgeworth_delta(p, q, rounds, e) for e in EPSILONS])
    assert np.abs(edgeworth - exact).sum() < np.abs(clt - exact).sum() / 2


@pytest.mark.parametrize(("name", "p", "q", "rounds", "truth"), truths())
def test_the_edgeworth_tradeoff_is_close_to_the_composed_one(name, p, q, rounds, truth):
    alpha = np.linspace(0.001, 0.999, 200)
    error = np.abs(edgeworth_tradeoff(p, q, rounds, alpha) - truth(alpha))
    assert error.max() < 0.02
    assert error.mean() < 0.003


def test_epsilon_of_either_approximation_inverts_its_delta():
    for to_epsilon, to_delta in [(clt_epsilon, clt_delta), (edgeworth_epsilon, edgeworth_delta)]:
        found = to_epsilon(*VOTES, 10, 1e-3)
        assert to_delta(*VOTES, 10, found) == approx(1e-3, rel=1e-6)


def test_edgeworth_epsilon_is_within_a_percent_of_the_truth():
    assert edgeworth_epsilon(*VOTES, 10, 1e-3) == approx(truths()[0][-1].epsilon(1e-3), rel=0.01)


def test_the_clt_is_below_the_truth():
    assert Tradeoff.gaussian(poisson_gaussian_mu(1.0, 0.01, 1000)).epsilon(1e-5) == approx(1.618, abs=5e-4)  # 1.828


def test_the_clt_of_the_masses_agrees_with_the_closed_form_for_the_subsampled_gaussian():
    edges = np.linspace(-9, 10, 40_001)
    base, moved = np.diff(ndtr(edges)), np.diff(ndtr(edges - 1))
    inside = (base > 1e-16) & (moved > 1e-16)
    p, q = base[inside], 0.99 * base[inside] + 0.01 * moved[inside]
    assert clt_mu(p / p.sum(), q / q.sum(), 1000) == approx(poisson_gaussian_mu(1.0, 0.01, 1000), rel=0.02)


@given(st.floats(0.001, 0.2), st.floats(0.0001, 0.05), st.integers(1, 10_000))
def test_lemma_2_is_twice_the_chi_square_for_a_weak_step(mu, rate, rounds):
    # e^{μ²}Φ(1.5μ) + 3Φ(−μ/2) − 2 = μ²/2 + O(μ³)
    assert subsampled_mu(mu, rate, rounds) == approx(rate * mu * sqrt(rounds), rel=mu)


@given(st.floats(0.01, 0.49), st.integers(1, 1000))
def test_one_symmetric_vote_has_its_mu_by_hand(bias, rounds):
    p, q = np.array([0.5 + bias, 0.5 - bias]), np.array([0.5 - bias, 0.5 + bias])
    by_hand = 2 * sqrt(rounds) * bias / sqrt(0.25 - bias**2)  # 2·kl/σ: kl = 2bl, σ = 2l√(1/4 − b²), l = ln(p/(1−p))
    assert clt_mu(p, q, rounds) == approx(by_hand, rel=1e-9)


def test_moments_are_the_sums_they_say():
    m = moments([0.8, 0.2], [0.2, 0.8])
    l = np.log(4)
    assert (m.kl, m.second, m.third) == approx((0.6 * l, l**2, l**3))
    assert m.third_central == approx(0.8 * (0.4 * l) ** 3 + 0.2 * (1.6 * l) ** 3)
    assert m.berry_esseen(100) == approx(0.056 * m.third_central / m.variance**1.5)


@settings(max_examples=50)
@given(st.floats(0.51, 0.9), st.integers(1, 2000), st.floats(0, 50))
def test_an_expansion_stays_a_probability(p, rounds, epsilon):
    assert 0 <= edgeworth_delta([p, 1 - p], [1 - p, p], rounds, epsilon) <= 1


@pytest.mark.parametrize("approximation", [clt_mu, lambda p, q, n: edgeworth_delta(p, q, n, 1.0)])
def test_an_infinite_loss_is_refused(approximation):
    with pytest.raises(FedprivError, match="finite loss"):
        approximation([0.5, 0.5], [1.0, 0.0], 10)
