"""An audit bounds from below what the code that answers gives away; it is never above a certificate that is true."""

from __future__ import annotations

import fcntl
import io
import json
import os
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from numpy.typing import NDArray

from fedpriv.accounting.event import by_hand
from fedpriv.auditing.laws import log_ratio
from fedpriv.auditing.pairs import keys_of, pair_of, told_apart
from fedpriv.auditing.ranks import Lines, Ranks
from fedpriv.auditing.statistic import (
    Trials,
    at_least,
    epsilon_by_guesses,
    epsilon_by_threshold,
    epsilon_lower,
    mu_of_epsilon,
)
from fedpriv.auditing.verdict import as_level, audit_verdict, more_than_held
from fedpriv.bounds import Norm
from fedpriv.bounds.sums import scalar_pair_lower, ternary_pair_lower
from fedpriv.channel import encoding
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.estimation._noisy_means import noisy_mean
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisySign,
    RandomisedResponse,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.randomness.grid import FineGrid
from fedpriv.randomness.streams import stream
from fedpriv.randomness.wide import rounded_real
from fedpriv.studies import file as study_file
from fedpriv.studies.promise import answer_events
from fedpriv.trust import Sums
from server.rounds import planned
from simulations.audit.audited import audit
from simulations.audit.picture import audit_picture
from simulations.audit.sources import source_of
from simulations.audit.trials import Scored, conducted_trials
from simulations.command_line import main
from simulations.report.run.audit_words import MEANINGS, in_a_line

SMALL = """
name = "small"
data = { kind = "Digits", divide = 16.0, subtract = 0.3 }
clients = { count = 20, records = 5 }
server = { step = 1.0 }
run = { rounds = 4, seed = 4 }
"""
LOCAL = """
[privacy]
norm = "normalise"
epsilon = {epsilon}
mechanism = {{ kind = "{kind}", clip = 1.0{settings} }}
"""
RELEASE = """
[privacy]
release = {{ kind = "{kind}", clip = 2.0, noise = 1.0, sampling = 0.4{settings} }}
"""
KINDS = [
    StochasticSign(clip=1.0, scale=3.0), Binomial(clip=1.0, scale=3.0, trials=4), Cldp(clip=1.0, epsilon=0.7),
    NoisySign(clip=1.0, noise=2.0), Ternary(clip=1.0, spread=2.0, scale=4.0), Ternarize(clip=1.0, scale=4.0),
    BinomialNoise(clip=1.0, levels=4, trials=60, bias=0.3), DiscreteGaussian(clip=1.0, levels=8, noise=2.0),
    Skellam(clip=1.0, levels=8, noise=2.0), Gaussian(clip=1.0, noise=2.0), Laplace(clip=1.0, noise=2.0),
]  # fmt: skip


def resolved(text: str) -> Any:
    return planned(study_file.parsed_study(text)).study


def audited(text: str, canaries: int, place: Path, confidence: float = 0.99) -> dict[str, Any]:
    """The verdict on a study."""
    return of_study(resolved(text), canaries, place, confidence)


def of_study(study: Any, canaries: int, place: Path, confidence: float) -> dict[str, Any]:
    own = source_of(study)
    found = conducted_trials(own.source, canaries, own.seed, own.first, place, lambda _: None)
    said = audit_verdict(
        found.trials, own.source.event, delta=1e-5, confidence=confidence, in_a_tail=own.source.in_a_tail,
        ranked=own.source.ranked,
    )  # fmt: skip
    return said | {"repeated": found.repeated}


def of_a_gaussian(mu: float, count: int, seed: int) -> Trials:
    rng = np.random.default_rng(seed)
    held = rng.integers(0, 2, count).astype(bool)
    return Trials(held, np.where(held, 0.5, -0.5) * mu**2 + rng.normal(0, mu, count))


# what counted guesses prove


def test_of_1_000_audits_of_a_pair_the_99_bound_is_above_its_mu_in_at_most_18_and_the_50_bound_in_at_least_400():
    """Signs of chance .529680 in 200 rounds: their number is all that a score depends on."""
    share, rounds, count, rng = 0.529679551, 200, 5_000, np.random.default_rng(1)
    truth = compose([(Tradeoff.between([share, 1 - share], [1 - share, share]), rounds)]).mu
    bounds = []
    for _ in range(1_000):
        held = rng.integers(0, 2, count).astype(bool)
        plus = rng.binomial(rounds, np.where(held, share, 1 - share))
        trials = Trials(held, np.asarray(2.0 * plus - rounds))
        bounds.append((trials.mu(0.99), trials.mu(0.5)))
    above = (np.array(bounds) > truth).sum(axis=0)
    assert above[0] <= 18
    assert above[1] >= 400


