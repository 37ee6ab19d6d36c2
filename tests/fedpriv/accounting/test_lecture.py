"""The lecture's formulas and its moments accountant: its own numbers, others' numbers, and ours never above them."""

from __future__ import annotations

import json
import shlex
from math import exp, inf, log, sqrt
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, by_hand
from fedpriv.accounting.published._lecture import ORDERS, moments_epsilon
from fedpriv.accounting.published.comparisons import published_values
from fedpriv.mechanisms import Gaussian, Laplace
from fedpriv.mechanisms.ptr_renyi import black_box_lower
from simulations.command_line import main

GAUSSIAN, LAPLACE = "[L] Gaussian mechanism", "[L] Laplace mechanism"
MOMENTS = "[L] moments accountant (Abadi et al. 2016)"


def said(line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*shlex.split(line), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_lectures_noises_for_epsilon_one_stand_beside_the_exact_ones(capsys: pytest.CaptureFixture[str]) -> None:
    found = said("calibrate Gaussian clip=1 --epsilon 1 --delta 1e-5", capsys)
    theirs = found["published"][f"{GAUSSIAN}, calibrated"]
    assert theirs["noise"] == approx(4.84, abs=0.005)
    assert "not proved" in theirs["but"]  # ε = 1 is where the formula's proof ends
    assert found["settings"]["noise"] == approx(3.7304, rel=2e-3)  # the analytic Gaussian mechanism's
    found = said("calibrate Laplace clip=1 --epsilon 1 --delta 0", capsys)
    assert found["published"][f"{LAPLACE}, calibrated"] == {"epsilon": 1, "noise": 1}
    assert found["settings"]["noise"] == approx(1, rel=1e-3)
    found = said("calibrate Gaussian clip=2 --epsilon 0.5 --delta 1e-6", capsys)
    theirs = found["published"][f"{GAUSSIAN}, calibrated"]
    assert theirs == {"epsilon": 0.5, "noise": approx(4 * sqrt(2 * log(1.25e6)))}
    assert theirs["noise"] > found["settings"]["noise"]


def test_the_formulas_say_what_a_noise_costs(capsys: pytest.CaptureFixture[str]) -> None:
    found = said("account Gaussian clip=1 noise=10 --delta 1e-5", capsys)
    assert found["published"] == {GAUSSIAN: {"epsilon": approx(0.484, abs=5e-4)}}
    assert found["epsilon"]["upper"] < 0.484
    found = said("account Laplace clip=1 noise=2 --rounds 3 --delta 0", capsys)
    assert found["published"] == {LAPLACE: {"epsilon": 1.5, "delta": 0}}
    assert found["epsilon"]["upper"] == approx(1.5)
    found = said("account Gaussian clip=1 noise=1 --delta 1e-5", capsys)
    assert "not proved" in found["published"][GAUSSIAN]["but"]


def test_a_thousand_steps_of_the_lectures_example_are_about_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    noise = sqrt(2 * log(1.25e5)) / 0.005
    found = said(f"account Gaussian clip=1 noise={noise} --rounds 1000 --delta 1e-5", capsys)
    assert found["published"]["[L] q·ε·√T, approximate"]["epsilon"] == approx(0.158, abs=5e-4)
    assert found["epsilon"]["upper"] < 0.158


@pytest.mark.parametrize(
    ("noise", "rate", "rounds", "theirs"),
    [
        (4.0, 0.01, 10_000, 1.26),  # Abadi et al. 2016, section 3.2
        (1.3, 256 / 60000, 15 * 60000 // 256, 1.19),  # the table of tensorflow/privacy's tutorial, rounded to whole λ
        (1.1, 256 / 60000, 60 * 60000 // 256, 3.01),
    ],
)
def test_the_moments_accountant_gives_the_values_that_are_known_of_it(
    noise: float, rate: float, rounds: int, theirs: float, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"account Gaussian clip=1 noise={noise} --sampling {rate} --rounds {rounds} --delta 1e-5"
    found = said(line, capsys)
    assert found["published"][MOMENTS]["epsilon"] == approx(theirs, abs=0.005)
    assert found["epsilon"]["upper"] < theirs


# dp_accounting 0.6's RdpAccountant, one step
KNOWN = {
    (4.0, 0.01): {2: 6.449425094202615e-06, 8: 2.5899123012412577e-05, 64: 0.00021520916161849735},
    (1.1, 256 / 60000): {2: 2.339577600995332e-05, 16: 0.7918914327818952, 64: 20.90274077918983},
}


@pytest.mark.parametrize("setting", KNOWN, ids=str)
def test_the_moments_are_the_renyi_divergences_that_others_compute(setting: tuple[float, float]) -> None:
    noise, rate = setting
    for order, theirs in KNOWN[setting].items():
        assert black_box_lower(lambda alpha: alpha / (2 * noise**2), rate, order) == approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("noise", "rate", "order"), [(0.8, 0.1, 3), (1.5, 0.02, 9), (4.0, 0.5, 6)])
def test_the_moments_of_both_ways_round_by_integration(noise: float, rate: float, order: int) -> None:
    """ln E[L^λ] of Abadi et al. is the larger of two integrals; the binomial sum is the larger one."""
    normal = [lambda z, m=m: mp.exp(-((z - m) ** 2) / (2 * noise**2)) / (noise * mp.sqrt(2 * mp.pi)) for m in (0, 1)]

    def mixed(z: Any) -> Any:
        return (1 - rate) * normal[0](z) + rate * normal[1](z)

    power, ends = order - 1, [-60, -10, -2, 0, 1, 3, 10, 60]
    with mp.workdps(25):
        forward = mp.quad(lambda z: mixed(z) * (mixed(z) / normal[0](z)) ** power, ends)
        backward = mp.quad(lambda z: normal[0](z) * (normal[0](z) / mixed(z)) ** power, ends)
    ours = power * black_box_lower(lambda alpha: alpha / (2 * noise**2), rate, order)
    assert ours == approx(float(mp.log(forward)), rel=1e-9)
    assert backward <= forward


@given(noise=st.floats(0.7, 8), rate=st.floats(0.001, 1), rounds=st.integers(2, 400))
@settings(max_examples=8, deadline=None)
def test_the_exact_accountant_is_never_above_the_moments_accountant(noise: float, rate: float, rounds: int) -> None:
    release = by_hand(mechanism=Gaussian(clip=1, noise=noise), sampling=rate, rounds=rounds, unit="record")
    account = Account((release,))
    assert account.epsilon(1e-5).bounds.lower <= published_values(account, 1e-5)[MOMENTS]["epsilon"] * (1 + 1e-9)


def test_the_moments_accountant_takes_the_best_whole_order() -> None:
    epsilon, order = moments_epsilon(2.0, 1.0, 3, 1e-5)
    every = {order: 3 * order / 8 + log(1e5) / (order - 1) for order in ORDERS}
    assert epsilon == approx(min(every.values()))
    assert every[order] == min(every.values())


@pytest.mark.parametrize(
    ("mechanism", "facts", "distance"),
    [
        (Gaussian(clip=2, noise=10), {}, 2),
        (Gaussian(clip=2, noise=10), {"adjacency": "replace"}, 4),
        (Gaussian(clip=1, noise=10), {"dimension": 9, "geometry": "linf"}, 3),
        (Gaussian(clip=1, noise=10), {"dimension": 9, "geometry": "l2"}, 1),
    ],
)
def test_one_record_moves_a_release_by_its_sensitivity(
    mechanism: Gaussian, facts: dict[str, Any], distance: float
) -> None:
    account = Account((by_hand(mechanism=mechanism, **facts),))
    theirs = published_values(account, 1e-5)[GAUSSIAN]["epsilon"]
    assert theirs == approx(distance / 10 * sqrt(2 * log(1.25e5)))
    assert account.epsilon(1e-5).bounds.upper <= theirs


@pytest.mark.parametrize(("geometry", "distance"), [("linf", 4), ("l2", 2)])
def test_the_laplace_mechanism_goes_by_the_l1_norm(geometry: Any, distance: float) -> None:
    account = Account((by_hand(mechanism=Laplace(clip=1, noise=8), dimension=4, geometry=geometry),))
    assert published_values(account, 1e-5)[LAPLACE] == {"epsilon": distance / 8, "delta": 0.0}


def test_where_the_lecture_says_nothing_nothing_is_said() -> None:
    gaussian, sampled = Gaussian(clip=1, noise=2), {"sampling": 0.1, "unit": "record"}
    silent: list[tuple[Event, float]] = [
        (by_hand(mechanism=gaussian, rounds=0), 1e-5),
        (by_hand(mechanism=gaussian), 0.0),
        (by_hand(mechanism=gaussian), 1.0),
        (by_hand(mechanism=gaussian, trust="secure-aggregation", clients=3), 1e-5),
        (by_hand(mechanism=Laplace(clip=1, noise=2), **sampled), 1e-5),  # type: ignore[arg-type]
    ]
    for release, delta in silent:
        assert published_values(Account((release,)), delta) == {}
    replaced = by_hand(mechanism=gaussian, adjacency="replace", **sampled)  # type: ignore[arg-type]
    assert MOMENTS not in published_values(Account((replaced,)), 1e-5)  # its neighbours are by add-remove


def test_noise_beyond_all_reason_has_values_too() -> None:
    for noise in (1e-3, 1e6):
        release = by_hand(mechanism=Gaussian(clip=1, noise=noise), sampling=1e-3, rounds=10**6)
        found = published_values(Account((release,)), 1e-5)[MOMENTS]["epsilon"]
        assert 0 < found < inf
    assert exp(-found) < 1
