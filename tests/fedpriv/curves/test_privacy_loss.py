"""Composition: the truth, outcome by outcome in sixty digits, lies between the bounds, and the bounds are close."""

from __future__ import annotations

from functools import reduce
from math import comb, e, exp, factorial, inf, log, nan, prod, sqrt

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pytest import approx
from scipy.special import bdtr, bdtrc, ndtr

from fedpriv.bounds.sums import scalar_pair_lower
from fedpriv.curves._lattice import gathered
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import BinomialNoise, DiscreteGaussian

between = Tradeoff.between
DELTAS = (0.3, 1e-2, 1e-5, 1e-8, 1e-12)
VOTE = between([0.6, 0.4], [0.4, 0.6])
TERNARY = between([0.15, 0.5, 0.35], [0.35, 0.5, 0.15])
SAMPLED = Tradeoff.gaussian(1.0).subsampled(0.01, "add-remove")  # the anchors' case (a)


class Exact:
    """δ and ε of a finite pair in sixty digits, the worse of both directions."""

    def __init__(self, pair):
        self.directions = [self._sorted(pair), self._sorted([(b, a) for a, b in pair])]

    @staticmethod
    def _sorted(pair):
        """(Q's mass where P has none, outcomes by falling ratio)."""
        seen = sorted(((b / a, a, b) for a, b in pair if a and b), key=lambda outcome: -outcome[0])
        return sum((b for a, b in pair if not a), mp.mpf(0)), seen

    def delta(self, epsilon):
        with mp.workdps(60):
            factor = mp.exp(mp.mpf(epsilon))
            return max(
                hidden + sum((max(b - factor * a, mp.mpf(0)) for _, a, b in seen), mp.mpf(0))
                for hidden, seen in self.directions
            )

    def epsilon(self, delta):
        with mp.workdps(60):
            return max(mp.mpf(0), *(self._one(*direction, mp.mpf(delta)) for direction in self.directions))

    @staticmethod
    def _one(hidden, seen, delta):
        """D(t) = hidden + B − t·A on each linear piece, A and B the masses of the outcomes above it."""
        if hidden > delta:
            return mp.inf
        above_p = above_q = mp.mpf(0)
        for ratio, a, b in seen:
            if hidden + above_q - ratio * above_p > delta:
                break
            above_p, above_q = above_p + a, above_q + b
        left = hidden + above_q - delta
        return mp.log(left / above_p) if left > 0 else -mp.inf