@pytest.mark.slow
def test_of_1_000_audits_by_ranks_the_99_bound_is_above_its_mu_in_at_most_18_and_the_50_bound_in_at_least_400():
    """Coin votes as above, and a Gaussian pair: a bound is above μ where fewer than so many simulated audits are."""
    share, rounds, count, rng = 0.529679551, 200, 400, np.random.default_rng(3)
    truth = compose([(Tradeoff.between([share, 1 - share], [1 - share, share]), rounds)]).mu
    found = []
    for seed in range(1_000):
        held = rng.integers(0, 2, count).astype(bool)  # other coins, other simulated audits
        scores = rng.binomial(rounds, np.where(held, share, 1 - share)) if seed % 2 else rng.normal(held * truth, 1)
        found.append(Ranks(Trials(held, np.asarray(scores, float))).p_value(truth))
    assert (np.array(found) <= 0.01).sum() <= 18
    assert (np.array(found) <= 0.5).sum() >= 400


def test_the_bound_by_ranks_is_the_largest_mu_that_is_rejected():
    for seed in range(4):
        ranks = Ranks(of_a_gaussian(1.0, 300, seed))
        mu = ranks.mu(0.95)
        assert ranks.p_value(mu - 1e-3) <= 0.05 < ranks.p_value(mu + 1e-3)
        assert ranks.largest(mu - 1e-3, 0.95) < ranks.score <= ranks.largest(mu + 1e-3, 0.95)


@pytest.mark.slow
def test_ranks_show_more_of_a_gaussian_pair_than_right_guesses_do_and_what_the_pair_itself_allows_is_above():
    """At ε of some 1 the bound is off by .80 of what the count's is: 2/φ(0)·½ deviations of guesses, 2 of ranks."""
    mu = 0.25
    epsilons = np.linspace(0, 1.5, 40)
    deltas = np.array([Tradeoff.gaussian(mu).delta(float(own)) for own in epsilons])
    steep, flat = np.exp(epsilons), np.exp(-epsilons)
    certified = Lines(np.concatenate([deltas, 1 - flat * (1 - deltas)]), np.concatenate([steep, flat]))
    pairs = [(Ranks(trials).shown(0.99, certified), trials.mu(0.99)) for trials in gaussians(mu)]
    ranked, counted = (np.mean(own) for own in zip(*[(shown.mu, count) for shown, count in pairs], strict=True))
    assert 0.7 < (mu - ranked) / (mu - counted) < 0.9
    for shown, _ in pairs:
        assert shown.mu < shown.allowed == pytest.approx(mu, abs=0.02)


def gaussians(mu: float) -> list[Trials]:
    return [of_a_gaussian(mu, 8_000, seed) for seed in range(4)]


def test_scores_that_are_all_the_same_show_nothing_and_so_do_trials_of_one_side():
    held = np.arange(1_000) % 2 == 0
    assert Ranks(Trials(held, np.zeros(1_000))).mu(0.99) < 0.05
    assert Ranks(Trials(np.ones(50, bool), np.arange(50.0))).mu(0.99) == 0


def test_clopper_and_pearson_is_where_so_many_or_more_have_just_that_chance():
    from scipy.special import bdtrc

    for right, trials, confidence in ((1, 5, 0.5), (90, 100, 0.95), (15_580, 20_000, 0.99)):
        assert bdtrc(right - 1, trials, at_least(right, trials, confidence)) == pytest.approx(1 - confidence, rel=1e-9)
    assert at_least(0, 5, 0.99) == 0


def test_no_route_to_epsilon_is_above_that_of_a_gaussian_pair_more_often_than_its_confidence_allows():
    truth = Tradeoff.gaussian(1.0).epsilon(1e-5)
    for route in (epsilon_by_threshold, epsilon_by_guesses, epsilon_lower):
        assert sum(route(of_a_gaussian(1.0, 2_000, seed), 1e-5, 0.9) > truth for seed in range(60)) <= 10


