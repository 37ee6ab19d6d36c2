"""Medians, ranges, modes and trimmed means by propose-test-release: near, private, and refused where they must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv.errors import FedprivError
from fedpriv.estimation import IqrPtr, MedianPtr, ModePtr, TrimmedSumPtr
from fedpriv.estimation._released import planned_test, released_value
from fedpriv.estimation._robust_ptr import ranked_answer
from fedpriv.mechanisms import GeneralPtr
from fedpriv.randomness.streams import stream
from fedpriv.releases.ptr import passes_test

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def sample(n: int = 20_000, seed: int = 1) -> np.ndarray:
    return stream(seed, "test sample").standard_normal((n, 1)) + 3


@pytest.mark.parametrize(
    ("method", "statistic", "truth"),
    [
        (MedianPtr(**BUDGET), "median", 3.0),
        (MedianPtr(**BUDGET, bound=50), "median", 3.0),
        (IqrPtr(**BUDGET), "interquartile range", 1.349),
        (IqrPtr(**BUDGET, bound=50), "interquartile range", 1.349),
        (ModePtr(**BUDGET), "mode", 3.0),
        (TrimmedSumPtr(**BUDGET, bound=20), "trimmed mean", 2.8),  # the longest tenth of numbers about 3
    ],
    ids=str,
)
def test_it_is_near_and_says_what_was_proposed_and_which_branch_was_taken(
    method: Any, statistic: str, truth: float
) -> None:
    found = method.estimate(sample(), stream(2, "noise"))
    assert found.mean == approx([truth], abs=0.3)
    assert (found.statistic, found.failure, found.tested.passed) == (statistic, None, (True,))
    assert abs(found.mean[0] - truth) <= 5 * found.tested.standard_error[0] + 0.02
    assert 0.97 < found.epsilon.lower <= found.epsilon.upper <= 1
    assert found.notes[0].startswith(f"passed 1 of 1 tests: the {statistic}")


def test_a_tenth_of_the_records_far_off_moves_a_median_little_and_the_mean_much() -> None:
    data = sample()
    data[:2000] = 1e9
    assert MedianPtr(**BUDGET).estimate(data, stream(2, "noise")).mean == approx([3.0], abs=0.4)
    assert data.mean() > 1e7


def test_where_a_test_fails_nothing_is_released_and_it_costs_the_same() -> None:
    method = MedianPtr(**BUDGET, proposed=1e-7)
    found = method.estimate(sample(), stream(2, "noise"))
    assert found.mean is None
    assert found.failure == ("test: too few records to spare for a local sensitivity of 1e-07; a larger one may pass")
    assert (found.tested.passed, found.tested.standard_error) == ((False,), (None,))
    assert found.ledger.events == method.events(20_000, 1)
    assert found.epsilon.upper > 0.97


def test_with_a_bound_a_median_that_fails_its_test_becomes_a_mean_and_a_range_the_same_range_with_its_noise() -> None:
    mean = MedianPtr(**BUDGET, bound=10, proposed=1e-7).estimate(sample(), stream(2, "noise"))
    assert mean.mean == approx([3.0], abs=0.05)
    assert mean.tested.standard_error[0] == approx(2 * 10 * 5.33 / 20_000, rel=0.01)
    assert "the mean of the records held to the bound under noise" in mean.notes[0]
    same = IqrPtr(**BUDGET, bound=8, proposed=1e-7).estimate(sample(), stream(2, "noise"))
    assert same.tested.standard_error[0] == approx(16 * 5.33, rel=0.01)
    assert same.tested.passed == (False,)


def test_where_more_records_are_long_than_are_trimmed_the_mean_of_all_is_released() -> None:
    far = TrimmedSumPtr(**BUDGET, bound=4).estimate(sample(), stream(2, "noise"))  # most are longer than 2
    assert far.tested.passed == (False,)
    assert far.mean == approx([2.92], abs=0.1)
    near = TrimmedSumPtr(**BUDGET, bound=20).estimate(sample(), stream(2, "noise"))
    assert near.tested.standard_error[0] == approx(20 * 5.33 / 18_000, rel=0.01)


def test_every_coordinate_has_a_test_of_its_own_and_all_are_composed() -> None:
    data = np.column_stack((sample(), 100 * sample(seed=2)))
    method = MedianPtr(epsilon=4, delta=1e-6)
    found = method.estimate(data, stream(2, "noise"))
    assert found.tested.passed == (True, False)  # the second spreads a hundred times wider than was said
    assert "in coordinate 1 for" in found.failure
    assert found.made == ("tested release",) * 2
    assert found.ledger.events[0].rounds == 2
    assert 3.8 < found.epsilon.upper <= 4
    wide = replace(method, scale=100.0).estimate(data, stream(2, "noise"))
    assert wide.mean == approx([3, 300], abs=20)


def test_the_noise_of_coordinate_wise_medians_grows_faster_than_that_of_a_mean() -> None:
    """[P]'s conclusion: each of d medians has its own test and its own share of ε."""
    errors = []
    for d in (1, 4):
        own = planned_test(1.0, 1e-6, times=d)
        errors.append(own.margin * own.noise * d**0.5)
    assert errors[1] / errors[0] > 8  # F and σ grow by √d each, and so does the length: d^{3/2}; of a mean it is d