def power(p, q, count):
    """The pair composed with itself: one outcome for every way to count outcomes."""
    p, q = [mp.mpf(float(x)) for x in p], [mp.mpf(float(x)) for x in q]
    with mp.workdps(60):
        return [
            (ways * prod(a**k for a, k in zip(p, counts, strict=True)),
             ways * prod(b**k for b, k in zip(q, counts, strict=True)))
            for counts in counted(count, len(p))
            for ways in [mp.mpf(factorial(count) // prod(map(factorial, counts)))]
        ]  # fmt: skip


def counted(total, kinds):
    """Every way to write a total as so many counts."""
    if kinds == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in counted(total - first, kinds - 1)]


def votes(plus, count):
    """`power` of one vote and its opposite, by a recurrence."""
    with mp.workdps(60):
        p, q = mp.mpf(plus), 1 - mp.mpf(plus)
        mass = [q**count]
        for k in range(count):
            mass.append(mass[-1] * (count - k) / (k + 1) * p / q)
        return list(zip(mass, mass[::-1], strict=True))


def product(*parts):
    """Pairs, each composed with itself so often, side by side."""
    with mp.workdps(60):
        powers = [power(*part) for part in parts]
        return reduce(lambda one, two: [(a * c, b * d) for a, b in one for c, d in two], powers)


def contain(bounds, truth):
    """Whether the truth lies between the bounds: no slack."""
    return bounds.lower <= min(truth, mp.inf) <= bounds.upper


def holds(composition, exact, epsilons=(), deltas=DELTAS, tolerance=1e-6):
    for delta in deltas:
        bounds, truth = composition.epsilon(delta, tolerance), exact.epsilon(delta)
        assert contain(bounds, truth), f"ε({delta}) = {mp.nstr(truth, 17)}, bounds {bounds}"
    for epsilon in epsilons:
        bounds, truth = composition.delta(epsilon, tolerance), min(exact.delta(epsilon), mp.mpf(1))
        assert contain(bounds, truth), f"δ({epsilon}) = {mp.nstr(truth, 17)}, bounds {bounds}"
    return True


def closely(bounds, truth, absolute=0.0, relative=1e-6):
    """Bounds that hold (up to the digits the truth is given with) and lie near the truth."""
    room = max(absolute, relative * abs(truth))
    known = 10.0 ** (np.floor(np.log10(truth)) - 11)
    return truth - room <= bounds.lower <= truth + known and truth - known <= bounds.upper <= truth + room


@st.composite
def pairs(draw, most=4):
    """Two distributions of a few outcomes: generic, near each other, on a lattice, unbalanced, with zeros."""
    size = draw(st.integers(2, most))
    p = draw(arrays(float, size, elements=st.floats(0.02, 1)))
    kind = draw(st.sampled_from(["any", "near", "lattice", "unbalanced"]))
    if kind == "any":
        q = draw(arrays(float, size, elements=st.floats(0.02, 1)))
    elif kind == "unbalanced":
        q = 10.0 ** -draw(arrays(float, size, elements=st.floats(0, 40)))
    else:
        unit = 10 ** draw(st.floats(-4, 0))
        steps = st.integers(-3, 3) if kind == "lattice" else st.floats(-1, 1)
        q = p * np.exp(unit * np.array(draw(st.lists(steps, min_size=size, max_size=size))))
    if size > 2 and draw(st.booleans()):
        draw(st.sampled_from([p, q]))[draw(st.integers(0, size - 1))] = 0
    assume(p.sum() > 0 and q.sum() > 0)
    p, q = p / p.sum(), q / q.sum()
    return (p, q) if draw(st.booleans()) else (q, p)


parts = st.floats(0, 1)
exponents = st.floats(-14, -0.1).map(lambda t: 10**t)
tolerances = st.sampled_from([1e-3, 1e-4, 1e-6])


def some_epsilons(pair, count, part):
    """0 and two inside the losses there are."""
    ratios = [abs(log(b / a)) for a, b in zip(*pair, strict=True) if a > 0 and b > 0]
    return 0.0, part * count * max(ratios, default=1.0), part * sqrt(count) * max(ratios, default=1.0)


# --- the truth lies between the bounds --------------------------------------------------------------------------------


@given(pairs(), st.integers(1, 7), parts, exponents, tolerances)
@settings(max_examples=40)
def test_bounds_contain_the_exact_value(pair, count, part, delta, tolerance):
    exact = Exact(power(*pair, count))
    epsilons = some_epsilons(pair, count, part)
    assert holds(compose([(between(*pair), count)]), exact, epsilons, (delta, 1e-30), tolerance)


@given(pairs(most=2), st.integers(2, 60), parts, exponents)
@settings(max_examples=20)
def test_bounds_contain_the_exact_value_of_two_outcomes(pair, count, part, delta):
    exact = Exact(power(*pair, count))
    assert holds(compose([(between(*pair), count)]), exact, some_epsilons(pair, count, part), (delta, 1e-30, 1e-100))


@given(pairs(most=3), pairs(most=3), st.integers(1, 3), st.integers(1, 3), parts, exponents, tolerances)
@settings(max_examples=17)
def test_bounds_contain_the_exact_value_of_a_mixed_composition(one, two, first, second, part, delta, tolerance):
    exact = Exact(product((*one, first), (*two, second)))
    both = compose([(between(*one), first), (between(*two), second)])
    assert holds(both, exact, some_epsilons(one, first, part), (delta,), tolerance)


@given(pairs(most=3), st.floats(0.001, 0.999), st.integers(1, 5), parts, exponents)
@settings(max_examples=17)
def test_bounds_contain_the_exact_value_of_sampled_pairs(pair, rate, count, part, delta):
    p, q = ([mp.mpf(float(x)) for x in side] for side in pair)
    rest = 1 - mp.mpf(rate)
    mixture = [rest * a + mp.mpf(rate) * b for a, b in zip(p, q, strict=True)]
    with mp.workdps(60):
        exact = Exact(
            [
                (ways * prod(a**k for a, k in zip(p, counts, strict=True)),
                 ways * prod(b**k for b, k in zip(mixture, counts, strict=True)))
                for counts in counted(count, len(p))
                for ways in [factorial(count) // prod(map(factorial, counts))]
            ]
        )  # fmt: skip
    composed = compose([(between(*pair).subsampled(rate, "add-remove"), count)])
    for found, truth in [
        (composed.epsilon(delta), exact.epsilon(delta)),
        (composed.delta(part), min(exact.delta(part), mp.mpf(1))),
    ]:
        assert found.lower * (1 - 1e-12) - 1e-15 <= truth <= found.upper * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("count", [2, 5, 20, 60])
@pytest.mark.parametrize("loss", [1e-1, 1e-2, 1e-3, 1e-5])
def test_bounds_hold_at_deltas_that_single_outcomes_reach(loss, count):
    """A tilt for Chernoff's ε is far too steep where δ is near the mass of the largest loss."""
    plus = 0.5 + loss / 4
    pair = [plus, 1 - plus], [1 - plus, plus]
    deltas = (0.1, 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, 0.5**count, 0.5 ** (count + 1), loss * 0.5**count)
    assert holds(compose([(between(*pair), count)]), Exact(power(*pair, count)), (0.0, loss, count * loss / 2), deltas)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([1 - 1e-5, 1e-5], [1e-5, 1 - 1e-5]),
        ([1.0, 0.0], [1e-200, 1.0]),
        ([1.0, 0.0], [1e-310, 1.0]),
        ([1.0, 1e-310], [1e-310, 1.0]),
        ([1.0, 1e-305], [1.0, 1e-301]),
        ([1.0, 1.7e-22, 9e-83], [1e-22, 4.3e-23, 1.0]),
        ([1.07e-17, 1.0, 1.6e-25], [0.0, 1.0, 3.3e-53]),
        ([6.6e-41, 1 - 2.0**-28, 2.0**-28], [1 - 2.0**-43, 2.4e-93, 2.0**-43]),
    ],
)
def test_bounds_hold_for_extremely_unbalanced_masses(p, q):
    for count in (1, 2, 3):
        exact = Exact(power(p, q, count))
        assert holds(compose([(between(p, q), count)]), exact, (0.0, 1.0, 38.2, 300.0), (0.5, 1e-5, 1e-12, 1e-30))


