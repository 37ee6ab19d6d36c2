"""Privacy, bits, error and attackers at one target: each number by a second route, and the law over all kinds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, lgamma, pi, sqrt
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import default_rng
from pytest import approx
from tried import TRIED

from fedpriv import frontier
from fedpriv.accounting.account import Account, Cost
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Fresh
from fedpriv.curves.compose import Bounds
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, Unreachable
from fedpriv.frontier import Compared, Target, attackers_survived, compared_mechanisms, unbeaten_candidates
from fedpriv.frontier._search import candidates_of
from fedpriv.frontier.candidates import Candidate
from fedpriv.frontier.sphere import MeanError, mean_error, sphere_coordinates, typical_mean
from fedpriv.mechanisms import MECHANISMS, Gaussian, NoisySign, StochasticSign, Ternary
from fedpriv.packed.symbols import packing_of
from fedpriv.registry import Registry
from fedpriv.wire import HEADER, alone, masked_bits

ASKED = Target(epsilon=2, delta=1e-5, rounds=100, clients=1000, byzantine=50)
SMALL = Target(epsilon=0.5, delta=1e-5, clients=20, dimension=1)
KNOWN = [each for each in TRIED if mean_error(each, 10, 1) is not None]


def on_sphere(rows: int, dimension: int, seed: int = 1) -> np.ndarray:
    x = default_rng(seed).normal(size=(rows, dimension))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def small() -> list[Compared]:
    return compared_mechanisms(SMALL)


# --- the error ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 650, 10**6])
def test_coordinates_of_a_sphere_have_the_moments_of_its_law(dimension: int) -> None:
    at, chance = sphere_coordinates(dimension)
    assert chance.sum() == approx(1, abs=1e-12)
    assert dimension * float(chance @ at**2) == approx(1, abs=1e-8)
    mean = exp(lgamma(dimension / 2) - lgamma((dimension + 1) / 2)) / sqrt(pi)
    assert typical_mean(dimension, 2.0) == approx(2 * mean, rel=1e-7)


@pytest.mark.parametrize("mechanism", KNOWN, ids=str)
def test_the_error_is_that_of_messages_through_the_channel(mechanism: Any) -> None:
    """One client's: noise, and what peak and grid take, in one number; a vector of its own for each message."""
    rows = on_sphere(20_000, 10)
    channel = Channel.of("clip", mechanism)
    sent = packing_of(mechanism).unpack(channel.messages(rows, Fresh(default_rng(2), rows=len(rows))), 10)
    squares = ((mechanism.decode(sent, 1) - rows) ** 2).sum(axis=1)
    expected = mean_error(mechanism, 10, 1)
    assert expected is not None
    assert squares.mean() == approx(expected.total**2, abs=5 * squares.std() / sqrt(len(rows)))


def test_many_clients_that_hold_one_vector_average_the_noise_and_not_the_bias() -> None:
    sign = StochasticSign(clip=1.0, peak=0.2, scale=0.5)
    rows, found = on_sphere(200, 10), []
    for at, x in enumerate(rows):
        held = np.broadcast_to(x, (100, 10))
        sent = packing_of(sign).unpack(Channel.of("clip", sign).messages(held, Fresh(default_rng(at), rows=100)), 10)
        found.append(((sign.decode(sent.sum(axis=0), 100) - x) ** 2).sum())
    noise, bias = mean_error(sign, 10, 100) or MeanError(0, 0)
    assert noise == approx((mean_error(sign, 10, 1) or MeanError(0, 0)).noise / 10)
    assert bias > 0.4
    assert np.mean(found) == approx(noise**2 + bias**2, abs=5 * np.std(found) / sqrt(len(found)))


# --- the search -----------------------------------------------------------------------------------------------------


def test_golden_signs_at_the_target_of_the_readme() -> None:
    (found,) = candidates_of(ASKED, "StochasticSign", "local")
    assert found.mechanism.scale == approx(42.99, abs=0.05)  # type: ignore[attr-defined]
    assert found.error is not None
    assert found.error.noise == approx(sqrt((650 * found.mechanism.scale**2 - 1) / 1000), rel=1e-5)  # type: ignore[attr-defined]
    assert Account((ASKED.event(found.mechanism, "local"),)).epsilon(1e-5) == found.cost
    assert 1.99 < found.cost.bounds.upper <= 2


def test_golden_real_noise_by_a_second_accountant() -> None:
    """100 messages through Gaussian noise are 20/σ-GDP."""
    (found,) = candidates_of(ASKED, "Gaussian", "local")
    assert isinstance(found.mechanism, Gaussian)
    assert Tradeoff.gaussian(20 / found.mechanism.noise).epsilon(1e-5) == approx(found.cost.bounds.upper, rel=1e-6)
    assert (found.bits, found.error) == (32, MeanError(approx(found.mechanism.noise * sqrt(0.65)), 0))


def test_bits_are_what_ternary_messages_take() -> None:
    for found in candidates_of(ASKED, "Ternary", "local"):
        channel = Channel.of("clip", found.mechanism)
        sent = channel.messages(on_sphere(400, 650), Fresh(default_rng(3), rows=400))
        each = (alone(found.mechanism, 650, sent) or 0) / 400 - HEADER
        assert found.bits == approx(8 * each / 650, rel=0.02)
        assert found.bits < 1.6
        assert found.mechanism.entropy < found.bits