def test_both_routes_find_the_epsilon_of_randomised_response_within_a_tenth():
    """A pure pair, in which every guess is right with chance e^ε/(1 + e^ε)."""
    rng, epsilon = np.random.default_rng(2), 2.0
    held = rng.integers(0, 2, 40_000).astype(bool)
    true = rng.random(held.size) < 1 / (1 + np.exp(-epsilon))
    trials = Trials(held, np.where(held == true, epsilon, -epsilon))
    for route in (epsilon_by_threshold, epsilon_by_guesses):
        assert 0.9 * epsilon < route(trials, 1e-5, 0.99) <= epsilon


def test_mu_star_costs_the_epsilon_it_is_of():
    for epsilon in (0.1, 1.0, 8.0, 40.0):
        assert Tradeoff.gaussian(mu_of_epsilon(epsilon, 1e-5)).epsilon(1e-5) == pytest.approx(epsilon, rel=1e-9)


# what a symbol says


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda own: type(own).__name__)
def test_a_likelihood_ratio_tells_inputs_apart_as_often_as_the_curve_of_the_mechanism_says(mechanism):
    """E max(L, 1)/… by draws: (1 + advantage)/2 of the coins are told, within four standard errors."""
    rng, many = stream(1, f"audit law {type(mechanism).__name__}"), 40_000
    ratio = log_ratio(mechanism, mechanism.peak, -mechanism.peak)
    seen = [mechanism.encode(np.full(many, sign * mechanism.peak), rng) for sign in (1, -1)]
    held = np.arange(2 * many) < many
    trials = Trials(held, np.concatenate([ratio(own) for own in seen]))
    expected = (1 + mechanism.between(mechanism.peak, -mechanism.peak).advantage) / 2
    assert trials.right / len(trials) == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(2 * many))


@pytest.mark.parametrize(
    "mechanism", [own for own in KINDS if not isinstance(own, BinomialNoise | Ternarize)],
    ids=lambda own: type(own).__name__,
)  # fmt: skip
def test_a_ratio_is_that_of_probabilities_for_its_mean_under_the_other_input_is_one(mechanism):
    ratio = log_ratio(mechanism, 0.5 * mechanism.peak, -0.5 * mechanism.peak)
    draws = mechanism.encode(np.full(200_000, -0.5 * mechanism.peak), stream(2, "audit law"))
    likely = np.exp(ratio(draws))
    assert likely.mean() == pytest.approx(1, abs=5 * likely.std() / np.sqrt(likely.size))


# which inputs


def test_canaries_are_longer_than_the_bound_and_as_wide_as_costs_nothing():
    pair = pair_of(by_hand(StochasticSign(clip=1.0, peak=0.2, scale=8.0), geometry="l2", dimension=650, rounds=40))
    assert (pair.coordinates, round(pair.level, 6)) == (650, round(650**-0.5, 6))
    narrow = pair_of(by_hand(StochasticSign(clip=1.0, scale=1.05), geometry="l2", dimension=650))
    assert narrow.coordinates == 1


def test_messages_too_short_to_be_told_apart_are_not_held_to_it():
    short = by_hand(StochasticSign(clip=1.0, scale=2.0), dimension=1)
    assert not told_apart(short, 100)
    assert told_apart(replace(short, dimension=650, bound=Norm(1.0)), 1_000_000)


def test_messages_have_one_key_each():
    rows = np.random.default_rng(1).integers(0, 256, (5_000, 13), np.uint8)
    assert np.unique(keys_of(rows)).size == 5_000
    assert (keys_of(rows[:7]) == keys_of(rows)[:7]).all()


# audits of studies, through what answers

