"""Schedules of noise: what each round draws is what is charged for it, and ε after every round composes just those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv.accounting.account import Account
from fedpriv.accounting.course import LEVELS, Course
from fedpriv.curves.compose import QUICK
from fedpriv.errors import FedprivError
from fedpriv.releases import DpSgd, ellipsoid_axes, event_of_sum, events_in_turn, release_in
from fedpriv.releases.schedules import NoiseSchedule, Schedule, noise_stairs, scheduled_factor
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_release, calibrated_study
from fedpriv.studies.promise import epsilon_by_rounds, events_of_message, tracked_by_rounds

CURVES: list[Schedule] = ["linear", "exponential", "cosine"]
STUDY = """
data.kind = "Digits"
clients = { count = 2, records = 500 }
[privacy.release]
kind = "DpSgd"
clip = 1.0
sampling = 0.2
schedule = "exponential"
to = 0.5
[run]
rounds = 20
"""


def sgd(schedule: NoiseSchedule = "linear", to: float = 0.5, **given: Any) -> DpSgd:
    return DpSgd(**{"clip": 1.0, "noise": 4.0, "sampling": 0.2, **given}, schedule=schedule, to=to)


@given(curve=st.sampled_from(CURVES), to=st.floats(1e-3, 1e3), rounds=st.integers(2, 200))
def test_a_schedule_goes_from_1_to_its_end_and_never_back(curve: Schedule, to: float, rounds: int) -> None:
    factors = np.array([scheduled_factor(curve, to, round, rounds) for round in range(1, rounds + 1)])
    assert (factors[0], factors[-1]) == (1.0, pytest.approx(to))
    assert (np.diff(factors) * (to - 1) >= -1e-12 * max(to, 1)).all()


@given(rounds=st.integers(1, 300), done=st.integers(1, 300), curve=st.sampled_from(CURVES[:2]), steps=st.integers(1, 3))
def test_each_round_is_charged_for_the_noise_that_it_draws(rounds: int, done: int, curve: Any, steps: int) -> None:
    own, done = sgd(curve, 0.3), min(done, rounds)
    drawn = [release_in(own, round, rounds).mechanism for round in range(1, done + 1) for _ in range(steps)]
    events = events_in_turn(own, 650, done, rounds, steps)
    assert [event.mechanism for event in events for _ in range(event.rounds)] == drawn
    assert sum(count for _, count in noise_stairs(done, rounds)) == done


@pytest.mark.parametrize("sampling", [0.2, 1.0])
@pytest.mark.parametrize("to", [0.4, 2.5])
def test_epsilon_after_every_round_is_that_of_its_rounds_alone(sampling: float, to: float) -> None:
    own = sgd("exponential", to, sampling=sampling)
    course = Course(events_in_turn(own, 650, 40, 40, 2), 1e-5, in_turn=2)
    for rounds in (1, 2, 5, 17, 40):
        low, high = course.epsilon(rounds)
        alone = Account(events_in_turn(own, 650, rounds, 40, 2))
        bounds = alone.epsilon(1e-5).bounds
        assert low <= bounds.upper
        assert bounds.lower <= high <= bounds.upper * (1 + 1e-4)
        least, most = course.tradeoff(rounds)
        below, above = alone.tradeoff(LEVELS, QUICK)
        assert (least <= above + 1e-9).all()
        assert (below <= most + 1e-9).all()
        assert course.mu(rounds, most).upper == pytest.approx(alone.mu_between(1e-8, QUICK).upper, rel=0.01)


def test_rounds_in_turn_that_are_alike_cost_what_repeated_ones_do() -> None:
    event = event_of_sum(sgd("constant", 1.0), 650, 1)
    halves = tuple(event_of_sum(sgd("constant", 1.0), 650, 15) for _ in range(2))
    for rounds in (1, 7, 16, 30):
        turns, alike = Course(halves, 1e-5, in_turn=1).epsilon(rounds), Course((event,), 1e-5).epsilon(rounds)
        assert turns.lower <= alike.upper
        assert alike.lower <= turns.upper == pytest.approx(alike.upper, rel=1e-4)


def test_less_noise_at_the_end_costs_more_than_none_of_it_and_less_than_all() -> None:
    most, some, least = (
        Account(events_in_turn(own, 650, 50, 50, 1)).upper_epsilon(1e-5)
        for own in (sgd("constant", 1.0, noise=2.0), sgd("linear", 0.5), sgd("constant", 1.0))
    )
    assert least < some < most


@pytest.mark.parametrize("curve", ["linear", "exponential", "cosine"])
def test_a_schedule_is_calibrated_by_one_factor(curve: str) -> None:
    given = {"clip": 1, "sampling": 0.2, "schedule": curve, "to": 0.5}
    found, events = calibrated_release("DpSgd", given, 650, 30, epsilon=2.0, delta=1e-5)
    assert 1.98 < Account(events).upper_epsilon(1e-5) <= 2.0
    noises = [event.mechanism.noise for event in events]  # type: ignore[union-attr]
    assert (noises[0], noises[-1]) == (found["noise"], pytest.approx(found["noise"] / 2))


def test_a_study_tells_after_each_round_what_its_rounds_cost_and_keeps_its_promise() -> None:
    study = calibrated_study(study_file.parsed_study(STUDY, overrides=["privacy.epsilon=2.0"]), 650)
    spent, tracked = epsilon_by_rounds(study, 650), tracked_by_rounds(study, 650)
    own = study.privacy.private_sum
    assert own is not None
    for rounds in (1, 3, 20):
        alone = Account(events_in_turn(own, 650, rounds, 20, 1)).epsilon(1e-5).bounds
        assert alone.lower <= spent(rounds).upper <= min(2.0, alone.upper * (1 + 1e-4))
        assert tracked(rounds).mu.upper > 0
    assert spent(20).upper > 1.98
    charged = [events_of_message(study, 650, round)[0] for round in range(1, 21)]  # what clients' own ledgers have
    assert Account(tuple(charged)).upper_epsilon(1e-5) == pytest.approx(spent(20).upper, rel=1e-3)
    with pytest.raises(FedprivError, match="round 21 is none of them"):
        events_of_message(study, 650, 21)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("clients.participation={kind='Fixed', number=1}", "all clients are asked in"),
        ("privacy.noise=cryptographic", "drawn once"),
        ("privacy.release.to=nan", "to must be finite"),
        ("privacy.release.to=0.0", "to must be positive"),
        ("privacy.release.to=-1.0", "to must be positive"),
        ("privacy.release.to=1.0", "needs to"),
        ("privacy.release.schedule=steps", "choices: constant"),
        ("privacy.release.schedule=constant", "to = 0.5 is of schedule"),
        ("privacy.release.schedule=inverse-root", "choices: constant"),
        ("privacy.release.to=1e-320", "is none"),
        ("server.schedule=linear", "needs to"),
        ("server.to=0.0", "to must be positive"),
        ("server.to=0.5", "to = 0.5 is of schedule"),
        ("server.warm_up=20", "warm_up = 20 leaves none of the 20 rounds"),
        ("server.warm_up=-1", "warm_up"),
    ],
)
def test_a_schedule_that_ends_nowhere_or_in_nothing_is_refused(change: str, why: str) -> None:
    def planned() -> None:
        """The study with the change, and its promises."""
        calibrated_study(study_file.parsed_study(STUDY, overrides=["privacy.release.noise=2e-5", change]), 650)

    with pytest.raises(FedprivError, match=why):
        planned()


@settings(max_examples=30)
@given(moved=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20))
def test_the_axes_of_an_ellipsoid_have_mean_square_1_and_grow_with_the_way(moved: list[float]) -> None:
    far = np.abs(np.array(moved))
    axes = ellipsoid_axes(np.array(moved))
    assert (axes**2).mean() == pytest.approx(1.0)
    assert (axes > 0).all()
    assert (np.diff(axes[np.argsort(far)]) >= -1e-12).all()


def test_weights_that_have_not_moved_or_are_not_finite_make_a_ball() -> None:
    for moved in (np.zeros(3), np.array([np.nan, 1.0]), np.array([np.inf, 1.0])):
        assert (ellipsoid_axes(moved) == 1).all()
