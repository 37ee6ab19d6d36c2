"""The mean of vectors, one a client, each sent once: what is charged, what error there is, and who can move it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.aggregation import TrimmedMean, rule_of
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.estimation.one_shot import OneShot
from fedpriv.estimation.rotation import Rotation
from fedpriv.mechanisms import Binomial, Gaussian, NoisySign, StochasticSign, Ternary
from fedpriv.mechanisms.variance import message_spread
from fedpriv.randomness.streams import stream
from tests.tried import TRIED

SIGN = StochasticSign(clip=1.0, peak=0.5, scale=1.0)


def shot_of(mechanism: Any = SIGN, clients: int = 200, dimension: int = 5, **settings: Any) -> OneShot:
    return OneShot(channel=Channel.of("clip", mechanism), clients=clients, dimension=dimension, **settings)


def rows_of(clients: int = 200, dimension: int = 5) -> np.ndarray:
    return stream(1, "one shot").normal(0.1, 0.1, (clients, dimension))


# --- what is charged ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_client_is_charged_one_message_of_what_is_sent(trust: Any, turned: bool) -> None:
    rotation = Rotation(dimension=5, seed=1) if turned else None
    shot = shot_of(trust=trust, byzantine=20, rotation=rotation)
    crowd = {"clients": 180} if trust == "secure-aggregation" else {}  # attackers draw no noise for certain
    same = by_hand(SIGN, dimension=8 if turned else 5, geometry="l2", trust=trust, **crowd)
    assert shot.event == same
    low, high = Account((shot.event,)).epsilon(1e-5).bounds
    assert 0 < low <= high


@pytest.mark.parametrize(
    "mechanism", [each for each in TRIED if message_spread(each)], ids=lambda each: type(each).__name__
)
def test_every_mechanism_whose_variance_is_known_has_a_mean_with_the_error_it_says(mechanism: Any) -> None:
    shot = shot_of(mechanism, 400, 3)
    rows = np.full((400, 3), 0.1)
    found = np.array([shot.estimate(rows, stream(draw, "draws")) for draw in range(30)])
    assert shot.errors is not None
    step = getattr(mechanism, "grid", None)
    bias = 0.0 if step is None else step.step / 2  # what a grid rounds off
    assert np.abs(found.mean(axis=0) - 0.1).max() <= 5 * shot.errors.coordinate / np.sqrt(30) + bias
    assert found.std(axis=0).mean() <= 1.4 * shot.errors.coordinate
    assert shot.errors.on_sphere <= shot.errors.vector * (1 + 1e-12)


def test_the_error_is_known_beforehand_by_formula() -> None:
    votes = Binomial(clip=1.0, peak=0.5, scale=2, trials=4)
    plain = shot_of(votes, 100, 6).errors
    assert plain == approx((0.1, np.sqrt(6 / 100), np.sqrt((6 - 0.25) / 100)))  # B²/M = 1, and c²/M less on the sphere
    turned = shot_of(votes, 100, 6, rotation=Rotation(dimension=6, seed=1)).errors
    assert turned == approx((0.1, np.sqrt(6 / 100), np.sqrt((8 - 0.25) * 6 / 8 / 100)))
    boxed = OneShot(channel=Channel.of("coordinates", votes), clients=100, dimension=6).errors
    assert boxed is not None
    assert boxed.on_sphere == approx(np.sqrt((6 - 6 * 0.25 / 4) / 100))


# --- the rotation ---------------------------------------------------------------------------------------------------


@given(dimension=st.integers(1, 40), seed=st.integers(0, 9))
def test_a_rotation_keeps_lengths_and_is_undone(dimension: int, seed: int) -> None:
    rotation = Rotation(dimension=dimension, seed=seed)
    rows = stream(seed, "rows").standard_normal((3, dimension))
    turned = rotation.turned(rows)
    assert turned.shape == (3, rotation.width)
    assert np.linalg.norm(turned, axis=1) == approx(np.linalg.norm(rows, axis=1))
    assert rotation.undone(turned) == approx(rows, abs=1e-12)


def test_a_rotation_takes_the_bias_of_a_small_peak() -> None:
    rows = np.zeros((50, 64))
    rows[:, 3] = 1.0  # all that a client has is in one coordinate
    votes = Binomial(clip=1.0, peak=0.2, scale=1, trials=2)
    plain = shot_of(votes, 50, 64)
    turned = shot_of(votes, 50, 64, rotation=Rotation(dimension=64, seed=1))
    assert np.linalg.norm((plain.bounded(rows) - rows).mean(axis=0)) == approx(0.8)
    assert turned.bounded(rows) == approx(rows, abs=1e-9)
    found = np.mean([turned.estimate(rows, stream(draw, "x"))[3] for draw in range(20)])
    assert turned.errors is not None
    assert found == approx(1.0, abs=5 * turned.errors.coordinate / np.sqrt(20))


# --- who can move it ------------------------------------------------------------------------------------------------


def test_blind_attackers_turn_their_own_part_round() -> None:
    gauss = Gaussian(clip=1.0, noise=1e-6)
    found = shot_of(gauss, 200, 2, byzantine=50).estimate(np.full((200, 2), 0.2), stream(1, "x"))
    assert found == approx([0.1, 0.1], abs=1e-5)  # 150 − 50 of 200
    assert np.linalg.norm(found - 0.2) <= shot_of(gauss, 200, 2, byzantine=50).reach


def test_a_rule_sees_each_decoded_message() -> None:
    rows, rule = rows_of(), TrimmedMean(dropped=20)
    shot = shot_of(Gaussian(clip=1.0, noise=0.5), rule=rule)
    found = shot.estimate(rows, stream(2, "x"))
    assert found == approx(rows.mean(axis=0), abs=0.3)
    assert (found != shot_of(Gaussian(clip=1.0, noise=0.5)).estimate(rows, stream(2, "x"))).any()


def test_a_client_whose_vector_is_not_finite_sends_zeros_and_nobody_learns_of_it() -> None:
    rows = rows_of()
    broken, empty = rows.copy(), rows.copy()
    broken[3, 1], empty[3] = np.nan, 0.0
    for rotation in (None, Rotation(dimension=5, seed=1)):
        shot = shot_of(rotation=rotation)
        assert (shot.estimate(broken, stream(1, "x")) == shot.estimate(empty, stream(1, "x"))).all()
    rows[3] = 1e308
    assert np.isfinite(shot_of(rotation=Rotation(dimension=5, seed=1)).estimate(rows, stream(1, "x"))).all()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"mechanism": NoisySign(clip=1.0, noise=2.0)}, "no unbiased decoder"),
    ({"byzantine": 200}, "byzantine must be at most clients - 1"),
    ({"trust": "central"}, "trust"),
    ({"trust": "secure-aggregation", "rule": rule_of("Median", {})}, "sums alone"),
    ({"rule": rule_of("MajorityVote", {})}, "gives no mean"),
    ({"rule": rule_of("FlTrust", {"root": 5})}, "gives no mean"),
    ({"rule": rule_of("NormTrimmedSum", {"dropped": 1})}, "gives no mean"),
    ({"rotation": Rotation(dimension=4, seed=1)}, "the rotation is of 4"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=str)
def test_what_has_no_mean_or_no_proof_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        shot_of(**settings)


def test_vectors_of_another_shape_are_refused() -> None:
    with pytest.raises(FedprivError, match="200 rows of 5"):
        shot_of().estimate(rows_of(199), stream(1, "x"))


def test_three_symbols_are_decoded_without_bias_under_sums() -> None:
    shot = shot_of(Ternary(clip=1, peak=0.5, spread=1, scale=2), trust="secure-aggregation", clients=5000)
    rows = rows_of(5000)
    assert shot.errors is not None
    assert shot.estimate(rows, stream(1, "x")) == approx(
        shot.bounded(rows).mean(axis=0), abs=5 * shot.errors.coordinate
    )