def test_no_peak_beside_the_chosen_one_is_much_better() -> None:
    target = Target(epsilon=8, delta=1e-5, clients=1000, dimension=20)
    (best,) = candidates_of(target, "StochasticSign", "local")
    for peak in (0.5, 0.7, 1.4, 2.0):
        own = StochasticSign(clip=1.0, peak=min(best.mechanism.peak * peak, 1.0), scale=best.mechanism.scale)  # type: ignore[attr-defined]
        cost = Account((target.event(own, "local"),)).upper_epsilon(1e-5)
        error = mean_error(own, 20, 1000)
        assert error is not None
        assert error.total > 0.98 * best.distance or cost > 2


def test_every_kind_meets_the_target_or_is_left_out_with_a_word(small: list[Compared]) -> None:
    for own in small:
        assert {each.kind for each in own.points} | set(own.left_out) == set(MECHANISMS)
        assert not {each.kind for each in own.points} & set(own.left_out)
        assert all(why and "\n" not in why for why in own.left_out.values())
        for each in own.points:
            cost = Account((SMALL.event(each.mechanism, own.trust),)).epsilon(SMALL.delta)
            assert cost.bounds.upper <= SMALL.epsilon
            assert each.cost.bounds.upper <= SMALL.epsilon
            if own.trust == "secure-aggregation":
                assert each.bits == masked_bits(each.mechanism, SMALL.clients)
        errors = [each.distance for each in own.best]
        assert errors == sorted(errors)
        assert len(errors) == len({each.kind for each in own.points})


def test_what_has_no_mean_has_no_error_and_comes_last(small: list[Compared]) -> None:
    known = [own.error is not None for own in small[0].best]
    assert known == sorted(known, reverse=True)
    (last,) = (own for own in small[0].best if isinstance(own.mechanism, NoisySign))
    assert last.error is None
    assert attackers_survived(SMALL, last.mechanism, "blind") is not None
    assert attackers_survived(SMALL, Gaussian(clip=1, noise=1), "blind") is None


def test_a_kind_whose_settings_no_search_knows_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As is one that has nothing to calibrate."""

    class Strange(StochasticSign):
        effects: ClassVar[Any] = {}

    monkeypatch.setattr("fedpriv.frontier._search.MECHANISMS", Registry("mechanism", object, [Strange]))
    with pytest.raises(FedprivError, match="nothing that it needs to be told changes its ε"):
        list(candidates_of(SMALL, "Strange", "local"))


def test_a_target_that_nothing_reaches_names_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier, "MECHANISMS", ["Ternary"])
    with pytest.raises(Unreachable, match=r"no mechanism reaches the target. The nearest is Ternary under .* 0.006"):
        compared_mechanisms(replace(ASKED, epsilon=1e-6))


def test_the_frontier_holds_what_nothing_beats() -> None:
    cost = Cost(Bounds(1.0, 1.0), "", "")

    def point(bits: float, noise: float) -> Candidate:
        own = Ternary(clip=1, spread=2, scale=4)
        error = MeanError(noise, 0)
        return Candidate(mechanism=own, trust="local", cost=cost, error=error, entropy=1.0, bits=bits, bits_are="exact")

    points = [point(4, 1.0), point(1, 3.0), point(2, 3.0), point(2, 2.0), point(3, 2.5), point(4, 1.5)]
    assert [(each.bits, each.distance) for each in unbeaten_candidates(points)] == [(1, 3.0), (2, 2.0), (4, 1.0)]


def test_more_attackers_are_survived_where_more_is_given_away() -> None:
    found = [attackers_survived(ASKED, StochasticSign(clip=1, peak=0.1, scale=a), "omniscient") for a in (0.3, 1, 3)]
    exact = [each.exact for each in found if each is not None]
    assert len(exact) == 3
    assert all(a > b for a, b in pairwise(exact))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": float("nan")}, "epsilon must be finite"),
    ({"epsilon": 0}, "epsilon must be at least 1e-06"),
    ({"epsilon": float("inf")}, "epsilon must be finite"),
    ({"delta": 0.0}, "delta must be above 0 and below 1"),
    ({"delta": 1.0}, "delta must be above 0 and below 1"),
    ({"delta": float("nan")}, "delta must be above 0 and below 1"),
    ({"rounds": 0}, "rounds must be at least 1"),
    ({"clients": 0}, "clients must be at least 1"),
    ({"clients": 10**10}, "clients must be at most 1000000000"),
    ({"byzantine": -1}, "byzantine must be at least 0"),
    ({"byzantine": 500}, "byzantine must be below half of the clients, 1,000: got 500"),
    ({"dimension": 0}, "dimension must be at least 1"),
    ({"dimension": 2.5}, "dimension must be a whole number"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED, ids=str)
def test_bad_targets_are_refused_in_one_line(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        Target(**{"epsilon": 2.0, "delta": 1e-5, "clients": 1000, **changed})
