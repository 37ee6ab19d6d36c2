"""Trusted servers: DP-FedAvg, and DP-FTRL by banded noise; what they draw, what they declare, what a study refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain, combinations, pairwise
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.linalg import solve_triangular, toeplitz

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, by_hand, event_as_data, event_of
from fedpriv.accounting.ledger import Ledger
from fedpriv.aggregation.rows import Aid
from fedpriv.errors import FedprivError
from fedpriv.estimation.dp_fedavg import DpFedAvg
from fedpriv.estimation.dp_ftrl import DpFtrl, correlated_noise, taken_back
from fedpriv.mechanisms import BandedGaussian, Gaussian
from fedpriv.mechanisms.banded import PLACES, band_numerators
from fedpriv.population.participation import Cyclic
from fedpriv.randomness.grid import FineGrid
from fedpriv.randomness.streams import stream
from fedpriv.records import read_records
from fedpriv.studies import file as study_file
from fedpriv.studies import promise
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.study import Study
from server import rounds
from server.rounds.driver import Answer, Task
from simulations.runs import direct

FEDAVG = """
name = "central"
data = { kind = "Digits", divide = 16.0, subtract = 0.3 }
clients = { count = 200, byzantine = 20, participation = { kind = "Poisson", rate = 0.3 } }
training = { model = { kind = "Logistic" } }
attack = { kind = "SignFlip" }
privacy = { trust = "central", epsilon = 4.0, delta = 1e-5, mechanism = { kind = "Plain", clip = 1.0 } }
aggregation = { kind = "DpFedAvg" }
run = { rounds = 12, seed = 1 }
"""
FTRL = [
    "aggregation={kind='DpFtrl'}",
    "clients.participation={kind='Cyclic', blocks=4}",
]
ADAPTIVE = [
    "aggregation={kind='DpFedAvg', count_noise=10.0, bound=0.1}",
    "privacy.mechanism={kind='Plain'}",
]
KINDS = {"fedavg": [], "ftrl": FTRL, "adaptive": ADAPTIVE}


def central(*overrides: str) -> Study:
    return study_file.parsed_study(FEDAVG, overrides=overrides)


def banded(**changed: Any) -> BandedGaussian:
    return BandedGaussian(**({"clip": 1.0, "noise": 1.0, "bands": 4, "apart": 4, "planned": 16} | changed))


def released(mechanism: BandedGaussian, adjacency: str, rounds: int) -> Event:
    return by_hand(mechanism, unit="client", adjacency=adjacency, rounds=rounds)  # type: ignore[arg-type]


# what is declared


@pytest.mark.parametrize(("adjacency", "epsilon"), [("add-remove", 3.50215), ("replace", 4.88949)])
def test_a_hundred_rounds_of_dp_fedavg_cost_what_the_accountant_of_a_sampled_sum_says(adjacency, epsilon):
    rule = DpFedAvg(noise=1.0, bound=0.7, sampling=0.05, clients=1000, adjacency=adjacency)
    low, high = Account((rule.event(650, 100),)).epsilon(1e-5).bounds
    assert low == approx(epsilon, abs=1e-4)
    assert high == approx(epsilon, abs=1e-4)
    assert low <= high


@pytest.mark.parametrize(
    ("facts", "sensitivity"),
    [
        ({"bands": 1, "apart": 16}, 1.0),
        ({"bands": 1, "apart": 4}, 2.0),
        ({"bands": 4, "apart": 16}, 1.219951331),
        ({"bands": 4, "apart": 4}, 2.439902662),
    ],
)
def test_a_unit_moves_banded_sums_by_the_numbers_of_the_table(facts, sensitivity):
    own = banded(**facts)
    assert float(own.moved(16)) ** 0.5 == approx(sensitivity, abs=1e-9)
    assert sensitivity * (1 - 1e-9) <= own.spread <= sensitivity * (1 + 1e-9)


@cache
def worst(mechanism: BandedGaussian, rounds: int) -> float:
    """The most Σ‖C e_i‖² of the first rounds over all index sets far enough apart, by the recursion of the theory."""
    root = toeplitz([m / 2**PLACES for m in band_numerators(mechanism.bands)] + [0.0] * rounds)[:rounds, :rounds]
    squares = (np.tril(root) ** 2).sum(axis=0)

    @cache
    def best(left: int, at: int) -> float:
        if at >= rounds or not left:
            return 0.0
        return max(best(left, at + 1), squares[at] + best(left - 1, at + mechanism.apart))

    return best(rounds, 0)


@pytest.mark.parametrize("apart", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("planned", [1, 4, 11, 15])
def test_what_a_unit_moves_is_the_most_over_all_rounds_that_are_far_enough_apart(apart, planned):
    for bands in range(1, min(apart, planned) + 1):
        own = banded(bands=bands, apart=apart, planned=planned)
        for done in range(1, planned + 1):
            assert float(own.moved(done)) == approx(worst(own, done), rel=1e-12)


@pytest.mark.parametrize("apart", [4096, 10**6])
def test_the_most_bands_of_the_most_rounds_are_costed_at_once(apart):
    own, began = banded(bands=4096, apart=apart, planned=10**6), time.process_time()
    assert band_numerators(4096)[-1] == (comb(8190, 4095) << PLACES) >> 8190
    assert [own.after(done).noise for done in range(10**6 - 500, 10**6 + 1)][-1] == own.noise
    assert time.process_time() - began < 5


def test_no_vectors_of_any_direction_move_the_sums_by_more_and_those_alike_move_them_by_as_much():
    own, rng = banded(bands=3, apart=3, planned=10), np.random.default_rng(1)
    root = np.tril(toeplitz([m / 2**PLACES for m in band_numerators(3)] + [0.0] * 7))
    most = float(own.moved(10)) ** 0.5
    found = 0.0
    for size in range(1, 5):
        for picked in combinations(range(10), size):
            if any(b - a < 3 for a, b in pairwise(picked)):
                continue
            x = np.zeros((10, 2))
            x[list(picked)] = rng.normal(size=(size, 2))
            x[list(picked)] /= np.linalg.norm(x[list(picked)], axis=1, keepdims=True)
            assert np.linalg.norm(root @ x) <= most * (1 + 1e-12)
            x[list(picked)] = (1.0, 0.0)
            found = max(found, float(np.linalg.norm(root @ x)))
    assert found == approx(most, rel=1e-12)


@pytest.mark.parametrize(
    ("adjacency", "values"),
    [("add-remove", (4.377178, 1.993091, 0.926342)), ("replace", (9.997256, 4.377178, 1.993091))],
)
def test_a_whole_run_of_banded_noise_costs_one_gaussian_release(adjacency, values):
    for noise, epsilon in zip((1.0, 2.0, 4.0), values, strict=True):
        low, high = Account((released(banded(noise=noise), adjacency, 16),)).epsilon(1e-5).bounds
        assert low <= high
        assert (low, high) == (approx(epsilon, abs=2e-6), approx(epsilon, abs=2e-6))


def test_a_run_cut_short_costs_what_its_first_rounds_move_and_less_than_all():
    spent = [Account((released(banded(), "add-remove", done),)).epsilon(1e-5).bounds for done in range(1, 17)]
    assert [each.upper for each in spent] == sorted(each.upper for each in spent)
    alone = Gaussian(clip=1.0, noise=float(banded().moved(16) / banded().moved(5)) ** 0.5)
    expected = Account((by_hand(alone, trust="central", unit="client"),)).epsilon(1e-5).bounds
    assert spent[4] == (approx(expected.lower, rel=1e-6), approx(expected.upper, rel=1e-6))


def test_two_runs_are_two_events_of_a_ledger_and_their_text_makes_them_again():
    event = released(banded(), "add-remove", 5)
    twice = Ledger().add(event).add(event)
    assert twice.events == (event, event)
    assert event_of(json.loads(json.dumps(event_as_data(event)))) == event
    one, two = Account((event,)).mu, Account((event, event)).mu
    assert two == approx(one * 2**0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bands": 5}, "bands must be at most apart = 4, got 5"),
        ({"bands": 3, "planned": 2}, "bands must be at most planned = 2, got 3"),
        ({"bands": 0}, "bands must be"),
        ({"bands": 4097, "apart": 5000, "planned": 5000}, "bands must be at most the most = 4096, got 4097"),
        ({"noise": float("nan")}, "noise must be"),
        ({"clip": 0.0}, "clip must be"),
        ({"planned": 10**7}, "planned must be at most"),
    ],
)
def test_banded_noise_that_no_proof_speaks_of_is_refused(changed, message):
    with pytest.raises(FedprivError, match=message):
        banded(**changed)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"rounds": 17}, "rounds must be at most planned"),
        ({"sampling": 0.5}, "and no sampling"),
        ({"trust": "local", "adjacency": "replace"}, "trust 'central'"),
    ],
)
def test_an_event_of_banded_noise_past_its_run_or_with_sampling_is_refused(facts, message):
    with pytest.raises(FedprivError, match=message):
        by_hand(banded(), unit="client", **facts)


# what is drawn


@given(st.lists(st.lists(st.integers(-(2**52), 2**52), min_size=3, max_size=3), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_what_noise_takes_back_is_rounded_as_whole_numbers_of_any_size_would_be(rows):
    last, later = np.array(rows, np.int64), band_numerators(len(rows) + 1)[1:]
    exact = [sum(m * int(z) for m, z in zip(later, column, strict=True)) for column in zip(*rows, strict=True)]
    assert taken_back(last, later).tolist() == [(each + 2 ** (PLACES - 1)) >> PLACES for each in exact]


RULE = DpFtrl(noise=1.0, bound=1.0, clients=40, bands=4, apart=4, planned=16)


def test_noise_that_is_streamed_is_the_inverse_of_the_bands_times_independent_noise():
    step, d = RULE.fine.step / 2**PLACES, 3
    streamed = np.array([correlated_noise(RULE, 7, round, d) for round in range(1, 17)])
    law = FineGrid(step).law(RULE.spread, 2)
    z = np.array([law.draw(d, stream(7, "aggregate", round)) for round in range(1, 17)])
    root = np.tril(toeplitz([m / 2**PLACES for m in band_numerators(4)] + [0.0] * 12))
    assert np.abs(streamed - solve_triangular(root, z, lower=True)).max() < 16
    assert z.std() * step == approx(2.439902662, rel=0.3)


def test_a_rounds_noise_is_the_same_whoever_asks_and_after_whatever_round():
    in_order = [correlated_noise(RULE, 7, round, 3) for round in range(1, 10)]
    for round in (9, 2, 2, 5, 1):
        assert correlated_noise(RULE, 7, round, 3).tolist() == in_order[round - 1].tolist()
    assert correlated_noise(RULE, 8, 9, 3).tolist() != in_order[8].tolist()


def test_what_is_given_out_is_a_function_of_the_mixed_sums_under_independent_noise():
    """C⁻¹Z is rounded so that x + ẑ can be worked out from CX + Z alone: the proof of docs/proofs/correlated.md."""
    rng, later = np.random.default_rng(3), band_numerators(4)[1:]
    x = rng.integers(-(2**40), 2**40, (16, 5)) << PLACES  # sums on the grid of updates, in steps of the noise's
    z = rng.integers(-(2**44), 2**44, (16, 5))
    noise, given_out = np.zeros((0, 5), np.int64), []
    for now in range(16):
        noise = np.vstack([z[now] - taken_back(noise, later), noise])[:3]
        given_out.append(x[now] + noise[0])
    factors = band_numerators(4)
    mixed = np.array(
        [sum(factors[j] * (x[now - j] >> PLACES) for j in range(min(now + 1, 4))) + z[now] for now in range(16)]
    )
    found = np.zeros((0, 5), np.int64)
    for now in range(16):
        found = np.vstack([mixed[now] - taken_back(found, later), found])
        assert found[0].tolist() == given_out[now].tolist()


MADE = {
    "DpFedAvg": DpFedAvg(noise=1.0, bound=2.0, sampling=0.5, clients=40),
    "DpFedAvg, adaptive": DpFedAvg(noise=1.0, bound=2.0, sampling=0.5, clients=40, count_noise=4.0),
    "DpFtrl": replace(RULE, bound=2.0),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("row", ["huge", "nan", "inf", "none"])
def test_no_row_moves_a_curators_sum_by_more_than_its_bound(name, row):
    rule, rng = MADE[name], np.random.default_rng(1)
    rows = rng.normal(size=(20, 6)).astype(np.float32)
    told = []
    for first in (np.zeros(6), {"huge": np.full(6, 1e30), "nan": [np.nan] * 6, "inf": [np.inf] * 6}.get(row)):
        own = rows[1:] if first is None else np.vstack([np.asarray(first, np.float32), rows[1:]])
        told.append(rule.released(own, Aid(stream(1, "aggregate", 3), seed=1, round=3)).total)
    assert np.linalg.norm(told[0] - told[1]) <= 2.0 / rule.expected * (1 + 1e-6)
    assert row == "huge" or told[0].tolist() == told[1].tolist()


def test_a_clip_norm_follows_the_quantile_of_the_lengths_and_is_a_function_of_what_was_released():
    rule = DpFedAvg(noise=1e-3, bound=8.0, sampling=1.0, clients=1000, count_noise=2.0, quantile=0.5)
    rows = np.random.default_rng(1).normal(size=(1000, 3)).astype(np.float32)
    clip, middle = (8.0,), float(np.median(np.linalg.norm(rows, axis=1)))
    for round in range(1, 60):
        clip = rule.released(rows, Aid(stream(1, "aggregate", round), settings=clip)).settings
    assert clip[0] == approx(middle, rel=0.1)


def test_the_fastest_clip_norm_that_follows_stays_a_number():
    rule = DpFedAvg(noise=1.0, bound=1e12, sampling=1.0, clients=2, count_noise=1e6, rate=10.0)
    ends = {rule.released(np.ones((2, 3), np.float32), Aid(stream(1, "aggregate", at))).settings for at in range(9)}
    assert ends == {(1e-12,), (1e12,)}


def test_the_counts_cost_is_folded_into_the_noise_of_the_sum():
    plain = central("aggregation={kind='DpFedAvg', noise=1.0}")
    counted = central(*ADAPTIVE, "privacy.epsilon=4.0")
    found = calibrated_study(counted, 650).curator
    same = calibrated_study(central(), 650).curator
    assert isinstance(found, DpFedAvg)
    assert isinstance(same, DpFedAvg)
    assert found.noise is not None
    assert same.noise is not None
    assert found.noise**-2 + 20.0**-2 == approx(same.noise**-2, rel=1e-6)
    assert plain.curator == DpFedAvg(noise=1.0, bound=1.0, sampling=0.3, clients=200)


# in a study


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_study_calibrates_its_curator_and_promises_its_target(name, adjacency):
    study = calibrated_study(central(*KINDS[name], f"privacy.adjacency={adjacency}"), 650)
    found = promise.epsilon_after(study, 650, 12)
    assert 0.99 * 4 < found.lower <= found.upper <= 4
    assert promise.releases_of_worst(study) == 12
    event = promise.promised_event(study, 650, 12)
    assert (event.unit, event.adjacency, event.trust.__class__.__name__) == ("client", adjacency, "Central")
    assert event_of(json.loads(json.dumps(event_as_data(event)))) == event
    again = study_file.parsed_study(study_file.study_text(study))
    assert again == study
    assert again.id == study.id


@pytest.mark.parametrize("done", [1, 5, 12])
def test_rounds_that_share_noise_are_costed_as_one_release_after_any_of_them(done):
    study = calibrated_study(central(*FTRL), 650)
    alone = Account((promise.promised_event(study, 650, done),)).epsilon(1e-5).bounds
    found = promise.epsilon_after(study, 650, done)
    assert (found.lower, found.upper) == (approx(alone.lower), approx(alone.upper))
    tracked = promise.tracked_by_rounds(study, 650)(done)
    assert tracked.mu.lower <= tracked.mu.upper
    assert found.upper <= 4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["aggregation.noise=-1.0"], "noise must be positive"),
        (["privacy.mechanism.clip=nan"], "clip must be"),
        (["privacy.mechanism={kind='Plain'}"], "must be Plain with a clip"),
        (["clients.participation.rate=0.0"], "rate must be"),
        (["clients.participation={kind='Fixed', number=20}"], "must be All or Poisson with DpFedAvg, got Fixed"),
        (["clients.participation={kind='Cyclic', blocks=4}"], "must be All or Poisson with DpFedAvg, got Cyclic"),
        (["privacy.adjacency=zero-out"], "adjacency 'zero-out' is unknown"),
        (["aggregation.adjacency=replace", "privacy.adjacency=add-remove"], "must be privacy.adjacency = add-remove"),
        (["aggregation.sampling=0.1"], "aggregation.sampling must be participation.rate = 0.3, or left out"),
        (["aggregation.clients=7"], "aggregation.clients must be clients.count = 200"),
        (["aggregation.count_noise=3.0"], "a clip norm that follows lengths needs them"),
        (["aggregation={kind='DpFedAvg', count_noise=3.0}", "privacy.mechanism={kind='Plain'}"], "aggregation.bound"),
        (["privacy.trust=local"], "DpFedAvg adds noise to messages"),
        (["server.fewest=3"], "counts as one that sends 0"),
        (["server.decoder=vote"], "decoder must be 'mean', or left out, under trust 'central'"),
        (["attack={kind='Alie', knowledge='everything'}"], "a trusted server shows nobody an update without noise"),
        (["attack.kind=OptIpm"], "OptIpm with knowledge = 'everything': a trusted server"),
        (["clients.participation={kind='spies:HalfAlways', rate=0.3}"], "Poisson with DpFedAvg, got Half"),
        ([*FTRL, "clients.participation={kind='spies:FirstAlways', blocks=4}"], "Cyclic with DpFtrl, got FirstAlways"),
        (["aggregation.rate=1e4"], "rate must be at most 10, got"),
        (["privacy.mechanism={kind='Gaussian', clip=1.0, noise=1.0}"], "the noise is the server's"),
        (["aggregation.before=[{kind='Nnm'}]"], "a curator with no before"),
        (["aggregation={kind='DpFtrl'}"], "must be Cyclic with DpFtrl, got Poisson"),
        (["aggregation={kind='DpFtrl'}", "clients.participation={kind='All'}"], "must be Cyclic with DpFtrl, got All"),
        ([*FTRL, "aggregation.bands=5"], "bands must be at most apart = 4, got 5"),
        ([*FTRL, "aggregation.bands=4", "run.rounds=3"], "bands must be at most planned = 3, got 4"),
        ([*FTRL, "aggregation.planned=40"], "aggregation.planned must be run.rounds = 12"),
        ([*FTRL, "clients.participation.blocks=7"], "blocks must divide count = 200, got 7"),
    ],
)  # fmt: skip
def test_a_curator_is_refused_where_it_would_promise_nothing(overrides, message):
    with pytest.raises(FedprivError, match=message):
        central(*overrides)


@pytest.mark.parametrize("kind", ["DpFedAvg", "DpFtrl"])
def test_a_curator_without_noise_or_target_and_one_with_too_little_are_refused(kind):
    own = FTRL if kind == "DpFtrl" else []
    text = FEDAVG.replace("epsilon = 4.0, ", "")
    with pytest.raises(FedprivError, match=rf"{kind} needs noise, or a privacy\.epsilon"):
        calibrated_study(study_file.parsed_study(text, overrides=own), 650)
    with pytest.raises(FedprivError, match=r"epsilon = 4 is promised, .* or no aggregation\.noise"):
        calibrated_study(central(*own, "aggregation.noise=0.5"), 650)
    found = calibrated_study(central(*own, "aggregation.noise=50.0"), 650)
    assert promise.epsilon_after(found, 650, 12).upper < 4


def test_turns_ask_every_client_once_in_so_many_rounds_and_no_sooner():
    own = Cyclic(blocks=4)
    asked = [own.asked(20, seed=3, round=round).tolist() for round in range(1, 9)]
    assert sorted(chain(*asked[:4])) == list(range(20))
    assert asked[:4] == asked[4:]
    assert asked != [own.asked(20, seed=4, round=round).tolist() for round in range(1, 9)]


class Stopping(direct.Here):
    """Stops as Ctrl-C would in a round; some clients do not answer."""

    def __init__(self, stop: int = 0, lost: int = 0) -> None:
        super().__init__()
        self.stop, self.lost, self.seen = stop, lost, list[Task]()

    def ask(self, task: Task) -> Iterator[Answer]:
        if task.round == self.stop:
            raise KeyboardInterrupt
        self.seen.append(task)
        yield from super().ask(replace(task, clients=task.clients[self.lost :]))
        if self.lost:
            yield Answer(task.clients[: self.lost], None, "raised: its data")


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_goes_on_gives_out_the_same_bytes_as_if_nothing_had_happened(name, tmp_path: Path):
    study = central(*KINDS[name])
    rounds.run_rounds(study, tmp_path / "whole", Stopping(), quiet=True)
    with pytest.raises(KeyboardInterrupt):
        rounds.run_rounds(study, tmp_path / "cut", Stopping(stop=7), quiet=True)
    correlated_noise(RULE, 1, 1, 1)  # what a process remembers of the noise is gone
    rounds.run_rounds(study_file.parsed_study((tmp_path / "cut" / "study.toml").read_text()), tmp_path / "cut",
                      Stopping(), resume=True, quiet=True)  # fmt: skip
    whole, cut = (read_records(tmp_path / place / "records.jsonl") for place in ("whole", "cut"))
    assert cut.rounds == whole.rounds
    assert cut.end["epsilon"] == whole.end["epsilon"]
    assert 3.9 < whole.end["epsilon"]["lower"] <= whole.end["epsilon"]["upper"] <= 4
    assert whole.end["releases_of_worst"] == 12


@pytest.mark.parametrize("name", KINDS)
def test_a_round_given_out_is_not_given_out_again_of_other_clients_under_the_same_noise(name, tmp_path: Path):
    study = central(*KINDS[name])
    with pytest.raises(KeyboardInterrupt):
        rounds.run_rounds(study, tmp_path, Stopping(stop=4), quiet=True)
    (tmp_path / "checkpoint.npz").unlink()
    with pytest.raises(FedprivError, match="round 1 was given out already, of other clients' messages"):
        rounds.run_rounds(study, tmp_path, Stopping(lost=1), resume=True, quiet=True)


def test_the_clip_norm_that_adapts_travels_in_the_task_and_stands_in_the_records(tmp_path: Path):
    driver = Stopping()
    rounds.run_rounds(central(*ADAPTIVE, "run.rounds=4"), tmp_path, driver, quiet=True)
    lines = read_records(tmp_path / "records.jsonl").rounds
    clips = [0.1, *(line["adapted"]["clip"] for line in lines)]
    assert len(set(clips)) == 5
    for task, clip in zip(driver.seen, clips, strict=False):
        assert task.settings is not None
        assert task.settings == approx(np.full((len(task.clients), 1), clip))


@pytest.mark.parametrize("name", ["fedavg", "ftrl"])
def test_clients_that_do_not_answer_move_a_sum_as_ones_that_send_0(name, tmp_path: Path):
    study = central(*KINDS[name], "run.rounds=1", "server.step=1.0", "aggregation.noise=1.0", "privacy.epsilon=100.0")
    models = []
    for lost in (0, 1, 200):
        rounds.run_rounds(study, tmp_path / str(lost), Stopping(lost=lost), quiet=True)
        models.append(np.load(tmp_path / str(lost) / "checkpoint.npz")["weights"])
    expected = study.curator.expected  # type: ignore[union-attr]
    assert 0 < np.linalg.norm(models[0] - models[1]) <= 1.0 / expected * (1 + 1e-6)  # the same noise
    assert 0.5 / expected < models[2].std() < 2 / expected  # nobody answered: noise alone, and no round is skipped


def test_a_round_that_draws_nobody_is_charged_and_gives_out_noise(tmp_path: Path):
    study = central("clients.participation.rate=1e-6", "aggregation.noise=1.0", "run.rounds=3")
    rounds.run_rounds(study, tmp_path, Stopping(), quiet=True)
    found = read_records(tmp_path / "records.jsonl")
    assert [line["asked"] for line in found.rounds] == [0, 0, 0]
    assert not any(line["skipped"] for line in found.rounds)
    assert found.end["releases_of_worst"] == 3
    written = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()[1:]]
    assert [line["round"] for line in written if "clients" in line] == [1, 2, 3]
    assert np.load(tmp_path / "checkpoint.npz")["weights"].std() > 0


def test_a_budget_ends_a_run_before_a_round_that_would_pass_it(tmp_path: Path):
    for name in ("fedavg", "ftrl"):
        study = central(*KINDS[name], "privacy.budget=3.0")
        found = rounds.run_rounds(study, tmp_path / name, Stopping(), quiet=True)
        assert found["why"] == "budget"
        assert found["epsilon"]["upper"] <= 3
