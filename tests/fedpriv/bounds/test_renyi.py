"""Rényi bounds: never below a value that is attained, at the goldens, at the extremes."""

from functools import partial
from math import atanh, inf, log, sqrt

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from fedpriv.bounds.renyi import (
    divergence_slope,
    noisy_sign_curve,
    renyi_delta,
    renyi_epsilon,
    slope_bound,
    vector_curve,
)
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

approx = pytest.approx
orders = st.floats(-3, 5).map(lambda t: 1 + 10**t)
boxes = st.one_of(st.floats(-6, -0.001).map(lambda t: 10**t), st.floats(0.5, 0.999))
erasures = st.one_of(st.just(1.0), st.floats(-6, 0).map(lambda t: 10**t))
points = st.floats(-1, 1)
loose = partial(divergence_slope, tolerance=1e-4)


def divergence(alpha, u, v, keep=1.0):
    """D_α of the ternary (or binary) pair, from its definition, to 30 digits: it is about (u − v)²."""
    with mp.workdps(60 - 2 * min(0, int(mp.log10(abs(mp.mpf(u) - mp.mpf(v)) or 1)))):
        a, u, v, k = map(mp.mpf, (alpha, u, v, keep))
        power = ((1 + u) ** a * (1 + v) ** (1 - a) + (1 - u) ** a * (1 - v) ** (1 - a)) / 2
        return mp.log(1 + k * (power - 1)) / (a - 1)


@given(orders, boxes, erasures, points, points)
def test_no_pair_in_the_box_exceeds_the_upper_bound(alpha, rho, keep, x, y):
    u, v = rho * x, rho * y
    if u != v:
        ratio = divergence(alpha, u, v, keep) / (mp.mpf(u) - mp.mpf(v)) ** 2
        assert ratio <= loose(alpha, rho, keep)[1] <= slope_bound(alpha, rho, keep)


@given(orders, boxes, erasures, st.floats(-9, 0))
def test_no_pair_at_the_edge_exceeds_the_upper_bound(alpha, rho, keep, exponent):
    u = rho - 2 * rho * 10**exponent
    if -rho <= u < rho:
        ratio = divergence(alpha, u, rho, keep) / (mp.mpf(u) - mp.mpf(rho)) ** 2
        assert ratio <= loose(alpha, rho, keep)[1]


@given(orders, boxes, erasures, points, st.floats(0, 1))
def test_for_a_given_distance_the_worst_pair_has_its_second_member_at_the_edge(alpha, rho, keep, x, y):
    u, v = rho * x, rho * y
    edge = rho - abs(mp.mpf(u) - mp.mpf(v))
    assert divergence(alpha, u, v, keep) <= divergence(alpha, edge, rho, keep) * (1 + 1e-12) + 1e-30


@settings(max_examples=10)
@given(orders, boxes, erasures)
def test_the_enclosure_is_as_narrow_as_asked(alpha, rho, keep):
    lower, upper = divergence_slope(alpha, rho, keep)
    assert lower <= upper <= lower * (1 + 1.1e-7)


