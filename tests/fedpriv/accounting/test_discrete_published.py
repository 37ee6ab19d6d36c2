"""What papers say of discrete mechanisms' privacy, by two routes, and never below what explicit data reach."""

from __future__ import annotations

from itertools import product
from math import comb, log, sqrt
from typing import Any

import numpy as np
import pytest
from pytest import approx
from scipy.special import ndtr

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.published.comparisons import published_values
from fedpriv.accounting.published.discrete import (
    AGARWAL,
    ORDERS,
    POISSON_BINOMIAL,
    agarwal_epsilon,
    agarwal_trials,
    pure_epsilon,
    vote_sum_renyi,
)
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    NoisySign,
    StochasticSign,
    Ternarize,
    Ternary,
)

PURE = [
    Binomial(clip=1, peak=0.2, scale=0.9, trials=5),
    StochasticSign(clip=0.1, scale=0.25),
    Cldp(clip=1, epsilon=1.5),
    Ternary(clip=0.1, spread=0.25, scale=0.5),
    NoisySign(clip=1, noise=2),
]


def published(mechanism: Any, delta: float = 1e-5, **facts: Any) -> dict[str, dict[str, Any]]:
    return published_values(Account((by_hand(mechanism, **facts),)), delta)


# --- Agarwal et al. 2018 --------------------------------------------------------------------------------------------


def test_agarwals_theorem_gives_3_80_for_eight_levels_and_3_18_for_none() -> None:
    """By its own terms at p = ½, where b = 1/3, c = 7√2/4 and d = 2/3; [F] section 4.2 prints 3.18 for l = 8."""

    def by_terms(level: float, delta: float, variance: float) -> float:
        first = level * sqrt(2 * log(1.25 / delta)) / sqrt(variance)
        second = level * (7 * sqrt(2) / 4 * sqrt(log(10 / delta)) + 1 / 3) / (variance * (1 - delta / 10))
        third = level * 2 / 3 * (log(1.25 / delta) + log(20 / delta) * log(10 / delta)) / variance
        return first + second + third

    for level in (1, 7, 8):
        ours = agarwal_epsilon(500, 0.5, 0.044, shift=(level,) * 3)
        assert ours == approx(by_terms(level, 0.044, 125), rel=1e-13)
    assert by_terms(8, 0.044, 125) == approx(3.80, abs=0.005)
    assert 3.18 / by_terms(1, 0.044, 125) == approx(6.69, abs=0.005)
    assert agarwal_epsilon(500, 0.7, 0.044, shift=(8,) * 3) == agarwal_epsilon(500, 0.3, 0.044, shift=(8,) * 3)


def test_agarwals_theorem_asks_for_212_trials_and_at_500_for_a_delta_above_0436() -> None:
    assert 211 < agarwal_trials(1.0, 0.5, 1, 8) < 212
    assert agarwal_trials(0.0436, 0.5, 1, 8) > 500 > agarwal_trials(0.0437, 0.5, 1, 8)
    few = published(BinomialNoise(clip=1, levels=8, trials=500), 0.04)[AGARWAL]
    assert few == {"refused": "needs 508 trials at this δ, got 500"}