VOTES = LOCAL.format(epsilon=8.0, kind="StochasticSign", settings=", peak = 0.2")
SUMS = 'trust = "secure-aggregation"\nepsilon'
STUDIES = {
    "StochasticSign": VOTES,
    "Binomial": LOCAL.format(epsilon=8.0, kind="Binomial", settings=", peak = 0.2, trials = 4"),
    "Ternary": LOCAL.format(epsilon=8.0, kind="Ternary", settings=", peak = 0.2, spread = 2.0"),
    "NoisySign": LOCAL.format(epsilon=8.0, kind="NoisySign", settings=", peak = 0.2")
    + '[aggregation]\nkind = "MajorityVote"\n',
    "Gaussian": LOCAL.format(epsilon=8.0, kind="Gaussian", settings=""),
}
SUMMED = {
    "votes": LOCAL.format(epsilon=8.0, kind="Binomial", settings=", peak = 0.2, trials = 2"),
    "three symbols": LOCAL.format(epsilon=8.0, kind="Ternary", settings=", peak = 0.2, spread = 2.0"),
    "Gaussian noise": LOCAL.format(epsilon=8.0, kind="Gaussian", settings=""),
    "noise on a grid": LOCAL.format(epsilon=8.0, kind="Skellam", settings=", levels = 64"),
}
FEW = SMALL.replace("step = 1.0", "step = 1.0, fewest = 3")  # who are certain to have drawn noise
RECORDS = {
    "DpSgd": RELEASE.format(kind="DpSgd", settings=""),
    "TrimmedGaussian": RELEASE.format(kind="TrimmedGaussian", settings=", trimmed = 0.25"),
    "AdaptiveDpSgd": RELEASE.format(kind="AdaptiveDpSgd", settings=", count_noise = 20.0"),
    "Ptr": RELEASE.format(kind="Ptr", settings=", bound = 0.5, test_noise = 1.0, failure = 1e-4, trimmed = 0.25"),
    "Ptr by a coin": RELEASE.format(kind="Ptr", settings=", bound = 0.5, failure = 1e-4, trimmed = 0.25"),
}
CENTRAL = """
[privacy]
trust = "central"
mechanism = { kind = "Plain", clip = 1.0 }
[aggregation]
kind = "PrivateMean"
epsilon = 1.0
delta = 1e-5
"""
ONE = SMALL.replace("count = 20, records = 5", "count = 1, records = 100")
SURE = 0.999  # of each: all of them stand or fall together


@pytest.mark.parametrize("name", STUDIES)
def test_the_certificate_of_messages_stands_and_the_audit_comes_near_it(name, tmp_path):
    found = audited(SMALL + STUDIES[name], 1_500, tmp_path, SURE)
    assert found["stands"]
    assert found["repeated"] == 0
    assert 0.7 * found["mu"]["of_epsilon"] < found["mu"]["audited"]


ASKS = """
[evaluation]
mechanism = { kind = "StochasticSign", scale = 1.5 }
every = 2
labels = { classes = 10, epsilon = 1.5 }
"""


@pytest.mark.parametrize(("of", "times", "weaker"), [
    ("answers", 2, StochasticSign(clip=1.0, scale=1.1)),
    ("labels", 1, RandomisedResponse(clip=1.0, levels=9, epsilon=3.5)),
])  # fmt: skip
def test_answers_and_labels_are_audited_too_and_those_of_less_noise_than_is_charged_are_found(
    of: Any, times: int, weaker: Any, tmp_path: Path
) -> None:
    study = resolved(SMALL + LOCAL.format(kind="StochasticSign", epsilon=40.0, settings="") + ASKS)
    own: Any = source_of(study, of)
    event = own.source.event
    assert (own.kind, event.dimension, event.rounds) == (of, 1, times)
    assert event in answer_events(study, times, times)
    found = audit(study, tmp_path / "out", of=of, canaries=4_000, quiet=True)
    assert found["stands"]
    assert 0 < found["mu"]["audited"] <= found["mu"]["certified"]
    leaky = replace(own.source, channel=replace(own.source.channel, mechanism=weaker))
    trials = conducted_trials(leaky, 4_000, own.seed, own.first, tmp_path / "leaky", lambda _: None).trials
    assert more_than_held(trials, own.source.most)
    with pytest.raises(FedprivError, match=f"no {of} to audit"):
        source_of(resolved(SMALL + LOCAL.format(kind="StochasticSign", epsilon=40.0, settings="")), of)


@pytest.mark.parametrize("name", SUMMED)
def test_the_certificate_of_sums_stands_and_coins_are_told_as_often_as_the_law_of_the_sums_says(name, tmp_path):
    text = SMALL + SUMMED[name].replace("epsilon", SUMS, 1)
    own: Any = source_of(resolved(text)).source
    found = audited(text, 600, tmp_path, SURE)
    assert found["stands"]
    pair, mechanism = own.pair, own.channel.mechanism
    match mechanism:
        case Binomial():
            share = float(mechanism.chance(np.array(pair.level)))
            curve = Tradeoff.between(*scalar_pair_lower(20, mechanism.trials, share, high=0))
        case Ternary():
            curve = Tradeoff.between(*ternary_pair_lower(20, pair.level, mechanism.spread, mechanism.scale))
        case _:
            curve = mechanism.aggregated(20).between(pair.level, -pair.level)
    advantage = compose([(curve, pair.coordinates * own.event.rounds)]).delta(0.0, 1e-3).lower
    assert found["right"] / 600 == pytest.approx((1 + advantage) / 2, abs=4 * 0.5 / np.sqrt(600))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_the_certificate_of_records_stands_and_canaries_are_told_far_more_often_than_by_chance(name, tmp_path):
    found = audited(ONE + RECORDS[name], 1_000, tmp_path, SURE)
    assert found["stands"]
    assert found["repeated"] == 0
    assert found["right"] > 500 + 4 * 16  # four standard errors