@pytest.mark.parametrize("apart", [1e-16, 1e-14, 1e-13, 3e-13, 5e-13, 1e-12, 1e-9])
def test_bounds_hold_where_losses_lie_nearly_on_a_lattice(apart):
    p, q = [0.25, 0.25, 0.5], [0.375 * (1 + apart), 0.375, 0.25 - 0.375 * apart]
    for count in (2, 3, 8):
        exact = Exact(power(p, q, count))
        assert holds(compose([(between(p, q), count)]), exact, (), (0.1, 1e-5, 1e-12, 1e-30))


def cut(mass_below, losses_at, edges):
    """The line cut into cells: (merged pair, spread pair), P and Q each, for a loss that rises between the edges."""
    p, q = (np.diff(f(edges)) for f in mass_below)
    low, high = losses_at[:-1], losses_at[1:]
    up = np.clip((q - p * np.exp(low)) / -np.expm1(low - high), 0, q)
    spread_q, spread_p = np.append(q - up, 0), np.append((q - up) * np.exp(-low), 0)
    spread_q[1:] += up
    spread_p[1:] += up * np.exp(-high)
    return (p, q), (spread_p, spread_q)


def convolved_delta(pair, count, epsilon):
    """δ of a finite pair composed with itself by outer products, the worse of both directions."""
    p, q = (reduce(np.multiply.outer, [side] * count).ravel() for side in pair)
    return max(np.maximum(q - exp(epsilon) * p, 0).sum(), np.maximum(p - exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 1.4])
