"""Each attack by hand, the closed forms against a search, votes against all votes; and what cannot be is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from spies import STUDY, Scene

from fedpriv import wire
from fedpriv.aggregation import Krum, MajorityVote, TrimmedMean
from fedpriv.attacks import (
    Alie,
    BitFlip,
    FangKrum,
    FangTrim,
    FeatureNoise,
    Ipm,
    LabelFlip,
    Mimic,
    MinMax,
    MinSum,
    NonFinite,
    OmniscientVote,
    OptAlie,
    OptIpm,
    OutputPoisoning,
    PoisonedFl,
    RandomNoise,
    Residue,
    SignFlip,
    TargetedFlip,
    VoteAgainst,
    Zero,
)
from fedpriv.attacks._crafted import deviations
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, NoisySign, StochasticSign, Ternary
from fedpriv.studies import file as study_file
from server.rounds import planned

ROWS = np.array([[1.0, 4.0], [3.0, 4.0], [5.0, 1.0]])  # mean (3, 3), deviation (2, √3)
OWN = np.array([[2.0, -1.0]], np.float32)


def sent(attack: Any, updates: Any = OWN, **scene: Any) -> np.ndarray:
    return np.asarray(attack.on_updates(updates, Scene(**{"known": ROWS, **scene}).view()))


# --- by hand ------------------------------------------------------------------------------------------------------


def test_data_are_changed_as_said() -> None:
    x, y = np.zeros((1, 4, 2), np.float32), np.array([[0, 1, 2, 9]])
    assert LabelFlip().on_data(x, y, 10, [])[1].tolist() == [[9, 8, 7, 0]]
    assert TargetedFlip(source=1, target=7).on_data(x, y, 10, [])[1].tolist() == [[0, 7, 2, 9]]
    noisy, labels = FeatureNoise(deviation=2).on_data(np.zeros((1, 4000, 2)), y, 10, [np.random.default_rng(1)])
    assert labels is y
    assert noisy.std() == approx(2, abs=4 * 2 / (2 * 8000) ** 0.5)


def test_own_updates_are_changed_as_said() -> None:
    assert sent(SignFlip(factor=2), knowledge="own").tolist() == [[-4, 2]]
    assert sent(Zero(), knowledge="own").tolist() == [[0, 0]]
    assert np.isnan(sent(NonFinite(), knowledge="own")).all()
    assert (sent(NonFinite(value="inf"), knowledge="own") == np.inf).all()
    assert sent(RandomNoise(), knowledge="own")[0] == approx(np.random.default_rng(1).normal(0, 1, 2))
    assert sent(RandomNoise(added=True), knowledge="own")[0] == approx(
        OWN[0] + np.random.default_rng(1).normal(0, 1, 2)
    )


def test_bits_of_floats_are_flipped() -> None:
    assert sent(BitFlip(bits=[32])).tolist() == [[-2, 1]]
    assert sent(BitFlip(bits=[24])).tolist() == [[4, -0.5]]  # the exponent's lowest bit
    huge = sent(BitFlip(), updates=np.array([[0.1, -0.01]], np.float32))
    assert (huge * [-1, 1] > 1e17).all()


def test_poisoned_fl_pushes_as_far_as_the_model_has_moved() -> None:
    signs = np.where(np.random.default_rng(9).random(4) < 0.5, -1.0, 1.0)
    progress = signs * [3.0, -1, 1, 1]  # along the signs: 1 on average, which is taken off
    row = sent(PoisonedFl(factor=2), updates=np.array([[3.0, 4.0, 0, 0]]), known=np.zeros((1, 4)), progress=progress)
    assert row[0] == approx(2 * 5 * signs * [2, 2, 0, 0] / np.sqrt(8))
    first = sent(PoisonedFl(factor=2), updates=np.array([[3.0, 4.0, 0, 0]]), known=np.zeros((1, 4)))
    assert first[0] == approx(2 * 5 * signs / 2)  # the model has not moved


def test_rows_of_moments_are_those_of_the_papers() -> None:
    assert sent(SignFlip(factor=2), knowledge="byzantine").tolist() == [[-6, -6]]
    assert sent(Ipm(factor=0.5)).tolist() == [[-1.5, -1.5]]
    z = deviations(10, 3)  # m = 10//2 + 1 − 3 = 3, so Φ(z) = (10 − 3 − 3)/(10 − 3)
    assert z == approx(0.180012, abs=1e-6)
    assert sent(Alie())[0] == approx([3 - z * 2, 3 - z * 3**0.5])
    assert sent(Alie(factor=3))[0] == approx([3 - 3 * z * 2, 3 - 3 * z * 3**0.5])
    assert sent(Alie(z=1.5))[0] == approx([3 - 1.5 * 2, 3 - 1.5 * 3**0.5])
    assert sent(Alie(z=0.5, factor=2))[0] == approx([3 - 2, 3 - 3**0.5])


def test_alie_divides_by_one_less_than_the_rows_and_knows_no_spread_of_one() -> None:
    one_over_n = np.sqrt(((ROWS - 3) ** 2).mean(axis=0))
    z = deviations(10, 3)
    assert sent(Alie())[0] != approx(3 - z * one_over_n, abs=0.01)
    assert sent(Alie(), known=ROWS[:1]).tolist() == [[1, 4]]


@pytest.mark.parametrize("asked", range(1, 12))
def test_alie_is_finite_for_any_number_of_attackers(asked: int) -> None:
    for byzantine in range(1, asked + 1):
        assert np.isfinite(deviations(asked, byzantine))


def test_fang_lies_beyond_the_honest_values_against_the_mean() -> None:
    rows = np.array([[1.0, -3.0, -1.0], [2.0, -1.0, 4.0]])  # means 1.5, −2, 1.5: down, up, down
    found = np.concatenate([sent(FangTrim(stretch=4), known=rows, seeds=(seed,)) for seed in range(50)])
    low, high = np.array([0.25, -1.0, -4.0]), np.array([1.0, -0.25, -1.0])
    assert ((found >= low) & (found <= high)).all()
    assert (found.max(axis=0) - found.min(axis=0) > 0.8 * (high - low)).all()
    partial = np.concatenate([sent(FangTrim(), known=rows, knowledge="byzantine", seeds=(seed,)) for seed in range(50)])
    steps = (partial - rows.mean(axis=0)) / rows.std(axis=0, ddof=1) * [-1, 1, -1]
    assert ((steps >= 3) & (steps <= 4)).all()


def test_fang_makes_krum_choose_its_row() -> None:
    honest = np.random.default_rng(4).normal(0.2, 1, (16, 5))
    row = sent(FangKrum(), updates=np.zeros((1, 5)), known=honest, asked=20, byzantine=4)
    everybody = np.concatenate([honest, np.repeat(row, 4, axis=0)])
    assert Krum(byzantine=4)(everybody) == approx(row[0])
    size = np.abs(row[0])
    assert size == approx(size[0])
    assert (np.sign(row[0]) == -np.sign(honest.mean(axis=0))).all()
    doubled = np.concatenate([honest, np.repeat(2 * row, 4, axis=0)])
    assert Krum(byzantine=4)(doubled) != approx(2 * row[0])  # the largest of its steps that is chosen


def test_mimic_copies_whoever_is_farthest_along_the_widest_direction() -> None:
    rows = np.array([[0.0, 0.3], [1.0, 0.0], [-1.5, 0.1], [0.5, -0.4]])
    assert sent(Mimic(), known=rows).tolist() == [[-1.5, 0.1]]
    assert sent(Mimic(), known=rows[:2]).tolist() in rows[:2, None].tolist()


matrices = (
    st.integers(0, 2**32)
    .map(lambda seed: np.random.default_rng(seed))
    .map(
        lambda rng: rng.normal(
            rng.normal(), rng.exponential() + 0.01, (int(rng.integers(1, 12)), int(rng.integers(1, 6)))
        )
    )
)


def widest(point: np.ndarray, rows: np.ndarray) -> float:
    return max(float(np.linalg.norm(point - row)) for row in rows)


def summed_squares(point: np.ndarray, rows: np.ndarray) -> float:
    return sum(float(np.linalg.norm(point - row)) ** 2 for row in rows)


@pytest.mark.parametrize(("attack", "how_far"), [(MinMax, widest), (MinSum, summed_squares)])
@pytest.mark.parametrize("away", ["mean", "deviation", "sign"])
@given(rows=matrices)
def test_hidden_updates_go_as_far_as_a_fine_search_does(attack: Any, how_far: Any, away: Any, rows: np.ndarray) -> None:
    mean, towards = rows.mean(axis=0), -away_of(away, rows)
    limit = max(how_far(row, rows) for row in rows)
    low, high = 0.0, 1e6 if towards.any() else 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if how_far(mean + middle * towards, rows) <= limit else (low, middle)
    row = sent(attack(away=away), updates=rows[:1], known=rows)[0]
    assert row == approx(mean + low * towards, rel=1e-5, abs=1e-6 * (1 + np.abs(rows).max()))


def away_of(away: str, rows: np.ndarray) -> np.ndarray:
    ddof = min(1, len(rows) - 1)
    return {"mean": rows.mean(axis=0), "deviation": rows.std(axis=0, ddof=ddof), "sign": np.sign(rows.mean(axis=0))}[
        away
    ]


def test_min_max_points_away_as_it_is_told() -> None:
    for away in ("mean", "deviation", "sign"):
        moved = sent(MinMax(away=away))[0] - 3
        assert moved / np.linalg.norm(moved) == approx(-away_of(away, ROWS) / np.linalg.norm(away_of(away, ROWS)))


# --- against the real chain ---------------------------------------------------------------------------------------


def trimmed(row: np.ndarray) -> np.ndarray:
    everybody = np.concatenate([HONEST, np.repeat(row[None], 3, axis=0)])
    return TrimmedMean(dropped=3)(everybody)


HONEST = np.random.default_rng(2).normal(1, [0.5, 2.0, 1.0], (9, 3))


@pytest.mark.parametrize("attack", [OptIpm(), OptAlie()])
def test_the_optimal_factor_moves_the_chain_farther_than_any_of_a_fine_grid_but_a_little(attack: Any) -> None:
    mean, deviation = HONEST.mean(axis=0), HONEST.std(axis=0, ddof=1)
    row = sent(attack, updates=HONEST[:1], known=HONEST, path=trimmed, asked=12, byzantine=3)[0]

    def distance(other: np.ndarray) -> float:
        return float(np.linalg.norm(trimmed(other) - trimmed(mean)))

    grid = 2.0 ** np.linspace(-4, 6, 401)
    best = max(distance(-t * mean if isinstance(attack, OptIpm) else mean - t * deviation) for t in grid)
    assert distance(row) >= 0.99 * best > 0


def test_of_factors_as_good_the_smallest_is_taken() -> None:
    row = sent(OptIpm(), path=lambda row: np.sign(row - 2.9))  # −τμ: wherever τ > 0, the same
    assert row.tolist() == [[-3 / 16, -3 / 16]]


# --- votes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("honest", range(1, 9))
@pytest.mark.parametrize("attackers", [1, 2, 3])
def test_no_votes_of_the_attackers_turn_more_than_the_omniscient_ones(honest: int, attackers: int) -> None:
    best_of_all_votes(StochasticSign(clip=1, scale=2), honest, attackers)


@pytest.mark.parametrize("honest", range(1, 5))
@pytest.mark.parametrize(
    "mechanism", [Binomial(clip=1, scale=2, trials=2), Ternary(clip=1, spread=2, scale=4)], ids=str
)
def test_no_counts_of_the_attackers_turn_more_than_the_omniscient_ones(honest: int, mechanism: Any) -> None:
    best_of_all_votes(mechanism, honest, 2)


def best_of_all_votes(mechanism: Any, honest: int, attackers: int) -> None:
    """Every coordinate is one of all ways in which the honest can vote; every way of the attackers is tried on it."""
    alphabet = list(mechanism.alphabet)
    messages = np.array(list(itertools.product(alphabet, repeat=honest))).T
    middle = alphabet[0] + alphabet[-1]
    vote = (2 * messages - middle).sum(axis=0)

    def turned(symbols: Any) -> np.ndarray:
        """How far the outcome is from the honest vote: 2 turned, 1 a tie, 0 as it was."""
        total = vote + (2 * np.asarray(symbols, int) - middle).sum(axis=0)
        return np.abs(MajorityVote().of_sum(total) - np.sign(vote))[vote != 0]

    ways = (np.array(way)[:, None] for way in itertools.product(alphabet, repeat=attackers))
    best = np.max([turned(way) for way in ways], axis=0)
    for stealthy in (False, True):
        attack = OmniscientVote(stealthy=stealthy)
        row = spoken(attack, mechanism, messages=messages, byzantine=attackers)
        assert (turned(np.repeat(row, attackers, axis=0)) == best).all()
        hopeless = np.abs(vote) > attackers * (alphabet[-1] - alphabet[0])
        with_the_others = row[0] == np.where(vote > 0, alphabet[-1], alphabet[0])
        assert with_the_others[hopeless].all() == (stealthy or not hopeless.any())


def spoken(attack: Any, mechanism: Any, updates: Any = None, messages: Any = None, **scene: Any) -> np.ndarray:
    dimension = np.shape(messages if updates is None else updates)[1]
    updates = np.zeros((1, dimension), np.float32) if updates is None else updates
    view = Scene(**{"known": np.zeros((1, dimension)), **scene}, mechanism=mechanism, messages=messages).view()
    return np.asarray(attack.on_messages(updates, view))


@pytest.mark.parametrize("trials", [1, 16])
@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_each_vote_is_against_the_mean_with_the_probability_of_theorem_10(trials: int, chance: float) -> None:
    mean = np.tile([0.5, -0.5], 5000)
    mechanism = Binomial(clip=1, scale=2, trials=trials)
    row = spoken(VoteAgainst(probability=chance), mechanism, updates=mean[None], known=mean[None])[0].astype(float)
    against = np.where(mean > 0, trials - row, row)
    deviation = (trials * chance * (1 - chance)) ** 0.5
    assert against.mean() == approx(trials * chance, abs=4 * deviation / 100)
    assert against.std() == approx(deviation, abs=deviation * 4 / 140)


def test_a_vote_under_such_attackers_is_wrong_as_often_as_the_law_and_less_than_theorem_10_says() -> None:
    honest, attackers, trials, scale, mean, chance, d = 20, 6, 4, 0.5, 0.1, 0.8, 40_000
    rng, mechanism = np.random.default_rng(3), Binomial(clip=0.2, scale=scale, trials=trials)
    x = np.full((1, d), mean)
    total = np.sum([mechanism.encode(x[0], rng).astype(int) for _ in range(honest)], axis=0)
    seeds = tuple(range(attackers))
    rows = spoken(VoteAgainst(probability=chance), mechanism, np.zeros((attackers, d)), known=x, seeds=seeds)
    votes = MajorityVote().of_sum(2 * (total + rows.sum(axis=0, dtype=int)) - (honest + attackers) * trials)
    pmf = np.array([1.0])
    for plus in [(scale + mean) / (2 * scale)] * honest * trials + [1 - chance] * attackers * trials:
        pmf = np.convolve(pmf, [1 - plus, plus])
    wrong = pmf[: len(pmf) // 2 + 1].sum()  # a tie is wrong
    assert (votes <= 0).mean() == approx(wrong, abs=4 * (wrong * (1 - wrong) / d) ** 0.5)
    bias = ((1 - 2 * chance) * attackers + mean * honest / scale) / (honest + attackers)
    assert wrong <= (1 - bias**2) ** ((honest + attackers) * trials / 2)


def test_a_ternary_vote_against_abstains_as_often_as_an_honest_message() -> None:
    row = spoken(VoteAgainst(), Ternary(clip=1, spread=2, scale=4), np.zeros((1, 10_000)), known=np.ones((1, 10_000)))
    assert set(row[0].tolist()) == {-1, 0}
    assert (row == 0).mean() == approx(0.5, abs=4 * 0.5 / 100)


def test_output_poisoning_is_at_the_ends_of_the_alphabet() -> None:
    row = spoken(OutputPoisoning(direction="own"), Binomial(clip=1, scale=4, trials=4), np.array([[0.5, -0.5]]))
    assert row.tolist() == [[0, 4]]
    once = spoken(OutputPoisoning(), NoisySign(clip=1, noise=2), np.zeros((1, 50)), seeds=(1,))
    assert once.tolist() == spoken(OutputPoisoning(), NoisySign(clip=1, noise=2), np.ones((1, 50)), seeds=(2,)).tolist()
    assert set(once[0].tolist()) == {-1, 1}


def test_a_residue_says_more_than_any_symbol_and_wraps_around() -> None:
    view = Scene(known=np.zeros((1, 40)), asked=12, byzantine=2, mechanism=Binomial(clip=1, scale=4, trials=4)).view()
    row = Residue(reach=0.5).on_residues(np.zeros((1, 40)), view)
    assert set(row[0].tolist()) == {2 - 6, 2 + 6}  # from the middle, half of what twelve honest ones span, by two
    sign = StochasticSign(clip=1, scale=2)
    total = wire.wrapped_sum(np.array([-3, 3, 5, -5, 9]), 3, sign, clients=3)
    assert total.tolist() == [-3, 3, -3, 3, 1]  # two bits hold three votes


# --- refused before anything is computed --------------------------------------------------------------------------

PLAIN = "privacy.mechanism={kind='Plain', clip=1.0}"
SECURE = ["privacy.trust=secure-aggregation", "aggregation={kind='Mean'}"]


def study(*overrides: str) -> study_file.Study:
    return study_file.parsed_study(STUDY, name="attacked.toml", overrides=overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["attack.kind=Aile"], r"attacked.toml: attack: unknown attack 'Aile' \(did you mean 'Alie'\?\)"),
        (["attack={kind='Alie', z=0}"], "attack: Alie: z must be positive, got 0"),
        (["attack={kind='Alie', facter=2}"], r"attack: Alie has no setting 'facter' \(did you mean 'factor'\?\)"),
        (["attack={kind='Ipm', factor=0}"], "attack: Ipm: factor must be positive"),
        (["attack={kind='TargetedFlip', source=1}"], "attack: TargetedFlip needs target"),
        (["attack={kind='TargetedFlip', source=1, target=1}"], "target must differ from source = 1"),
        (["attack={kind='BitFlip', bits=[33]}"], "bits must be different numbers from 1 to 32"),
        (["attack={kind='BitFlip', bits=[]}"], "bits must be different numbers from 1 to 32"),
        (["attack={kind='BitFlip', bits=3}"], "BitFlip: bits must be a list of numbers"),
        (["attack={kind='VoteAgainst', probability=1.5}"], "probability must be between 0 and 1"),
        (["attack={kind='FangTrim', stretch=1}"], "stretch must be larger than 1"),
        (["attack={kind='MinMax', away='up'}"], "away 'up' is unknown"),
        (["attack={kind='Alie', knowledge='all'}"], "attack: knowledge 'all' is unknown; choices: own, byzantine, "),
        (["attack={kind='Alie', knowledge='own'}"], "works with knowledge 'byzantine' or 'everything', not with 'own'"),
        (["attack={kind='OptAlie', knowledge='byzantine'}"], "works with knowledge 'everything', not with 'byzantine'"),
        (["attack={kind='LabelFlip', knowledge='everything'}"], "works with knowledge 'own', not with 'everything'"),
        (["attack={kind='Alie', knowledge='everything'}", *SECURE], "under secure aggregation nobody sees another"),
        (["attack.kind=OmniscientVote", *SECURE], "under secure aggregation nobody sees another client's message"),
        (["attack.kind=OptIpm", "privacy.noise=cryptographic"], "cannot be foreseen where their noise is crypto"),
        (["attack.kind=OutputPoisoning", PLAIN], "chooses among a mechanism's symbols, and Plain has none"),
        (["attack.kind=OmniscientVote", PLAIN], "OmniscientVote chooses among a mechanism's symbols"),
        (["attack.kind=Residue"], "Residue hides in a sum, and under local trust each message is seen"),
        (["attack.kind=faults:Nothing"], "Nothing has none of the methods on_data, on_updates, on_messages"),
        (["attack.kind=faults:Missing"], "attack: attack 'faults:Missing' cannot be imported"),
        (["clients.byzantine=61"], "byzantine leaves no honest client: 61 of 60"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(FedprivError, match=message) as refused:
        study(*overrides)
    assert "\n" not in str(refused.value)


def test_a_flip_of_a_label_that_is_not_there_is_refused_before_the_first_round() -> None:
    with pytest.raises(FedprivError, match=r"attack: source and target must be below 10, the number of classes"):
        planned(study("attack={kind='TargetedFlip', source=3, target=10}"))


def test_a_study_writes_out_what_its_attackers_know_and_do() -> None:
    assert study().attack.table() == {"kind": "SignFlip", "knowledge": "own", "factor": 1.0}
    bits = study("attack={kind='BitFlip', bits=[32]}")
    assert study_file.parsed_study(study_file.study_text(bits)) == bits
    assert study("attack.kind=OptAlie").knowledge == "everything"
    assert study("attack={kind='SignFlip', knowledge='byzantine'}").id != study().id