def test_the_certificate_of_a_curators_means_stands_and_the_audit_comes_near_it(tmp_path):
    found = audited(SMALL + CENTRAL, 3_200, tmp_path, SURE)
    assert found["stands"]
    assert found["repeated"] == 0
    assert 0.7 * found["mu"]["of_epsilon"] < found["mu"]["audited"]


def test_a_curator_that_looks_more_than_once_is_not_audited():
    prime = SMALL + CENTRAL + 'method = "prime"\ncorruption = 0.05\nscale = 1.0\n'
    with pytest.raises(FedprivError, match="'prime' looks at all rows more than once"):
        source_of(study_file.parsed_study(prime))


def test_an_audit_of_a_curators_means_catches_noise_halved_and_a_norm_that_is_not_clipped(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("fedpriv.estimation._noisy_means.noisy_mean", mean_halved)
        assert not audited(SMALL + CENTRAL, 1_600, tmp_path, SURE)["stands"]
    monkeypatch.setattr("fedpriv.estimation._noisy_means.clipped", lambda rows, region: rows)
    assert not audited(SMALL + CENTRAL, 800, tmp_path / "again", SURE)["stands"]


def mean_halved(rows: Any, middle: Any, radius: float, mu: float, rng: Any) -> Any:
    return noisy_mean(rows, middle, radius, 2 * mu, rng)


# mutants: what is not as it is charged is caught by the audit itself


def halved(mechanism: Any, *rest: Any) -> Any:
    return encoding.encoded_packed(replace(mechanism, scale=mechanism.scale / 2), *rest)


def unclipped(updates: Any, *_: Any) -> Any:
    return np.ones(len(updates))


def test_an_audit_of_messages_catches_noise_halved(tmp_path, monkeypatch):
    monkeypatch.setattr("fedpriv.channel.encoded_packed", halved)
    assert not audited(SMALL + VOTES, 1_000, tmp_path, SURE)["stands"]


def test_an_audit_of_messages_catches_a_norm_that_is_not_clipped(tmp_path, monkeypatch):
    monkeypatch.setattr("fedpriv.bounds.clip_factors", unclipped)
    assert not audited(SMALL + VOTES, 1_000, tmp_path, SURE)["stands"]


def test_an_audit_of_messages_catches_one_stream_for_two_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "clients.training.cohort.Seeded", lambda seed, round, clients: encoding.Seeded(seed, round, clients // 2)
    )
    assert audited(SMALL + VOTES, 200, tmp_path, SURE)["repeated"]


def test_an_audit_of_messages_catches_one_stream_for_two_rounds(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "clients.training.cohort.Seeded", lambda seed, round, clients: encoding.Seeded(seed, 1, clients)
    )
    assert audited(SMALL + VOTES, 200, tmp_path, SURE)["repeated"]


THREE = FEW + LOCAL.format(epsilon=8.0, kind="Binomial", settings=", peak = 0.2, trials = 64").replace(
    "epsilon", SUMS, 1
)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMMED)
def test_the_certificate_of_sums_of_three_messages_stands_where_all_three_go_through_the_channel(name, tmp_path):
    text = FEW + SUMMED[name].replace("epsilon", SUMS, 1)
    assert source_of(resolved(text)).source.event.trust == Sums(3)
    found = audited(text, 600, tmp_path, SURE)
    assert found["stands"]
    assert found["right"] > 300


def test_an_audit_of_sums_catches_noise_halved(tmp_path, monkeypatch):
    study = resolved(THREE)  # calibrated before the fault
    monkeypatch.setattr("fedpriv.channel.encoded_packed", halved)
    assert not of_study(study, 600, tmp_path, SURE)["stands"]


