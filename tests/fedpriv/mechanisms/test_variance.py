"""The variance of a decoded message: by formula, by the messages themselves, and the most there is of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.mechanisms.variance import Spread, message_spread
from fedpriv.randomness.streams import stream
from tests.tried import TRIED, decodes

DRAWS = 40_000
KNOWN = (
    Binomial, BinomialNoise, Cldp, DiscreteGaussian, Gaussian, Laplace, Skellam, StochasticSign, Ternarize, Ternary
)  # fmt: skip


@pytest.mark.parametrize("mechanism", TRIED, ids=lambda each: type(each).__name__)
def test_the_variance_is_that_of_decoded_messages(mechanism: Any) -> None:
    spread = message_spread(mechanism)
    if spread is None:  # `fedpriv estimate` then says that it is not known
        assert type(mechanism) not in KNOWN
        return
    assert decodes(mechanism)
    rng = stream(1, "variance")
    for x in (0.0, mechanism.peak / 2, -mechanism.peak):
        values = mechanism.decode(mechanism.encode(np.full(DRAWS, x), rng), 1)
        fourth = float(((values - values.mean()) ** 4).mean())
        error = np.sqrt(max(fourth - values.var() ** 2, 0) / DRAWS)  # of a variance
        assert abs(values.var() - spread.at(x)) < 5 * error + 1e-6 * spread.largest(mechanism.peak)


@given(
    rows=st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=6),
    spread=st.builds(
        Spread, still=st.floats(0, 4), rising=st.floats(0, 4), falling=st.floats(0, 1)
    ),
)  # fmt: skip
def test_no_vector_has_more_variance_than_the_total(rows: list[float], spread: Spread) -> None:
    length = float(np.linalg.norm(rows))
    for most in (spread.total(len(rows), length), spread.total(len(rows), length, at_length=True)):
        assert spread.at(rows).sum() <= most + 1e-9 * abs(most) + 1e-12


def test_the_total_is_reached() -> None:
    votes, signs = (message_spread(each) for each in (Binomial(clip=1, scale=2, trials=4), Ternarize(clip=1, scale=4)))
    assert votes is not None
    assert signs is not None
    assert votes.total(9, 1.0) == approx(votes.at(np.zeros(9)).sum())
    assert votes.total(9, 1.0, at_length=True) == approx(votes.at(np.full(9, 1 / 3)).sum())
    assert signs.total(9, 1.0) == approx(signs.at(np.full(9, 1 / 3)).sum())
    assert signs.largest(3.0) == approx(4.0)  # at half of B, not at the peak


def test_what_is_not_known_says_nothing() -> None:
    assert message_spread(object()) is None
