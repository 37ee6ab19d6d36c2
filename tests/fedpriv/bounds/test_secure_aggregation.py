"""Secure aggregation: what a sum of votes still says. Every certificate is held against real data."""

from math import inf, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import bdtr, ndtr, ndtri, ndtri_exp

from fedpriv.bounds._coin_slope import coin_slope, inverse_error
from fedpriv.bounds.coins import certain_coins, likely_window, log_binomial, log_lower_tail, lower_quantile
from fedpriv.bounds.sums import (
    published_epsilon,
    scalar_pair,
    scalar_pair_lower,
    ternary_pair,
    vector_bound,
)
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

approx = pytest.approx
NEGLIGIBLE = 1e-12 / (650 * 40)


def delta(pair, epsilon):
    p, q = pair
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum(), np.maximum(q - np.exp(epsilon) * p, 0).sum())


def epsilon(pair, target):
    return brentq(lambda e: delta(pair, e) - target, 0, 60, xtol=1e-12)


def gaussian_epsilon(mu, target):
    return brentq(lambda e: ndtr(-e / mu + mu / 2) - np.exp(e) * ndtr(-e / mu - mu / 2) - target, 0, 100)


def binomial(n, p):
    return np.exp(log_binomial(n, p, 0, n))


def sum_of(trials, probabilities):
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, binomial(trials, p))
    return law


def exact_normals(coins, trials, p):
    """z_k = Φ⁻¹(P(W > k)) from plain sums, the smaller tail each time."""
    law = np.convolve(binomial(coins, 0.5), binomial(trials, p))
    over, under = np.cumsum(law[::-1])[::-1][1:], np.cumsum(law)[:-1]
    return np.where(over < under, ndtri(np.minimum(over, 0.5)), -ndtri(np.minimum(under, 0.5)))


# coins


def test_the_number_of_certain_coins_of_the_worked_example():
    assert certain_coins(1294, 4, (0.911 - 0.2) / 1.822, NEGLIGIBLE) == 3782


@given(n=st.integers(1, 3000), p=st.floats(0.01, 0.99), failure=st.floats(1e-15, 0.3))
def test_the_quantile_is_safe_and_largest(n, p, failure):
    k = lower_quantile(n, p, failure)
    assert k == 0 or bdtr(k - 1, n, p) <= failure * (1 + 1e-9)
    assert k == int(n * p) or bdtr(k, n, p) > failure * (1 - 1e-6)


@pytest.mark.parametrize("k", [0, 10, 300, 700])
def test_the_bound_of_a_tail_is_above_it_and_close(k):
    n, p = 2000, mpmath.mpf(0.4)
    with mpmath.workdps(40):
        exact = mpmath.log(sum(mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1)))
    assert 0 <= log_lower_tail(k, n, 0.4) - float(exact) < 1e-9


def test_ten_million_clients_and_failures_of_one_in_ten_to_the_three_hundred():
    coins = certain_coins(10**7, 4, 0.39, 1e-300)
    mean, deviation = 4 * (10**7 - 1) * 0.78, sqrt(4 * (10**7 - 1) * 0.78 * 0.22)
    assert (coins - mean) / deviation == approx(float(ndtri_exp(np.log(1e-300))), rel=1e-2)


def test_nobody_else_means_no_coins_and_no_failure_allowed_means_none_certain():
    assert certain_coins(1, 4, 0.3, 1e-9) == 0
    assert certain_coins(50, 4, 0.3, 0.0) == 0


@given(n=st.integers(1, 500), p=st.floats(0.02, 0.98), failure=st.floats(1e-12, 0.5))
def test_a_window_is_left_with_less_than_its_failure(n, p, failure):
    first, last = likely_window(n, p, failure)
    assert binomial(n, p)[first : last + 1].sum() >= 1 - failure - 1e-13


# one coordinate


@pytest.mark.parametrize(
    ("clients", "trials", "p_max", "target", "upper", "lower"),
    [(20, 3, 0.7, 1e-4, 1.3121824899, 1.2365862054), (200, 2, 0.6, 1e-5, 0.1414575559, 0.1311040764)],
)
def test_worked_examples_of_one_coordinate(clients, trials, p_max, target, upper, lower):
    assert epsilon(scalar_pair(clients, trials, p_max), target) == approx(upper, abs=2e-10)
    real = [scalar_pair_lower(clients, trials, p_max, high=h) for h in (0, clients // 2, clients - 1)]
    assert max(epsilon(pair, target) for pair in real) == approx(lower, abs=2e-10)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), trials=st.integers(1, 4), p_max=st.floats(0.51, 0.98), e=st.floats(0, 3))