def test_laplace_noise_lies_between_its_own_cells(epsilon):
    def cdf(x):
        return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)

    shift, inside = 0.5, np.linspace(0, 0.5, 60)
    loss = 2 * inside - shift
    ends_p = np.array([0.5, exp(-shift) / 2])  # flat losses −shift and shift outside
    ends_q = ends_p[::-1]
    merged, spread = cut((cdf, lambda x: cdf(x - shift)), loss, inside)
    bounds = compose([(Tradeoff.laplace(shift), 3)]).delta(epsilon)
    below, above = (
        convolved_delta((np.append(p, ends_p), np.append(q, ends_q)), 3, epsilon) for p, q in (merged, spread)
    )
    assert below <= bounds.upper * (1 + 1e-11) + 1e-15
    assert bounds.lower <= above * (1 + 1e-11) + 1e-15
    assert bounds.upper - bounds.lower <= 1e-5 * bounds.upper + 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.5])
def test_a_sampled_gaussian_lies_between_its_own_cells(epsilon):
    rate, mu = 0.1, 1.0
    edges = np.linspace(-8, 9, 90)
    loss = np.log1p(rate * np.expm1(mu * edges - mu * mu / 2))
    merged, spread = cut((ndtr, lambda x: (1 - rate) * ndtr(x) + rate * ndtr(x - mu)), loss, edges)
    bounds = compose([(Tradeoff.gaussian(mu).subsampled(rate, "add-remove"), 3)]).delta(epsilon)
    assert convolved_delta(merged, 3, epsilon) <= bounds.upper + 1e-14
    assert bounds.lower <= convolved_delta(spread, 3, epsilon) + 1e-14
    assert bounds.upper - bounds.lower <= 1e-3 * bounds.upper + 1e-9


def test_laplace_with_gaussian_noise_costs_at_least_either_and_at_most_the_pure_sum():
    gaussian, laplace = Tradeoff.gaussian(0.5), Tradeoff.laplace(0.3)
    both = compose([(laplace, 10), (gaussian, 1)]).epsilon(1e-5)
    assert both.upper >= max(compose([(laplace, 10)]).epsilon(1e-5).lower, gaussian.epsilon(1e-5))
    assert both.lower <= 10 * 0.3 + gaussian.epsilon(1e-5)
    assert both.upper - both.lower <= 1e-5 * both.upper


# --- values checked independently -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "truth"), [(10, 8.0227624848), (200, 67.2245593462)])
def test_ternary_rounds(rounds, truth):
    bounds = compose([(TERNARY, rounds)]).epsilon(1e-5)
    assert bounds.lower - 6e-11 <= truth <= bounds.upper + 6e-11
    assert bounds.upper - bounds.lower < 1e-7


def binomial(trials, bias):
    with mp.workdps(60):
        p = mp.mpf(bias)
        return np.array([float(comb(trials, k) * p**k * (1 - p) ** (trials - k)) for k in range(trials + 1)])


BINOMIAL = between(binomial(16, 0.45), binomial(16, 0.55))


def test_binomial_rounds_at_a_delta_of_1e_20():
    """1,600 votes of .55 against .45; 60-digit mpmath says 104.544756786089."""
    truth = Exact(votes(mp.mpf(11) / 20, 1600)).epsilon(1e-20)
    assert truth == approx(104.544756786089, abs=1e-10)
    assert closely(compose([(BINOMIAL, 100)]).epsilon(1e-20), 104.544756786089)


@pytest.mark.parametrize(("adjacency", "truth"), [("add-remove", 3.8383544263), ("replace", 4.328971549)])
def test_sampled_signs(adjacency, truth):
    sign = between([0.3, 0.7], [0.7, 0.3]).subsampled(0.1, adjacency)
    bounds = compose([(sign, 100)]).epsilon(1e-5)
    assert bounds.lower - 6e-10 <= truth <= bounds.upper + 6e-10
    assert bounds.upper - bounds.lower < 1e-4


def test_replacing_alternates_between_directions():
    """Theory, section 4: real data reach .0191762, one direction alone .0161346; the hull gives .0222177."""
    sign = between([0.3, 0.7], [0.7, 0.3])
    assert compose([(sign.subsampled(0.1, "replace"), 2)]).delta(0.1).upper == approx(0.0222177, abs=1e-7)
    assert compose([(sign.subsampled(0.1, "add-remove"), 2)]).delta(0.1).upper == approx(0.0161346, abs=1e-7)


