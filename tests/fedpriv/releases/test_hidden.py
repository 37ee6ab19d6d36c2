"""Hidden steps: what the last of them gives away, by a second route and against exact densities; what is refused."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pytest import approx
from scipy.special import expit, ndtr

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand, event_as_data, event_of
from fedpriv.accounting.published.comparisons import published_values
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import HiddenState
from fedpriv.releases.hidden import HiddenState as Release
from fedpriv.releases.hidden import Walk
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.promise import epsilon_after, promised_event
from fedpriv.studies.study import Study
from fedpriv.trust import Adjacency

STUDY = """
data = { kind = "Digits" }
clients = { count = 4, records = 60 }
training = { local_steps = 12, learning_rate = 1.0 }
privacy.release = { kind = "HiddenState", radius = 1.0, penalty = 0.1, noise = 8.0 }
run = { rounds = 3 }
"""
DIMENSION = 650


def steps(count: int, **settings: Any) -> HiddenState:
    """So many hidden steps with c = .9, and noise of ten of a record's gradients, unless settings say otherwise."""
    return HiddenState(**{"noise": 10.0, "radius": 1.0, "penalty": 0.1, "rate": 1.0, "steps": count} | settings)


def study(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=overrides)


@pytest.mark.parametrize(
    ("count", "adjacency", "mu", "epsilon", "composed"),
    [
        (10, "replace", 0.605829359, 2.471669, 2.594383),
        (50, "replace", 0.867298350, 3.714888, 6.572970),
        (200, "replace", 0.871779788, 3.736918, 15.456156),
        (50, "add-remove", 0.433649175, 1.700809, None),
    ],
)
def test_hidden_steps_cost_what_was_worked_out_by_hand(
    count: int, adjacency: Adjacency, mu: float, epsilon: float, composed: float | None
) -> None:
    own = steps(count)
    assert own.mu(adjacency) == approx(mu, abs=1e-9)
    found = Account((by_hand(own, adjacency=adjacency),)).epsilon(1e-5).bounds
    assert found.upper == approx(epsilon, abs=1e-6)
    assert found.lower == approx(epsilon, abs=2e-6)  # c = 1 − ηλ here: records reach it
    if composed is not None:
        every = Account((by_hand(steps(count, noise=10 / sqrt(count), steps=1), adjacency=adjacency),))
        assert every.upper_epsilon(1e-5) == approx(composed, abs=1e-6)


def test_batches_that_take_turns_cost_what_was_worked_out_by_hand() -> None:
    assert steps(50, noise=2.0, batches=5).mu("replace") == approx(1.216254, abs=1e-6)


def shifts(own: HiddenState, place: int) -> NDArray[np.float64]:
    """The theorem's shifts in units of s, for a record of the batch at this place: how far each step's noise hides."""
    c, last = 1 - own.gap, own.steps - own.batches + place
    a = np.zeros(own.steps)
    met = np.arange(place, own.steps, own.batches)
    if own.batches == 1:
        tail, due = np.arange(own.steps), (c ** (own.steps - 1 - met)).sum()
        a[tail] = due * c ** (own.steps - 1 - tail) / (c ** (2.0 * (own.steps - 1 - tail))).sum()
        return a
    a[last] = 1
    tail = np.arange(place, last)
    if tail.size:
        due = (c ** (last - 1 - met[:-1])).sum()
        a[tail] = due * c ** (last - 1 - tail) / (c ** (2.0 * (last - 1 - tail))).sum()
    return a


@given(c=st.floats(0.05, 0.999), batches=st.integers(1, 7), turns=st.integers(1, 9), place=st.integers(0, 6))
def test_the_shifts_of_the_proof_are_there_and_cost_the_mu_that_is_charged(
    c: float, batches: int, turns: int, place: int
) -> None:
    own = steps(batches * turns, noise=1.0, batches=batches, penalty=1 - c, radius=sqrt(c))
    assert own.gap == approx(1 - c)
    place %= batches
    a, apart = shifts(own, place), 0.0
    for step in range(own.steps):
        apart = (1 - own.gap) * apart + (step % batches == place) - a[step]
        assert apart >= -1e-9  # no step hides more than there is
    assert apart == approx(0, abs=1e-9)  # after the last one both runs are where they are
    assert sqrt((a * a).sum()) == approx(own.mu(), rel=1e-9)