def test_no_data_set_gives_away_more_than_the_certificate(data, trials, p_max, e):
    inside = st.floats(1 - p_max, p_max)
    others = data.draw(st.lists(inside, max_size=6))
    crowd = sum_of(trials, others)
    real = tuple(np.convolve(crowd, binomial(trials, data.draw(inside))) for _ in range(2))
    assert delta(real, e) <= delta(scalar_pair(len(others) + 1, trials, p_max), e) + 1e-13


@settings(max_examples=13, deadline=None)
@given(data=st.data(), clients=st.integers(1, 40), trials=st.integers(1, 4), p_max=st.floats(0.51, 0.95))
def test_the_lower_bound_is_real_data_and_below_the_certificate(data, clients, trials, p_max):
    high = data.draw(st.integers(0, clients - 1))
    pair = scalar_pair_lower(clients, trials, p_max, high=high)
    crowd = sum_of(trials, [p_max] * high + [1 - p_max] * (clients - 1 - high))
    real = np.convolve(crowd, binomial(trials, p_max)), np.convolve(crowd, binomial(trials, 1 - p_max))
    for e in (0.0, 0.3, 1.0):
        assert delta(pair, e) == approx(delta(real, e), abs=1e-13)
        assert delta(pair, e) <= delta(scalar_pair(clients, trials, p_max), e) + 1e-13


def test_alone_the_sum_is_the_vote_itself():
    p, q = scalar_pair(1, 3, 0.7)
    assert p == approx(binomial(3, 0.7))
    assert q == approx(binomial(3, 0.3))


@pytest.mark.parametrize("clients", [2, 50, 1294, 10**6])
def test_masses_sum_to_one_and_atoms_stay_moderate(clients):
    p, q = scalar_pair(clients, 4, 0.61)
    assert p.sum() == approx(1, abs=1e-12)
    assert q.sum() == approx(1, abs=1e-12)
    assert len(p) <= 220_000


def test_grouping_coins_costs_little_and_never_helps():
    fine, coarse = scalar_pair(1294, 4, 0.61, atoms=10**6), scalar_pair(1294, 4, 0.61, atoms=30_000)
    assert 1 <= epsilon(coarse, 1e-5) / epsilon(fine, 1e-5) < 1.001


@given(clients=st.integers(2, 60), p_max=st.floats(0.55, 0.9), e=st.floats(0, 2))
def test_one_contributor_more_never_hurts(clients, p_max, e):
    assert delta(scalar_pair(clients + 1, 2, p_max), e) <= delta(scalar_pair(clients, 2, p_max), e) + 1e-13


def test_theorem_9_has_the_epsilon_of_one_vote_and_its_chords_are_those_of_pure_dp_only_where_they_mirror():
    alpha = np.linspace(0, 1, 401)
    for p_min, p_max, above in ((0.3, 0.7, 0.0), (0.2, 0.6, 0.125)):
        chords = Tradeoff.between([p_min, 1 - p_min], [p_max, 1 - p_max])
        epsilon = published_epsilon(p_min, p_max)
        assert chords.epsilon(0.0) == approx(epsilon, abs=1e-12)
        pure = Tradeoff.pure(epsilon)
        assert max(chords(each) - pure(each) for each in alpha) == approx(above, abs=1e-12)


def test_theorem_9_is_the_pure_bound_and_the_certificate_is_below_it():
    bound = published_epsilon(0.3, 0.7)
    assert bound == approx(np.log(0.7 / 0.3))
    assert delta(scalar_pair(30, 1, 0.7), bound) <= 1e-13


# ternary


def ternary(x, spread, scale):
    return np.array([(spread - x) / (2 * scale), 1 - spread / scale, (spread + x) / (2 * scale)])


@settings(max_examples=20, deadline=None)
@given(data=st.data(), spread=st.floats(1.01, 4), wider=st.floats(1.01, 4), e=st.floats(0, 3))
def test_no_ternary_data_set_gives_away_more_than_the_certificate(data, spread, wider, e):
    scale, inside = spread * wider, st.floats(-1, 1)
    others = data.draw(st.lists(inside, max_size=8))
    crowd = np.ones(1)
    for x in others:
        crowd = np.convolve(crowd, ternary(x, spread, scale))
    real = tuple(np.convolve(crowd, ternary(data.draw(inside), spread, scale)) for _ in range(2))
    assert delta(real, e) <= delta(ternary_pair(len(others) + 1, 1.0, spread, scale), e) + 1e-13