@pytest.mark.parametrize(
    "facts",
    [{}, {"rounds": 3}, {"dimension": 4, "geometry": "linf"}, {"dimension": 50, "geometry": "l2"},
     {"trust": "secure-aggregation", "clients": 7}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("bias", [0.5, 0.3])
def test_agarwals_bound_holds_wherever_it_speaks(facts: dict[str, Any], bias: float) -> None:
    event = by_hand(BinomialNoise(clip=1, levels=4, trials=20_000, bias=bias), **facts)
    theirs = published_values(Account((event,)), 1e-5)[AGARWAL]["epsilon"]
    assert theirs >= Account((event,)).epsilon(1e-5).bounds.lower


def test_agarwals_bound_is_of_whole_messages() -> None:
    noise = BinomialNoise(clip=1, levels=4, trials=20_000)
    assert published(noise, sampling=0.1, unit="record") == {}
    assert published(noise, rounds=0) == {}
    assert published(DiscreteGaussian(clip=1, levels=8, noise=1)) == {}


# --- Theorems 7 and 9 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", PURE, ids=lambda each: type(each).__name__)
def test_theorem_7_is_pure_dp_of_every_coordinate_turned_into_gaussian_dp(mechanism: Any) -> None:
    pure = pure_epsilon(mechanism)
    assert pure == approx(mechanism.tradeoff().epsilon(0.0), rel=1e-9)
    found = published(mechanism, dimension=3, geometry="linf", rounds=4)["[F] Theorem 7"]
    assert found["mu"] == approx(2 * Tradeoff.pure(3 * pure).mu, rel=1e-9)  # √4 rounds
    assert published(mechanism, dimension=3, geometry="linf")["[F] Theorem 7"]["mu"] >= mechanism.tradeoff().mu


def test_theorem_7_of_three_symbols_and_of_noisy_signs_has_their_closed_forms() -> None:
    assert pure_epsilon(Ternary(clip=0.1, spread=0.25, scale=0.5)) == approx(log(7 / 3), rel=1e-14)
    assert pure_epsilon(NoisySign(clip=1, noise=1)) == approx(log(ndtr(1) / ndtr(-1)), rel=1e-14)
    assert published(Ternarize(clip=0.1, scale=0.5)) == {}  # δ = c/B at every ε


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_theorem_9_of_more_votes_is_the_largest_ratio_of_their_chances(trials: int) -> None:
    ends = {p: [comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)] for p in (0.3, 0.7)}
    largest = max(log(a / b) for a, b in zip(ends[0.3], ends[0.7], strict=True))
    votes = Binomial(clip=1, scale=2.5, trials=trials)
    found = published(votes, trust="secure-aggregation", clients=50, dimension=3, geometry="linf", rounds=2)
    assert found["[F] Theorem 9"]["epsilon"] == approx(6 * largest, rel=1e-12)


# --- the Poisson binomial mechanism ---------------------------------------------------------------------------------


def law(chances: list[float]) -> np.ndarray:
    found = np.ones(1)
    for p in chances:
        found = np.convolve(found, [1 - p, p])
    return found


def divergence(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    return float(np.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1))


def test_one_clients_votes_have_the_divergence_of_one_vote_as_often() -> None:
    one = divergence(np.array([0.3, 0.7]), np.array([0.7, 0.3]), 4)
    assert vote_sum_renyi(4, 1, 3, 0.7) == approx(3 * one, rel=1e-12)


@pytest.mark.parametrize("alpha", [2, 3.5, 16])
def test_no_data_give_a_sum_of_votes_more_than_its_renyi_bound(alpha: float) -> None:
    low, high, trials = 0.35, 0.65, 2
    grid = [low, 0.45, 0.5, high]
    bound = vote_sum_renyi(alpha, 4, trials, high)
    found = [
        divergence(law([x] * trials + crowd), law([y] * trials + crowd), alpha)
        for others in product(grid, repeat=3)
        for crowd in [[p for p in others for _ in range(trials)]]
        for x, y in product(grid, repeat=2)
    ]
    assert max(found) <= bound * (1 + 1e-12)
    assert max(found) > bound / 2  # half of the crowd is not counted


def test_a_large_crowd_hides_as_its_central_limit_has_it() -> None:
    """Half of the crowd hides: a shift of 2θM on a variance of (MN/2)·p(1 − p)."""
    found, variance = vote_sum_renyi(2, 10**6, 3, 0.6), 3 * 10**6 / 2 * 0.24
    assert found == approx(2 * (2 * 0.1 * 3) ** 2 / (2 * variance), rel=1e-3)


def test_the_poisson_binomial_stands_where_sums_are_seen_and_theta_is_small() -> None:
    facts: dict[str, Any] = {"trust": "secure-aggregation", "clients": 200, "rounds": 3}
    votes = Binomial(clip=1, scale=5, trials=2)
    found = published(votes, **facts)[POISSON_BINOMIAL]
    assert found["epsilon"] > Account((by_hand(votes, **facts),)).epsilon(1e-5).bounds.lower
    by_order = [3 * vote_sum_renyi(a, 200, 2, 0.6) + log(1 - 1 / a) - (log(1e-5) + log(a)) / (a - 1) for a in ORDERS]
    assert found["epsilon"] == approx(min(by_order), rel=1e-9)
    assert found["order"] == ORDERS[int(np.argmin(by_order))]
    assert "at most 1/4" in published(Binomial(clip=1, scale=1.5, trials=2), **facts)[POISSON_BINOMIAL]["refused"]
    many = published(Binomial(clip=1, scale=5, trials=1 << 13), trust="secure-aggregation", clients=10)
    assert "more than 4,096 votes" in many[POISSON_BINOMIAL]["refused"]
    assert POISSON_BINOMIAL not in published(votes)
    assert POISSON_BINOMIAL not in published(NoisySign(clip=1, noise=9), **facts)
