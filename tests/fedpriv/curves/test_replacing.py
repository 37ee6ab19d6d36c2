"""A record replaced by another on a Poisson sample of a noisy sum: the pair of docs/proofs/replacing.md."""

from __future__ import annotations

from math import exp, log

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

rates = st.floats(1e-4, 0.99)
shifts = st.floats(0.01, 4)
NOISES = {"gaussian": Tradeoff.gaussian_replaced, "laplace": Tradeoff.laplace_replaced}


@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "epsilon"),
    [
        (2, 0.01, 10_000, 4.3960), (1, 0.01, 1000, 2.84344), (1, 0.001, 10_000, 0.7925), (0.7, 0.005, 2000, 3.94947),
        (4, 0.1, 1000, 7.48907), (1, 0.05, 100, 4.88949),
    ],
)  # fmt: skip
def test_gaussian_sums_cost_what_the_theory_says_and_both_bounds_meet(sigma, rate, rounds, epsilon):
    low, high = compose([(Tradeoff.gaussian_replaced(1 / sigma, rate), rounds)]).epsilon(1e-5)
    assert low <= high <= low * (1 + 1e-4)
    assert epsilon == approx(high, abs=1e-4)


@pytest.mark.parametrize(
    ("scale", "rate", "rounds", "epsilon", "pure"),
    [(1, 0.2, 3, 1.291003, 1.291664), (2, 0.01, 1000, 1.02462, 10.409), (4, 0.1, 100, 1.80320, 5.037)],
)
def test_laplace_sums_cost_what_the_theory_says_and_both_bounds_meet(scale, rate, rounds, epsilon, pure):
    curve = Tradeoff.laplace_replaced(1 / scale, rate)
    low, high = compose([(curve, rounds)]).epsilon(1e-5)
    assert low <= high <= low * (1 + 1e-4)
    assert epsilon == approx(high, abs=2e-5)
    assert rounds * curve.largest_loss == approx(pure, abs=6e-4)
    assert curve.largest_loss == approx(log((1 - rate + rate * exp(1 / scale)) / (1 - rate + rate * exp(-1 / scale))))


def test_what_holds_for_any_mechanism_is_several_times_too_much_for_a_sum():
    ours = compose([(Tradeoff.gaussian_replaced(1.0, 0.01), 1000)]).epsilon(1e-5).upper
    any_mechanism = compose([(Tradeoff.gaussian(2.0).subsampled(0.01, "replace"), 1000)]).epsilon(1e-5)
    assert any_mechanism.lower > 5 * ours


@given(shifts, rates, st.floats(-3, 6), st.sampled_from(sorted(NOISES)))
@settings(max_examples=60, deadline=None)
def test_delta_is_the_integral_over_the_line(shift, rate, epsilon, noise):
    """In 30 digits, split where an integrand has a corner."""
    with mp.workdps(30):
        c, q, t = mp.mpf(shift), mp.mpf(rate), mp.exp(mp.mpf(epsilon))

        def density(x):
            return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) if noise == "gaussian" else mp.exp(-abs(x)) / 2

        def excess(x):
            return (1 - q) * density(x) + q * density(x - c) - t * ((1 - q) * density(x) + q * density(x + c))

        curve = NOISES[noise](shift, rate)
        at = mp.mpf(float(np.clip(curve.pair.place(np.array(epsilon)), -60, 60)))
        points = sorted({mp.mpf(-60), -c, mp.mpf(0), c, mp.mpf(60), at})
        truth = mp.quad(lambda x: max(excess(x), 0), points, maxdegree=8)
        assert curve.delta(epsilon) == approx(float(truth), rel=1e-6, abs=1e-12)


@given(shifts, rates, st.floats(0, 8), st.sampled_from(sorted(NOISES)))
def test_the_place_of_a_loss_has_that_loss(shift, rate, share, noise):
    pair = NOISES[noise](shift, rate).pair
    x = np.array([-share, share]) if noise == "gaussian" else np.array([-shift, shift]) * share / 8.1
    loss = pair.loss(x)
    assert loss[0] == -loss[1]
    assert pair.place(loss) == approx(x, rel=1e-9, abs=1e-12)


def distances(points: np.ndarray, noise: str, step: float) -> np.ndarray:
    """Masses of noise in the plane moved to each point, on the cells of a grid."""
    side = np.arange(-9, 9, step) + step / 2
    if noise == "gaussian":
        parts = [[np.exp(-((side - at) ** 2) / 2) / np.sqrt(2 * np.pi) for at in point] for point in points]
    else:
        parts = [[np.exp(-np.abs(side - at)) / 2 for at in point] for point in points]
    return np.array([np.outer(*part) for part in parts]) * step**2


@given(
    st.tuples(*[st.floats(0, 2 * np.pi)] * 2), st.tuples(*[st.floats(0, 1)] * 2), st.floats(0.3, 2), rates,
    st.floats(-1, 2), st.sampled_from(sorted(NOISES)),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_two_records_in_the_plane_are_told_apart_better_whatever_their_angle(
    angles, lengths, clip, rate, epsilon, noise
):
    """Real neighbours: the records u and v, both mixed with the sum without them, on the cells of a grid."""
    both = np.array([[np.cos(angle), np.sin(angle)] for angle in angles])
    both /= np.linalg.norm(both, ord=2 if noise == "gaussian" else 1, axis=1, keepdims=True)
    records = clip * np.array(lengths)[:, None] * both
    nothing, u, v = distances(np.vstack([np.zeros((1, 2)), records]), noise, 0.06)
    p, q = (1 - rate) * nothing + rate * u, (1 - rate) * nothing + rate * v
    edge = float(np.maximum(q - np.exp(epsilon) * p, 0).sum())
    assert edge <= NOISES[noise](clip, rate).delta(epsilon) + 2e-3


@pytest.mark.parametrize("noise", sorted(NOISES))
def test_rates_and_shifts_at_their_ends(noise):
    curve, whole = NOISES[noise], getattr(Tradeoff, noise)
    assert curve(1.0, 1.0).delta(0.3) == whole(2.0).delta(0.3)
    assert curve(1.0, 0.0).advantage == curve(0.0, 0.5).advantage == 0
    assert curve(1.0, 1 - 1e-9).delta(0.3) == approx(whole(2.0).delta(0.3), rel=1e-7)
    for rate in (-0.1, 1.1, float("nan")):
        with pytest.raises(FedprivError, match="rate must be"):
            curve(1.0, rate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "rate"), [(1e-9, 0.5), (30.0, 1e-12), (300.0, 0.1), (1.0, 1e-200), (1e-3, 1 - 1e-12)]
)
@pytest.mark.parametrize("noise", sorted(NOISES))
def test_settings_past_all_reason_still_have_bounds(shift, rate, noise):
    low, high = compose([(NOISES[noise](shift, rate), 10)]).epsilon(1e-5)
    assert 0 <= low <= high


@given(st.floats(0.05, 3), rates)
@settings(max_examples=20, deadline=None)
def test_the_mu_that_is_named_lies_below_the_curve(shift, rate):
    alpha = np.linspace(0.001, 0.999, 100)
    curve = Tradeoff.gaussian_replaced(shift, rate)
    assert (Tradeoff.gaussian(curve.mu)(alpha) <= curve(alpha) + 1e-9).all()
