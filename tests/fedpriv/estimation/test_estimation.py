"""Private and robust means: what they find, that two forms of one algorithm agree, and what they refuse."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv.errors import FedprivError
from fedpriv.estimation import DpFilter, Prime, PrimeHeavyTailed, RobustFilter
from fedpriv.estimation import _range as ranges
from fedpriv.estimation._estimate import records_of
from fedpriv.estimation._filters import thinned
from fedpriv.estimation._matrix_weights import normalised_exponential
from fedpriv.estimation._threshold import counts, edges, threshold
from fedpriv.estimation.moments import Moments, lifted_sum, moment_unit

PRIVATE = [Prime, PrimeHeavyTailed, DpFilter]
BUDGET = {"epsilon": 20.0, "delta": 0.01, "corruption": 0.05}


def corrupted(n, d, share=0.05, seed=1, shift=1.5):
    """[M] Figure 1: (1 − α)·N(μ, I) + α·N(μ + 1.5, I), and μ, which is far from zero."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-100, 100, d)
    data = mean + rng.normal(size=(n, d))
    data[: int(share * n)] += shift
    return rng.permutation(data), mean


def error(method, data, mean, seed=2):
    found = method.estimate(data, np.random.default_rng(seed))
    assert found.failure is None
    assert found.epsilon.upper <= method.epsilon if method.private else found.epsilon.lower == np.inf
    return float(np.linalg.norm(found.mean - mean))


# --- what they find ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "most"), [(10, 0.07), (50, 0.04)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_prime_is_not_moved_by_a_shifted_cluster(d, most, seed):
    data, mean = corrupted(60_000, d, seed=seed)
    assert np.linalg.norm(data.mean(axis=0) - mean) > 0.2
    assert error(Prime(**BUDGET), data, mean) < most


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_prime_is_robust_at_small_budgets(epsilon):
    data, mean = corrupted(100_000, 10)
    method = Prime(epsilon=epsilon, delta=1e-5, corruption=0.05)
    assert error(method, data, mean) < 0.1


def test_the_published_split_of_the_budget_is_far_noisier_and_still_accounted():
    data, mean = corrupted(400_000, 3)
    ours, published = Prime(**BUDGET), Prime(**BUDGET, composition="published")
    found = published.estimate(data, np.random.default_rng(2))
    assert error(ours, data, mean) < 0.06
    assert np.linalg.norm(found.mean - mean) < 0.3
    assert found.epsilon.upper < 0.05
    assert published.events(400_000, 3)[1].mechanism.noise > 50 * ours.events(400_000, 3)[1].mechanism.noise


@pytest.mark.parametrize("method", [DpFilter(**BUDGET), RobustFilter(corruption=0.05)], ids=lambda m: type(m).__name__)
def test_filtering_one_direction_at_a_time_is_robust_too(method):
    data, mean = corrupted(60_000, 10)
    assert error(method, data, mean) < 0.12


@pytest.mark.parametrize("shift", [3.0, 30.0, 1e6])
def test_the_heavy_tailed_form_bears_heavy_tails_and_outliers(shift):
    rng = np.random.default_rng(5)
    data = 40 + rng.standard_t(3, (60_000, 5)) / np.sqrt(3)
    data[:3000] += shift
    assert error(PrimeHeavyTailed(**BUDGET), data, 40.0) < 1.5 * np.sqrt(0.05)


def test_corruption_in_every_direction_at_once_is_filtered_in_few_steps():
    data, mean = corrupted(60_000, 5, shift=0.0)
    data[::20] = mean + 8 * np.eye(5)[np.arange(3000) % 5]
    found = Prime(**BUDGET).estimate(data, np.random.default_rng(2))
    assert np.linalg.norm(data.mean(axis=0) - mean) > 0.15
    assert np.linalg.norm(found.mean - mean) < 0.06
    assert found.made.count("scores") <= 3


def test_looking_again_from_the_better_centre_helps():
    """The first filter looks from a centre that corruption moved; looking again takes that bias away."""
    plain, again = [], []
    for seed in range(5):
        data, mean = corrupted(50_000, 10, share=0.1, seed=seed)
        method = Prime(epsilon=20, delta=0.01, corruption=0.1)
        again.append(error(method, data, mean, seed))
        plain.append(error(replace(method, recentrings=0), data, mean, seed))
    assert np.mean(again) < 0.8 * np.mean(plain)


