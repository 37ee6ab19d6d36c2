"""Randomised response, discrete Laplace noise, shaped votes and bare signs: each by the numbers it is known for."""

from __future__ import annotations

from itertools import permutations
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import PCG64, Generator
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import MECHANISMS, Binomial, DiscreteLaplace, RandomisedResponse, ShapedBinomial, Sign

ALPHA = np.linspace(0, 1, 401)


# --- k-ary randomised response ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "epsilon"), [(1, 0.3), (3, 1.0), (7, 4.0), (63, 2.0)])
def test_randomised_response_has_the_epsilon_it_is_named_by(levels: int, epsilon: float) -> None:
    own = RandomisedResponse(clip=2.0, levels=levels, epsilon=epsilon)
    assert own.tradeoff().epsilon(0.0) == approx(epsilon, rel=1e-12)
    assert own.tradeoff().delta(0.0) == approx((exp(epsilon) - 1) / (exp(epsilon) + levels), rel=1e-12)
    curve = own.table.tradeoff() if levels < 9 else own.tradeoff()  # of all pairs of grid points none is worse
    assert curve(ALPHA) == approx(own.tradeoff()(ALPHA), abs=1e-12)


def test_binary_randomised_response_is_a_stochastic_sign() -> None:
    own, sign = (
        RandomisedResponse(clip=0.5, levels=1, epsilon=1.2),
        MECHANISMS.made("Cldp", {"clip": 0.5, "epsilon": 1.2}),
    )
    assert own.tradeoff()(ALPHA) == approx(sign.tradeoff()(ALPHA), abs=1e-12)
    assert float(own.decode(7, 10)) == approx(float(sign.decode(7 - 3, 10)))


# --- discrete Laplace noise ---------------------------------------------------------------------------------------


@given(levels=st.integers(1, 12), noise=st.floats(0.05, 5), epsilon=st.floats(0, 30))
def test_discrete_laplace_noise_is_told_apart_as_its_law_says(levels: int, noise: float, epsilon: float) -> None:
    own = DiscreteLaplace(clip=1.0, levels=levels, noise=noise)
    k, mass = own.law
    assert np.exp(mass).sum() == approx(1, abs=1e-12)
    p, q = (np.exp(-np.abs(k[0] - 0 + np.arange(k.size + levels) - at) / own.scale) for at in (0, levels))
    expected = np.maximum(q - np.exp(epsilon) * p, 0).sum() * np.exp(mass).max()
    found = own.tradeoff().delta(epsilon)
    assert found == approx(expected, rel=1e-9, abs=1e-13)
    assert own.tradeoff().epsilon(0.0) == approx(levels / own.scale, rel=1e-12)


def test_discrete_laplace_noise_is_drawn_by_its_law() -> None:
    own, n = DiscreteLaplace(clip=1.0, levels=2, noise=3.0), 200_000
    sent = own.encode(np.zeros(n), Generator(PCG64(5))) - 1
    a = exp(-1 / own.scale)
    for value in range(-9, 10):
        chance = (1 - a) / (1 + a) * a ** abs(value)
        assert (sent == value).sum() == approx(n * chance, abs=5 * (n * chance) ** 0.5)
    assert sent.std() == approx((2 * a) ** 0.5 / (1 - a), rel=0.01)


def test_a_pure_epsilon_composes_to_less_than_its_sum() -> None:
    low, high = Account((by_hand(DiscreteLaplace(clip=1.0, levels=2, noise=10.0), rounds=100),)).epsilon(1e-5).bounds
    assert low == approx(high, rel=1e-5)
    assert high < 100 * 0.2


def test_noise_too_wide_for_its_grid_is_refused() -> None:
    with pytest.raises(FedprivError, match="too wide: at most 6000, or fewer levels"):
        DiscreteLaplace(clip=1.0, levels=100, noise=1000.0).encode(np.zeros(3), Generator(PCG64(1)))


# --- shaped votes -------------------------------------------------------------------------------------------------

SHAPED = [
    ShapedBinomial(clip=1.0, trials=trials, low=low, high=high, shape=shape)  # type: ignore[arg-type]
    for trials, low, high in ((1, 0.2, 0.9), (4, 0.45, 0.55), (9, 0.05, 0.3))
    for shape in ("linear", "sine", "root", "cube")
]


