"""The curve of a pair: every answer against its definition, outcome by outcome, in sixty digits where it matters."""

from __future__ import annotations

from itertools import pairwise
from math import comb, exp, inf, log, nan

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pytest import approx
from scipy.spatial import ConvexHull
from scipy.special import ndtr, ndtri

from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError

between = Tradeoff.between
LEVELS = np.concatenate(([0.0, 1e-12, 1e-5], np.linspace(0.001, 0.999, 97), [1.0]))
weights = st.one_of(st.just(0.0), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-300, -2).map(lambda t: 10**t))


@st.composite
def pairs(draw, most=6, zeros=True):
    """Two distributions over the same outcomes: zeros, tiny masses, equal ratios and disjoint supports among them."""
    size = draw(st.integers(2, most))
    mass = weights if zeros else st.floats(0.01, 1)
    p, q = draw(arrays(float, size, elements=mass)), draw(arrays(float, size, elements=mass))
    if draw(st.booleans()):
        q[: size // 2] = p[: size // 2] * draw(st.floats(0.1, 3))  # outcomes of one ratio
    for side in (p, q):
        if side.sum() < 1e-3:
            side[draw(st.integers(0, size - 1))] = 1.0
    return p / p.sum(), q / q.sum()


def hockey_stick(p, q, epsilon):
    """Σ max(Q − e^ε P, 0) to sixty digits."""
    with mp.workdps(60):
        factor = mp.exp(mp.mpf(epsilon))
        return sum((max(mp.mpf(b) - factor * mp.mpf(a), mp.mpf(0)) for a, b in zip(p, q, strict=True)), mp.mpf(0))


def most_powerful(p, q, alpha):
    """β of the best test at level α: outcomes rejected greedily by ratio, the last one by a coin."""
    order = sorted(range(len(p)), key=lambda k: -q[k] / p[k] if p[k] > 0 else -inf)
    left, missed = mp.mpf(float(alpha)), mp.mpf(0)
    for k in order:
        share = 1 if p[k] == 0 else min(mp.mpf(1), left / mp.mpf(p[k]))
        left, missed = left - share * mp.mpf(p[k]), missed + (1 - share) * mp.mpf(q[k])
    return float(missed)


def binomial(trials, bias):
    """Masses of the binomial distribution, each to full accuracy."""
    with mp.workdps(60):
        p = mp.mpf(bias)
        return np.array([float(comb(trials, k) * p**k * (1 - p) ** (trials - k)) for k in range(trials + 1)])


# --- one pair ---------------------------------------------------------------------------------------------------------


@given(pairs(), st.floats(0, 5))
def test_delta_is_the_hockey_stick_divergence(pair, epsilon):
    assert between(*pair).delta(epsilon) == approx(float(hockey_stick(*pair, epsilon)), rel=1e-11, abs=1e-16)


@given(pairs(), st.floats(0, 5))
def test_delta_of_the_inverse_is_the_other_direction(pair, epsilon):
    p, q = pair
    assert between(p, q).inverse.delta(epsilon) == approx(float(hockey_stick(q, p, epsilon)), rel=1e-11, abs=1e-16)


@given(st.floats(-300, -2), st.floats(0.1, 3), st.floats(0, 0.99))
def test_tiny_masses_keep_their_accuracy(exponent, loss, part):
    p = 10**exponent
    q = p * exp(loss)
    found = between([p, 1 - p], [q, 1 - q]).delta(part * loss)
    assert found == approx(float(hockey_stick([p, 1 - p], [q, 1 - q], part * loss)), rel=1e-11, abs=0)


@given(st.floats(0.05, 0.95), st.floats(-12, -1), st.floats(0, 0.9))
def test_tiny_losses_keep_their_accuracy(p, exponent, part):
    q = p * (1 + 10**exponent)
    assume(p < q < 0.99)
    with mp.workdps(40):
        top = mp.log(mp.mpf(q) / mp.mpf(p))
    epsilon = float(part * top)
    truth = hockey_stick([p, 1 - p], [q, 1 - q], epsilon)
    assert between([p, 1 - p], [q, 1 - q]).delta(epsilon) == approx(float(truth), rel=1e-10, abs=0)


@given(pairs(), st.floats(0, 0.999))
def test_epsilon_is_the_smallest_that_delta_allows(pair, delta):
    curve = between(*pair)
    found = curve.epsilon(delta)
    if found == inf:
        assert curve.delta(700.0) > delta * (1 - 1e-12)
    else:
        assert curve.delta(found) <= delta * (1 + 1e-11) + 1e-15 * (1 + found)  # δ falls at most as ε grows
    if 0 < found < inf:
        assert curve.delta(found * (1 - 1e-9)) >= delta * (1 - 1e-11) - 1e-15 * (1 + found)


IN_LOGARITHMS = 1e-13  # masses are kept so, and a logarithm of up to 745 is rounded by 2⁻⁵³ of itself


@given(pairs(), st.floats(0, 1))
def test_the_curve_is_that_of_the_most_powerful_test(pair, alpha):
    assert between(*pair)(alpha) == approx(most_powerful(*pair, alpha), abs=IN_LOGARITHMS)


@given(pairs())
def test_a_curve_is_convex_falling_and_below_blind_guessing(pair):
    alpha = LEVELS[3:-1]
    beta = between(*pair)(alpha)
    assert (np.diff(beta) <= 1e-15).all()
    assert (np.diff(beta, 2) >= -1e-14).all()
    assert (beta <= 1 - alpha + 1e-15).all()


@given(pairs())
def test_inverting_twice_changes_nothing(pair):
    curve = between(*pair)
    assert curve.inverse.inverse(LEVELS) == approx(curve(LEVELS), abs=1e-15)


@given(pairs())
def test_the_inverse_exchanges_the_two_errors(pair):
    curve = between(*pair)
    for a, b in zip(*curve.breakpoints, strict=True):
        assert curve.inverse(b) <= a + 1e-14


@given(pairs())
def test_the_inverse_is_the_curve_of_the_exchanged_pair(pair):
    p, q = pair
    assert between(p, q).inverse(LEVELS) == approx(between(q, p)(LEVELS), abs=1e-15)


@given(pairs(), st.data())
def test_merging_outcomes_never_lowers_the_curve(pair, data):
    p, q = pair
    into = data.draw(arrays(int, len(p), elements=st.integers(0, len(p) - 1)))
    coarse = between(np.bincount(into, p, len(p)), np.bincount(into, q, len(p)))
    assert (coarse(LEVELS) >= between(p, q)(LEVELS) - 1e-14).all()


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_outcomes_does_not_matter(pair, random):
    order = random.sample(range(len(pair[0])), len(pair[0]))
    assert between(pair[0][order], pair[1][order])(LEVELS) == approx(between(*pair)(LEVELS), abs=1e-14)


@given(pairs())
def test_advantage_is_the_total_variation_distance(pair):
    p, q = pair
    assert between(p, q).advantage == approx(np.abs(p - q).sum() / 2, abs=1e-13)


@given(pairs(), st.floats(-5, 0).map(lambda t: 10**t))
def test_the_true_positive_rate_is_the_power_at_that_level(pair, alpha):
    assert between(*pair).true_positive_rate(alpha) == approx(1 - most_powerful(*pair, alpha), abs=IN_LOGARITHMS)


def test_gaussian_true_positive_rates_at_small_false_positive_rates():
    rates = np.array([1e-5, 1e-4, 1e-3, 0.01, 0.1])
    assert Tradeoff.gaussian(1.0).true_positive_rate(rates) == approx(ndtr(ndtri(rates) + 1), rel=1e-12)


def test_curves_of_a_number_are_numbers_and_of_an_array_arrays():
    curve = between([0.6, 0.4], [0.4, 0.6])
    assert isinstance(curve(0.1), float)
    assert curve([0.1, 0.2]).shape == (2,)


def test_disjoint_supports_hide_nothing():
    curve = between([0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75])
    assert curve(0.0) == 0
    assert curve.delta(100.0) == 1
    assert curve.epsilon(0.5) == inf
    assert curve.epsilon(1) == 0
    assert curve.mu == inf


def test_equal_distributions_hide_everything():
    curve = between([0.2, 0.8], [0.2, 0.8])
    assert curve(LEVELS) == approx(1 - LEVELS, abs=1e-15)
    assert (curve.delta(0.0), curve.epsilon(0.0), curve.mu, curve.advantage) == (0, 0, 0, 0)


# --- μ ----------------------------------------------------------------------------------------------------------------


@given(pairs(zeros=False))
def test_the_gaussian_curve_of_mu_lies_below_and_touches(pair):
    curve = between(*pair)
    gaussian = Tradeoff.gaussian(curve.mu)
    alpha, beta = curve.breakpoints
    inside = slice(1, -1)
    assert (gaussian(LEVELS) <= curve(LEVELS) + 1e-13).all()
    if curve.mu > 1e-9:
        assert np.abs(beta[inside] - gaussian(alpha[inside])).min() < 1e-12


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.0, 1.0], [0.1, 0.9]),  # T(0) < 1
        ([0.1, 0.9], [0.0, 1.0]),  # T reaches 0 before α = 1
        ([0.1, 0.9, 0.0], [0.0, 0.9, 0.1]),
    ],
)
def test_mu_is_infinite_where_an_outcome_gives_everything_away(p, q):
    assert between(p, q).mu == inf