@pytest.mark.parametrize(
    ("rounds", "truth", "within"),
    [(1000, 1.82823667, 1.6e-4), (10_000, 6.1877124, 1.5e-3)],  # fine transform, extrapolated: ± 2e−7, ± 1e−6
)
def test_anchor_a_sampled_gaussian_rounds(rounds, truth, within):
    bounds = compose([(SAMPLED, rounds)]).epsilon(1e-5)
    assert truth - within <= bounds.lower <= truth + 1e-6
    assert truth - 1e-6 <= bounds.upper <= truth + within


def test_anchor_b_randomised_response():
    response = between([e / (1 + e), 1 / (1 + e)], [1 / (1 + e), e / (1 + e)])
    assert closely(compose([(response, 10_000)]).epsilon(1e-5), 4995.70003699646, absolute=1e-6, relative=0)
    assert closely(compose([(response, 1000)]).epsilon(1e-5), 577.833206709374, absolute=1e-6, relative=0)


def test_anchor_c_binomial_mechanism():
    assert closely(compose([(BINOMIAL, 1000)]).epsilon(1e-5), 427.740752948407, absolute=1e-6, relative=0)


def test_anchor_discrete_gaussian():
    noise = DiscreteGaussian(clip=0.5, levels=1, noise=4).tradeoff()
    bounds = compose([(noise, 1000)]).epsilon(1e-5)
    assert bounds.lower - 6e-8 <= 64.1689422 <= bounds.upper + 6e-8
    assert bounds.upper - bounds.lower < 1e-6


@pytest.mark.parametrize("delta", [10.0**-k for k in (2, 5, 10, 13, 20, 30)])
def test_ten_thousand_gaussians_are_one(delta):
    """The rivals' bound falls below the truth from δ = 1e−10 on, by .12 at 1e−13."""
    with mp.workdps(60):
        start = Tradeoff.gaussian(100.0).epsilon(delta)
        truth = mp.findroot(
            lambda x: mp.log(mp.ncdf(50 - x / 100) - mp.exp(x) * mp.ncdf(-50 - x / 100)) - mp.log(mp.mpf(delta)), start
        )
    bounds = compose([(Tradeoff.gaussian(1.0), 10_000)]).epsilon(delta)
    assert bounds.lower <= truth <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-8 * bounds.upper
    edges = np.concatenate(([-inf], np.linspace(-11, 12, 12_000), [inf]))
    below, above = ndtr(edges), ndtr(-edges)
    p = np.where(edges[1:] < 0, np.diff(below), -np.diff(above))
    below, above = ndtr(edges - 1), ndtr(1 - edges)
    q = np.where(edges[1:] < 1, np.diff(below), -np.diff(above))
    cells = compose([(between(p, q), 10_000)]).epsilon(delta)
    assert cells.lower <= truth
    assert truth * (1 - 1e-6) <= cells.upper <= truth * (1 + 1e-4)


@pytest.mark.parametrize("delta", [1e-2, 1e-10, 1e-30, 1e-100, 1e-300])
def test_epsilon_far_above_a_thousand(delta):
    """exp underflows above 745: there the rivals' lower bound exceeds the truth."""
    plus = 0.75
    truth = Exact(votes(plus, 8000)).epsilon(delta)
    assert truth > 4000
    bounds = compose([(between([plus, 1 - plus], [1 - plus, plus]), 8000)]).epsilon(delta)
    assert contain(bounds, truth)
    assert bounds.upper - bounds.lower < 1e-6


@pytest.mark.parametrize(("loss", "rounds"), [(1e-3, 10**6), (1e-4, 10**6), (0.01, 10**6), (1e-3, 10**4)])
def test_a_million_votes_are_a_binomial_pair(loss, rounds):
    plus = exp(loss) / (1 + exp(loss))
    threshold = 0.7 * sqrt(rounds) * loss + rounds * loss * np.tanh(loss / 2)
    k = int(np.floor((rounds - threshold / loss) / 2)) + 1  # minus votes at which the loss falls below the threshold
    truth = bdtr(k - 1, rounds, 1 - plus) - exp(threshold) * bdtrc(rounds - k, rounds, 1 - plus)
    bounds = compose([(between([plus, 1 - plus], [1 - plus, plus]), rounds)]).delta(threshold)
    assert bounds.lower * (1 - 1e-6) <= truth <= bounds.upper * (1 + 1e-6)
    assert bounds.upper - bounds.lower <= 1e-4 * bounds.upper