def test_an_audit_of_sums_catches_a_norm_that_is_not_clipped(tmp_path, monkeypatch):
    monkeypatch.setattr("fedpriv.bounds.clip_factors", unclipped)
    assert not audited(THREE, 600, tmp_path, SURE)["stands"]


def test_an_audit_of_sums_catches_one_stream_for_two_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "clients.training.cohort.Seeded", lambda seed, round, clients: encoding.Seeded(seed, round, clients // 2)
    )
    assert audited(THREE, 200, tmp_path, SURE)["repeated"]


@pytest.mark.slow
def test_an_audit_of_records_catches_noise_halved(tmp_path, monkeypatch):
    monkeypatch.setattr(FineGrid, "law", lambda grid, noise, power: rounded_real(noise / 2 / grid.step, power))
    assert not audited(ONE + RECORDS["DpSgd"], 2_500, tmp_path, SURE)["stands"]


@pytest.mark.slow
def test_an_audit_of_records_catches_a_norm_that_is_not_clipped(tmp_path, monkeypatch):
    monkeypatch.setattr("fedpriv.releases._batch.clip_factors", unclipped)
    assert not audited(ONE + RECORDS["DpSgd"], 400, tmp_path, SURE)["stands"]


@pytest.mark.slow
def test_an_audit_of_records_catches_one_stream_for_two_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "clients.training.releasing.stream",
        lambda seed, purpose, round, client: stream(seed, purpose, round, client // 2),
    )
    assert audited(ONE + RECORDS["DpSgd"], 100, tmp_path, SURE)["repeated"]


@pytest.mark.slow
def test_an_audit_of_records_catches_a_count_without_noise_behind_a_clip_norm(tmp_path, monkeypatch):
    """Though it is charged for: σ_b = 20 beside a sum that costs nearly all of ε."""
    real = FineGrid.noisy
    assert audited(ONE + RECORDS["AdaptiveDpSgd"], 2_000, tmp_path / "honest", SURE)["stands"]
    monkeypatch.setattr(
        FineGrid,
        "noisy",
        lambda grid, total, *about: real(grid, total, *about) if np.ndim(total) else total * grid.step,
    )
    assert not audited(ONE + RECORDS["AdaptiveDpSgd"], 2_000, tmp_path, SURE)["stands"]


LAPLACE = """
name = "laplace"
data = { kind = "Synthetic", records = 3000, features = 5, classes = 3, held_out = 20 }
clients = { count = 50, records = 4 }
privacy = { delta = 1e-5, trust = "local", mechanism = { kind = "Laplace", clip = 1.0, noise = 4.0 } }
run.rounds = 10
"""


def test_noise_that_is_halved_within_what_a_certificate_allows_is_a_fault_of_its_own(tmp_path, monkeypatch):
    """A certificate of Laplace noise allows more than canaries can hold, so its own count stands."""
    honest = audit(LAPLACE, tmp_path / "honest", canaries=4_000, quiet=True)
    assert honest["stands"]
    monkeypatch.setattr(FineGrid, "law", lambda grid, noise, power: rounded_real(noise / 2 / grid.step, power))
    found = audit(LAPLACE, tmp_path / "halved", canaries=4_000, quiet=True)
    assert found["mu"]["audited"] < found["mu"]["certified"]
    assert "another than described" in found["faults"][0]["words"]
    assert not found["stands"]
    assert "FAULT: the noise" in in_a_line(found)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0.5, 0.9))
def test_a_share_that_the_inputs_hold_is_no_fault(seed, share):
    right = np.random.default_rng(seed).random(2_000) < share
    held = np.arange(2_000) % 2 == 0
    assert not more_than_held(Trials(held, np.where(right == held, 1.0, -1.0)), share)


# going on