def test_mu_of_masses_that_underflow_beside_one_another_is_finite():
    curve = between([1e-200, 1 - 1e-200], [2e-200, 1 - 2e-200])
    with mp.workdps(60):
        place = [mp.findroot(lambda x, a=a: mp.log(mp.ncdf(x)) - mp.log(mp.mpf(a)), -30) for a in (1e-200, 2e-200)]
    assert curve.mu == approx(float(place[1] - place[0]), rel=1e-9)


# --- the curves with a formula ----------------------------------------------------------------------------------------


def gaussian_delta(mu, epsilon):
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@given(st.floats(-3, 1.5).map(lambda t: 10**t), st.floats(0, 20))
def test_the_gaussian_curve_has_its_closed_form(mu, deviations):
    epsilon = mu * deviations
    assert Tradeoff.gaussian(mu).delta(epsilon) == approx(float(gaussian_delta(mu, epsilon)), rel=1e-9, abs=1e-300)
    assert Tradeoff.gaussian(mu)(LEVELS) == approx(ndtr(-ndtri(LEVELS) - mu), abs=1e-15)
    assert Tradeoff.gaussian(mu).mu == mu


@pytest.mark.parametrize("mu", [1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("deviations", [0.0, 1.0, 5.0, 20.0])
def test_the_gaussian_curve_of_a_tiny_mu_keeps_its_accuracy(mu, deviations):
    epsilon = mu * deviations
    assert Tradeoff.gaussian(mu).delta(epsilon) == approx(float(gaussian_delta(mu, epsilon)), rel=1e-9, abs=0)


@given(st.floats(-3, 1.5).map(lambda t: 10**t), st.floats(-300, -0.5))
def test_epsilon_of_the_gaussian_curve_inverts_delta(mu, exponent):
    found = Tradeoff.gaussian(mu).epsilon(10**exponent)
    if found > 0:
        assert float(mp.log(gaussian_delta(mu, found))) == approx(exponent * log(10), rel=1e-8, abs=1e-8)


@given(st.floats(0.01, 8), st.floats(0, 1))
def test_the_laplace_curve_has_its_closed_form(shift, part):
    curve = Tradeoff.laplace(shift)
    assert curve.delta(part * shift) == approx(-np.expm1((part - 1) * shift / 2), rel=1e-9, abs=1e-14)
    assert curve.epsilon(0.0) == approx(shift, rel=1e-12)
    alpha = LEVELS
    middle = np.exp(-shift) / (4 * np.maximum(alpha, 1e-300))
    beta = 1 - np.exp(shift) * alpha
    beta = np.where(alpha > 0.5, np.exp(-shift) * (1 - alpha), beta)
    beta = np.where((alpha >= np.exp(-shift) / 2) & (alpha <= 0.5), middle, beta)
    assert curve(alpha) == approx(beta, abs=1e-12)


@given(st.floats(0, 6), st.floats(0, 0.9))
def test_the_pure_curve_has_its_closed_form(epsilon, delta):
    curve = Tradeoff.pure(epsilon, delta)
    formula = np.maximum(1 - delta - np.exp(epsilon) * LEVELS, np.exp(-epsilon) * (1 - delta - LEVELS))
    assert curve(LEVELS) == approx(np.maximum(formula, 0), abs=1e-14)
    assert curve.delta(epsilon) == approx(delta, abs=1e-15)
    assert curve.epsilon(delta + 1e-12) <= epsilon + 1e-12


# --- hull -------------------------------------------------------------------------------------------------------------


def lower_hull(curves, alpha):
    """The lower convex hull of all breakpoints, by scipy, at α."""
    corners = [np.column_stack(curve.breakpoints) for curve in curves]
    points = np.unique(np.vstack([*corners, [[0, 1], [1, 0], [1, 1]]]), axis=0)
    below = points[np.unique(ConvexHull(points).vertices)]
    below = below[np.argsort(below[:, 0], kind="stable")]
    return np.array([min(chords(below, a)) for a in np.atleast_1d(alpha)])


def chords(points, a):
    """Heights at a of all chords between points left and right of it."""
    for x, y in points:
        if x == a:
            yield y
        for u, v in points:
            if x < a < u:
                yield y + (v - y) * (a - x) / (u - x)


@given(pairs(), pairs())
def test_a_hull_lies_below_each_and_its_delta_is_the_larger(one, two):
    f, g = between(*one), between(*two)
    both = f.hull(g)
    assert (both(LEVELS) <= np.minimum(f(LEVELS), g(LEVELS)) + 1e-13).all()
    for epsilon in (0.0, 0.1, 1.0, 3.0, 50.0):
        assert both.delta(epsilon) == approx(max(f.delta(epsilon), g.delta(epsilon)), rel=1e-10, abs=1e-15)


@given(pairs(most=4, zeros=False), pairs(most=4, zeros=False))
@settings(max_examples=13)
def test_a_hull_is_the_largest_convex_curve_below_all(one, two):
    f, g = between(*one), between(*two)
    levels = np.linspace(0, 1, 21)
    assert f.hull(g)(levels) == approx(lower_hull([f, g], levels), abs=1e-11)


@given(pairs(), pairs(), pairs())
@settings(max_examples=17)
def test_a_hull_does_not_depend_on_the_order(one, two, three):
    f, g, h = (between(*pair) for pair in (one, two, three))
    assert f.hull(g, h)(LEVELS) == approx(h.hull(f).hull(g)(LEVELS), abs=1e-12)


@given(pairs(), st.floats(0, 5))
def test_a_hull_with_the_inverse_is_its_own_inverse(pair, epsilon):
    f = between(*pair)
    both = f.hull(f.inverse)
    assert both.inverse.delta(epsilon) == approx(both.delta(epsilon), rel=1e-10, abs=1e-14)


@given(pairs(), st.data())
def test_a_hull_of_curves_that_differ_by_rounding_alone_is_either(pair, data):
    p, q = pair
    part = data.draw(arrays(float, len(p), elements=st.floats(0.05, 0.95)))
    split = np.concatenate((p * part, p * (1 - part))), np.concatenate((q * part, q * (1 - part)))
    both = between(p, q).hull(between(*split))
    for epsilon in (0.0, 0.1, 1.0, 3.0, 50.0):
        assert both.delta(epsilon) == approx(between(p, q).delta(epsilon), rel=1e-10, abs=1e-14)
    assert both(LEVELS) == approx(between(p, q)(LEVELS), abs=1e-13)


def test_hulls_of_split_outcomes_stay_distributions():
    rng = np.random.default_rng(5)
    for _ in range(3000):
        size = int(rng.integers(2, 7))
        p = np.append(rng.dirichlet(np.ones(size)), 0)
        q = np.append(0.9 * rng.dirichlet(np.ones(size)), 0.1)
        part, noise = rng.uniform(size=size + 1), 1 + 10 ** rng.uniform(-16.5, -12) * rng.normal(size=2 * size + 2)
        p_split = np.concatenate((p * part, p * (1 - part)))
        q_split = np.concatenate((q * part, q * (1 - part))) * noise
        both = between(p, q).hull(between(p_split / p_split.sum(), q_split / q_split.sum()))
        assert both.delta(0.0) == approx(between(p, q).delta(0.0), abs=1e-11)
        assert both.inverse.delta(0.0) == approx(between(q, p).delta(0.0), abs=1e-11)


# --- sampling ---------------------------------------------------------------------------------------------------------


@given(pairs(), st.floats(0.001, 0.999), st.floats(0, 4))
def test_a_sampled_curve_is_that_of_the_mixture(pair, rate, epsilon):
    p, q = pair
    mixture = (1 - rate) * p + rate * q
    curve = between(p, q).subsampled(rate, "add-remove")
    assert curve.delta(epsilon) == approx(float(hockey_stick(p, mixture, epsilon)), rel=1e-10, abs=1e-14)
    assert curve.inverse.delta(epsilon) == approx(float(hockey_stick(mixture, p, epsilon)), rel=1e-10, abs=1e-14)


@given(pairs(), st.floats(0.001, 0.999), st.floats(0, 4))
def test_replacing_a_sampled_record_costs_the_worst_of_both_orders_and_directions(pair, rate, epsilon):
    p, q = pair
    there, back = (1 - rate) * p + rate * q, (1 - rate) * q + rate * p
    worst = max(hockey_stick(*sides, epsilon) for sides in ((p, there), (there, p), (q, back), (back, q)))
    curve = between(p, q).subsampled(rate, "replace")
    for direction in (curve, curve.inverse):
        assert direction.delta(epsilon) == approx(float(worst), rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("rate", [0.99, 0.9999, 1 - 1e-7, 1 - 1e-10, 1e-10])
def test_sampling_at_a_rate_near_one_or_nought_keeps_its_accuracy(rate):
    p, q = [0.5, 0.5], [1e-16, 1 - 1e-16]
    with mp.workdps(60):
        mixture = [(1 - mp.mpf(rate)) * mp.mpf(a) + mp.mpf(rate) * mp.mpf(b) for a, b in zip(p, q, strict=True)]
        truth = max(mp.log(mp.mpf(a) / b) for a, b in zip(p, mixture, strict=True))
    assert between(p, q).subsampled(rate, "add-remove").inverse.epsilon(0.0) == approx(float(truth), rel=1e-12)


def test_sampling_everybody_changes_nothing_and_nobody_hides_everything():
    curve = between([0.3, 0.7], [0.7, 0.3])
    assert curve.subsampled(1.0) is curve
    assert curve.subsampled(0.0).advantage == 0


@given(st.floats(0.1, 3), st.floats(0.01, 0.99), st.floats(0.001, 3))
@settings(max_examples=10)
def test_a_sampled_gaussian_has_its_closed_form(mu, rate, epsilon):
    with mp.workdps(60):
        m, r, e = mp.mpf(mu), mp.mpf(rate), mp.mpf(epsilon)
        x = mp.log((mp.exp(e) - 1) / r + 1) / m + m / 2
        truth = float((1 - r) * mp.ncdf(-x) + r * mp.ncdf(m - x) - mp.exp(e) * mp.ncdf(-x))
    sampled = Tradeoff.gaussian(mu).subsampled(rate, "add-remove")
    assert sampled.delta(epsilon) == approx(truth, rel=1e-8, abs=1e-15)


# --- compare ----------------------------------------------------------------------------------------------------------


def test_more_noise_is_more_private():
    assert between([0.5, 0.5], [0.4, 0.6]).compare(between([0.5, 0.5], [0.3, 0.7])) == "more private"
    assert between([0.5, 0.5], [0.3, 0.7]).compare(between([0.5, 0.5], [0.4, 0.6])) == "less private"


def test_crossing_curves_are_incomparable_and_a_curve_equals_itself():
    ternarize, vote = between([0.0, 0.9, 0.1], [0.1, 0.9, 0.0]), between([0.6, 0.4], [0.4, 0.6])
    assert ternarize.compare(vote) == vote.compare(ternarize) == "incomparable"
    assert vote.compare(between([0.4, 0.6], [0.6, 0.4])) == "equal"


@given(pairs(), pairs())
def test_comparing_is_antisymmetric(one, two):
    f, g = between(*one), between(*two)
    opposite = {"more private": "less private", "less private": "more private"}
    assert g.compare(f) == opposite.get(f.compare(g), f.compare(g))


# --- values checked independently (theory, section 1) -----------------------------------------------------------------


def noise_pair():
    """Binomial noise, M = 500, p = ½, against itself moved by l = 8."""
    noise = binomial(500, 0.5)
    return np.append(noise, np.zeros(8)), np.append(np.zeros(8), noise)


def test_binomial_noise():
    curve = between(*noise_pair())
    assert curve.delta(1.0) == approx(0.0416992747670, abs=5e-14)
    assert curve.delta(1.5) == approx(0.00953433377160, abs=5e-15)
    assert curve.delta(1.67) == approx(0.00525787631698, abs=5e-15)
    assert curve.mu == inf


def test_binomial_noise_keeps_its_last_digit_at_a_delta_of_1e_136():
    p, q = noise_pair()
    both = (p > 0) & (q > 0)
    largest = np.log(q[both] / p[both]).max()
    assert between(p, q).delta(largest) == approx(4.60497e-136, rel=2e-6, abs=0)


def test_ternary():
    ternary = between([0.15, 0.5, 0.35], [0.35, 0.5, 0.15])
    assert ternary.delta(log(2)) == approx(0.05, abs=1e-15)
    assert ternary.mu == approx(0.651112923086, abs=1e-12)


def test_stochastic_sign():
    assert between([0.3, 0.7], [0.7, 0.3]).delta(log(2)) == approx(0.1, abs=1e-15)


def test_the_binomial_mechanism():
    curve = between(binomial(16, 0.45), binomial(16, 0.55))
    assert curve.delta(0.5) == approx(0.161418858655, abs=1e-12)
    assert curve(0.05) == approx(0.799332182261, abs=1e-12)
    assert curve(0.25) == approx(0.445901527214, abs=1e-12)
    assert curve.mu == approx(0.814388173762, abs=1e-11)


def test_hull_of_one_direction_each_is_what_two_rounds_of_real_data_can_reach():
    """Theory, section 4: sto-sign at rate .1, two rounds: the hull's δ(.1) is .0222177."""
    both = between([0.3, 0.7], [0.7, 0.3]).subsampled(0.1, "replace")
    p, q = np.diff(both.breakpoints[0]), -np.diff(both.breakpoints[1])
    two = float(hockey_stick(np.outer(p, p).ravel(), np.outer(q, q).ravel(), 0.1))
    assert two == approx(0.0222177, abs=5e-8)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "says"),
    [
        ([0.5, 0.4], [0.5, 0.5], "P must sum to 1, got 0.9"),
        ([0.5, 0.5], [0.5, 0.6], "Q must sum to 1, got 1.1"),
        ([nan, 1.0], [0.5, 0.5], "P must hold probabilities, got nan"),
        ([1.5, -0.5], [0.5, 0.5], "P must hold probabilities, got -0.5"),
        ([0.5, 0.5], [inf, 0.5], "Q must sum to 1, got inf"),
        ([0.5, 0.5], [1.0], "two lists of one length"),
        ([[0.5, 0.5]], [[0.5, 0.5]], "two lists of one length"),
        ([], [], "two lists of one length"),
    ],
)
def test_what_is_no_distribution_is_refused(p, q, says):
    with pytest.raises(FedprivError, match=says.replace(".", r"\.")):
        between(p, q)


@pytest.mark.parametrize("bad", [-0.1, 1.1, nan])
def test_rates_and_levels_outside_the_unit_interval_are_refused(bad):
    curve = between([0.6, 0.4], [0.4, 0.6])
    for ask in (curve, curve.epsilon, curve.subsampled, curve.true_positive_rate):
        with pytest.raises(FedprivError):
            ask(bad)


@pytest.mark.parametrize("bad", [-0.1, nan])
def test_negative_parameters_are_refused(bad):
    for make in (Tradeoff.gaussian, Tradeoff.laplace, Tradeoff.pure):
        with pytest.raises(FedprivError):
            make(bad)
    with pytest.raises(FedprivError):
        between([0.6, 0.4], [0.4, 0.6]).delta(nan)


def test_breakpoints_run_from_one_corner_to_the_other():
    alpha, beta = between(*noise_pair()).breakpoints
    assert (alpha[0], beta[-1]) == (0, 0)
    assert all(a <= b for a, b in pairwise(alpha))
    assert all(a >= b for a, b in pairwise(beta))


@pytest.mark.parametrize("delta", [5e-324, 1e-316, 1 - 1e-15])
def test_a_delta_at_the_end_of_floats_has_an_epsilon(delta: float) -> None:
    curve = Tradeoff.gaussian(1.0)
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta
    assert 0 <= epsilon < 40