ORDINARY = {
    "sampled-gaussian": (SAMPLED, 1000, 1e-5),
    "two-rounds": (SAMPLED, 2, 1e-5),
    "ten-rounds-at-1e-30": (SAMPLED, 10, 1e-30),
    "small-rate": (Tradeoff.gaussian(0.25).subsampled(0.001, "add-remove"), 100, 1e-5),
    "replacing": (Tradeoff.gaussian(0.5).subsampled(0.01, "replace"), 10_000, 1e-5),
    "laplace": (Tradeoff.laplace(0.01), 10_000, 1e-12),
    "three-outcomes": (between([0.2, 0.3, 0.5], [0.2003, 0.3001, 0.4996]), 1000, 1e-5),
    "three-outcomes-few-rounds": (between([0.2, 0.3, 0.5], [0.2003, 0.3001, 0.4996]), 10, 1e-5),
    "four-outcomes": (between([0.2, 0.3, 0.1, 0.4], [0.25, 0.26, 0.16, 0.33]), 100_000, 1e-5),
}


@pytest.mark.parametrize(("curve", "rounds", "delta"), ORDINARY.values(), ids=ORDINARY)
def test_ordinary_questions_are_answered_to_a_few_parts_in_a_thousand(curve, rounds, delta):
    bounds = compose([(curve, rounds)]).epsilon(delta)
    assert 0 < bounds.lower <= bounds.upper <= bounds.lower * (1.01 if bounds.upper < 0.01 else 1.003)


def test_many_outcomes_on_no_lattice_are_known_to_parts_in_a_hundred_thousand():
    for high in (0, 399):
        bounds = compose([(between(*scalar_pair_lower(400, 4, 0.55, high=high)), 5000)]).epsilon(1e-5)
        assert bounds.lower <= bounds.upper <= bounds.lower * 1.0001


# --- laws -------------------------------------------------------------------------------------------------------------


@given(pairs(), st.floats(0.01, 2), st.floats(-1, 1))
@settings(max_examples=60)
def test_gathered_outcomes_tell_no_more_than_the_outcomes_themselves(pair, step, offset):
    own = between(*pair).below
    lattice = gathered(own, step, offset)
    assert np.exp(lattice.log_mass).sum() + lattice.impossible <= 1 + 1e-12
    assert not lattice.residual.any()
    for epsilon in (-1.0, 0.0, 0.3, 1.0, 3.0):
        told = np.maximum(-np.expm1(epsilon - lattice.loss), 0) @ np.exp(lattice.log_mass) + lattice.impossible
        assert told <= own.hockey_stick(epsilon) + 1e-13


@given(pairs(), st.integers(1, 5), exponents)
@settings(max_examples=10)
def test_a_count_is_so_many_parts(pair, count, delta):
    curve, again = between(*pair), [(between(*pair), 1) for _ in range(count)]
    together, one_by_one = compose([(curve, count)]).epsilon(delta), compose(again).epsilon(delta)
    assert together.lower <= one_by_one.upper
    assert one_by_one.lower <= together.upper
    assert compose([(curve, 1)] * count).epsilon(delta) == together


@given(pairs(), st.integers(1, 50), exponents)
@settings(max_examples=10)
def test_exchanging_p_and_q_changes_nothing(pair, count, delta):
    there = compose([(between(*pair), count)]).epsilon(delta, 1e-4)
    back = compose([(between(*pair[::-1]), count)]).epsilon(delta, 1e-4)
    turned = compose([(between(*pair).inverse, count)]).epsilon(delta, 1e-4)
    for other in (back, turned):
        assert there.lower <= other.upper
        assert other.lower <= there.upper


@given(pairs(), st.integers(1, 50), exponents, st.data())
@settings(max_examples=10)
def test_merging_outcomes_gives_away_no_more(pair, count, delta, data):
    into = data.draw(arrays(int, len(pair[0]), elements=st.integers(0, len(pair[0]) - 1)))
    p, q = (np.bincount(into, side, len(side)) for side in pair)
    coarse = compose([(between(p, q), count)]).epsilon(delta, 1e-4)
    assert coarse.lower <= compose([(between(*pair), count)]).epsilon(delta, 1e-4).upper


