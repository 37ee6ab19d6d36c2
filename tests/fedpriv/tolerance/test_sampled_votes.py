"""Votes that are cast by lot, and noisy signs: golden numbers, the count by other routes, and the certificates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtr, ndtri

from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, NoisySign, ShapedBinomial, StochasticSign, Ternarize, Ternary
from fedpriv.tolerance import Vote, covered_share, expected_wrong
from fedpriv.tolerance._chernoff import exponent_of, least_bound
from fedpriv.tolerance._leaning import least_chance
from fedpriv.tolerance.ballots import attackers_ballot, client_ballot, majority_chances

COIN = Binomial(clip=0.1, scale=0.5, trials=1)  # of a client at .1: right with .6


def added(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    """The law of the sum of two independent votes."""
    found: dict[int, Any] = {}
    for a, p in one.items():
        for b, q in other.items():
            found[a + b] = found.get(a + b, 0) + p * q
    return found


def power(law: dict[int, Any], times: int) -> dict[int, Any]:
    """The law of the sum of so many."""
    total: dict[int, Any] = {0: 1}
    for _ in range(times):
        total = added(total, law)
    return total


def lazy(trials: int, p: Any, sampling: Any) -> dict[int, Any]:
    """What one client adds to the sum: nothing where it is not drawn, else all of its votes."""
    law: dict[int, Any] = {0: 1 - sampling}
    for k in range(trials + 1):
        vote = 2 * k - trials
        law[vote] = law.get(vote, 0) + sampling * comb(trials, k) * p**k * (1 - p) ** (trials - k)
    return law


def right_by_hand(honest: dict[int, Any], attacker: dict[int, Any], clients: int, attackers: int) -> Any:
    one, other = power(honest, clients), power(attacker, attackers)
    return sum(p * q for a, p in one.items() for b, q in other.items() if a + b > 0)


# --- the count ----------------------------------------------------------------------------------------------------

COUNTED = [  # p_s, the exact number, P(right) there and one further
    (1.0, 95, 0.529173, 0.494225),
    (0.5, 95, 0.500017, 0.495944),
    (0.2, 87, 0.501250, 0.498633),
    (0.1, 74, 0.501583, 0.499668),
    (0.05, 48, 0.501397, 0.499939),
]


@pytest.mark.parametrize(("sampling", "exact", "there", "further"), COUNTED)
def test_fewer_attackers_are_survived_where_fewer_vote(
    sampling: float, exact: int, there: float, further: float
) -> None:
    vote = Vote(mechanism=COIN, honest=100, mean=0.1, sampling=sampling)
    assert vote.exact == exact
    assert vote.chances([exact, exact + 1])[0] == approx([there, further], abs=5e-7)
    assert vote.tolerates(exact)
    assert not vote.tolerates(exact + 1)


def test_the_count_is_that_of_fractions() -> None:
    honest, attacker = (lazy(3, p, Fraction(1, 4)) for p in (Fraction(3, 4), Fraction(1, 4)))
    vote = Vote(mechanism=Binomial(clip=1, scale=2, trials=3), honest=6, mean=1.0, sampling=0.25)
    for attackers in range(5):
        by_hand = right_by_hand(honest, attacker, 6, attackers)
        assert vote.chances(attackers)[0][0] == approx(float(by_hand), abs=1e-14)


@settings(max_examples=25)
@given(
    trials=st.integers(1, 4),
    honest=st.integers(1, 8),
    attackers=st.integers(0, 8),
    sampling=st.floats(0.02, 0.98),
    attack=st.sampled_from(["blind", "omniscient"]),
)
def test_the_count_is_that_of_all_outcomes_added_up(trials, honest, attackers, sampling, attack):
    vote = Vote(
        mechanism=Binomial(clip=1, scale=1.5, trials=trials), honest=honest, mean=0.4, attack=attack, sampling=sampling
    )
    p = 0.5 + 0.4 / 3
    laws = [lazy(trials, chance, sampling) for chance in (p, 0.0 if attack == "omniscient" else 1 - p)]
    found, error = vote.chances(attackers)
    assert found[0] == approx(right_by_hand(laws[0], laws[1], honest, attackers), abs=1e-12)
    assert error < 1e-10


def test_simulated_ballots_agree_with_the_count() -> None:
    mechanism, rng, runs = Ternary(clip=1, spread=1.5, scale=3), np.random.default_rng(3), 20_000
    cast = [rng.random((count, runs)) < 0.3 for count in (30, 8)]
    honest, attackers = (
        (mechanism.encode(np.full(drawn.shape, x), rng) * drawn).sum(axis=0, dtype=int)
        for drawn, x in zip(cast, (0.4, -0.4), strict=True)
    )
    chance = float(Vote(mechanism=mechanism, honest=30, mean=0.4, sampling=0.3).chances(8)[0][0])
    assert float((honest + attackers > 0).mean()) == approx(chance, abs=4 * (chance * (1 - chance) / runs) ** 0.5)


def test_where_hardly_anybody_votes_not_even_none_is_survived() -> None:
    vote = Vote(mechanism=COIN, honest=100, mean=0.1, sampling=0.005)
    assert vote.chances(0)[0][0] < 0.5
    assert vote.exact == -1


# --- Theorem G ----------------------------------------------------------------------------------------------------

BOUNDS = [  # N, K, p_s, M, x̄/B: wrong or a tie, ψ at x̄, and ψ̂ against blind and against omniscient attackers, r = B
    (100, 10, 0.05, 64, 0.3, 0.0237577, 0.118481, 0.824, 0.908),
    (20, 2, 0.2, 64, 0.5, 0.0271157, 0.109522, 0.594, 0.686),
    (5, 0, 0.2, 100, 0.9, 0.327680, 0.327680, 0.499, 0.499),
    (100, 10, 0.5, 1, 0.3, 0.0367776, 0.178722, 0.1787, 0.3725),
]


@pytest.mark.parametrize(("n", "k", "sampling", "trials", "mean", "wrong", "at_mean", "blind", "knowing"), BOUNDS)
def test_theorem_g_gives_its_numbers(
    n: int,
    k: int,
    sampling: float,
    trials: int,
    mean: float,
    wrong: float,
    at_mean: float,
    blind: float,
    knowing: float,
) -> None:
    mechanism = Binomial(clip=1, scale=1 + 1e-9, trials=trials)
    vote = Vote(mechanism=mechanism, honest=n, mean=mean, sampling=sampling)
    assert 1 - vote.chances(k)[0][0] == approx(wrong, abs=5e-8)
    assert least_bound(n, *map(exponent_of, vote.ballots[:1]), k, exponent_of(vote.ballots[1])) == approx(
        at_mean, abs=1e-6
    )
    assert vote.wrong_at_most(k) == approx(blind, abs=6e-4)
    omniscient = Vote(mechanism=mechanism, honest=n, mean=mean, sampling=sampling, attack="omniscient")
    assert omniscient.wrong_at_most(k) == approx(knowing, abs=6e-4)


def test_the_bound_at_the_mean_does_not_hold_for_all_data_of_that_mean_and_the_envelope_does() -> None:
    honest, trials, sampling, mean = 20, 8, 0.3, 0.3
    plus, minus = lazy(trials, 1.0, sampling), lazy(trials, 0.0, sampling)
    wrong = 1 - right_by_hand(plus, minus, 13, 7)  # 13 at +1 and 7 at −1: of mean .3
    assert wrong == approx(0.264338, abs=5e-7)
    vote = Vote(mechanism=Binomial(clip=1, scale=1 + 1e-9, trials=trials), honest=honest, mean=mean, sampling=sampling)
    at_mean = least_bound(honest, exponent_of(vote.ballots[0]), 0, exponent_of(vote.ballots[1]))
    assert at_mean == approx(0.138015, abs=1e-6)
    assert at_mean < wrong
    assert vote.wrong_at_most(0) == approx(0.674, abs=5e-4)


@settings(max_examples=30)
@given(
    data=st.data(), sampling=st.floats(0.1, 1), kind=st.sampled_from(["Binomial", "NoisySign", "Ternary", "Ternarize"])
)
def test_theorem_g_holds_for_any_data_of_its_mean(data, sampling, kind):
    mechanism: Any = {
        "Binomial": Binomial(clip=1, scale=1.2, trials=6),
        "NoisySign": NoisySign(clip=1, noise=0.4),
        "Ternary": Ternary(clip=1, spread=1.2, scale=1.5),
        "Ternarize": Ternarize(clip=1, scale=1.1),
    }[kind]
    x = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=12, max_size=12)))
    mean = float(x.mean())
    if not 0.02 < mean <= 1:
        return
    total, none = {0: 1.0}, 3
    for value in [*x, *[-mean] * none]:
        ballot = client_ballot(mechanism, float(value))
        one = power({2 * i - len(ballot.law) + 1: p for i, p in enumerate(ballot.law)}, ballot.trials)
        one = {vote: sampling * p for vote, p in one.items()}
        one[0] = one.get(0, 0.0) + 1 - sampling
        total = added(total, one)
    right = sum(chance for vote, chance in total.items() if vote > 0)
    bound = Vote(mechanism=mechanism, honest=12, mean=mean, sampling=sampling).wrong_at_most(none)
    assert 1 - right <= bound + 1e-12


@pytest.mark.parametrize("attack", ["blind", "omniscient"])
def test_what_theorem_g_certifies_is_survived(attack: Any) -> None:
    for honest, sampling in ((400, 0.3), (400, 0.9), (3000, 0.1)):
        vote = Vote(mechanism=COIN, honest=honest, mean=0.1, sampling=sampling, attack=attack)
        assert vote.chernoff is not None
        assert 0 <= vote.chernoff <= vote.exact
        assert vote.wrong_at_most(vote.chernoff) < 0.5 <= vote.wrong_at_most(vote.chernoff + 1)


# --- noisy signs --------------------------------------------------------------------------------------------------

SIGNS = [  # x̄, s, the exact number, Hoeffding's of the mean probability
    (0.25, 1.0, 95, 89),
    (0.1, 1.0, 87, 75),
    (0.1, 0.5, 93, 87),
]


@pytest.mark.parametrize(("mean", "noise", "exact", "certified"), SIGNS)
def test_a_noisy_sign_is_a_coin(mean: float, noise: float, exact: int, certified: int) -> None:
    vote = Vote(mechanism=NoisySign(clip=1, noise=noise), honest=100, mean=mean)
    assert (vote.exact, vote.hoeffding_of_chance) == (exact, certified)
    p = float(ndtr(mean / noise))
    coin = Vote(mechanism=StochasticSign(clip=1, scale=2), honest=100, mean=2 * (2 * p - 1))
    assert vote.chances(exact)[0][0] == approx(coin.chances(exact)[0][0], abs=1e-12)


def test_from_the_mean_of_noisy_signs_alone_less_is_certified() -> None:
    for clip, chance, certified in ((1.0, 0.574926843, 87), (0.5, 0.594739446, 89)):
        mechanism = NoisySign(clip=clip, noise=1)
        assert least_chance(mechanism, 0.25) == approx(chance, abs=1e-9)
        assert Vote(mechanism=mechanism, honest=100, mean=0.25).hoeffding == certified
    assert Vote(mechanism=NoisySign(clip=1, noise=0.5), honest=100, mean=0.1).hoeffding is None  # p̄ may be below ½


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0.2, 3))
def test_no_inputs_have_a_smaller_mean_probability(x, noise):
    mean = float(np.mean(x))
    if mean > 0:
        assert float(ndtr(np.array(x) / noise).mean()) >= least_chance(NoisySign(clip=1, noise=noise), mean)


def test_the_golden_probability_of_noisy_signs() -> None:
    vote = Vote(mechanism=NoisySign(clip=1, noise=1), honest=100, mean=float(ndtri(0.6)))
    assert vote.exact == Vote(mechanism=COIN, honest=100, mean=0.1).exact == 95


# --- any law that is written down ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """A ternary compressor that is known by its law alone, or one of four symbols."""

    law: Any
    alphabet: range = range(3)
    centre: Fraction = Fraction(1)
    peak: float = 1.0

    def symbol_law(self, x: float) -> Any:
        return np.asarray(self.law(x))


@pytest.mark.parametrize("sampling", [1.0, 0.4])
@pytest.mark.parametrize("attack", ["blind", "omniscient"])
def test_a_law_equal_to_ternarys_is_counted_as_ternary(sampling: float, attack: Any) -> None:
    own = Ternary(clip=1, spread=1.5, scale=2)
    mechanism: Any = Written(lambda x: [(1.5 - x) / 4, 0.25, (1.5 + x) / 4])
    found, wanted = (
        Vote(mechanism=each, honest=50, mean=0.3, attack=attack, sampling=sampling) for each in (mechanism, own)
    )
    assert found.exact == wanted.exact
    assert found.chances(np.arange(20))[0] == approx(wanted.chances(np.arange(20))[0], abs=1e-12)
    assert found.hoeffding is None


def test_symbols_about_a_centre_of_their_own_are_counted_from_there() -> None:
    mechanism: Any = Written(lambda x: [0.5 - x / 4, 0.3, 0.1, 0.1 + x / 4], range(4), Fraction(4, 5))
    honest, attackers = (
        {int(5 * symbol - 4): p for symbol, p in enumerate(mechanism.symbol_law(x))} for x in (0.5, -0.5)
    )
    ballots = client_ballot(mechanism, 0.5), attackers_ballot(mechanism, 0.5, "blind")
    by_hand = right_by_hand(honest, attackers, 7, 3)
    assert majority_chances(*ballots, 7, 3)[0][0] == approx(by_hand, abs=1e-12)


def test_votes_that_are_no_mirror_images_have_no_tolerance_for_both_signs() -> None:
    lopsided = ShapedBinomial(clip=1.0, trials=1, low=0.5, high=0.9)
    assert Vote(mechanism=lopsided, honest=21, mean=0.3).exact >= 0
    for ask in (covered_share, expected_wrong):
        with pytest.raises(FedprivError, match="no mirror images"):
            ask(lopsided, 21, 3, [-0.3])
    assert covered_share(ShapedBinomial(clip=1.0, trials=3, low=0.3, high=0.7, shape="cube"), 21, 0, [-0.9, 0.9]) == 1.0
