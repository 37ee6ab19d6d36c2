"""A course gives after every round what costing those rounds alone gives, from one preparation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tried import others

from fedpriv.accounting.account import Account
from fedpriv.accounting.course import LEVELS, Course
from fedpriv.accounting.event import Event, by_hand
from fedpriv.bounds import Box, Norm, Normalised
from fedpriv.curves.compose import FINE, compose
from fedpriv.curves.repeated import Repeated
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    MECHANISMS,
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Histogram,
    Laplace,
    NoisySign,
    Ptr,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.trust import Central, Local, Sums

approx = pytest.approx
EVERY: list[Any] = [
    StochasticSign(clip=1.0, peak=0.25, scale=2),
    Binomial(clip=1.0, peak=0.5, scale=2, trials=4),
    Cldp(clip=1.0, epsilon=0.5),
    NoisySign(clip=1.0, peak=0.5, noise=8),
    Ternary(clip=1.0, peak=0.5, spread=2, scale=4),
    Ternarize(clip=1.0, scale=4),
    BinomialNoise(clip=1.0, levels=4, trials=400),
    DiscreteGaussian(clip=1.0, levels=4, noise=4),
    Skellam(clip=1.0, levels=4, noise=4),
    Gaussian(clip=1.0, noise=5),
    Laplace(clip=1.0, noise=10),
]
EVERY += others(EVERY)
DIGITS = by_hand(
    Binomial(clip=1.0, peak=0.2, scale=0.903, trials=4), geometry="l2", dimension=650, trust="secure-aggregation",
    clients=1294,
)  # fmt: skip
RELEASE = by_hand(
    Ptr(clip=1.0, bound=0.5, noise=3.2, test_noise=3.0, failure=1e-8), geometry="l2", dimension=650, sampling=0.25,
    seen="branch",
)  # fmt: skip
SAMPLED = by_hand(Gaussian(clip=1, noise=2.0), geometry="l2", dimension=650, sampling=0.02, unit="record")
LOOSER = 2e-3  # a lower bound that is far from the upper one is asked on a coarse lattice
NEAR = 2e-4  # relative: how far a course's bound may lie outside the one of its rounds alone


def alone(event: Event, rounds: int, delta: float) -> Any:
    return Account((replace(event, rounds=event.rounds * rounds),)).epsilon(delta, FINE).bounds


def events_of(mechanism: Any) -> list[Event]:
    """Every row of the table that is certified."""
    found = []
    bounds = [None, Norm(mechanism.clip), Normalised(mechanism.clip), Box(mechanism.peak)]
    ways = product(bounds, (Local(), Sums(3), Central()), ("client", "record"), ("replace", "add-remove"))
    for (bound, trust, unit, adjacency), dimension, sampling in product(ways, (1, 3), (1.0, 0.1)):
        facts: dict[str, Any] = {"bound": bound, "trust": trust, "unit": unit, "adjacency": adjacency}
        try:
            event = Event(mechanism=mechanism, dimension=dimension, sampling=sampling, **facts)
            Account((event,)).routes  # noqa: B018  – refused where there is none
        except FedprivError:
            continue
        if event not in found:
            found.append(event)
    return found


def test_every_mechanism_there_is_has_a_course() -> None:
    assert {type(each).__name__ for each in EVERY} == set(MECHANISMS)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_errors_and_mu_after_any_round_agree_with_those_rounds_costed_alone(mechanism: Any) -> None:
    event = by_hand(mechanism, dimension=3, geometry="linf")
    course = Course((event,), 1e-5)
    for rounds in (1, 3, 17):
        low, high = course.tradeoff(rounds)
        least, most = Account((replace(event, rounds=rounds),)).tradeoff(LEVELS)
        assert (low <= most + 1e-9).all()
        assert (least <= high + 1e-9).all()
        assert_allclose(low, least, atol=1e-3)
        assert_allclose(high, most, atol=1e-3)
        mu, exact = course.mu(rounds, high), Account((replace(event, rounds=rounds),)).mu_between(1e-8)
        assert mu.lower <= mu.upper
        assert mu.lower <= exact.upper * (1 + 1e-9)
        assert exact.lower <= mu.upper * (1 + 1e-9) or exact.up_to < mu.up_to


def test_errors_fall_and_mu_grows_with_the_rounds() -> None:
    course, before, mu = Course((DIGITS,), 1e-5), np.ones(4), 0.0
    for rounds in (1, 2, 3, 5, 16, 17, 40):
        low, high = course.tradeoff(rounds)
        found = course.mu(rounds, high)
        assert (low < before).all()
        assert found.upper > mu
        assert found.up_to == approx(1e-8)  # Theorem B sets an unlucky number of coins aside
        before, mu = low, found.upper
    assert_allclose(Course((DIGITS,), 1e-5).tradeoff(40), (low, high), rtol=0)


def test_nothing_is_lost_before_the_first_round() -> None:
    course = Course((DIGITS,), 1e-5)
    assert_allclose(course.tradeoff(0), [[0.999, 0.99, 0.95, 0.9]] * 2)
    assert course.mu(0, course.tradeoff(0).upper) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_a_course_agrees_with_its_rounds_costed_alone(mechanism: Any) -> None:
    events = events_of(mechanism)
    assert events
    for event in events[:: max(1, len(events) // 4)]:
        course = Course((event,), 1e-3)
        for rounds in (1, 2, 7):
            low, high = course.epsilon(rounds)
            lower, upper = alone(event, rounds, 1e-3)
            assert low <= high
            assert low <= upper * (1 + 1e-9)
            assert lower <= high * (1 + 1e-9)
            assert high <= upper * (1 + NEAR)
            assert low >= lower * (1 - LOOSER)


@pytest.mark.parametrize("event", [DIGITS, RELEASE, SAMPLED], ids=["sums of votes", "ptr", "sampled"])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_a_course_is_as_tight_as_its_rounds_costed_alone(event: Event, delta: float) -> None:
    course = Course((event,), delta)
    for rounds in (1, 3, 16, 17, 40):
        (low, high), (lower, upper) = course.epsilon(rounds), alone(event, rounds, delta)
        assert lower * (1 - 1e-4) <= low <= upper
        assert lower <= high <= upper * (1 + 1e-4)


@pytest.mark.parametrize("event", [DIGITS, RELEASE, SAMPLED], ids=["sums of votes", "ptr", "sampled"])
def test_both_bounds_grow_with_the_rounds(event: Event) -> None:
    course = Course((event,), 1e-5)
    found = [course.epsilon(rounds) for rounds in (0, 1, 2, 3, 4, 5, 15, 16, 17, 18, 63, 64, 65, 66, 200)]
    assert [bounds.lower for bounds in found] == sorted(bounds.lower for bounds in found)
    assert [bounds.upper for bounds in found] == sorted(bounds.upper for bounds in found)


@pytest.mark.parametrize("event", [DIGITS, SAMPLED], ids=["sums of votes", "sampled"])
def test_a_course_does_not_depend_on_what_was_asked_before(event: Event) -> None:
    asked = [1, 2, 5, 6, 17, 33, 40]
    forth, back = Course((event,), 1e-5), Course((event,), 1e-5)
    first = {rounds: forth.epsilon(rounds) for rounds in asked}
    assert {rounds: back.epsilon(rounds) for rounds in reversed(asked)} == first
    assert all(Course((event,), 1e-5).epsilon(rounds) == first[rounds] for rounds in (6, 40))  # as after a resume


@given(vote=st.floats(0.51, 0.95), third=st.floats(0.0, 0.3), times=st.integers(2, 300), log_delta=st.floats(-30, -1))
def test_repeated_curves_are_bounded_as_exact_lattices_are(
    vote: float, third: float, times: int, log_delta: float
) -> None:
    p = [vote * (1 - third), third, (1 - vote) * (1 - third)]
    curve, delta = Tradeoff.between(p, p[::-1]), 10**log_delta
    repeated, exact = Repeated([(curve, 1)], 1, delta), compose([(curve, times)]).epsilon(delta, 1e-9)
    low, high = repeated.lower(times), repeated.upper(times)
    assert low <= exact.upper
    assert exact.lower <= high
    assert high - low <= 1e-6 * (1 + high)


def test_a_course_contains_the_gaussian_that_is_known_in_closed_form() -> None:
    course = Course((by_hand(Gaussian(clip=1, noise=20.0), trust="central"),), 1e-5)
    for rounds in (1, 9, 400):
        low, high = course.epsilon(rounds)
        truth = Tradeoff.gaussian(rounds**0.5 / 20).epsilon(1e-5)
        assert low <= truth * (1 + 1e-6)
        assert truth * (1 - 1e-9) <= high <= truth * (1 + 1e-6)


def test_events_of_two_kinds_have_a_course_together() -> None:
    both = (by_hand(Gaussian(clip=1, noise=20.0)), by_hand(Laplace(clip=1, noise=30.0)))
    low, high = Course(both, 1e-5).epsilon(12)
    lower, upper = Account(tuple(replace(event, rounds=12) for event in both)).epsilon(1e-5).bounds
    assert low <= upper
    assert lower <= high <= upper * (1 + NEAR)
    assert low >= lower * (1 - LOOSER)


def test_what_is_set_aside_in_each_round_is_counted_in_each() -> None:
    event = by_hand(Histogram(noise=10.0, threshold=100.0), geometry="linf", dimension=2)
    aside = Account((replace(event, rounds=5),)).routes[0].aside
    assert Course((event,), aside * 0.99).upper(5) == inf
    assert Course((event,), max(aside * 1e6, 1e-5)).upper(5) < inf


def test_nothing_is_spent_before_the_first_round() -> None:
    course = Course((DIGITS,), 1e-5)
    assert course.epsilon(0) == (0.0, 0.0)
    with pytest.raises(FedprivError, match="rounds"):
        course.epsilon(-1)


ASKED = """
import json
from fedpriv.accounting.course import LEVELS, Course
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.published.comparisons import clt_epsilon
from fedpriv.mechanisms import Gaussian
course = Course((by_hand(Gaussian(clip=1, noise=2.0), geometry="l2", dimension=650, sampling=0.02),), 1e-5)
print(json.dumps([[*course.epsilon(n), clt_epsilon(course.witnesses(n), 1e-5)] for n in (1, 3, 40)]))
"""


def test_the_expected_epsilon_and_its_bounds_do_not_depend_on_how_many_threads_there_are() -> None:
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", ASKED], capture_output=True, text=True, check=True,
                env=os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            ).stdout
        )
        for threads in ("1", "2")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert all(None not in each for each in found[0])


def test_a_route_that_sets_aside_more_than_delta_hides_none_that_does_not() -> None:
    noise = Binomial(clip=1, peak=0.2, scale=6, trials=4)
    event = by_hand(noise, dimension=650, geometry="l2", trust="secure-aggregation", clients=1294)
    for delta, rounds in ((1e-12, 40), (2e-12, 4)):
        assert Course((event,), delta).epsilon(rounds).upper <= alone(event, rounds, delta)[1] * (1 + NEAR)


@pytest.mark.parametrize("scale", [200.0, 20.0])
def test_an_epsilon_of_nothing_at_delta_is_no_mu_of_nothing(scale: float) -> None:
    """δ may be enough by itself: then ε(δ) = 0, and the curve is still what it is."""
    own = by_hand(StochasticSign(clip=1, scale=scale))
    course = Course((own,), 0.5)
    assert course.epsilon(1).upper == 0
    beta = course.tradeoff(1)
    exact = own.mechanism.tradeoff()
    assert (beta.lower <= exact(np.array(LEVELS)) * (1 + 1e-9)).all()
    assert (beta.upper >= exact(np.array(LEVELS)) * (1 - 1e-9)).all()
    assert 0.5 * exact.mu < course.mu(1, beta.upper).upper <= exact.mu * (1 + 1e-9)  # up to a little of δ


@pytest.mark.parametrize("mechanism", [StochasticSign(clip=1, scale=2), Laplace(clip=1, noise=1)])
def test_without_delta_the_lower_bound_is_of_explicit_data(mechanism: Any) -> None:
    """What a joint release puts aside in floats is certain to nobody."""
    found = Account((by_hand(mechanism, geometry="linf", dimension=2, sampling=0.5),)).epsilon(0.0).bounds
    assert found.lower <= found.upper
    assert found.lower < 2.5
