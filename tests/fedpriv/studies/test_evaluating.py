"""Clients' answers about a model: what they are charged, what is refused, and how often their interval holds."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, Cldp, Mechanism, RandomisedResponse, StochasticSign, Ternary
from fedpriv.randomness.streams import stream
from fedpriv.studies import observers, promise
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.evaluating import accuracy_found, asking_study, labels_found, model_digest, most_variance
from fedpriv.studies.file import parsed_study, read_study, study_text
from fedpriv.studies.plan import Plan
from fedpriv.studies.spending import Given, Tracked, given_in_all, most_given, worst_tracked
from fedpriv.studies.study import Study

SIGN = "evaluation.mechanism={kind='StochasticSign', scale=3.0}"
LABELS = "evaluation.labels={classes=10, epsilon=1.5}"
ONE_BIT = "privacy.mechanism={kind='StochasticSign', clip=1.0, peak=0.2, scale=2.0}"
SOME = ["clients.participation={kind='Fixed', number=20}"]
LOCAL = ["privacy.trust=local", "privacy.norm=coordinates", ONE_BIT]
ALL = [
    RandomisedResponse(clip=1, levels=1, epsilon=1.0),
    RandomisedResponse(clip=1, levels=4, epsilon=2.0),
    StochasticSign(clip=1, scale=2.0),
    Cldp(clip=1, epsilon=1.0),
    Binomial(clip=1, scale=2.0, trials=4),
    Ternary(clip=1, spread=1.5, scale=4.0),
]


def small(*overrides: str) -> Study:
    text = study_text(read_study("digits")).replace("epsilon = 4.0\n", "")
    return parsed_study(text, overrides=["clients.count=40", "run.rounds=5", *overrides])


def test_without_an_evaluation_a_study_is_who_it_was() -> None:
    assert read_study("digits").id.hex() == "d13dd79a2c448268"
    assert small().evaluation is None
    assert asking_study(small()) is None
    assert small(SIGN).id != small().id
    assert small(SIGN, "evaluation.every=1", "evaluation.mechanism.clip=1").id == small(SIGN).id  # its defaults


def test_messages_and_answers_cost_what_their_events_composed_by_hand_cost() -> None:
    own = calibrated_study(small(SIGN, *LOCAL, "evaluation.every=2"), 3)
    message, answer = StochasticSign(clip=1, peak=0.2, scale=2.0), StochasticSign(clip=1, scale=3.0)
    assert given_in_all(own) == (Given(5, 3),)  # rounds 2, 4 and the last
    low, high = compose([(message.tradeoff(), 5 * 3), (answer.tradeoff(), 3)]).epsilon(1e-5)  # curve by curve
    found = promise.epsilon_in_all(own, 3)
    assert found.lower == approx(low, rel=1e-6)
    assert high * (1 - 1e-6) <= found.upper <= high * 1.07  # of few steps an upper bound alone is looser
    assert promise.epsilon_after(own, 3, 5).upper < found.upper
    events = by_hand(message, geometry="linf", dimension=3, rounds=5), by_hand(answer, geometry="linf", rounds=3)
    assert Account(events).epsilon(1e-5).bounds == approx((found.lower, found.upper), rel=1e-9)
    told = Plan.of(own, 3).spent(given_in_all(own))
    assert told["mu"]["upper"] >= told["mu"]["lower"] > 0


def test_under_sums_an_answer_is_hidden_by_the_answers_that_are_certain() -> None:
    [event] = promise.answer_events(small(SIGN))
    assert (event.dimension, event.rounds) == (1, 1)
    assert event.trust == observers.trust_in(small())


def test_a_target_pays_for_the_answers_too() -> None:
    asks, silent = (
        calibrated_study(read_study("digits", ["clients.count=100", "run.rounds=3", "privacy.epsilon=5.0", *own]), 650)
        for own in (["evaluation.mechanism={kind='StochasticSign', scale=1.2}"], [])
    )
    assert 4.9 < promise.epsilon_in_all(asks, 650).upper <= 5.0
    assert asks.privacy.mechanism.settings["scale"] > silent.privacy.mechanism.settings["scale"]


@pytest.mark.parametrize(
    ("why", "overrides"),
    [
        ("records are promised", [SIGN, *LOCAL, "privacy.unit=record", "training.sampling=0.5"]),
        ("Plain messages", [SIGN, "privacy.trust=local", "privacy.mechanism={kind='Plain', clip=1.0}"]),
        ("masked sums", [SIGN, "masking={rehearse=true}"]),
        ("'iid' or 'in-order'", [SIGN, "evaluation.held_out=1", "clients.split=pool"]),
        ("no certificate", ["evaluation.mechanism={kind='RandomisedResponse', levels=1, epsilon=1.0}"]),
        ("clip and peak must be 1", ["evaluation.mechanism={kind='StochasticSign', clip=2.0, scale=3.0}"]),
        ("unknown mechanism 'Gaussian'", ["evaluation.mechanism={kind='Gaussian', noise=3.0}"]),
        ("is not certified", ["evaluation.mechanism={kind='mine:Own'}"]),
        ("needs scale", ["evaluation.mechanism={kind='StochasticSign'}"]),
        ("every must be at least 1", [SIGN, "evaluation.every=0"]),
        ("evaluation needs mechanism", ["evaluation={every=2}"]),
        ("evaluation.labels: classes are counted one by one", [SIGN, LABELS]),
        ("records are promised", [SIGN, LABELS, *LOCAL, "privacy.unit=record", "training.sampling=0.5"]),
        ("Plain messages", [SIGN, LABELS, "privacy.trust=local", "privacy.mechanism={kind='Plain', clip=1.0}"]),
        ("classes must be at least 2 and at most 64", [SIGN, *LOCAL, "evaluation.labels={classes=1, epsilon=1.0}"]),
        ("epsilon must be", [SIGN, *LOCAL, "evaluation.labels={classes=3, epsilon=0.0}"]),
        ("evaluation.labels needs classes", [SIGN, *LOCAL, "evaluation.labels={epsilon=1.0}"]),
    ],
)  # fmt: skip
def test_an_evaluation_that_nothing_certifies_is_refused_in_a_line(why: str, overrides: list[str]) -> None:
    with pytest.raises(FedprivError, match=why) as raised:
        calibrated_study(small(*overrides), 650)
    assert "\n" not in str(raised.value)


def test_a_label_is_asked_once_and_costs_its_epsilon_composed_by_hand() -> None:
    own = calibrated_study(small(SIGN, LABELS, *LOCAL, "evaluation.every=2"), 3)
    assert given_in_all(own) == (Given(5, 3, 1),)  # a label in round 2
    ids = {each.id for each in (own, calibrated_study(small(SIGN, *LOCAL, "evaluation.every=2"), 3))}
    ids |= {each.id for each in (asking_study(own, "right"), asking_study(own, "labels")) if each}
    assert len(ids) == 4  # no message of one is taken for another's
    message, answer = StochasticSign(clip=1, peak=0.2, scale=2.0), StochasticSign(clip=1, scale=3.0)
    told = RandomisedResponse(clip=1, levels=9, epsilon=1.5)
    events = (by_hand(message, geometry="linf", dimension=3, rounds=5), by_hand(answer, geometry="linf", rounds=3),
              by_hand(told, geometry="linf"))  # fmt: skip
    found = promise.epsilon_in_all(own, 3)
    assert Account(events).epsilon(1e-5).bounds == approx((found.lower, found.upper), rel=1e-9)
    law = Tradeoff.between(told.symbol_law(-1.0), told.symbol_law(1.0))  # another data set's class, outcome by outcome
    low, high = compose([(message.tradeoff(), 5 * 3), (answer.tradeoff(), 3), (law, 1)]).epsilon(1e-5)
    assert found.lower == approx(low, rel=1e-6)
    assert high * (1 - 1e-6) <= found.upper <= high * 1.07
    assert promise.epsilon_after(own, 3, 5, 3).upper < found.upper
    assert promise.epsilon_after(own, 3, 0, 0, 1).upper == approx(1.5, rel=1e-4)


def test_a_target_pays_for_the_label_too() -> None:
    facts = ["clients.count=100", "run.rounds=3", "privacy.epsilon=5.0", "privacy.trust=local"]
    facts.append("evaluation.mechanism={kind='StochasticSign', scale=3.0}")
    told, silent = (calibrated_study(read_study("digits", [*facts, *own]), 650) for own in ([LABELS], []))
    assert 4.9 < promise.epsilon_in_all(told, 650).upper <= 5.0
    assert told.privacy.mechanism.settings["scale"] > silent.privacy.mechanism.settings["scale"]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.04, 0.95, 0.01]], ids=str)
def test_all_intervals_of_labels_hold_together_as_often_as_they_say(epsilon: float, shares: list[float]) -> None:
    told, rng, held, tries = RandomisedResponse(clip=1, levels=2, epsilon=epsilon), stream(3, "labels"), 0, 300
    points, means = np.linspace(-1, 1, 3), []
    for _ in range(tries):
        symbols = told.encode(points[rng.choice(3, size=200, p=shares)], rng)
        found = labels_found(told, np.bincount(symbols, minlength=3))["classes"]
        held += all(own["low"] <= share <= own["high"] for own, share in zip(found, shares, strict=True))
        means.append([own["share"] for own in found])
    assert held >= 0.95 * tries
    error = np.std(means, axis=0) / np.sqrt(tries)
    assert (abs(np.mean(means, axis=0) - shares) <= 4 * error + 1e-12).all()  # unbiased


def test_an_interval_of_labels_ends_where_the_chance_is_what_hoeffding_says() -> None:
    told, counts = RandomisedResponse(clip=1, levels=2, epsilon=2.0), np.array([150, 50, 0])
    own, other = told.table.chances[0][:2]
    for count, part in zip(counts, labels_found(told, counts)["classes"], strict=True):
        for end in ("low", "high"):
            if 0 < part[end] < 1:
                a, m = count / 200, other + (own - other) * part[end]
                apart = (a * np.log(a / m) if a else 0.0) + (1 - a) * np.log((1 - a) / (1 - m))
                assert 200 * apart == approx(np.log(2 * 3 / 0.05), rel=1e-9)
    assert labels_found(told, counts, liars=10)["lied"] == approx(10 / 200 / (own - other))


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
@pytest.mark.parametrize("shares", [np.full(200, 0.7), np.repeat([0.0, 1.0], [120, 80]), np.linspace(0, 1, 200)])
def test_the_interval_holds_at_least_as_often_as_it_says(mechanism: Mechanism, shares: np.ndarray) -> None:
    rng, held, tries = stream(1, "coverage"), 0, 300
    accuracies = []
    for _ in range(tries):
        total = mechanism.encode(2 * shares - 1, rng).sum(dtype=np.int64)
        found = accuracy_found(mechanism, float(mechanism.decode(np.array([total]), len(shares))[0]), len(shares))
        held += found["low"] <= shares.mean() <= found["high"]
        accuracies.append(found["accuracy"])
    assert held >= 0.95 * tries
    assert np.std(accuracies) <= found["error"] * 1.15
    assert abs(np.mean(accuracies) - shares.mean()) < 4 * found["error"] / np.sqrt(tries)  # unbiased


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_no_answer_varies_more_than_the_variance_that_is_counted(mechanism: Mechanism) -> None:
    rng = stream(2, "variance")
    for x in np.linspace(-1, 1, 9):
        values = mechanism.decode(mechanism.encode(np.full(20_000, x), rng), 1)
        assert values.var() <= most_variance(mechanism) * 1.05


def test_liars_move_it_no_further_than_is_said() -> None:
    sign = StochasticSign(clip=1, scale=3.0)
    honest, lied = accuracy_found(sign, 0.0, 100), accuracy_found(sign, 0.0, 100, liars=10)
    assert "lied" not in honest
    assert lied["lied"] == approx(10 / 100 * 6 / 2)


def test_whoever_has_given_most_counts() -> None:
    assert most_given(np.array([3, 2, 2, 1]), np.zeros(4, int)) == (Given(3, 0),)
    assert most_given(np.zeros(0, int), np.zeros(0, int)) == (Given(0, 0),)
    three = np.array([[3, 3, 2, 1], [0, 1, 2, 2], [1, 0, 1, 1]])
    assert most_given(*three) == (Given(3, 1, 0), Given(3, 0, 1), Given(2, 2, 1))
    few = small(SIGN, *SOME, *LOCAL, "evaluation.every=6", "run.rounds=8")
    pairs = given_in_all(few)
    assert len(pairs) >= 2
    own = calibrated_study(few, 650)
    assert promise.epsilon_in_all(own, 650).upper == max(promise.epsilon_after(own, 650, *each).upper for each in pairs)
    plan = Plan.of(own, 650)
    every = [plan.tracked(*each) for each in pairs]
    worst: Tracked = worst_tracked(every)
    assert all((worst.beta.lower <= each.beta.lower).all() and worst.mu.upper >= each.mu.upper for each in every)


def test_models_that_differ_in_a_bit_are_told_apart() -> None:
    one = np.zeros(3, np.float32)
    assert model_digest(one) == model_digest(one.copy())
    assert model_digest(one) != model_digest(np.array([0, 0, np.float32(1e-45)]))
