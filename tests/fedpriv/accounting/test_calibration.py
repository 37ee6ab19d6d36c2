"""Every setting that can be free, found for a target, and accounted again: never over it, and close below."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tried import TRIED

from fedpriv.accounting import calibration
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.errors import FedprivError, Unreachable
from fedpriv.mechanisms import MECHANISMS, settings_of

VECTOR = {"dimension": 10_000, "geometry": "l2"}
BOX = {"dimension": 30, "geometry": "linf"}
CROWD = {"trust": "secure-aggregation", "clients": 500}
Case = tuple[str, dict[str, Any], str, dict[str, Any]]

REAL: list[Case] = [
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 1000}),
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 1000, **VECTOR}),
    ("StochasticSign", {"clip": 1, "peak": 0.1}, "scale", {"rounds": 1000, **VECTOR}),
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 20, **BOX}),
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 100, "sampling": 0.05}),
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 100, **CROWD}),
    ("StochasticSign", {"clip": 1}, "scale", {"rounds": 100, **CROWD, **VECTOR}),
    ("StochasticSign", {"scale": 50}, "clip", {"rounds": 1000}),
    ("StochasticSign", {"clip": 1, "scale": 5}, "peak", {"rounds": 100}),
    ("Binomial", {"clip": 1, "trials": 16}, "scale", {"rounds": 1000}),
    ("Binomial", {"clip": 1, "trials": 16}, "scale", {"rounds": 1000, **VECTOR}),
    ("Binomial", {"scale": 500, "trials": 4}, "clip", {"rounds": 1000}),
    ("Cldp", {"clip": 1}, "epsilon", {"rounds": 1000}),
    ("NoisySign", {"clip": 1}, "noise", {"rounds": 1000}),
    ("NoisySign", {"clip": 1}, "noise", {"rounds": 1000, **VECTOR}),
    ("NoisySign", {"noise": 100}, "clip", {"rounds": 1000}),
    ("Ternary", {"clip": 1, "spread": 4}, "scale", {"rounds": 1000}),
    ("Ternary", {"clip": 1, "spread": 4}, "scale", {"rounds": 100, **VECTOR}),
    ("Ternary", {"clip": 1, "scale": 200}, "spread", {"rounds": 100}),
    ("Ternary", {"spread": 40, "scale": 200}, "clip", {"rounds": 1000}),
    ("DiscreteGaussian", {"clip": 1, "levels": 8}, "noise", {"rounds": 1000}),
    ("DiscreteGaussian", {"clip": 1, "levels": 100}, "noise", {"rounds": 10, **VECTOR}),
    ("DiscreteGaussian", {"noise": 40, "levels": 8}, "clip", {"rounds": 1000}),
    ("Skellam", {"clip": 1, "levels": 8}, "noise", {"rounds": 1000}),
    ("Skellam", {"clip": 1, "levels": 8}, "noise", {"rounds": 100, **CROWD}),
    ("Skellam", {"noise": 40, "levels": 8}, "clip", {"rounds": 1000}),
    ("Gaussian", {"clip": 1}, "noise", {"rounds": 1000}),
    ("Gaussian", {"clip": 1}, "noise", {"rounds": 1000, **VECTOR, "adjacency": "replace"}),
    ("Gaussian", {"clip": 1}, "noise", {"rounds": 1000, "sampling": 0.01}),
    ("Gaussian", {"noise": 3}, "clip", {"rounds": 1000}),
    ("Laplace", {"clip": 1}, "noise", {"rounds": 1000}),
    ("Laplace", {"clip": 1}, "noise", {"rounds": 20, **BOX}),
    ("Laplace", {"noise": 50}, "clip", {"rounds": 1000}),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "high": 0.6, "shape": "sine"}, "low", {"rounds": 1000}),
    ("ShapedBinomial", {"clip": 1, "trials": 4, "low": 0.4}, "high", {"rounds": 1000}),
]
# Ternarize reaches no ε at all until its δ falls below the target's and then ε = 0: its ε jumps from ∞ to 0, so no
# scale comes close to a target. It is tested for staying under it.
WHOLE: list[Case] = [
    ("Binomial", {"clip": 1, "scale": 1000}, "trials", {"rounds": 1000}),
    ("Binomial", {"clip": 1, "scale": 100}, "trials", {"rounds": 100, **VECTOR}),
    ("ShapedBinomial", {"clip": 1, "low": 0.4995, "high": 0.501, "shape": "root"}, "trials", {"rounds": 100}),
    ("BinomialNoise", {"clip": 1, "levels": 2}, "trials", {"rounds": 100}),
    ("BinomialNoise", {"clip": 1, "levels": 2, "bias": 0.3}, "trials", {"rounds": 10}),
    ("BinomialNoise", {"clip": 1, "trials": 200_000}, "levels", {"rounds": 100}),
]
for own in TRIED:  # each setting with an effect of a kind that no case above names
    kept = {name: value for name, value in settings_of(own).items() if name != "peak"}
    if type(own).__name__ not in {kind for kind, *_ in REAL + WHOLE} | {"Ternarize"}:
        for free in sorted(own.effects.keys() & kept.keys()):
            given = {name: value for name, value in kept.items() if name != free}
            cases = WHOLE if isinstance(kept[free], int) else REAL
            cases.append((type(own).__name__, given, free, {"rounds": 1000}))


def calibrate(
    kind: str, given: dict[str, Any], *, epsilon: float, delta: float, free: str | None = None, **facts: Any
) -> Any:  # fmt: skip
    return calibration.calibrate(
        kind, given, lambda own: by_hand(own, **facts), epsilon=epsilon, delta=delta, free=free
    )


def cost(kind: str, given: dict[str, Any], release: dict[str, Any], delta: float = 1e-5) -> float:
    return Account((by_hand(mechanism=MECHANISMS.made(kind, given), **release),)).epsilon(delta).bounds.upper


def named(value: Any) -> str:
    return "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("kind", "given", "free", "release"), REAL, ids=named)
def test_a_real_setting_meets_the_target_closely_from_below(
    kind: str, given: dict[str, Any], free: str, release: dict[str, Any]
) -> None:
    started = time.perf_counter()
    mechanism, found = calibrate(kind, given, epsilon=2, delta=1e-5, free=free, **release)
    seconds = time.perf_counter() - started
    assert 1.99 <= found.bounds.upper <= 2
    assert cost(kind, settings_of(mechanism), release) == pytest.approx(found.bounds.upper, rel=1e-12)
    assert found.bounds.lower <= found.bounds.upper
    assert {name: settings_of(mechanism)[name] for name in given if name != free} == {
        name: given[name] for name in given if name != free
    }
    assert seconds < 3 * (2 if "clients" in release else 1)


@pytest.mark.parametrize(("kind", "given", "free", "release"), WHOLE, ids=named)
def test_the_next_whole_number_passes_the_target(
    kind: str, given: dict[str, Any], free: str, release: dict[str, Any]
) -> None:
    started = time.perf_counter()
    mechanism, found = calibrate(kind, given, epsilon=2, delta=1e-5, free=free, **release)
    seconds = time.perf_counter() - started
    value = settings_of(mechanism)[free]
    assert isinstance(value, int)
    assert found.bounds.upper <= 2
    assert cost(kind, given | {free: value + MECHANISMS[kind].effects[free]}, release) > 2
    assert seconds < 3


def test_every_setting_that_has_an_effect_is_calibrated_here() -> None:
    tried = {(kind, free) for kind, _, free, _ in REAL + WHOLE}
    declared = {(kind, free) for kind, cls in MECHANISMS.items() for free in cls.effects if kind != "Ternarize"}
    assert {(kind, free) for kind, free in declared - tried if free != "peak"} == set()


@pytest.mark.parametrize("delta", [1e-5, 0.3])
def test_ternarize_stays_below_the_target_though_it_cannot_come_close(delta: float) -> None:
    mechanism, found = calibrate("Ternarize", {"clip": 1}, epsilon=2, delta=delta, rounds=10)
    assert found.bounds.upper <= 2
    nearer = settings_of(mechanism) | {"scale": 1 + (mechanism.scale - 1) * 0.98}  # type: ignore[attr-defined]
    assert cost("Ternarize", nearer, {"rounds": 10}, delta) > 2


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 30.0, 500.0])
@pytest.mark.parametrize("kind", ["StochasticSign", "Gaussian"])
def test_small_and_large_targets_are_met(kind: str, epsilon: float) -> None:
    _, found = calibrate(kind, {"clip": 1}, epsilon=epsilon, delta=1e-9, rounds=1000)
    assert 0.995 * epsilon <= found.bounds.upper <= epsilon


def test_a_pure_target_is_met() -> None:
    _, found = calibrate("StochasticSign", {"clip": 1}, epsilon=1, delta=0, rounds=10)
    assert 0.995 <= found.bounds.upper <= 1


UNREACHABLE = [
    ("Gaussian", {"clip": 1}, {"delta": 0.0, "rounds": 10}),
    ("Binomial", {"clip": 1, "scale": 2}, {"delta": 1e-5, "rounds": 1000}),
    ("BinomialNoise", {"clip": 1, "trials": 20}, {"delta": 1e-5, "rounds": 1000}),
    ("Ternary", {"clip": 1, "scale": 5}, {"delta": 1e-5, "rounds": 1000}),
]


@pytest.mark.parametrize(("kind", "given", "target"), UNREACHABLE, ids=named)
def test_a_target_out_of_reach_names_the_best_there_is(
    kind: str, given: dict[str, Any], target: dict[str, Any]
) -> None:
    with pytest.raises(Unreachable, match=r"out of reach: the best that .* gives is") as error:
        calibrate(kind, given, epsilon=0.01, **target)
    assert "\n" not in str(error.value)


def test_the_best_there_is_is_the_least_that_was_found() -> None:
    """Enormous noise is rounded, so that ε grows again: the last one tried is not the best."""
    with pytest.raises(Unreachable, match=r"gives is ε = 0\.005") as error:
        calibrate(
            "Ternary", {"clip": 1, "peak": 0.1, "spread": 8}, epsilon=1e-4, delta=1e-5, rounds=100, dimension=650,
            geometry="l2",
        )  # fmt: skip
    assert 0.005 < error.value.best < 0.006


def test_a_tiny_target_is_not_passed_by_rounding_the_setting() -> None:
    wanted = {"delta": 1e-5, "rounds": 100, "dimension": 650, "geometry": "l2", "trust": "local"}
    _, found = calibrate("Laplace", {"clip": 1}, epsilon=1e-4, **wanted)
    assert found.bounds.upper <= 1e-4


BAD: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("StochasticSign", {"clip": 1}, {"epsilon": 0}, "epsilon must be positive"),
    ("StochasticSign", {"clip": 1}, {"epsilon": -1}, "epsilon must be positive"),
    ("StochasticSign", {"clip": 1}, {"epsilon": float("nan")}, "epsilon must be finite"),
    ("StochasticSign", {"clip": 1}, {"epsilon": float("inf")}, "epsilon must be finite"),
    ("StochasticSign", {"clip": 1}, {"delta": -1}, "delta must be between 0 and 1"),
    ("StochasticSign", {"clip": 1}, {"delta": float("nan")}, "delta must be between 0 and 1"),
    ("StochasticSign", {}, {}, "clip, scale are missing"),
    ("StochasticSign", {"clip": 1, "scale": 2}, {}, "leave out the one to calibrate"),
    ("GeneralPtr", {"failure": 1e-7, "margin": 61}, {}, "one to calibrate, of margin, or say which is free, as --free"),
    ("StochasticSign", {"clip": 1}, {"free": "scal"}, "did you mean 'scale'"),
    ("Cldp", {"epsilon": 1}, {"free": "clip"}, "clip of Cldp cannot be calibrated"),
    ("StochasticSign", {"clip": -1}, {}, "clip must be positive"),
    ("StochasticSign", {"clip": "a"}, {}, "clip must be a number"),
    ("StochasticSign", {"clip": 1, "spred": 2}, {}, "has no setting 'spred'"),
    ("StocasticSign", {"clip": 1}, {}, "did you mean 'StochasticSign'"),
    ("StochasticSign", {"clip": 1}, {"dimension": 5}, "geometry must be given"),
    ("StochasticSign", {"clip": 1}, {"dimension": 0}, "dimension must be at least 1"),
]


@pytest.mark.parametrize(("kind", "given", "target", "said"), BAD, ids=named)
def test_targets_and_settings_that_cannot_be_are_refused(
    kind: str, given: dict[str, Any], target: dict[str, Any], said: str
) -> None:
    with pytest.raises(FedprivError) as error:
        calibrate(kind, given, **({"epsilon": 1.0, "delta": 1e-5} | target))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "given", "free"), [("Ternary", {"clip": 1}, "spread"), ("StochasticSign", {}, "peak")]
)
def test_a_free_setting_needs_the_others(kind: str, given: dict[str, Any], free: str) -> None:
    with pytest.raises(FedprivError, match=r"needs|missing"):
        calibrate(kind, given, epsilon=1, delta=1e-5, free=free)


def test_no_rounds_are_calibrated_to_anything() -> None:
    _, found = calibrate("StochasticSign", {"clip": 1}, epsilon=1, delta=1e-5, rounds=0)
    assert found.bounds == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 60, 1000])
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("Binomial", {"clip": 1, "trials": 16}), ("Binomial", {"clip": 1, "peak": 0.2, "trials": 4}),
        ("StochasticSign", {"clip": 1}), ("Cldp", {"clip": 1}),
    ],
    ids=named,
)  # fmt: skip
def test_a_million_clients_seen_as_a_sum_are_calibrated_in_seconds(
    kind: str, given: dict[str, Any], rounds: int
) -> None:
    start = time.perf_counter()
    crowd = {"trust": "secure-aggregation", "clients": 1_000_000, "dimension": 650, "geometry": "l2", "rounds": rounds}
    _, found = calibrate(kind, given, epsilon=4, delta=1e-5, **crowd)
    assert 2 < found.bounds.upper <= 4
    assert 0 < found.bounds.lower <= found.bounds.upper
    assert time.perf_counter() - start < 30