# --- the same answer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_interactive_and_centralised_forms_give_the_same_bits(method, seed):
    data, _ = corrupted(9000, 4, seed=seed, shift=4.0)
    one = method(**BUDGET).estimate(data, np.random.default_rng(seed))
    other = method(**BUDGET, interactive=True).estimate(data, np.random.default_rng(seed))
    assert len(one.made) > 3
    assert (one.mean == other.mean).all()
    assert one.made == other.made
    assert one.ledger == other.ledger


@pytest.mark.parametrize("method", PRIVATE)
def test_units_do_not_matter(method):
    data, _ = corrupted(8000, 3)
    one = method(**BUDGET).estimate(data, np.random.default_rng(3))
    other = method(**BUDGET, scale=4.0).estimate(4 * data, np.random.default_rng(3))
    assert (other.mean == 4 * one.mean).all()


# --- goldens ----------------------------------------------------------------------------------------------------------


def test_of_those_above_the_cut_the_highest_go_and_ties_by_first_differing_coordinate():
    points = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [5.0, 5.0], [9.0, 9.0]])
    scores = np.array([2.0, 2.0, 2.0, 3.0, 0.5])
    full = np.ones(5, bool)
    assert thinned(points, scores, full, 1.0, 9).tolist() == [False, False, False, False, True]
    assert thinned(points, scores, full, 1.0, 2).tolist() == [True, True, False, False, True]
    assert thinned(points, scores, full, 1.0, 3).tolist() == [True, False, False, False, True]
    assert thinned(points, scores, full, 1.0, 0).all()
    assert thinned(points, scores, full, 3.5, 2).all()


def test_moments_read_back_size_mean_and_covariance():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(300, 3))
    kept = rng.random(300) < 0.7
    step = moment_unit(5.0, 300, 1.0)
    found = Moments.of(lifted_sum(points, kept, 5.0, step) * step**2, 5.0)
    assert found.size == approx(kept.sum())
    assert found.mean == approx(points[kept].mean(axis=0), abs=step)  # rounded toward 0 on a grid
    assert found.covariance == approx(np.cov(points[kept].T, bias=True), abs=20 * step)


def test_a_released_mean_stays_in_the_ball():
    matrix = np.diag([1.0, 1.0, 25.0])
    matrix[0, 2] = matrix[2, 0] = 1e6
    assert np.linalg.norm(Moments.of(matrix, 5.0).mean) == approx(5.0)


def test_the_matrix_exponential_is_that_of_its_series():
    matrix = np.array([[0.3, 0.2], [0.2, -0.1]])
    series, term = np.eye(2), np.eye(2)
    for k in range(1, 30):
        term = term @ matrix / k
        series = series + term
    assert normalised_exponential(matrix) == approx(series / np.trace(series))


@given(st.lists(st.floats(0, 60), min_size=1, max_size=40), st.floats(0.01, 3))
def test_the_threshold_is_the_largest_edge_that_leaves_enough_above_it(scores, excess):
    values, lower = np.array(scores), edges(60.0)
    counted = counts(values, np.ones(values.size, bool), lower)
    binned = lower[np.searchsorted(lower, values[values >= 0.25], side="right") - 1]
    gained = [np.maximum(binned - edge, 0).sum() for edge in lower]
    needed = 0.31 * excess * values.size * (1 + 1e-9)
    enough = [edge for edge, gain in zip(lower, gained, strict=True) if gain >= needed]
    found = threshold(counted, lower, values.size, excess)
    assert found == (max(enough) if enough else None)


def test_the_median_of_published_bins_is_that_of_their_records():
    column = np.random.default_rng(1).normal(3.3, 1.0, 100_000)
    shown = ranges.occupied(column, 1.0)
    assert ranges.median(ranges.Published(*shown), 1.0) == approx(3.3, abs=0.02)


# --- failures are outcomes --------------------------------------------------------------------------------------------


def test_a_range_that_is_not_found_is_an_outcome_and_is_charged():
    data = np.random.default_rng(1).uniform(-1e9, 1e9, (4000, 2))
    method = Prime(epsilon=2, delta=1e-6, corruption=0.05)
    found = method.estimate(data, np.random.default_rng(1))
    assert found.mean is None
    assert found.failure.startswith("range: ")
    assert found.made == ("range",)
    assert found.ledger.events == method.events(4000, 2)
    assert 1.9 < found.epsilon.upper <= 2


