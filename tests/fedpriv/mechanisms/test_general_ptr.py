"""What a tested release of anybody's functions costs: by closed forms, by exact laws of small data sets, by goldens."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import exp, inf, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtr, ndtri

from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.ledger import Ledger
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.estimation.margins import rank_margin
from fedpriv.mechanisms import GeneralPtr
from fedpriv.mechanisms._branch_pairs import Branch, by_branch, hull_of_branches
from fedpriv.mechanisms.general_ptr import hull_of_margins
from fedpriv.mechanisms.ptr_pairs import EVERYTHING, NOTHING

PAPER: dict[str, Any] = {"failure": 1e-8, "noise": 1.1, "reach": 2.0, "otherwise": "fallback"}


def stick(epsilon: float, branches: list[tuple[float, float, float]]) -> float:
    """Σ max(Q − e^ε P, 0) of branches (chance under P, under Q, deviations moved), worked out by itself."""
    total = 0.0
    for p, q, mu in branches:
        if mu == inf or p == 0:
            total += q
        elif mu == 0:
            total += max(q - exp(epsilon) * p, 0.0)
        else:
            place = (epsilon + log(p / q)) / mu
            total += q * ndtr(mu / 2 - place) - exp(epsilon) * p * ndtr(-mu / 2 - place)
    return total


def test_the_coin_and_the_laplace_test_cost_what_was_worked_out_by_hand() -> None:
    coin = Account((by_hand(GeneralPtr(margin=36, **PAPER)),)).epsilon(1e-5).bounds
    assert coin.lower - 2e-4 <= 4.095523 <= coin.upper  # from below less what the grid adds to the noise
    assert coin.upper - coin.lower < 5e-4
    laplace = Account((by_hand(GeneralPtr(margin=80, test_noise=1.0, **PAPER)),)).epsilon(1e-5).bounds
    assert laplace.lower - 2e-4 <= 4.675400 <= laplace.upper
    assert laplace.upper == approx(4.6754, abs=1e-4)


def test_a_refusal_costs_less_than_a_fallback_and_an_exact_value_less_than_either() -> None:
    own = {"failure": 1e-8, "margin": 36}
    settings_ = [own, own | {"noise": 1.1}, own | {"noise": 1.1, "otherwise": "fallback"}]
    costs = [GeneralPtr(**each).tradeoff().epsilon(1e-5) for each in settings_]  # type: ignore[arg-type]
    assert costs == sorted(costs)
    assert costs[0] == approx(1.17125, abs=1e-4)  # the coin by itself
    step = -2 * ndtri(1e-8) / 36
    assert costs[0] < Tradeoff.gaussian(step).epsilon(1e-5)


@given(
    margin=st.integers(12, 40), noise=st.none() | st.floats(0.5, 20), reach=st.none() | st.floats(1, 50),
    fallback=st.booleans(), epsilon=st.floats(0, 6),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_the_curve_is_the_largest_hockey_stick_of_all_margins_both_ways_round(
    margin: int, noise: float | None, reach: float | None, fallback: bool, epsilon: float
) -> None:
    own = GeneralPtr(
        failure=1e-6,
        margin=margin,
        noise=noise,
        reach=reach,
        otherwise="fallback" if fallback and noise is not None else "nothing",
    )
    moved = 0.0 if noise is None else 1 / noise
    far = inf if reach is None or noise is None else moved * reach
    left = moved if own.otherwise == "fallback" else 0.0
    none = own.chances(0)
    worst = stick(epsilon, [(none[0], none[0], far), (none[1], none[1], left)])
    for m in range(1, margin + 1):
        for a, b in ((m, m - 1), (m - 1, m), (m, m)):
            p, q = own.chances(a), own.chances(b)
            worst = max(worst, stick(epsilon, [(p[0], q[0], moved), (p[1], q[1], left)]))
    curve = hull_of_margins(own)
    assert curve.below.hockey_stick(epsilon) <= worst * (1 + 1e-9) + 1e-15
    assert curve.above.hockey_stick(epsilon) >= worst * (1 - 1e-9) - 1e-15
    assert curve.above.hockey_stick(epsilon) - curve.below.hockey_stick(epsilon) < 5e-4 * worst + 1e-9


@pytest.mark.parametrize("test_noise", [None, 0.7])
@pytest.mark.parametrize("fallback", [False, True])
def test_no_small_data_set_and_neighbour_release_more_than_is_certified(
    test_noise: float | None, fallback: bool
) -> None:
    """The exact laws of a tested median of six numbers, or of its fallback, the first of them: every pair."""
    tau, noise, high = 1.0, 1.3, 3.0
    own = GeneralPtr(
        failure=0.1,
        margin=5,
        noise=noise,
        reach=high / tau,
        test_noise=test_noise,
        otherwise="fallback" if fallback else "nothing",
    )
    curve, data = hull_of_margins(own), list(combinations_with_replacement(range(4), 6))
    worst = 0.0
    for first in data:
        for place in range(6):
            for value in range(4):
                second = tuple(sorted((*first[:place], *first[place + 1 :], value)))
                chances = [own.chances(rank_margin(each, 3, tau, most=5, low=0, high=high)) for each in (first, second)]
                moved = abs(first[2] - second[2]) / (noise * tau)
                left = abs(first[0] - second[0]) / (noise * high) if fallback else 0.0
                branches = [(chances[0][0], chances[1][0], moved), (chances[0][1], chances[1][1], left)]
                for epsilon in (0.0, 0.4, 1.0, 2.0):
                    found = stick(epsilon, branches)
                    assert found <= curve.delta(epsilon) * (1 + 1e-9)
                    worst = max(worst, found / curve.below.hockey_stick(epsilon))
    assert worst > 0.8  # and some come near


def test_many_releases_are_composed_from_both_sides() -> None:
    own = GeneralPtr(failure=1e-8, margin=60, noise=6.0)
    one, ten = (Account((by_hand(own, rounds=rounds),)).epsilon(1e-6).bounds for rounds in (1, 10))
    assert one.upper < ten.lower < ten.upper < 10 * one.upper
    assert Account((by_hand(own, rounds=200),)).epsilon(1e-6).bounds.upper == inf  # 200 tests may pass wrongly


def test_what_several_tested_releases_give_away_at_least_is_of_one_pair_of_data_sets() -> None:
    """The worst margin depends on δ: no pair reaches the hull of all margins, which is no witness beside others."""
    own = GeneralPtr(failure=1e-3, margin=8, noise=3.0)
    one, other = by_hand(own), by_hand(GeneralPtr(failure=1.0001e-3, margin=8, noise=3.0))
    most = 0.0  # of any pair of data sets: its own first release, and whatever the second may come to
    for margin in range(9):
        pair = own.pair_at(margin)
        for passed, failed in (pair, [Branch(each.q, each.p, each.mu) for each in pair]):
            curves = (Tradeoff.gaussian(own.moved) if margin else EVERYTHING), NOTHING  # a refusal does not move
            alone = by_branch(*curves, (log(passed.p), log(failed.p)), (log(passed.q), log(failed.q)))
            most = max(most, compose([(alone, 1), (own.tradeoff(), 1)]).epsilon(3e-3)[1])
    found = Account((one, other)).epsilon(3e-3).bounds
    assert 0.7 * most < found.lower <= most < found.upper


def test_a_tested_release_is_calibrated_kept_and_costed_again(tmp_path: Any) -> None:
    found, cost = calibrate("GeneralPtr", {"failure": 5e-7, "margin": 61}, by_hand, epsilon=1, delta=1e-6, free="noise")
    assert 0.998 < cost.bounds.upper <= 1
    exact, _ = calibrate("GeneralPtr", {"failure": 5e-7}, by_hand, epsilon=1, delta=1e-6, free="margin")
    assert GeneralPtr(failure=5e-7, margin=exact.margin - 1).tradeoff().epsilon(1e-6) > 1
    ledger = Ledger().add(by_hand(found))
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json").epsilon(1e-6) == ledger.epsilon(1e-6)


def test_delta_below_what_passes_wrongly_has_no_epsilon() -> None:
    assert Account((by_hand(GeneralPtr(failure=1e-5, margin=40, noise=2.0)),)).epsilon(1e-6).bounds.upper == inf


@pytest.mark.parametrize("otherwise", ["nothing", "fallback"])
def test_many_margins_are_all_below_the_gaussian_curve_that_stands_for_them(otherwise: Any) -> None:
    own = GeneralPtr(failure=1e-6, margin=1100, noise=55.0, otherwise=otherwise)
    curve, moved = own.tradeoff(), 1 / 55
    left = moved if otherwise == "fallback" else 0.0
    for epsilon in (0.0, 0.02, 0.08):
        for a in range(1, 1101, 17):
            for p, q in ((own.chances(a), own.chances(a - 1)), (own.chances(a - 1), own.chances(a))):
                assert stick(epsilon, [(p[0], q[0], moved), (p[1], q[1], left)]) <= curve.delta(epsilon) * (1 + 1e-9)
    found = Account((by_hand(own),)).epsilon(1e-5).bounds
    assert 0.93 * found.upper < found.lower <= found.upper


def test_one_pair_of_gaussians_is_enclosed_closely() -> None:
    curve = hull_of_branches([(Branch(0.3, 0.3, 0.7), Branch(0.7, 0.7, 0.7))], 1e-10)
    exact = Tradeoff.gaussian(0.7)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        assert curve.below.hockey_stick(epsilon) <= exact.delta(epsilon) <= curve.above.hockey_stick(epsilon)
        assert curve.delta(epsilon) == approx(exact.delta(epsilon), rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"failure": 0.6}, "failure must be between 1e-300 and 1/2"),
        ({"failure": float("nan")}, "failure must be finite"),
        ({"margin": 5}, r"margin must be at least 12 for the coin to go from failure = 1e-08 to 1 - 1e-08, got 5"),
        ({"margin": 2.5}, "margin must be a whole number"),
        ({"margin": 10**10}, "margin must be at most 1000000000"),
        ({"noise": 0.0}, "noise must be positive"),
        ({"reach": -1.0}, "reach must be positive"),
        ({"otherwise": "else"}, "otherwise 'else' is unknown"),
        ({"noise": None}, "otherwise = 'fallback' needs noise"),
        ({"test_noise": 3.0}, "margin must be at least 54 for the test to pass, got 36"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        GeneralPtr(**PAPER | {"margin": 36} | wrong)


def test_it_is_a_curator_s_answer_about_all_records() -> None:
    with pytest.raises(FedprivError, match="GeneralPtr is a curator's answer about all records"):
        by_hand(GeneralPtr(margin=36, **PAPER), sampling=0.5)
    with pytest.raises(FedprivError, match="trust must be 'central'"):
        by_hand(GeneralPtr(margin=36, **PAPER), trust="local")
    both = [by_hand(GeneralPtr(margin=36, **PAPER), adjacency=own) for own in ("replace", "add-remove")]  # type: ignore[arg-type]
    assert Account((both[0],)).epsilon(1e-5) == Account((both[1],)).epsilon(1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "given",
    [
        {"failure": 1e-3, "margin": 100, "test_noise": 1e-3, "noise": 5.0},
        {"failure": 1e-3, "margin": 100, "test_noise": 1e-3},
        {"failure": 1e-6, "margin": 100, "test_noise": 1e-9, "noise": 5.0},
        {"failure": 1e-6, "margin": 100, "noise": 1e-4, "otherwise": "fallback", "reach": 2.0},
        {"failure": 1e-6, "margin": 5000, "noise": 1e-4},
    ],
    ids=str,
)
def test_where_all_losses_lie_too_deep_everything_is_held_to_be_given_away(given: dict[str, Any]) -> None:
    for rounds in (1, 10):
        found = Account((by_hand(GeneralPtr(**given), rounds=rounds),)).epsilon(1e-2).bounds
        assert found.upper == inf
        assert found.lower < 1e4