@settings(max_examples=10)
@given(st.floats(2.001, 1e4), boxes, erasures)
def test_the_lower_bound_is_attained(alpha, rho, keep):
    d = 2 * rho * np.concatenate([np.logspace(-9, 0, 500), np.linspace(0.001, 1, 1000)])
    best = max(float(divergence(alpha, rho - x, rho, keep) / x**2) for x in d[:: max(1, len(d) // 150)])
    assert best <= divergence_slope(alpha, rho, keep)[0] * (1 + 1e-6)


@given(orders, boxes, boxes, erasures, erasures)
def test_a_larger_box_and_fewer_erasures_never_have_a_smaller_slope(alpha, rho, other, keep, more):
    (rho, other), (keep, more) = sorted([rho, other]), sorted([keep, more])
    assert loose(alpha, rho, keep)[0] <= loose(alpha, other, more)[1]


@given(orders, orders, boxes, erasures)
def test_a_larger_order_never_has_a_smaller_slope(alpha, other, rho, keep):
    alpha, other = sorted([alpha, other])
    assert loose(alpha, rho, keep)[0] <= loose(other, rho, keep)[1]


@pytest.mark.parametrize(("alpha", "golden", "place"), [(4, 2.023396, 0.766), (16, 8.120388, 0.897)])
def test_slope_reaches_the_goldens(alpha, golden, place):
    lower, upper = divergence_slope(alpha, 0.1)
    assert lower == approx(golden, abs=5e-7)
    assert lower < upper <= lower * (1 + 1.1e-7)
    assert float(divergence(alpha, 0.1 * place, 0.1) / (0.1 * (1 - mp.mpf(place))) ** 2) == approx(golden, abs=2e-6)


@pytest.mark.parametrize("keep", [1.0, 0.3, 1e-3])
@pytest.mark.parametrize("alpha", [1.001, 1.5, 2])
def test_up_to_order_two_the_slope_is_the_limit_at_the_corner(alpha, keep):
    assert divergence_slope(alpha, 0.9, keep)[0] == approx(keep * alpha / (2 * (1 - 0.9**2)), rel=1e-9)


@pytest.mark.parametrize("alpha", [1 + 1e-9, 2 + 1e-9, 100, 1e5, 1e8])
@pytest.mark.parametrize("rho", [1e-30, 1e-6, 0.5, 0.999])
@pytest.mark.parametrize("keep", [1e-12, 1.0])
def test_extremes_neither_overflow_nor_widen(alpha, rho, keep):
    lower, upper = divergence_slope(alpha, rho, keep, 1e-4)
    assert 0 < lower <= upper <= lower * 1.00011 < inf


def test_for_a_tiny_box_the_slope_is_the_gaussian_one():
    assert divergence_slope(7, 1e-6)[1] == approx(7 / 2, rel=1e-11)


@pytest.mark.parametrize(
    "bad", [(1.0, 0.1, 1.0), (4, 1.0, 1.0), (4, 0.0, 1.0), (4, 0.1, 1.1), (float("nan"), 0.1, 1.0)]
)
def test_what_makes_no_sense_is_refused(bad):
    with pytest.raises(FedprivError):
        divergence_slope(*bad)


def test_rounds_of_binomial_votes_beat_their_gaussian_differential_privacy():
    certified = renyi_epsilon(vector_curve(clip=0.1, peak=0.1, scale=1, rounds=100), 1e-5)
    assert certified == approx(10.79727, abs=1e-5)  # theory.md: 10.800
    assert 9.997 < certified < 13.295


def test_wide_votes_cost_what_the_gaussian_conversion_costs():
    certified = renyi_epsilon(vector_curve(clip=0.1, peak=0.1, scale=10, rounds=100), 1e-5)
    assert certified == approx(1.095 * Tradeoff.gaussian(2 * 0.1 * 10 / 10).epsilon(1e-5), rel=1e-3)


def test_the_ternary_scale_for_epsilon_two_is_below_the_published_1510():
    def excess(scale):
        return renyi_epsilon(vector_curve(clip=1, peak=1, scale=4, keep=4 / scale, rounds=100), 1e-5) - 2

    assert brentq(excess, 1000, 2000, xtol=1) == approx(1432.7, abs=2)


@given(st.floats(0.05, 0.95), st.integers(1, 30), st.floats(-12, -2))
@settings(max_examples=13)
def test_exact_composition_of_one_coordinate_is_never_above(rho, rounds, exponent):
    plus, votes = (1 + rho) / 2, np.arange(rounds + 1)
    log_binomials = np.array([float(mp.log(mp.binomial(rounds, int(k)))) for k in votes])
    p = np.exp(log_binomials + votes * log(plus) + (rounds - votes) * log(1 - plus))
    curve = vector_curve(clip=rho, peak=rho, scale=1, rounds=rounds, tolerance=1e-3)
    true = Tradeoff.between(p / p.sum(), p[::-1] / p.sum()).epsilon(10**exponent)
    assert renyi_epsilon(curve, 10**exponent) >= true
    assert renyi_delta(curve, true) >= 10**exponent * (1 - 1e-9) or true == 0


@given(st.floats(0.01, 5), st.floats(-300, -0.1))
def test_conversion_of_the_gaussian_curve_is_a_certificate_and_beats_the_classical_one(mu, exponent):
    found = renyi_epsilon(lambda alpha: alpha * mu**2 / 2, 10**exponent)
    true = Tradeoff.gaussian(mu).epsilon(10**exponent)
    assert true <= found <= mu**2 / 2 + mu * sqrt(-2 * exponent * log(10))


@given(st.floats(0.01, 5), st.floats(-300, -0.5))
def test_delta_of_epsilon_comes_back(mu, exponent):
    curve = lambda alpha: alpha * mu**2 / 2  # noqa: E731
    found = renyi_epsilon(curve, 10**exponent)
    if found > 0:
        assert log(renyi_delta(curve, found)) == approx(exponent * log(10), abs=1e-5 * (1 + found))


def test_the_ends_of_the_conversion():
    curve = vector_curve(clip=0.1, peak=0.1, scale=10)
    assert renyi_epsilon(curve, 0) == inf
    assert renyi_epsilon(curve, 1) == 0
    assert 0 < renyi_epsilon(curve, 1e-300) < 1
    assert renyi_delta(curve, 0) <= 1
    assert 0 < renyi_delta(curve, 1e6) < 1e-300


@given(st.floats(0.1, 10), st.floats(0.01, 1), orders)
@settings(max_examples=17)
def test_noisy_signs_are_never_above_the_gaussian_and_never_below_a_pair(noise, part, alpha):
    curve = noisy_sign_curve(clip=1, peak=part, noise=noise, tolerance=1e-3)
    u = 2 * ndtr(part / noise) - 1
    assert curve(alpha) <= alpha * 2 / noise**2 * (1 + 1e-9)
    if u < 1:
        assert divergence(alpha, u, -u) / part**2 <= curve(alpha) * (1 + 1e-12)


def test_many_small_noisy_signs_are_two_over_pi_of_the_gaussian():
    assert noisy_sign_curve(clip=1, peak=1e-4, noise=1)(3) == approx(2 / np.pi * 6, rel=1e-6)


@given(boxes)
def test_the_pair_at_both_ends_agrees_with_its_closed_form(rho):
    theta = atanh(rho)
    closed = log(np.cosh(3 * theta) / np.cosh(theta))  # α = 2: cosh((2α − 1)θ)/cosh θ
    assert float(divergence(2, rho, -rho)) == approx(closed, rel=1e-6, abs=1e-15)


def test_any_order_is_a_certificate_whatever_the_guide_says():
    misled = renyi_epsilon(lambda alpha: alpha / 2, 1e-5, guide=lambda alpha: 1 / alpha)
    assert misled > renyi_epsilon(lambda alpha: alpha / 2, 1e-5) > Tradeoff.gaussian(1).epsilon(1e-5)