def test_too_few_records_left_is_an_outcome():
    rng = np.random.default_rng(1)
    data = rng.normal(size=(100_000, 2)) * 30
    found = Prime(epsilon=20, delta=0.01, corruption=0.2, bound=100).estimate(data, rng)
    assert found.mean is None
    assert found.failure.startswith("size: ")


def test_a_mean_without_its_certificate_says_so():
    data, _ = corrupted(20_000, 2, shift=0)
    found = DpFilter(**BUDGET, steps=1, constant=0.01, scale=0.9).estimate(data, np.random.default_rng(1))
    assert found.mean is not None
    assert any("no filtering was left" in note for note in found.notes)


# --- what comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", PRIVATE)
def test_rows_that_are_not_finite_are_held_to_the_ball_and_counted(method):
    data, mean = corrupted(20_000, 3, shift=0)
    data[:300] = np.nan
    data[300:600, 1] = np.inf
    data[600:900, 2] = -np.inf
    found = method(**BUDGET).estimate(data, np.random.default_rng(1))
    assert np.linalg.norm(found.mean - mean) < 0.15


@pytest.mark.parametrize("method", PRIVATE)
def test_one_column_and_constant_columns_are_fine(method):
    column = np.random.default_rng(1).normal(5, 1, 30_000)
    assert method(**BUDGET).estimate(column, np.random.default_rng(1)).mean == approx([5.0], abs=0.1)
    data = np.column_stack((column, np.full(30_000, -7.25)))
    assert method(**BUDGET).estimate(data, np.random.default_rng(1)).mean == approx([5.0, -7.25], abs=0.15)


@pytest.mark.parametrize("data", [[["a", "b"]], [[1, "x"]], [], [[[1.0]]], [[1, 2], [3]], [[1j]], [[None]]])
def test_what_is_not_a_matrix_of_numbers_is_refused(data):
    with pytest.raises(FedprivError, match="data must be"):
        records_of(data)


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"corruption": 0.5}, "corruption must be between 0 and 1/2"),
        ({"corruption": float("nan")}, "corruption must be finite"),
        ({"corruption": 0}, "corruption must be between 0 and 1/2"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"delta": 0}, "delta must be positive"),
        ({"delta": 1.0}, "delta must be below 1"),
        ({"scale": -1}, "scale must be positive"),
        ({"bound": 0}, "bound must be positive"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"recentrings": -1}, "recentrings must be at least 0"),
        ({"composition": "advanced"}, "composition 'advanced' is unknown"),
    ],
)
def test_settings_that_no_data_could_suit_are_refused(method, wrong, message):
    with pytest.raises(FedprivError, match=message):
        method(**BUDGET | wrong)


@pytest.mark.parametrize("method", PRIVATE)
@given(epsilon=st.floats(0.05, 10), d=st.integers(1, 30), bound=st.none() | st.just(20.0))
@settings(max_examples=8)
def test_too_few_records_are_refused_before_anything_is_spent_and_the_number_named_would_do(method, epsilon, d, bound):
    chosen = method(epsilon=epsilon, delta=1e-6, corruption=0.05, bound=bound)
    with pytest.raises(FedprivError, match="too few for ε") as raised:
        chosen.estimate(np.zeros((5, d)), np.random.default_rng(1))
    would = int(re.search(r"n = ([\d,]+) would do", str(raised.value))[1].replace(",", ""))
    assert chosen.events(would, d)
    with pytest.raises(FedprivError, match="too few for ε"):
        chosen.events(int(0.97 * would), d)


@pytest.mark.parametrize("method", [Prime, DpFilter, PrimeHeavyTailed])
@pytest.mark.parametrize("share", [0.125, 0.2, 0.3])
def test_corruption_that_one_filtering_takes_away_whole_leaves_enough_records(method, share):
    """A filtering takes 2αn at most, and where nearly all of that goes, what is left is still enough."""
    for seed in range(4):
        data, mean = corrupted(20_000, 3, share=share, seed=seed, shift=1e6)
        assert error(method(epsilon=10, delta=1e-6, corruption=share), data, mean, seed) < 1
