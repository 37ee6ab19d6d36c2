"""What is sampled together: finite pairs outcome by outcome, Gaussians in closed form, propose-test-release."""

from __future__ import annotations

from functools import reduce
from math import exp, inf

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pytest import approx
from scipy.special import ndtr

from fedpriv.curves.compose import compose
from fedpriv.curves.joint import joint
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

between, gaussian, laplace = Tradeoff.between, Tradeoff.gaussian, Tradeoff.laplace


@st.composite
def pairs(draw, most=4):
    size = draw(st.integers(2, most))
    p, q = (draw(arrays(float, size, elements=st.floats(0.02, 1))) for _ in range(2))
    if size > 2 and draw(st.booleans()):
        draw(st.sampled_from([p, q]))[draw(st.integers(0, size - 1))] = 0
    assume(p.sum() > 0 and q.sum() > 0)
    return p / p.sum(), q / q.sum()


def hockey_stick(p, q, epsilon):
    return float(np.maximum(q - exp(epsilon) * p, 0).sum())


def enclosed(curve, truth, epsilon, room=1e-11):
    """Composed once, an enclosed curve answers between its two finite pairs: both directions."""
    bounds = compose([(curve, 1)]).delta(epsilon)
    return bounds.lower * (1 - room) - 1e-14 <= truth <= bounds.upper * (1 + room) + 1e-14


@given(pairs(), pairs(), st.integers(1, 3), st.floats(0, 3))
@settings(max_examples=13)
def test_the_joint_of_finite_pairs_is_their_product(one, two, count, epsilon):
    p, q = (reduce(np.multiply.outer, [a] * count + [b]).ravel() for a, b in zip(one, two, strict=True))
    curve = joint([(between(*one), count), (between(*two), 1)])
    assert enclosed(curve, max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)), epsilon)
    assert curve.delta(epsilon) >= hockey_stick(p, q, epsilon) * (1 - 1e-11) - 1e-14
    assert curve.inverse.delta(epsilon) >= hockey_stick(q, p, epsilon) * (1 - 1e-11) - 1e-14


@given(pairs(), pairs(), st.floats(0.01, 0.99), st.floats(0, 2), st.integers(1, 2))
@settings(max_examples=13)
def test_sampling_a_joint_release_samples_the_product(one, two, rate, epsilon, rounds):
    p, q = (np.multiply.outer(a, b).ravel() for a, b in zip(one, two, strict=True))
    mixture = (1 - rate) * p + rate * q
    curve = joint([(between(*one), 1), (between(*two), 1)]).subsampled(rate, "add-remove")
    p, q = (reduce(np.multiply.outer, [side] * rounds).ravel() for side in (p, mixture))
    bounds = compose([(curve, rounds)]).delta(epsilon)
    truth = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    assert bounds.lower * (1 - 1e-11) - 1e-14 <= truth <= bounds.upper * (1 + 1e-11) + 1e-14