@dataclass
class Counting:
    """A source that notes which trials it was asked for."""

    source: Any
    asked: list[int]

    def __repr__(self) -> str:
        return repr(self.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def scored(self, held: NDArray[np.bool_], numbers: NDArray[np.int64]) -> Scored:
        self.asked += numbers.tolist()
        found: Scored = self.source.scored(held, numbers)
        return found


def test_an_audit_that_is_killed_goes_on_to_the_same_trials_and_draws_none_twice(tmp_path):
    own = source_of(resolved(SMALL + VOTES))
    whole = conducted_trials(own.source, 100, own.seed, own.first, tmp_path / "whole", lambda _: None)
    counting = Counting(own.source, [])

    def killed(done: int) -> None:
        if done >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conducted_trials(counting, 100, own.seed, own.first, tmp_path / "cut", killed)
    again = conducted_trials(counting, 100, own.seed, own.first, tmp_path / "cut", lambda _: None)
    assert (again.trials.scores == whole.trials.scores).all()
    assert 0 == whole.before < again.before  # seconds of the sitting that was cut
    assert sorted(counting.asked) == list(range(own.first, own.first + 100))


def test_blocks_of_another_audit_are_not_taken_up(tmp_path):
    own = source_of(resolved(SMALL + VOTES))
    counting = Counting(own.source, [])
    conducted_trials(counting, 60, own.seed, own.first, tmp_path, lambda _: None)
    conducted_trials(counting, 50, own.seed, own.first, tmp_path, lambda _: None)
    assert len(counting.asked) == 110


# the command

SHORT = ["--set", "privacy.trust=local", "--set", "privacy.epsilon=8", "--set", "run.rounds=4"]


def test_the_command_says_what_was_found_and_leaves_it_in_a_directory(tmp_path, capsys):
    place = tmp_path / "found"
    status = main(["audit", "digits", *SHORT, "--canaries", "500", "--json", "--quiet", "--out", str(place)])
    found = json.loads(capsys.readouterr().out)
    assert status == 0
    assert found["canaries"] == 500
    assert found["confidence"] == 0.99
    assert set(found["mu"]) >= {"audited", "certified"}
    assert set(found["epsilon"]) == {"audited", "shape", "lower", "upper"}
    assert found["delta"] == 1e-5
    assert found["epsilon"]["audited"] <= found["epsilon"]["upper"] <= 8
    assert sorted(path.name for path in place.iterdir()) == ["audit.json", "audit.png"]
    kept = json.loads((place / "audit.json").read_text())
    check_title_is_whole(audit_picture(kept | {"name": "a long name of " * 12}))
    curves = kept.pop("curves")
    assert kept == found
    certified, audited = (np.array(curves[name]) for name in ("certified", "audited"))
    assert (certified <= np.array(curves["explicit"]) + 1e-3).all()
    assert np.array(curves["trials"]["beta"])[[0, -1]].tolist() == [1, 0]
    assert np.interp(0.5, curves["alpha"], certified) <= np.interp(0.5, curves["alpha"], audited)


def check_title_is_whole(png: bytes) -> None:
    """Nothing reaches the edges."""
    pixels = imread(io.BytesIO(png))[..., :3]
    assert pixels.min() < 0.5
    for edge in (pixels[:2], pixels[:, :2], pixels[:, -2:]):
        assert (edge == 1).all()


def test_the_command_ends_with_1_where_the_certificate_is_refuted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fedpriv.channel.encoded_packed", halved)
    place = str(tmp_path / "found")
    assert main(["audit", "digits", *SHORT, "--canaries", "1000", "--quiet", "--out", place]) == 1
    assert "THE CERTIFICATE IS REFUTED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["digits", "--set", "privacy={trust='local'}"], "Plain promises nothing"),
        (["digits", "--confidence", "1"], "confidence must be between 0 and 1"),
        (["digits", "--confidence", "0"], "confidence must be between 0 and 1"),
        (["digits", "--confidence", "nan"], "confidence"),
        (["digits", "--confidence", "-1"], "confidence must be between 0 and 1"),
        (["stobatch"], "keeps its noise on records: what leaves are gradients"),
        (["no-such-study"], "no study 'no-such-study'"),
        (["digits", "--confidence", "1e-320"], "further than 1e-16 from both"),
        (["digits", "--out", ""], "--out: names nothing"),
        (["--node", ""], "--node: names nothing"),
        (["--node", "x", "--study", ""], "--study: names nothing"),
        (["digits", "--canaries", "0"], "must be a whole number of at least 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_one_line(words, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert line in said
    assert list(tmp_path.iterdir()) == []


NOTHING_FINITE = {
    "BinomialNoise": "{kind='BinomialNoise', clip=1.0, levels=2, trials=3}",
    "Ternarize": "{kind='Ternarize', clip=1.0, scale=3.0}",
}


@pytest.mark.parametrize("kind", NOTHING_FINITE)
def test_a_study_of_which_nothing_finite_is_certified_is_one_line(kind, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(LAPLACE)
    assert main(["audit", "study.toml", "--set", f"privacy.mechanism={NOTHING_FINITE[kind]}", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no finite ε is certified" in said
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_what_is_in_an_audits_way_is_refused_before_its_trials_and_left_alone(tmp_path, capsys):
    place, words = tmp_path / "out", ["audit", "digits", *SHORT, "--quiet", "--out", str(tmp_path / "out")]
    for inside, line in (
        ("audit.json/own", "that is no file"), ("audit.png/own", "that is no file"),
        ("blocks/own", "no file of an audit's"),
    ):  # fmt: skip
        file = place / inside
        file.parent.mkdir(parents=True)
        file.write_text("own")
        assert main(words) == 2
        said = capsys.readouterr().err
        assert line in said
        assert said.count("\n") == 1
        assert file.read_text() == "own"
        file.unlink()
        file.parent.rmdir()


def test_two_audits_do_not_write_in_one_place(tmp_path, capsys):
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    words = ["audit", "digits", *SHORT, "--quiet", "--canaries", "20", "--out", str(tmp_path)]
    assert main(words) == 2
    assert "another audit is at work there" in capsys.readouterr().err
    os.close(lock)
    assert main(words) == 0


def test_a_confidence_next_to_1_is_not_said_to_be_1():
    assert as_level(1 - 2**-53) == "0.9999999999999999"


def test_a_run_is_audited_once_it_has_done_what_its_study_promises(tmp_path, capsys):
    run = tmp_path / "run"
    words = [
        "--driver",
        "direct",
        "--quiet",
        "--out",
        str(run),
        "--set",
        "clients.byzantine=0",
        "--set",
        "attack.kind=SignFlip",
    ]
    assert main(["run", "digits", *SHORT, *words]) == 0
    assert main(["audit", str(run), "--canaries", "300", "--quiet"]) == 0
    assert (run / "audit" / "audit.json").is_file()
    check_reported(run, capsys)
    lines = (run / "records.jsonl").read_text().splitlines(keepends=True)
    text = (run / "study.toml").read_text()
    (run / "study.toml").write_text(text.replace("rounds = 4", "rounds = 3"))
    assert main(["audit", str(run), "--quiet"]) == 2
    assert "its records hold 4 rounds, where its study promises 3" in capsys.readouterr().err
    (run / "study.toml").write_text(text)
    (run / "records.jsonl").write_text("".join(lines[:3]))
    assert main(["audit", str(run), "--quiet"]) == 2
    assert "promises 4 rounds and it did 2" in capsys.readouterr().err


def check_reported(run: Path, capsys: Any) -> None:
    """The report shows the audit, says what each number proves, and takes none that is of another study or damaged."""
    kept = run / "audit" / "audit.json"
    found = json.loads(kept.read_text())
    capsys.readouterr()
    assert main(["report", str(run)]) == 0
    said, page = capsys.readouterr().out, (run / "report" / "index.html").read_text()
    assert f"μ at least {found['mu']['audited']:.4g} at 99% confidence of 300 canaries" in said
    assert 'id="audit"' in page
    assert (run / "report" / "audited.png").is_file()
    for words in (*MEANINGS.values(), f"at least {found['epsilon']['audited']:.6g} at δ"):
        assert escape(words) in page
    assert main(["report", str(run), "--json", "--no-html"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"] == {
        name: own for name, own in found.items() if name != "curves"
    }
    kept.write_text(json.dumps(found | {"stands": False, "faults": [{"about": "the noise", "words": "is another"}]}))
    assert main(["report", str(run)]) == 0
    assert "FAULT: the noise: is another" in capsys.readouterr().out
    assert "FAULT: the noise: is another" in (run / "report" / "index.html").read_text()
    kept.write_text(json.dumps(found | {"study": "another"}))
    assert main(["report", str(run), "--no-html"]) == 0
    assert "99% confidence" not in capsys.readouterr().out
    kept.write_text(json.dumps(found | {"mu": {}}))
    assert main(["report", str(run), "--no-html"]) == 2
    assert "not what fedpriv audit writes" in capsys.readouterr().err
    kept.write_text(json.dumps(found))


@pytest.mark.parametrize("many", [100, 250, 300, 400, 999])
def test_ranks_of_those_who_are_all_told_apart_show_no_more_than_is_allowed(many: int) -> None:
    """Sums of the same weights in another order differ in their last digit, which proves nothing."""
    held = np.arange(many) % 2 == 0
    shown = Ranks(Trials(held, held * 1.0)).shown(0.99)
    assert shown.mu < 8