@given(place=st.integers(0, 199), other=st.floats(allow_nan=True, allow_infinity=True), shape=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_one_record_moves_no_estimate_by_more_than_its_test_allows(place: int, other: float, shape: int) -> None:
    """With the same coins and noise: where both tests pass, the values differ by at most τ."""
    data = stream(shape, "few").standard_normal((200, 1))
    changed = data.copy()
    changed[place] = other
    for method in (
        MedianPtr(epsilon=8, delta=1e-3, proposed=0.2),
        IqrPtr(epsilon=8, delta=1e-3, proposed=0.3),
        MedianPtr(epsilon=8, delta=1e-3, proposed=0.2, bound=3),
    ):
        found = [method.estimate(own, stream(5, "noise")) for own in (data, changed)]
        if all(own.tested.passed[0] for own in found):
            assert abs(found[0].mean[0] - found[1].mean[0]) <= method.proposed * (1 + 1e-3)


def test_the_test_passes_as_often_as_is_charged() -> None:
    rng, own = stream(1, "tests"), GeneralPtr(failure=0.05, margin=8)
    for margin in (0, 3, 6, 20):
        passed = np.mean([passes_test(own, margin, rng) for _ in range(4000)])
        assert passed == approx(own.chances(margin)[0], abs=4 * 0.5 / 4000**0.5)
    laplace = GeneralPtr(failure=0.05, margin=20, noise=1.0, test_noise=2.0)
    for margin in (0, 5, 20):
        passed = np.mean([passes_test(laplace, margin, rng) for _ in range(4000)])
        assert passed == approx(laplace.chances(margin)[0], abs=4 * 0.5 / 4000**0.5)


def test_the_noise_is_as_large_as_it_says_and_on_a_grid() -> None:
    own, rng = GeneralPtr(failure=1e-3, margin=20, noise=3.0), stream(1, "noise")
    drawn = np.array([released_value(own, np.array([7.3]), 0.5, rng)[0][0] for _ in range(4000)])
    assert drawn.std() == approx(1.5, rel=4 / 8000**0.5)
    assert drawn.mean() == approx(7.3, abs=4 * 1.5 / 4000**0.5)
    step = 2.0**-18
    assert (drawn / step == np.round(drawn / step)).all()


@pytest.mark.parametrize("method", [MedianPtr(**BUDGET), IqrPtr(**BUDGET), ModePtr(**BUDGET)], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e308, 0.0])
def test_records_that_are_all_the_same_odd_thing_are_an_outcome_and_no_error(method: Any, value: float) -> None:
    found = method.estimate(np.full((5000, 1), value), stream(1, "noise"))
    assert found.epsilon.upper <= 1
    assert found.mean is None or np.isfinite(found.mean).all()


@pytest.mark.parametrize("proposed", [1e-40, 1e40])
def test_numbers_far_from_what_was_proposed_are_held_without_a_word(proposed: float) -> None:
    data = stream(1, "huge").standard_normal((5000, 1)) * 10.0 ** stream(2, "huge").integers(-300, 300, (5000, 1))
    for method in (MedianPtr(**BUDGET, proposed=proposed), IqrPtr(**BUDGET, proposed=proposed)):
        found = method.estimate(data, stream(1, "noise"))
        assert found.mean is None or np.isfinite(found.mean).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: MedianPtr(**BUDGET).events(1, 1),
            "MedianPtr: n = 1 is too few: the test asks for 61 records to spare",
        ),
        (lambda: MedianPtr(**BUDGET, proposed=0.1).events(121, 1), "n = 121 is too few: .* 122 would do"),
        (lambda: IqrPtr(**BUDGET).events(300, 1), "IqrPtr: n = 300 is too few"),
        (lambda: ModePtr(**BUDGET).events(84, 1), "ModePtr: n = 84 is too few: .* 85 would do"),
        (lambda: TrimmedSumPtr(**BUDGET, bound=1).events(600, 1), "TrimmedSumPtr: n = 600 is too few: .* 610 would do"),
        (lambda: MedianPtr(**BUDGET, proposed=0), "proposed must be positive"),
        (lambda: MedianPtr(**BUDGET, scale=float("nan")), "scale must be finite"),
        (lambda: TrimmedSumPtr(**BUDGET, bound=1, proposed=1), "proposed must be below bound = 1, got 1"),
        (lambda: TrimmedSumPtr(**BUDGET, bound=1, trimmed=0.5), "trimmed must be a share below 1/2"),
        (lambda: ModePtr(**BUDGET, width=-1), "width must be positive"),
        (lambda: MedianPtr(epsilon=1, delta=0), "delta must be positive"),
        (lambda: MedianPtr(**BUDGET).estimate([], stream(1, "noise")), "data must be a matrix"),
        (lambda: MedianPtr(**BUDGET).estimate([["a"]], stream(1, "noise")), "data must be numbers"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_spent(ask: Any, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        ask()


def test_a_mode_of_zero_has_no_sign_to_tell_of_the_records_that_stood_first() -> None:
    for rows in ([-0.3] * 400 + [0.3] * 400, [0.3] * 400 + [-0.3] * 400):
        found = ModePtr(**BUDGET).estimate(rows, stream(2, "noise"))
        assert found.mean is not None
        assert found.mean.tobytes() == np.zeros(1).tobytes()


def test_a_range_of_far_records_is_exact_to_the_step_and_moves_as_one_rank_does() -> None:
    own = GeneralPtr(failure=5e-7, margin=61, noise=5.33)
    step, seen = 2.0**-16, []

    def left(column: np.ndarray, between: np.ndarray) -> tuple[None, None]:
        """Nothing, the distance being kept to look at."""
        seen.append(between[0])
        return None, None

    for low in (-3.0 * step, -4.0 * step):
        ranked_answer(np.array([low] * 4 + [2.0**46] * 4), own, 1.0, None, (2, 7), left, stream(2, "noise"))
    assert seen[1] - seen[0] == step
