"""What the server reads from a round's messages: votes about each mechanism's own centre, whatever it adds to them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from tried import decodes, others

from fedpriv._base.tables import inline_toml
from fedpriv.aggregation import RULES, Aid, ClientVote, MajorityVote
from fedpriv.attacks import OmniscientVote, View, VoteAgainst
from fedpriv.attacks._votes import honest_vote
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    MECHANISMS,
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisySign,
    Sign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
    settings_of,
)
from fedpriv.mechanisms.centre import votes_past_centre
from fedpriv.studies import directions
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server import rounds
from simulations.runs.direct import Here

BIASED = [BinomialNoise(clip=1, levels=levels, trials=trials, bias=bias)
          for levels, trials, bias in [(8, 20, 0.3), (7, 20, 0.9), (8, 400, 0.3), (1, 33, 0.01)]]  # fmt: skip
SENT: list[Any] = [
    Binomial(clip=1, scale=2, trials=4), Binomial(clip=1, scale=2, trials=5), StochasticSign(clip=1, scale=2),
    Cldp(clip=1, epsilon=1.0), NoisySign(clip=1, noise=1), Ternary(clip=1, spread=2, scale=4),
    Ternarize(clip=1, scale=2), BinomialNoise(clip=1, levels=8, trials=20), BinomialNoise(clip=1, levels=7, trials=21),
    DiscreteGaussian(clip=1, levels=8, noise=0.5), DiscreteGaussian(clip=1, levels=7, noise=0.5),
    Skellam(clip=1, levels=8, noise=0.5), *BIASED,
]  # fmt: skip
REALS: list[Any] = [Gaussian(clip=1, noise=1), Laplace(clip=1, noise=1)]
SENT += others(SENT + REALS)
DIMENSION, CLIENTS = 400, 37

each = pytest.mark.parametrize("mechanism", SENT, ids=str)


def study(mechanism: Any, *overrides: str) -> Study:
    written = inline_toml({"kind": type(mechanism).__name__, **settings_of(mechanism)})
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    chosen = ["privacy.trust=local", f"privacy.mechanism={written}", "server.step=0.01", *overrides]
    return study_file.parsed_study(text, overrides=chosen)


def messages(mechanism: Any, seed: int = 1) -> np.ndarray:
    means = np.linspace(-0.9, 0.9, DIMENSION)
    return np.stack([mechanism.encode(means, default_rng([seed, client])) for client in range(CLIENTS)]).astype(int)


def decoded(mechanism: Any, total: Any, count: int) -> np.ndarray:
    return mechanism.decode(total, count) if decodes(mechanism) else total / count - float(mechanism.centre)


def test_every_kind_of_mechanism_is_in_the_table() -> None:
    assert {type(each).__name__ for each in [*SENT, *REALS]} == set(MECHANISMS)


@each
def test_the_centre_is_the_mean_symbol_of_an_update_of_0(mechanism: Any) -> None:
    odd = mechanism.grid.levels % 2 if hasattr(mechanism, "grid") else 0  # a grid without 0: its two middle points
    ends = [0.0] if not odd else [-mechanism.clip / mechanism.levels, mechanism.clip / mechanism.levels]
    symbols = np.concatenate([mechanism.encode(np.full(200_000, x), default_rng(1)) for x in ends]).astype(float)
    assert abs(symbols.mean() - float(mechanism.centre)) <= 4 * symbols.std() / len(symbols) ** 0.5 + 1e-12


@each
@pytest.mark.parametrize("rule", ["MajorityVote", "Mean"])
def test_a_vote_on_sums_is_the_sign_of_the_decoded_mean(mechanism: Any, rule: str) -> None:
    total = messages(mechanism).sum(axis=0)
    mean = decoded(mechanism, total, CLIENTS)
    asked = study(mechanism, f"aggregation.kind={rule}", "server.decoder=vote")
    found = directions.reading_of(asked).of_sum(1, total, CLIENTS)
    assert (found == np.sign(np.where(np.abs(mean) < 1e-12, 0, mean))).all()
    assert len(set(found.tolist())) > 1


@each
def test_a_vote_of_clients_is_the_sum_of_each_ones_sign(mechanism: Any) -> None:
    rows = messages(mechanism)
    own = np.array([decoded(mechanism, row, 1) for row in rows])
    asked = study(mechanism, "aggregation.kind=ClientVote")
    found = directions.reading_of(asked).of_rows(1, directions.reading_of(asked).rows_seen(rows).astype(np.float32))
    assert (found == np.sign(np.sign(np.where(np.abs(own) < 1e-12, 0, own)).sum(axis=0))).all()


@each
@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if getattr(rule, "votes", False)])
def test_where_all_messages_lean_one_way_every_vote_goes_that_way(mechanism: Any, rule: str) -> None:
    rows, asked = messages(mechanism)[:5], study(mechanism, f"aggregation.kind={rule}")
    sides = np.sign(votes_past_centre(rows.reshape(-1), 1, mechanism.centre)).reshape(rows.shape)
    side = np.sign(sides.sum(axis=0))
    agreed = (sides * side >= 0).all(axis=0) & (side != 0)
    if directions.reading_of(asked).needs_rows:
        found = directions.reading_of(asked).of_rows(1, directions.reading_of(asked).rows_seen(rows).astype(np.float32))
    else:
        found = directions.reading_of(asked).of_sum(1, rows.sum(axis=0), len(rows))
    assert agreed.any()
    assert (found[agreed] == side[agreed]).all()


@each
def test_an_all_knowing_attacker_sees_the_vote_that_the_server_reads(mechanism: Any) -> None:
    rows = messages(mechanism)
    for kind, one_vote in (("MajorityVote", False), ("ClientVote", True)):
        asked = study(mechanism, f"aggregation.kind={kind}")
        seen = directions.reading_of(asked).rows_seen(rows).astype(np.float32)
        read = (
            directions.reading_of(asked).of_rows(1, seen)
            if one_vote
            else directions.reading_of(asked).of_sum(1, rows.sum(0), CLIENTS)
        )
        assert (np.sign(honest_vote(view(mechanism, rows, one_vote))) == read).all()


@pytest.mark.parametrize("mechanism", BIASED, ids=str)
@pytest.mark.parametrize("one_vote", [False, True])
def test_attackers_turn_votes_of_biased_noise_if_that_many_can(mechanism: Any, one_vote: bool) -> None:
    rows, attackers = messages(mechanism), 9
    rule: Any = ClientVote() if one_vote else MajorityVote()

    def outcome(row: np.ndarray) -> np.ndarray:
        every = np.concatenate([rows, np.repeat(row[None], attackers, axis=0)]).astype(int)
        if one_vote:
            return np.asarray(rule(np.sign(votes_past_centre(every, 1, mechanism.centre))))
        return np.asarray(rule(every, Aid(centre=mechanism.centre)))

    scene = view(mechanism, rows, one_vote, attackers)
    honest = np.sign(honest_vote(scene))
    ends = [outcome(np.full(DIMENSION, end)) for end in (mechanism.alphabet[0], mechanism.alphabet[-1])]
    possible = np.where(honest > 0, ends[0], ends[1])
    for stealthy in (False, True):
        row = OmniscientVote(stealthy=stealthy).on_messages(np.zeros((1, DIMENSION)), scene)[0]
        assert (outcome(row) == np.where(honest == 0, outcome(row), possible)).all()
        hopeless = (possible == honest) & (honest != 0)
        with_the_others = np.where(honest > 0, mechanism.alphabet[-1], mechanism.alphabet[0])
        assert not stealthy or (row[hopeless] == with_the_others[hopeless]).all()


@pytest.mark.parametrize("mechanism", [*BIASED, BinomialNoise(clip=1, levels=8, trials=20)], ids=str)
@pytest.mark.parametrize("chance", [0.0, 0.4, 0.6, 1.0])
def test_a_vote_against_leans_away_from_the_mean_as_often_as_it_says(mechanism: Any, chance: float) -> None:
    scene = view(mechanism, np.zeros((1, DIMENSION), int), mean=np.ones((1, DIMENSION)))
    row = VoteAgainst(probability=chance).on_messages(np.zeros((1, DIMENSION)), scene)[0]
    leaning = votes_past_centre(row.astype(int).sum(keepdims=True), DIMENSION, mechanism.centre)[0]
    assert np.sign(leaning) == np.sign(0.5 - chance)


def view(
    mechanism: Any, rows: np.ndarray, one_vote: bool = False, attackers: int = 1, mean: np.ndarray | None = None
) -> View:
    class Told:
        messages, known = rows, np.zeros((1, DIMENSION)) if mean is None else mean

        def moved(self, row: Any) -> Any:
            return row

    return View(
        knowledge="everything", seen=Told(), foresight=Told(), generators=lambda: [default_rng(3)],
        shared=lambda: default_rng(4), mechanism=mechanism, asked=len(rows) + attackers, byzantine=attackers,
        progress=np.zeros(DIMENSION), one_vote=one_vote,
    )  # fmt: skip


def test_three_hundred_clients_that_agree_are_seen_to_agree() -> None:
    mechanism = BinomialNoise(clip=0.05, levels=8, trials=400, bias=0.3)
    rows = np.stack([mechanism.encode(np.full(6, 0.05), default_rng(client)) for client in range(300)]).astype(int)
    assert (honest_vote(view(mechanism, rows)) > 0).all()


@given(
    total=st.integers(0, 2**40), count=st.integers(1, 10**6),
    centre=st.fractions(0, 10**4, max_denominator=10**6) | st.floats(0, 1e4).map(lambda x: Fraction(str(x))),
)  # fmt: skip
def test_a_sum_is_past_the_centre_as_fractions_have_it(total, count, centre):
    for near in (total, int(count * centre), int(count * centre) + 1):
        found = votes_past_centre(np.array([near]), count, centre)[0]
        assert np.sign(found) == np.sign(near - count * centre)


@pytest.mark.parametrize("kind", [kind for kind, cls in MECHANISMS.items() if {"chance", "plus"} & set(dir(cls))])
def test_every_vote_with_a_tolerance_has_its_centre_in_the_middle_of_its_steps(kind: str) -> None:
    mechanism = next(each for each in SENT if type(each).__name__ == kind)
    assert 2 * mechanism.centre == mechanism.alphabet[0] + mechanism.alphabet[-1]


def test_a_vote_of_biased_noise_learns_as_one_of_fair_noise_does(tmp_path: Path) -> None:
    found = []
    for bias in (0.5, 0.3):
        noise = BinomialNoise(clip=1.0, levels=200, trials=40, bias=bias)
        small = study(noise, "clients.count=300", "aggregation.kind=MajorityVote", "run.rounds=10")
        found.append(rounds.run_rounds(small, tmp_path / str(bias), Here(1), quiet=True)["accuracy"])
    assert min(found) > 0.6
    assert abs(found[0] - found[1]) < 0.1


# --- a majority of what is no symbol --------------------------------------------------------------------------------


class Shortest:
    """Half of the rows, the shorter ones: chooses among them and changes none."""

    keeps_symbols = True
    least = 1

    def left(self, rows: int) -> int:
        return -(-rows // 2)

    def __call__(self, matrix: Any, aid: Any = None) -> Any:
        order = np.argsort((np.asarray(matrix, float) ** 2).sum(axis=1), kind="stable")
        return matrix[np.sort(order[: self.left(len(matrix))])]


MIXING = ["{kind='Nnm'}", "{kind='Bucketing', size=2}", "{kind='Arc'}", "{kind='NormClipping', radius=1e9}"]


@pytest.mark.parametrize("step", MIXING)
def test_a_majority_behind_a_step_that_averages_is_refused_and_clients_vote_there(step: str) -> None:
    name = step.split("'")[1]
    with pytest.raises(
        FedprivError, match=f"MajorityVote adds up symbols, and behind {name} rows are none: ClientVote"
    ):
        study(SENT[0], f"aggregation={{kind='MajorityVote', before=[{step}]}}")
    assert study(SENT[0], f"aggregation={{kind='ClientVote', before=[{step}]}}").decoder == "vote"


@pytest.mark.parametrize("mechanism", REALS, ids=str)
def test_a_majority_of_reals_is_refused_and_clients_vote_there(mechanism: Any) -> None:
    with pytest.raises(FedprivError, match=f"{type(mechanism).__name__} sends reals: ClientVote gives each row one"):
        study(mechanism, "aggregation.kind=MajorityVote")
    assert study(mechanism, "aggregation.kind=ClientVote").decoder == "vote"


@each
def test_a_majority_behind_a_step_that_chooses_rows_adds_up_the_trials_of_those(mechanism: Any) -> None:
    asked = study(mechanism, "aggregation={kind='MajorityVote', before=[{kind='test_directions:Shortest'}]}")
    rows = messages(mechanism)
    seen = directions.reading_of(asked).rows_seen(rows).astype(np.float32)
    kept = [row for row in range(CLIENTS) if (seen[row] == Shortest()(seen)).all(axis=1).any()]
    assert len(kept) == (CLIENTS if isinstance(mechanism, Sign) else 19)  # whose messages are all the same
    kept = kept[:19]
    expected = directions.reading_of(study(mechanism, "aggregation.kind=MajorityVote")).of_sum(
        1, rows[kept].sum(axis=0), 19
    )
    assert (directions.reading_of(asked).of_rows(1, seen) == expected).all()