def test_a_straight_shape_between_mirrored_shares_is_binomial() -> None:
    own, other = ShapedBinomial(clip=1.0, trials=5, low=0.25, high=0.75), Binomial(clip=1.0, scale=2.0, trials=5)
    assert own.tradeoff()(ALPHA) == approx(other.tradeoff()(ALPHA), abs=1e-12)
    assert own.decode(7, 3) == approx(other.decode(7, 3))
    x = np.linspace(-1, 1, 4001)
    assert np.array_equal(*(each.encode(x, Generator(PCG64(2))) for each in (own, other)))


@pytest.mark.parametrize("own", SHAPED, ids=str)
def test_no_two_inputs_are_told_apart_better_than_the_two_shares(own: ShapedBinomial) -> None:
    worst = own.tradeoff()
    for x, y in permutations(np.linspace(-1, 1, 9), 2):
        told = Tradeoff.between(own.symbol_law(x), own.symbol_law(y))
        assert (told(ALPHA) >= worst(ALPHA) - 1e-12).all()
        assert own.between(x, y)(ALPHA) == approx(told(ALPHA), abs=1e-12)
    assert worst(ALPHA) == approx(worst.inverse(ALPHA), abs=1e-12)


@pytest.mark.parametrize("own", SHAPED, ids=str)
def test_shapes_stay_between_their_shares_and_messages_follow_them(own: ShapedBinomial) -> None:
    x = np.linspace(-1, 1, 201)
    share = own.chance(x)
    assert (share >= own.low).all()
    assert (share <= own.high).all()
    assert (np.diff(share) >= 0).all()
    sent = own.encode(np.full(40_000, 0.3), Generator(PCG64(9)))
    mean = own.trials * float(own.chance(np.array(0.3)))
    assert sent.mean() == approx(mean, abs=5 * (own.trials / 4 / 40_000) ** 0.5)


def test_only_a_straight_shape_has_an_unbiased_mean() -> None:
    own = ShapedBinomial(clip=1.0, trials=4, low=0.2, high=0.9)
    for x in (-1.0, 0.1, 0.8):
        assert float(own.decode(own.symbol_law(x) @ np.arange(5), 1)) == approx(x)
    with pytest.raises(FedprivError, match="of shape root has no unbiased decoder: take the majority vote"):
        ShapedBinomial(clip=1.0, trials=4, low=0.2, high=0.9, shape="root").decode(3.0, 2)


# --- the bare sign ------------------------------------------------------------------------------------------------


def test_a_bare_sign_hides_nothing_and_says_so() -> None:
    account = Account((by_hand(Sign(clip=1.0), geometry="linf", dimension=3),))
    cost = account.epsilon(1e-5)
    assert cost.bounds == (inf, inf)
    assert "no privacy" in cost.upper_proof
    assert account.delta(3.0).bounds.upper == 1
    assert account.mu is None


def test_a_bare_sign_is_a_fair_coin_at_zero_alone() -> None:
    sent = Sign(clip=1.0).encode(np.array([-1e-300, 0.5] + [0.0] * 10_000), Generator(PCG64(1)))
    assert sent[:2].tolist() == [-1, 1]
    assert sent[2:].mean() == approx(0, abs=0.05)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("RandomisedResponse", {"clip": 1, "levels": 64, "epsilon": 1}, "levels must be at most 63"),
    ("RandomisedResponse", {"clip": 1, "levels": 0, "epsilon": 1}, "levels must be at least 1"),
    ("RandomisedResponse", {"clip": 1, "levels": 3, "epsilon": 40}, "epsilon must be below 36"),
    ("RandomisedResponse", {"clip": float("nan"), "levels": 3, "epsilon": 1}, "clip must be finite"),
    ("DiscreteLaplace", {"clip": 1, "levels": 4, "noise": 0}, "noise must be positive"),
    ("DiscreteLaplace", {"clip": 1, "levels": 4, "noise": 1e-6}, "hides nothing"),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "low": 0.5, "high": 0.5}, "high must be larger than low"),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "low": 0.0, "high": 0.5}, "low must be positive"),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "low": 0.2, "high": 1}, "high must be below 1"),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "low": 0.2, "high": 0.5, "shape": "sin"}, "did you mean 'sine'"),
    ("Sign", {"clip": 0}, "clip must be positive"),
]


@pytest.mark.parametrize(("kind", "settings", "said"), BAD, ids=[said for *_, said in BAD])
def test_settings_that_cannot_be_are_refused(kind: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FedprivError) as error:
        MECHANISMS.made(kind, settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_worst_shares_have_the_loss_that_they_have_by_hand() -> None:
    own = ShapedBinomial(clip=1.0, trials=2, low=0.2, high=0.9)
    assert own.tradeoff().epsilon(0.0) == approx(2 * max(log(0.9 / 0.2), log(0.8 / 0.1)))