def sampled_gaussian(mu, rate, epsilon, removed):
    """δ of N(0, 1) against its mixture with N(μ, 1), or the other way round, in forty digits."""
    with mp.workdps(40):
        mu, rate, factor = mp.mpf(mu), mp.mpf(rate), mp.exp(mp.mpf(epsilon))
        if not removed:
            x = mp.log((factor - 1) / rate + 1) / mu + mu / 2
            return float((1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(mu - x) - factor * mp.ncdf(-x))
        inside = (1 / factor - 1) / rate + 1
        if inside <= 0:
            return 0.0
        x = mp.log(inside) / mu + mu / 2
        return float(mp.ncdf(x) - factor * ((1 - rate) * mp.ncdf(x) + rate * mp.ncdf(x - mu)))


@pytest.mark.parametrize("means", [(0.1, 0.1), (1, 1), (3, 0.01), (6, 6), (10, 10), (25, 1), (30, 1), (40, 2)], ids=str)
@pytest.mark.parametrize("rate", [1, 0.01])
def test_the_joint_of_gaussians_is_one_gaussian(means, rate):
    mu = float(np.hypot(*means))
    curve = joint([(gaussian(m), 1) for m in means])
    curve = curve if rate == 1 else curve.subsampled(rate, "add-remove")
    for epsilon in (0.0, 0.1, 1.0, mu * mu / 2):
        for direction, removed in ((curve, False), (curve.inverse, True)):
            truth = sampled_gaussian(mu, rate, epsilon, removed and rate < 1)
            assert direction.delta(epsilon) >= truth * (1 - 1e-10) - 1e-14
        worse = max(sampled_gaussian(mu, rate, epsilon, removed) for removed in (False, rate < 1))
        assert enclosed(curve, worse, epsilon, 1e-10)


def test_the_enclosure_of_a_joint_release_is_narrow():
    bounds = compose([(joint([(gaussian(1.0), 1), (laplace(0.5), 1)]).subsampled(0.01, "add-remove"), 100)])
    low, high = bounds.epsilon(1e-5)
    assert low <= high <= low * 1.003


def test_one_release_together_is_itself():
    curve = gaussian(1.0)
    assert joint([(curve, 1)]) is curve


def test_the_joint_of_many_counts_every_one():
    vote = between([0.6, 0.4], [0.4, 0.6])
    together, apart = compose([(joint([(vote, 10)]), 1)]).delta(0.5), compose([(vote, 10)]).delta(0.5)
    assert together.lower <= apart.upper
    assert apart.lower <= together.upper
    assert together.upper == approx(apart.upper, rel=1e-4)


def test_what_is_impossible_for_one_is_impossible_for_both():
    curve = joint([(between([0.1, 0.9, 0.0], [0.0, 0.9, 0.1]), 1), (between([0.6, 0.4], [0.4, 0.6]), 2)])
    assert curve.epsilon(0.05) == curve.inverse.epsilon(0.05) == inf
    assert curve.delta(100.0) == approx(0.1, abs=1e-12)


def test_nothing_together_is_refused():
    with pytest.raises(FedprivError, match="at least one"):
        joint([])
    for count in (0, -1, 1.5):
        with pytest.raises(FedprivError):
            joint([(gaussian(1.0), count)])


def test_anchor_d_laplace_and_gaussian_on_one_sample():
    """The rivals know ε ≤ 1.4553 after 2,000 rounds; the truth is at least 1.4512."""
    both = joint([(gaussian(1 / 1.1), 1), (laplace(1.0), 1)]).subsampled(256 / 60000, "add-remove")
    bounds = compose([(both, 2000)]).epsilon(1e-5)
    assert 1.4512 < bounds.lower <= bounds.upper < 1.45535


def test_sampling_each_by_itself_would_claim_too_much_privacy():
    rate, rounds = 0.01, 100
    together = joint([(gaussian(1.0), 1), (laplace(1.0), 1)]).subsampled(rate, "add-remove")
    apart = [(curve.subsampled(rate, "add-remove"), rounds) for curve in (gaussian(1.0), laplace(1.0))]
    assert compose([(together, rounds)]).epsilon(1e-5).lower > compose(apart).epsilon(1e-5).upper


# --- propose-test-release: theory, section 5 --------------------------------------------------------------------------


def released(sigma, branch, failure):
    """Case 1, the branch visible: (1 − δ₀)·N(σ₁) + δ₀·N(σ₂) against its shift by 1, as one finite merged pair."""
    p, q = [], []
    for weight, noise in ((1 - failure, sigma), (failure, branch)):
        edges = np.linspace(-9, 9 + 1 / noise, 3001)
        for masses, mean in ((p, 0), (q, 1 / noise)):
            below = ndtr(edges - mean)
            masses.append(weight * np.concatenate((below[:1], np.diff(below), [ndtr(mean - edges[-1])])))
    p, q = np.concatenate(p), np.concatenate(q)
    return between(p / p.sum(), q / q.sum())


@pytest.mark.parametrize(
    ("sigma", "bound", "test_noise", "failure", "truth"),
    [(10, 0.5, 5, 1e-5, 0.52258), (4, 0.5, 2, 1e-8, 1.38446), (1.1, 0.5, 1, 1e-8, 4.79100)],
)
def test_the_two_exact_pairs_of_propose_test_release(sigma, bound, test_noise, failure, truth):
    """The hull of both cases; case 2 is Lap(0, b) × N(0, σ₁) against Lap(1, b) × N(1, σ₁)."""
    both = joint([(laplace(1 / test_noise), 1), (gaussian(1 / sigma), 1)])
    tested = compose([(both, 1)]).epsilon(1e-5)
    assert tested.lower - 1e-5 <= truth <= tested.upper + 1e-5
    assert tested.upper - tested.lower < 1e-4
    assert released(sigma, bound * sigma, failure).epsilon(1e-5) < truth
    assert both.hull(released(sigma, bound * sigma, failure)).epsilon(1e-5) == approx(truth, abs=1e-4)
