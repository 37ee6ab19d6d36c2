"""The privacy of the estimators' parts, looked at and not assumed: neighbours through every query, and the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import bdtri, ndtr

from fedpriv.accounting.ledger import Ledger
from fedpriv.estimation import DpFilter, Prime, PrimeHeavyTailed, moments
from fedpriv.estimation import _budget as budget
from fedpriv.estimation import _range as ranges
from fedpriv.estimation import _threshold as threshold
from fedpriv.estimation._clipping import BLOCK, Region, clipped
from fedpriv.estimation._curator import Curator
from fedpriv.estimation._filters import Filter, remaining, thinned
from fedpriv.mechanisms import Gaussian, Histogram

few = st.integers(-2, 2).map(float)  # small whole numbers, so that scores tie
some, lengths = st.integers(0, 3), st.integers(1, 3)


@st.composite
def neighbours(draw, replaced=some, dimension=lengths, numbers=few, least=1, most=14):
    """Two data sets of equal length, and which of their rows differ."""
    n, d = draw(st.integers(least, most)), draw(dimension)
    rows = st.lists(numbers, min_size=d, max_size=d)
    data = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    many = min(draw(replaced), n)
    where = draw(st.permutations(range(n)))[:many]
    other = data.copy()
    for i in where:
        other[i] = draw(rows)
    return data, other, sorted(where)


@st.composite
def filters(draw, d, most=4):
    """Filters with fixed parameters, by a direction or by a matrix."""
    made = []
    for _ in range(draw(st.integers(0, most))):
        shape = np.array(draw(st.lists(st.lists(few, min_size=d, max_size=d), min_size=d, max_size=d)))
        shape = shape[0] if draw(st.booleans()) else shape @ shape.T
        centre = np.array(draw(st.lists(few, min_size=d, max_size=d)))
        made.append(Filter(shape=shape, centre=centre, cut=draw(st.integers(0, 6)), most=draw(st.integers(0, 5))))
    return tuple(made)


def apart(kept, others, where):
    """max(|S∖S'|, |S'∖S|) of two sets of kept records, of which those at `where` are different records."""
    changed = np.zeros(kept.size, bool)
    changed[where] = True
    return max((kept & (changed | ~others)).sum(), (others & (changed | ~kept)).sum())


# --- filtering is a contraction ---------------------------------------------------------------------------------------


@given(st.data(), neighbours())
def test_filters_with_fixed_parameters_contract_the_symmetric_difference(data, pair):
    rows, others, where = pair
    chosen = data.draw(filters(rows.shape[1]))
    assert apart(remaining(rows, chosen), remaining(others, chosen), where) <= len(where)


@given(st.data(), neighbours(replaced=st.just(0)))
def test_a_record_more_adds_at_most_one_to_what_is_kept(data, pair):
    rows, _, _ = pair
    chosen = data.draw(filters(rows.shape[1]))
    more = remaining(rows, chosen)
    without = np.ones(len(rows), bool)
    without[0] = False
    less = remaining(rows, chosen, without)
    assert not (less & ~more).any()
    assert (more & ~less).sum() <= 1


@given(st.data(), neighbours(replaced=st.just(0), dimension=st.just(2)))
def test_which_records_go_depends_on_the_records_and_not_on_their_order(data, pair):
    rows, _, _ = pair
    order = data.draw(st.permutations(range(len(rows))))
    chosen = data.draw(filters(2))
    left = Counter(map(tuple, rows[remaining(rows, chosen)]))
    assert left == Counter(map(tuple, rows[order][remaining(rows[order], chosen)]))


def test_ties_that_followed_the_place_in_the_set_would_not_contract():
    """What Definition C.1 is for: with ties broken by place among those left, the law above fails."""

    def by_rank(scores, kept, cut, most):
        reached = np.flatnonzero(kept & (scores >= cut))
        start = int(kept.sum()) % 2  # an order that depends on the set
        left = kept.copy()
        left[np.roll(reached, start)[:most]] = False
        return left

    scores, full = np.ones(5), np.ones(5, bool)
    fewer = full.copy()
    fewer[0] = False
    kept, others = by_rank(scores, full, 0.5, 2), by_rank(scores, fewer, 0.5, 2)
    assert apart(kept, others, []) > 1
    rows = np.arange(5.0)[:, None]
    assert apart(thinned(rows, scores, full, 0.5, 2), thinned(rows, scores, fewer, 0.5, 2), []) == 1


def test_a_score_depends_on_its_record_and_place_only():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(2 * BLOCK + 77, 5))
    shape = rng.normal(size=(5, 5))
    chosen = Filter(shape=shape @ shape.T, centre=rng.normal(size=5), cut=1.0, most=1)
    others = points.copy()
    others[BLOCK + 3] = 1e6
    same = np.arange(len(points)) != BLOCK + 3
    assert (chosen.scores(points)[same] == chosen.scores(others)[same]).all()


# --- sensitivities ----------------------------------------------------------------------------------------------------

RADIUS = 3.0
UNIT = moments.moment_unit(RADIUS, 14, 1.0)
coordinates = st.floats(-10, 10) | st.sampled_from([inf, -inf, nan, 1e300])


@given(neighbours(numbers=coordinates, dimension=st.integers(1, 5)))
def test_clipping_brings_every_record_within_the_ball_by_itself(pair):
    rows, others, where = pair
    region = Region(centre=np.full(rows.shape[1], 0.7), radius=RADIUS, scale=0.5)
    held, other = clipped(rows, region), clipped(others, region)
    assert held.shape == rows.shape
    assert np.isfinite(held).all()
    assert (np.linalg.norm(held, axis=1) <= RADIUS).all()
    same = np.ones(len(rows), bool)
    same[where] = False
    assert (held[same] == other[same]).all()


@given(st.data(), neighbours(numbers=coordinates, replaced=st.just(1)))
def test_moments_of_neighbours_after_any_filters_are_within_the_sensitivity(data, pair):
    rows, others, _ = pair
    region = Region(centre=np.zeros(rows.shape[1]), radius=RADIUS, scale=1.0)
    points, other = clipped(rows, region), clipped(others, region)
    chosen = data.draw(filters(rows.shape[1]))
    one = moments.lifted_sum(points, remaining(points, chosen), RADIUS, UNIT)
    two = moments.lifted_sum(other, remaining(other, chosen), RADIUS, UNIT)
    assert np.linalg.norm(one - two) * UNIT**2 <= moments.moment_sensitivity(RADIUS, len(rows))


@pytest.mark.parametrize("d", [1, 2, 7])
def test_no_search_finds_records_that_move_moments_farther_and_some_come_as_far(d):
    rng, most = np.random.default_rng(d), 0.0
    bound = moments.moment_sensitivity(RADIUS, 2)
    for _ in range(20):
        pair, step, best = rng.normal(size=(2, d)), 2.0, 0.0
        for _ in range(200):
            trial = pair + step * rng.normal(size=(2, d))
            points = clipped(trial, Region(centre=np.zeros(d), radius=RADIUS, scale=1.0))
            sums = [moments.lifted_sum(points, np.arange(2) == i, RADIUS, UNIT) * UNIT**2 for i in range(2)]
            if (found := float(np.linalg.norm(sums[0] - sums[1]))) > best:
                pair, best = points, found
            else:
                step *= 0.97
        most = max(most, best)
    assert most <= bound
    assert most >= 0.99 * bound


def test_a_long_sum_of_moments_is_exact_whatever_its_order():
    rng = np.random.default_rng(3)
    n = 5 * BLOCK
    points = rng.normal(size=(n, 2))
    points *= RADIUS / np.linalg.norm(points, axis=1)[:, None]
    step = moments.moment_unit(RADIUS, n, 100.0)
    total = moments.lifted_sum(points, np.ones(n, bool), RADIUS, step)
    whole = np.trunc(np.column_stack((points, np.full(n, moments.LIFT * RADIUS))) / step).astype(np.int64)
    assert (whole.T @ whole == total).all()
    assert (moments.lifted_sum(points[rng.permutation(n)], np.ones(n, bool), RADIUS, step) == total).all()
    off = np.linalg.norm(points - step * whole[:, :2], axis=1)
    assert off.max() < sqrt(2) * step <= sqrt(2) * RADIUS / 2**18


@given(st.data(), neighbours(replaced=st.just(1)))
def test_histograms_of_scores_of_neighbours_after_any_filters_differ_by_at_most_root_two(data, pair):
    rows, others, _ = pair
    chosen, asked = data.draw(filters(rows.shape[1])), data.draw(filters(rows.shape[1], most=1))
    for each in asked:
        lower = threshold.edges(100.0)
        one = threshold.counts(each.scores(rows), remaining(rows, chosen), lower)
        two = threshold.counts(each.scores(others), remaining(others, chosen), lower)
        assert np.linalg.norm(one - two) <= threshold.SENSITIVITY
        assert one.sum() <= remaining(rows, chosen).sum()


@given(neighbours(numbers=coordinates, replaced=st.just(1), dimension=st.just(1)), st.sampled_from([0.5, 1.0, 4.0]))
def test_a_neighbour_moves_range_counts_by_root_two_and_shows_one_new_bin_with_one_record(pair, width):
    one, two = ({*zip(*map(tuple, ranges.occupied(rows[:, 0], width)), strict=True)} for rows in pair[:2])
    counts, others = dict(one), dict(two)
    bins = counts.keys() | others.keys()
    assert sum((counts.get(b, 0) - others.get(b, 0)) ** 2 for b in bins) <= 2
    new = [b for b in counts if b not in others]
    assert len(new) <= 1
    assert all(counts[b] == 1 for b in new)


# --- noise ------------------------------------------------------------------------------------------------------------


def answers(method, n, d, times):
    """Many answers of a curator about no records at all: noise alone, as sums and as counts."""
    plan = method.plan(n, d)
    rng = np.random.default_rng(7)
    noise = moments.moment_sensitivity(plan.extent.radius, n) / plan.budget.mus["moments"]
    drawn = np.array([moments.symmetric_noise(d + 1, noise, rng) for _ in range(times)])
    asked = Filter(shape=np.eye(d), centre=np.zeros(d), cut=0.0, most=0)
    away = Filter(shape=np.eye(d), centre=np.zeros(d), cut=0.0, most=1)
    curator = Curator(points=np.zeros((1, d)), radius=1.0, mus=plan.budget.mus, rng=rng)
    counted = np.array([curator.scores((away,), asked, threshold.edges(1.0)) for _ in range(times)])
    return plan, drawn, counted


def test_the_noise_drawn_is_the_noise_charged():
    plan, drawn, counted = answers(Prime(epsilon=3, delta=1e-5, corruption=0.1), 5000, 2, 4000)
    range_, sums, scores = plan.events
    assert range_.mechanism == plan.budget.histogram
    assert range_.dimension == 2
    assert (sums.rounds, scores.rounds) == (1 + 4 + 2, 4)
    noise = sums.mechanism.noise
    assert sums.mechanism == Gaussian(clip=moments.moment_sensitivity(plan.extent.radius, 5000) / 2, noise=noise)
    within = 5 / sqrt(2 * len(drawn))  # five standard errors of a deviation
    for i in range(3):
        assert drawn[:, i, i].std() == approx(noise, rel=within)
        for j in range(i):
            assert drawn[:, i, j].std() == approx(noise / sqrt(2), rel=within)
            assert (drawn[:, i, j] == drawn[:, j, i]).all()
    assert counted.std() == approx(scores.mechanism.noise, rel=within)
    assert scores.mechanism.clip == sqrt(2) / 2


def test_bins_with_few_records_are_not_published():
    histogram = Histogram(noise=2.0, threshold=15.0)
    column = np.concatenate((np.full(1, 0.5), np.full(100, 7.5)))
    seen = [ranges.published(column, histogram, 1.0, np.random.default_rng(i)).bins.tolist() for i in range(500)]
    assert all(bins == [7.0] for bins in seen)
    assert histogram.failure("replace") == approx(2 * float(ndtr(-7.0)), rel=1e-9)


def test_a_stable_histogram_costs_what_its_worst_neighbours_can_be_told_apart_by():
    """Full bins, of which one gains a record; and bins of one record, which one of them shows by chance or never."""
    histogram = Histogram(noise=4.0, threshold=9.0)
    shown = float(ndtr(-2.0))
    ledger = Ledger().add(budget.release(histogram))
    assert shown <= ledger.delta(60.0).upper <= 2 * shown * 1.001
    curve = histogram.tradeoff()
    for epsilon in (0.0, 0.5, 1.0):
        full = ndtr(sqrt(2) / 8 - 4 * epsilon / sqrt(2)) - exp(epsilon) * ndtr(-sqrt(2) / 8 - 4 * epsilon / sqrt(2))
        spent = ledger.delta(epsilon).upper
        assert max(full, shown) <= curve.delta(epsilon) <= spent * (1 + 1e-6) <= full + 2 * shown * (1 + 1e-6) + 1e-6


# --- the whole plan ---------------------------------------------------------------------------------------------------

METHODS = [Prime, PrimeHeavyTailed, DpFilter]


@pytest.mark.parametrize("method", METHODS)
@given(epsilon=st.floats(0.05, 30), delta=st.floats(1e-9, 0.05), d=st.integers(1, 60), known=st.booleans())
@settings(max_examples=15, deadline=None)
def test_the_plan_never_costs_more_than_asked_for_and_hardly_less(method, epsilon, delta, d, known):
    chosen = method(epsilon=epsilon, delta=delta, corruption=0.05, bound=20.0 if known else None)
    ledger = budget.charged(chosen.events(10**9, d))
    cost = ledger.epsilon(delta).upper
    assert cost <= epsilon
    assert cost >= 0.97 * epsilon


@pytest.mark.parametrize("method", METHODS)
def test_the_published_split_costs_far_less_than_it_says(method):
    chosen = method(epsilon=20, delta=0.01, corruption=0.05, composition="published")
    cost = budget.charged(chosen.events(10**8, 50)).epsilon(0.01).upper
    assert cost < 0.05


def shares(method, records, others, times):
    """Where means of two neighbouring data sets fall, over many runs: the empirical chances of half lines."""
    found = []
    for rows, seed in ((records, 1), (others, 2)):
        rng = np.random.default_rng(seed)
        means = [method.estimate(rows, rng).mean for _ in range(times)]
        found.append(np.array([inf if mean is None else mean[0] for mean in means]))
    return found


def leaks(method, epsilons, delta_at, noise=1.0, times=1500):
    """Whether some half line tells the neighbours apart better than (ε, δ(ε)) allows, beyond all doubt."""
    n = 120
    records = np.zeros((n, 2))
    others = records.copy()
    records[0, 0], others[0, 0] = 1.0, -1.0
    p, q = shares(method, records, others, times)
    cuts = np.quantile(np.concatenate((p, q)), np.linspace(0.02, 0.98, 49), method="nearest")
    doubt = 1e-4 / (4 * len(cuts) * len(epsilons))
    for one, two in ((p, q), (q, p)):
        for sign in (1, -1):
            high = (sign * one[:, None] >= sign * cuts).sum(axis=0)
            low = (sign * two[:, None] >= sign * cuts).sum(axis=0)
            least = np.where(high > 0, 1 - bdtri(np.maximum(times - high, 0), times, doubt), 0.0)
            most = np.where(low < times, bdtri(low, times, doubt), 1.0)
            for epsilon in epsilons:
                if (least > exp(epsilon) * most + delta_at(epsilon)).any():
                    return True
    return False


def test_no_statistic_of_the_whole_estimator_passes_its_certified_curve_and_with_less_noise_one_does(monkeypatch):
    method = Prime(epsilon=4, delta=1e-3, corruption=0.1, bound=1.0, steps=1, recentrings=0)
    ledger = budget.charged(method.events(120, 2))
    epsilons = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
    curve = {epsilon: ledger.delta(epsilon).upper for epsilon in epsilons}
    assert not leaks(method, epsilons, curve.__getitem__)
    real = moments.symmetric_noise
    monkeypatch.setattr(moments, "symmetric_noise", lambda size, noise, rng: real(size, noise / 8, rng))
    assert leaks(method, epsilons, curve.__getitem__)


def test_settings_that_change_nothing_private_change_no_release():
    one = Prime(epsilon=1, delta=1e-6, corruption=0.05)
    assert one.events(10**6, 5) == replace(one, interactive=True, constant=3.0, sharpness=0.5).events(10**6, 5)