@pytest.mark.parametrize("clients", [2, 100, 1294, 20_000])
def test_ternary_atoms_stay_moderate_and_sum_to_one(clients):
    p, q = ternary_pair(clients, 1.0, 2.0, 5.0)
    assert p.sum() == approx(1, abs=1e-12)
    assert q.sum() == approx(1, abs=1e-12)
    assert len(p) <= 250_000


def test_a_ternary_crowd_helps():
    ladder = [epsilon(ternary_pair(clients, 1.0, 2.0, 5.0), 1e-5) for clients in (1, 10, 100, 1000)]
    assert ladder == sorted(ladder, reverse=True)
    assert ladder[-1] < ladder[0] / 2


# vectors


def test_the_slope_of_the_worked_examples_extreme_tails_included():
    # Without a share set aside the supremum lies at z = ±72 and beyond any double; mpmath agrees (proofs, section 3).
    assert coin_slope(3782, 4, 0.2, 0.911) == approx((0.0739553, 0.0739553), abs=1e-7)
    assert coin_slope(3782, 4, 0.2, 0.911, negligible=NEGLIGIBLE) == approx((0.0723332, 0.0723332), abs=1e-7)
    assert coin_slope(98_515, 100, 1.0, 4.38, negligible=NEGLIGIBLE) == approx((0.0729240, 0.0729240), abs=1e-7)


@pytest.mark.parametrize(("trials", "peak", "scale", "most"), [(4, 0.2, 0.911, 4.00), (100, 1.0, 4.38, 4.15)])
def test_forty_rounds_of_the_worked_examples(trials, peak, scale, most):
    bound = vector_bound(1294, trials, 1.0, peak, scale, dimension=650, failure=1e-12 / 40)
    assert 0.95 * most < gaussian_epsilon(bound.mu * sqrt(40), 1e-5 - 1e-12) < most


@given(trials=st.integers(1, 5), scale=st.floats(1.05, 20))
def test_without_coins_and_one_vote_it_is_theorem_a(trials, scale):
    lower, upper = coin_slope(0, 1, 1.0, scale)
    assert lower <= ndtri((scale + 1) / (2 * scale)) * (1 + 1e-9)
    assert upper == approx(ndtri((scale + 1) / (2 * scale)), rel=1e-5)
    assert coin_slope(0, trials, 1.0, scale)[1] <= sqrt(trials) * upper * (1 + 1e-6)


def test_without_a_crowd_sixteen_votes_cost_a_vector_hardly_more_than_a_scalar():
    _, upper = coin_slope(0, 16, 0.1, 1.0)
    assert 0.814388173762 < 2 * 0.1 * upper < 0.8148 < 2 * sqrt(16) * ndtri(0.55)


@settings(max_examples=20, deadline=None)
@given(
    coins=st.integers(0, 300),
    trials=st.integers(1, 12),
    scale=st.floats(1.02, 30),
    tolerance=st.sampled_from([0.3, 1e-2, 1e-6]),
    x=st.floats(-1, 1),
)
def test_no_secant_exceeds_the_slope(coins, trials, scale, tolerance, x):
    lower, upper = coin_slope(coins, trials, 1.0, scale, tolerance=tolerance)
    rise = np.abs(exact_normals(coins, trials, (scale + x) / (2 * scale)) - exact_normals(coins, trials, 0.5))
    assert lower <= upper
    assert rise.max() <= upper * abs(x) + 1e-9


@pytest.mark.parametrize("p_of", [0.0, 0.37, 0.8, 1.0])
def test_the_far_tail_agrees_with_many_digits(p_of):
    coins, trials, scale = 400, 3, 1.5
    _, upper = coin_slope(coins, trials, 1.0, scale)
    with mpmath.workdps(80):

        def normal(x):
            p = (mpmath.mpf(scale) + x) / (2 * mpmath.mpf(scale))
            tail = p**trials / mpmath.mpf(2) ** coins  # P(W > K + M − 1)
            guess = -mpmath.sqrt(-2 * mpmath.log(tail))
            return mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(tail), guess)

        x = -mpmath.mpf(p_of) if p_of else mpmath.mpf("1e-6")
        assert abs(normal(x) - normal(0)) <= upper * abs(x)


@pytest.mark.parametrize("log_tail", [-0.75, -1.99, -2.01, -8.0, -90.0, -3e3, -1e4, -1e6])
def test_the_inverse_normal_is_as_good_as_assumed(log_tail):
    z = float(ndtri_exp(log_tail))
    with mpmath.workdps(50):
        exact = mpmath.findroot(lambda y: mpmath.log(mpmath.ncdf(y)) - mpmath.mpf(log_tail), z)
        assert abs(z - exact) <= inverse_error(abs(z))