@given(
    rate=st.floats(1e-3, 3.9), penalty=st.floats(1e-6, 2), turns=st.integers(1, 400), batches=st.integers(1, 5),
    adjacency=st.sampled_from(["replace", "add-remove"]),
)  # fmt: skip
def test_hiding_steps_never_costs_more_than_charging_each_and_what_records_reach_is_below_it(
    rate: float, penalty: float, turns: int, batches: int, adjacency: Adjacency
) -> None:
    try:
        own = steps(turns * batches, rate=rate, penalty=penalty, batches=batches)
    except FedprivError:
        assert rate * (penalty + 0.5) >= 2
        return
    assert own.mu(adjacency) <= own.mu_of_all_steps(adjacency) * (1 + 1e-11)
    reached = own.reached(adjacency)[1].mu
    assert reached <= own.mu(adjacency)
    if batches == 1 and rate * (2 * penalty + 0.5) <= 2:
        assert reached == approx(own.mu(adjacency), rel=1e-8)


def test_more_rounds_of_hidden_steps_compose_as_gaussians_do() -> None:
    account = Account((by_hand(steps(50), adjacency="replace", rounds=9),))
    assert account.epsilon(1e-5).bounds.upper == approx(
        Account((by_hand(steps(50, noise=10 / 3), adjacency="replace"),)).epsilon(1e-5).bounds.upper, abs=1e-6
    )