@given(pairs(), st.integers(2, 200), exponents)
@settings(max_examples=10)
def test_answers_at_different_tolerances_never_contradict_each_other(pair, count, delta):
    answers = [compose([(between(*pair), count)]).epsilon(delta, tolerance) for tolerance in (1e-3, 1e-4, 1e-6, 1e-8)]
    assert max(bounds.lower for bounds in answers) <= min(bounds.upper for bounds in answers)


def test_a_finer_tolerance_brings_the_bounds_closer():
    for curve, rounds in ((SAMPLED, 1000), (Tradeoff.laplace(0.1), 100)):
        gaps = [
            bounds.upper - bounds.lower
            for bounds in (compose([(curve, rounds)]).epsilon(1e-5, tolerance) for tolerance in (1e-3, 1e-4, 1e-6))
        ]
        assert gaps[2] < gaps[1] * 1.01 < gaps[0] * 1.03


@given(pairs(), st.integers(1, 50), exponents)
@settings(max_examples=10)
def test_epsilon_and_delta_agree(pair, count, delta):
    composition = compose([(between(*pair), count)])
    bounds = composition.epsilon(delta)
    if bounds.upper < inf:
        assert composition.delta(bounds.upper).lower <= delta
    if 0 < bounds.lower < inf:
        assert composition.delta(bounds.lower).upper >= delta


@given(pairs(), st.integers(1, 50), exponents)
@settings(max_examples=7)
def test_the_upper_bound_alone_is_a_bound_too(pair, count, delta):
    composition = compose([(between(*pair), count)])
    assert composition.upper_epsilon(delta, 1e-4) >= composition.epsilon(delta).lower


@pytest.mark.slow
def test_the_order_of_parts_does_not_matter():
    one = compose([(VOTE, 10), (TERNARY, 5), (SAMPLED, 3)]).epsilon(1e-5)
    two = compose([(SAMPLED, 3), (VOTE, 10), (TERNARY, 5)]).epsilon(1e-5)
    assert one.lower <= two.upper
    assert two.lower <= one.upper


def test_mu_of_a_composition_is_the_root_of_the_sum_of_squares_of_what_each_curve_composes_to():
    both = compose([(VOTE, 100), (Tradeoff.gaussian(0.5), 4)])
    assert both.mu == approx(sqrt(compose([(VOTE, 100)]).mu ** 2 + 1), rel=1e-12)
    assert both.mu < sqrt(100 * VOTE.mu**2 + 1)
    assert both.epsilon(1e-5).lower <= Tradeoff.gaussian(both.mu).epsilon(1e-5)
    assert compose([(between([0.0, 1.0], [0.1, 0.9]), 3)]).mu == inf


@pytest.mark.parametrize("rounds", [1000, 5026, 5300, 13_000, 10**6, 10**12])
def test_what_is_infinite_is_never_said_to_be_at_least_0(rounds):
    """The mass without a give-away, .868^T, leaves the floats at 5,026 rounds; the give-away does not."""
    curve = BinomialNoise(clip=0.05, levels=8, trials=20).tradeoff("replace")
    assert compose([(curve, rounds)]).epsilon(1e-5) == (inf, inf)
    assert compose([(curve, rounds)]).delta(3.0).lower > 0.98


@given(st.floats(1e-6, 0.5), st.integers(1, 10**7))
@settings(max_examples=30, deadline=None)
def test_epsilon_is_infinite_from_below_wherever_the_give_away_alone_exceeds_delta(share, rounds):
    curve = Tradeoff.pure(1.0, share)
    away = -np.expm1(rounds * np.log1p(-share))
    if away > 1.01e-5:
        assert compose([(curve, rounds)]).epsilon(1e-5) == (inf, inf)


# --- ends -------------------------------------------------------------------------------------------------------------


def test_nothing_released_costs_nothing():
    for parts_ in ([], [(VOTE, 0)], [(SAMPLED, 0), (VOTE, 0)]):
        assert compose(parts_).epsilon(1e-5) == compose(parts_).delta(0.0) == (0, 0)
        assert compose(parts_).mu == 0