@given(coins=st.integers(0, 200), more=st.integers(1, 50), trials=st.integers(1, 6))
@settings(max_examples=10, deadline=None)
def test_more_coins_never_hurt(coins, more, trials):
    assert coin_slope(coins + more, trials, 1.0, 2.0)[0] <= coin_slope(coins, trials, 1.0, 2.0)[1]


@pytest.mark.parametrize("coins", [10**6, 10**8])
@pytest.mark.parametrize("trials", [1, 4, 100])
def test_millions_of_coins_give_nearly_the_central_limit(coins, trials):
    _, upper = coin_slope(coins, trials, 1.0, 4.0, negligible=1e-18, tolerance=1e-4)
    assert 1 <= upper / (trials / 8 / sqrt((coins + trials) / 4)) < 1.005


@settings(max_examples=13, deadline=None)
@given(coins=st.integers(0, 60), trials=st.integers(1, 5), share=st.sampled_from([1e-9, 1e-4, 1e-2]), data=st.data())
def test_what_is_set_aside_pays_for_the_tails(coins, trials, share, data):
    """T(W_x, W_x′) lies above the Gaussian curve scaled by 1 − τ at each breakpoint."""
    x, y = sorted(data.draw(st.tuples(st.floats(-1, 1), st.floats(-1, 1))))
    slope = coin_slope(coins, trials, 1.0, 2.0, negligible=share)[1]
    over = [np.cumsum(np.convolve(binomial(coins, 0.5), binomial(trials, (2 + v) / 4))[::-1])[::-1][1:] for v in (x, y)]
    alpha, beta = over[0] / (1 - share), (1 - over[1]) / (1 - share)
    inside = (alpha < 1) & (beta < 1)
    mu = -ndtri(alpha[inside]) - ndtri(beta[inside])
    assert mu.max(initial=0) <= slope * (abs(x) + abs(y)) + 1e-7


@pytest.mark.parametrize("coordinates", [25, 200, 5000])
@pytest.mark.parametrize("high", [0, 600, 1293])
def test_real_vectors_give_away_less_than_the_bound(coordinates, high):
    """Coordinate by coordinate: Theorem B spends μ/√j on each of j equal coordinates."""
    mu = vector_bound(1294, 4, 1.0, 0.2, 0.911, dimension=5000).mu / sqrt(coordinates)
    one = (0.911 + 1 / sqrt(coordinates)) / (2 * 0.911)  # of x = (c/√j)(1, …, 1, 0, …), c/√j ≤ r = 0.2
    pair = scalar_pair_lower(1294, 4, one, high=high)
    for e in np.array([0.0, 0.5, 1.0, 3.0]) * mu:
        gaussian = ndtr(-e / mu + mu / 2) - np.exp(e) * ndtr(-e / mu - mu / 2)
        assert 0.05 * gaussian < delta(pair, e) <= gaussian


@pytest.mark.parametrize(
    "call",
    [
        lambda: certain_coins(0, 4, 0.3, 1e-9),
        lambda: certain_coins(10, 4, 0.5, 1e-9),
        lambda: certain_coins(10, 4, 0.3, float("nan")),
        lambda: scalar_pair(10, 4, 0.5),
        lambda: scalar_pair(10, 4, 1.0),
        lambda: scalar_pair_lower(10, 4, 0.7, high=10),
        lambda: coin_slope(10, 4, 1.0, 1.0),
        lambda: coin_slope(-1, 4, 1.0, 2.0),
        lambda: coin_slope(10, 4, inf, 2.0),
        lambda: published_epsilon(0.7, 0.3),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(FedprivError):
        call()


@pytest.mark.parametrize("trials", [1, 2, 16, 1000])
@pytest.mark.parametrize("over", [1e-15, 1e-9, 3e-7, 1e-4, 1e-2])
@pytest.mark.parametrize("coins", [0, 5, 13_625])
def test_however_certain_a_vote_is_the_slope_is_finite_and_no_more_than_without_coins(trials, over, coins):
    lower, upper = coin_slope(coins, trials, 1.0, 1 + over, negligible=1e-16, tolerance=1e-3)
    apart = sqrt(trials) * float(-ndtri((1 + over - 1) / (2 * (1 + over))))
    assert 0 <= lower <= upper <= apart * (1 + 1e-9)