def density(
    batches: list[list[tuple[float, int]]], places: int, *, start: float, rate: float, penalty: float, tau: float,
    count: int, grid: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """The exact law of w_K of softmax regression on one input: t along (e₀ − e₁)/√2, in cells of a grid."""
    edges = np.concatenate([[-np.inf], (grid[1:] + grid[:-1]) / 2, [np.inf]])

    def moved(t: NDArray[np.float64], records: list[tuple[float, int]]) -> NDArray[np.float64]:
        """Where a step from t leads before its noise."""
        slope = np.zeros_like(t)
        for x, label in records:
            way = sqrt(2) * x * (1 if label == 0 else -1)
            slope -= way * expit(-way * t) / places
        return np.asarray(t - rate * (slope + penalty * t))

    law = np.diff(ndtr((edges - moved(np.array([start]), batches[0])) / tau))
    kernels = [np.diff(ndtr((edges[None] - moved(grid, each)[:, None]) / tau), axis=1) for each in batches]
    for step in range(1, count):
        law = law @ kernels[step % len(batches)]
    return np.asarray(law)


@pytest.mark.parametrize("seed", range(8))
def test_exact_densities_of_small_regressions_stay_below_the_certificate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns, many, batches = int(rng.integers(1, 5)), int(rng.integers(1, 4)), 1 + seed % 3
    penalty, noise = float(rng.choice([0.05, 0.2, 0.5])), float(rng.choice([0.7, 2.0]))
    rate = float(rng.choice([0.5, 1.0, 1.8])) / (penalty + 0.5)
    own = steps(turns * batches, noise=noise, rate=rate, penalty=penalty, batches=batches)
    tau, start = noise * rate * sqrt(2) / many, float(rng.choice([0.0, 2.0, -4.0]))
    others = [[(float(rng.uniform(-1, 1)), int(rng.integers(2))) for _ in range(many)] for _ in range(batches)]
    reach = abs(start) + sqrt(2) / penalty * (1 - (1 - own.gap) ** own.steps) + 9 * tau / sqrt(own.gap)
    grid, place = np.linspace(-reach, reach, 1601), int(rng.integers(batches))
    p, q = (
        density(
            [[(1.0, label), *each[1:]] if at == place else each for at, each in enumerate(others)], many,
            start=start, rate=rate, penalty=penalty, tau=tau, count=own.steps, grid=grid,
        )
        for label in (0, 1)
    )  # fmt: skip
    curve = own.tradeoff("replace")
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        for one, other in ((p, q), (q, p)):
            seen = float(np.maximum(one - np.exp(epsilon) * other, 0).sum())
            assert seen <= curve.delta(epsilon) * (1 + 1e-9) + 1e-12


def test_one_record_that_stays_wrong_comes_as_near_to_the_certificate_as_the_lower_bound_says() -> None:
    own = steps(8, noise=2.0, penalty=0.05, rate=1.0)
    tau, start = 2.0 * sqrt(2), -60.0  # far below: the record of class 0 is wrong all the way
    grid = np.linspace(-90, 20, 4001)
    shared: dict[str, Any] = {"start": start, "rate": 1.0, "penalty": 0.05, "tau": tau, "count": 8, "grid": grid}
    there, nothing = density([[(1.0, 0)]], 1, **shared), density([[(0.0, 0)]], 1, **shared)
    seen = float(np.maximum(there - np.exp(0.5) * nothing, 0).sum())
    assert own.reached("add-remove")[1].delta(0.5) == approx(own.tradeoff("add-remove").delta(0.5), rel=1e-6)
    assert seen == approx(own.tradeoff("add-remove").delta(0.5), rel=2e-3)  # the grid's width


def test_an_account_shows_what_charging_every_step_would_cost_and_where_hiding_pays() -> None:
    [found] = published_values(Account((by_hand(steps(50), adjacency="replace"),)), 1e-5).values()
    assert found["epsilon"] == approx(6.572970, abs=1e-6)
    assert found["pays"] == "hiding pays past K = 20 or so"


def test_a_ledger_keeps_an_event_of_hidden_steps_as_it_was() -> None:
    event = promised_event(study(), DIMENSION, 7)
    assert event_of(event_as_data(event)) == event
    assert (event.adjacency, event.unit, event.rounds) == ("replace", "record", 7)
    assert 0 < event.mechanism.rounding < 1e-8  # type: ignore[union-attr]


def test_the_noise_of_hidden_steps_is_calibrated_to_the_epsilon_of_all_rounds() -> None:
    open_noise = study("privacy.release={kind='HiddenState', radius=1.0, penalty=0.1}", "privacy.epsilon=2.0")
    found = calibrated_study(open_noise, DIMENSION)
    assert 1.99 < epsilon_after(found, DIMENSION, 3).upper <= 2.0
    assert found.privacy.hidden is not None
    every = Account((by_hand(steps(12, noise=found.privacy.hidden.noise), adjacency="replace", rounds=3),))
    assert every.upper_epsilon(1e-5) == approx(epsilon_after(found, DIMENSION, 3).upper, rel=1e-6)
    with pytest.raises(FedprivError, match="promised, but these settings give"):
        calibrated_study(study("privacy.epsilon=0.1"), DIMENSION)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("training.model={kind='Mlp'}", r"training.model = Mlp: .*convex losses"),
        ("training.optimiser={kind='Adam'}", r"training.optimiser = Adam: .*neither momentum nor Adam"),
        ("training.optimiser={kind='Sgd', momentum=0.5}", r"training.optimiser = Sgd: .*neither momentum"),
        ("training.proximal=0.5", "training.proximal = 0.5: .*the penalty of its own"),
        ("training.batch=10", "training.batch = 10: .*not ones that the seed draws"),
        ("training.sampling=0.5", r"training.sampling = 0.5: .*Poisson"),
        ("training.loss={kind='FocalLoss'}", r"(training.loss = FocalLoss: .*plain cross entropy|unknown loss)"),
        ("privacy.release.clip=1.0", "HiddenState has no clip: .*K local steps with clipping are not covered"),
        ("privacy.release.sampling=0.5", "HiddenState has no sampling: random batches are not covered"),
        ("privacy.release.penalty=0.0", "penalty"),
        ("privacy.release.radius=inf", "radius"),
        ("privacy.release.radius=1e9", "radius must be at least"),
        ("privacy.trust='secure-aggregation'", "trust 'local'"),
        ("privacy.unit='client'", "HiddenState protects records"),
    ],
)  # fmt: skip
def test_what_the_theorem_does_not_cover_is_refused_by_the_condition_that_fails(change: str, told: str) -> None:
    with pytest.raises(FedprivError, match=told):
        study(change)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("training.learning_rate=4.0", r"do not contract: the learning rate must be below 2/\(λ \+ X²/2\) = 3.33333"),
        ("training.learning_rate=1e-9", "training.learning_rate must be between"),
        ("privacy.release.batch=25", "batch must divide clients.records = 60, got 25"),
        ("privacy.release.batch=12", "whole turns of 5 batches, got 12"),
        ("privacy.release.noise=1e-9", "floats may move a step by"),
        ("privacy.release.penalty=1e-12", "floats may move a step by"),
    ],
)
def test_steps_that_do_not_contract_or_drown_in_rounding_are_refused_before_a_run(change: str, told: str) -> None:
    with pytest.raises(FedprivError, match=told):
        calibrated_study(study(change), DIMENSION)


def test_steps_that_do_not_contract_are_refused_by_name_where_their_noise_is_yet_to_be_found() -> None:
    own = study(
        "privacy.release={kind='HiddenState', radius=1.0, penalty=0.1}", "privacy.epsilon=2.0",
        "training.learning_rate=4.0",
    )  # fmt: skip
    with pytest.raises(FedprivError, match="release: steps do not contract: the learning rate must be below"):
        calibrated_study(own, DIMENSION)


def test_an_event_of_random_batches_or_of_clients_is_refused() -> None:
    with pytest.raises(FedprivError, match="random ones inside its steps are not covered"):
        by_hand(steps(5), sampling=0.1)
    with pytest.raises(FedprivError, match="unit must be 'record'"):
        by_hand(steps(5), unit="client")


def test_floats_add_to_what_is_charged() -> None:
    assert steps(50, rounding=1e-3).mu() == approx(steps(50).mu() + 2e-3 * sqrt(50))
    walk = Walk(release=Release(radius=1, penalty=0.1, noise=10), records=100, rate=1.0, steps=50, dimension=DIMENSION)
    assert walk.mechanism.rounding == walk.error / walk.deviation > 0
    assert walk.mechanism.reached("replace")[1].mu == 0