@pytest.mark.parametrize("count", [1, 2, 1000, 10**9])
@pytest.mark.parametrize("p", [[1.0], [0.5, 0.5], [0.2, 0.3, 0.5]])
def test_equal_distributions_give_nothing_away(p, count):
    composition = compose([(between(p, p), count)])
    for bounds in (composition.delta(0.0), composition.delta(1.0), composition.epsilon(1e-5)):
        assert bounds.lower == 0
        assert bounds.upper <= 1e-14 * (count + 1)  # what rounding of the masses could hide


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_disjoint_distributions_give_everything_away(count):
    composition = compose([(between([0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]), count), (VOTE, 2)])
    assert composition.delta(10.0) == (1, 1)
    assert composition.epsilon(0.999) == (inf, inf)
    assert composition.epsilon(1) == (0, 0)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_loss_beside_an_impossible_outcome(count):
    p, q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    assert holds(compose([(between(p, q), count)]), Exact(power(p, q, count)), (0.0, 0.5, 3.0), (0.99, 0.3, 1e-5))


@pytest.mark.parametrize("rounds", [1, 2, 100])
def test_ternarize_costs_its_revealing_symbol_at_every_epsilon(rounds):
    """δ = 1 − (1 − c/B)^T, whatever ε."""
    curve = between([0.1, 0.9, 0.0], [0.0, 0.9, 0.1])
    for epsilon in (0.0, 1.0, 100.0):
        bounds = compose([(curve, rounds)]).delta(epsilon)
        assert bounds.lower <= 1 - mp.mpf(0.9) ** rounds * (1 - mp.mpf(10) ** -13)
        assert bounds.upper >= 1 - mp.mpf(0.9) ** rounds * (1 + mp.mpf(10) ** -13)
        assert bounds.upper - bounds.lower <= 1e-9
    assert compose([(curve, rounds)]).epsilon(0.05).lower == inf


def test_delta_nought_asks_for_the_pure_cost_and_delta_one_for_none():
    ratio = log(0.6 / 0.4)
    for rounds in (1, 10, 1000):
        pure = compose([(VOTE, rounds)]).epsilon(0)
        assert pure.lower <= rounds * ratio <= pure.upper
        assert pure.upper == approx(rounds * ratio, rel=1e-12)
        assert compose([(VOTE, rounds)]).epsilon(1) == (0, 0)
    assert compose([(SAMPLED, 2)]).epsilon(0).upper == inf
    assert compose([(Tradeoff.laplace(0.5), 3)]).epsilon(0).upper == approx(1.5, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-5, 1e-30, 1e-80])
def test_a_thousand_million_rounds(delta):
    plus = 0.5 + 1e-6
    composition = compose([(between([plus, 1 - plus], [1 - plus, plus]), 10**9)])
    bounds = composition.epsilon(delta)
    mu = sqrt(10**9) * 4e-6
    assert bounds.lower <= bounds.upper
    assert bounds.lower == approx(Tradeoff.gaussian(mu).epsilon(delta), rel=1e-2)
    assert bounds.upper == approx(Tradeoff.gaussian(mu).epsilon(delta), rel=1e-2)


@pytest.mark.parametrize(
    "curve",
    [VOTE, TERNARY, SAMPLED, Tradeoff.laplace(0.1), Tradeoff.laplace(30.0)],
    ids=["vote", "ternary", "sampled", "laplace", "wide-laplace"],
)
@pytest.mark.parametrize("rounds", [1, 3, 100])
def test_bounds_are_ordered_numbers_at_every_delta(curve, rounds):
    composition = compose([(curve, rounds), (Tradeoff.gaussian(0.3), rounds)])
    lowest = 0.0
    for delta in (1.0, 0.9, 0.1, 1e-5, 1e-30, 1e-80):
        lower, upper = composition.epsilon(delta, 1e-4)
        assert 0 <= lower <= upper < inf
        assert upper >= lowest
        lowest = lower


@pytest.mark.parametrize("count", [-1, 1.5, True, "2"])
def test_counts_that_are_none_are_refused(count):
    with pytest.raises(FedprivError):
        compose([(VOTE, count)])


@pytest.mark.parametrize("bad", [-0.1, nan])
def test_questions_outside_their_range_are_refused(bad):
    for ask in (compose([(VOTE, 2)]).epsilon, compose([(VOTE, 2)]).delta):
        with pytest.raises(FedprivError):
            ask(bad)
    with pytest.raises(FedprivError):
        compose([(VOTE, 2)]).epsilon(1.1)
