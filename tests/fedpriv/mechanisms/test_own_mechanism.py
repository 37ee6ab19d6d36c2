"""A mechanism of one's own: named as module:Class it is tried, costed, drawn from and audited; else refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import by_hand, event_as_data, event_of
from fedpriv.accounting.ledger import Ledger
from fedpriv.auditing.laws import log_ratio
from fedpriv.channel import Channel
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED, MECHANISMS, Ternary
from fedpriv.randomness.exact import bernoulli
from fedpriv.studies.file import parsed_study


@dataclass(frozen=True, kw_only=True)
class Twice:
    """−2 or 2, as StochasticSign(peak=1)."""

    clip: float = 1.0
    scale: float = 3.0

    proof: ClassVar[str] = "the chance of 2 rises with x"
    effects: ClassVar[Mapping[str, int]] = {"scale": -1}
    alphabet: ClassVar[range] = range(-2, 3, 4)
    centre: ClassVar[Fraction] = Fraction(0)
    entropy: ClassVar[float] = 1.0
    bits: ClassVar[float] = 1.0
    peak: ClassVar[float] = 1.0

    def chance(self, x: Any) -> Any:
        return 0.5 + x * (0.5 / self.scale)

    def symbol_law(self, x: float) -> Any:
        plus = self.chance(min(max(x, -1.0), 1.0))
        return np.array([1 - plus, plus])

    def encode(self, x: Any, rng: Generator) -> Any:
        return 4 * bernoulli(self.chance, rng, at=x, within=1.0).view(np.int8) - 2

    def decode(self, total: Any, n: int) -> Any:
        return np.asarray(total, float) * (self.scale / (2 * n))

    def between(self, x: float, y: float) -> Tradeoff:
        return Tradeoff.between(self.symbol_law(x), self.symbol_law(y))

    def tradeoff(self, adjacency: str = "replace") -> Tradeoff:
        return self.between(1.0, -1.0)

    def vector(self, dimension: int, adjacency: str = "replace") -> None:
        return


def variant(monkeypatch: pytest.MonkeyPatch, bases: tuple[type, ...] = (Twice,), **changed: Any) -> Any:
    """A mechanism that differs in this, in a module of its own."""
    module = ModuleType("somebody")
    members = {"__module__": "somebody", "__qualname__": "Mine", **changed}
    module.Mine = dataclass(frozen=True, kw_only=True)(type("Mine", bases, members))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "somebody", module)
    return module.Mine


HERE = f"{__name__}:Twice"
SIGN = MECHANISMS.made("StochasticSign", {"clip": 1.0, "scale": 3.0})


def test_it_costs_what_it_is_and_says_by_whose_word() -> None:
    own = COSTED.made(HERE, {"scale": 3})
    cost = Account((by_hand(own, rounds=10),)).epsilon(1e-5)
    assert cost.bounds == approx(Account((by_hand(SIGN, rounds=10),)).epsilon(1e-5).bounds, rel=1e-9)
    assert f"the worst by the word of {HERE} (the chance of 2 rises with x), composed" in cost.upper_proof


def test_ledgers_name_it_and_read_it_again(tmp_path: Path) -> None:
    event = by_hand(Twice(), geometry="linf", dimension=7)
    assert event_as_data(event)["kind"] == HERE
    assert event_of(event_as_data(event)) == event
    Ledger().add(event).save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json").events == (event,)


def test_a_setting_of_it_is_calibrated() -> None:
    own, cost = calibrate(HERE, {}, lambda each: by_hand(each, rounds=5), epsilon=1.0, delta=1e-5, free="scale")
    assert 0.99 <= cost.bounds.upper <= 1
    assert own.scale > 3


def test_it_is_audited_by_its_own_probabilities() -> None:
    assert log_ratio(Twice(), 1.0, -1.0)(np.array([-2, 2])) == approx(log_ratio(SIGN, 1.0, -1.0)(np.array([-1, 1])))


def test_a_study_names_it() -> None:
    words = 'data.kind = "Digits"\nprivacy = {{ norm = "coordinates", mechanism = {{ kind = "{}", scale = 3.0 }} }}'
    study = parsed_study(words.format(HERE), overrides=["clients.count=9", "run.rounds=2"])
    assert study.privacy.drawn_by == Twice()
    assert study.privacy.promises
    assert not study.privacy.sends_reals


@pytest.mark.parametrize("trust", ["secure-aggregation", "central"])
def test_it_has_no_proof_under_another_trust(trust: Any) -> None:
    clients = 9 if trust == "secure-aggregation" else None
    with pytest.raises(FedprivError, match=r"no certificate under secure|must be 'local', not 'central'"):
        by_hand(Twice(), trust=trust, clients=clients, unit="client")


def test_of_whole_vectors_it_has_that_of_every_coordinate() -> None:
    ball, box = (
        Account((by_hand(Twice(clip=2.0), geometry=geometry, dimension=100),))
        for geometry in ("l2", "linf")  # type: ignore
    )
    assert ball.upper_epsilon(1e-5) == box.upper_epsilon(1e-5)


def lambda_of(value: Any) -> Any:
    return lambda self, *given: value


FAULTY: dict[str, tuple[dict[str, Any], str]] = {
    "no proof": ({"proof": ""}, "has no proof: a sentence"),
    "no alphabet": ({"alphabet": None}, "has no alphabet: the range"),
    "no centre": ({"centre": 0.5}, "has no centre"),
    "no effects": ({"effects": None}, "has no effects"),
    "no law": ({"symbol_law": None}, "has no symbol_law(x)"),
    "a law of three": ({"symbol_law": lambda_of([0.2, 0.3, 0.5])}, "has no 2 probabilities that add up to 1"),
    "a law short of one": ({"symbol_law": lambda_of([0.2, 0.7])}, "has no 2 probabilities that add up to 1"),
    "a law below 0": ({"symbol_law": lambda_of([-0.2, 1.2])}, "has no 2 probabilities that add up to 1"),
    "another curve": ({"between": lambda_of(Tradeoff.gaussian(1.0))}, "has a curve between"),
    "too small a worst": ({"tradeoff": lambda_of(Tradeoff.between([0.6, 0.4], [0.4, 0.6]))}, "apart better, at ε = 0"),
    "one way alone": (
        {"tradeoff": lambda_of(Tradeoff.between([0.0, 1.0], [0.34, 0.66]))}, "apart better, at ε = ",
    ),
    "a bound of vectors": ({"vector": lambda_of(SIGN.vector(3))}, "vector must give None"),
    "other messages": ({"encode": lambda self, x, rng: 4 * rng.integers(0, 2, np.shape(x)) - 2}, "other symbols than"),
    "symbols of another alphabet": ({"encode": lambda self, x, rng: np.zeros(np.shape(x), int)}, "no whole number of"),
    "another shape": ({"encode": lambda self, x, rng: np.full(3, 2)}, "no whole number of"),
    "another generator": (
        {"encode": lambda self, x, rng: Twice.encode(self, x, np.random.default_rng())}, "than the generator",
    ),
    "nothing held": (
        {"encode": lambda self, x, rng: 4 * bernoulli(np.clip(self.chance(x), 0, 1), rng).view(np.int8) - 2},
        "must count as the peak",
    ),
    "another word of who is there": (
        {"tradeoff": lambda self, adjacency="replace": self.between(1.0 if adjacency == "replace" else 0.0, -1.0)},
        "apart better, at ε = ",
    ),
    "a fault": ({"symbol_law": lambda self, x: 1 // 0}, "fails when it is tried: ZeroDivisionError"),
    "a peak past the clip": ({"peak": 3.0}, "must have 0 < peak ≤ clip"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTY)
def test_what_is_not_as_it_says_is_neither_drawn_from_nor_charged(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, said = FAULTY[fault]
    own = variant(monkeypatch, **changed)()
    for refused in (lambda: by_hand(own), lambda: Channel.of("coordinates", own)):
        with pytest.raises(FedprivError) as error:
            refused()
        assert said in str(error.value)
        assert str(error.value).startswith("mechanism somebody:Mine ")
        assert "\n" not in str(error.value)


def test_proofs_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    own = variant(monkeypatch, (Ternary,), proof="as Ternary")(clip=1.0, spread=2.0, scale=4.0)
    with pytest.raises(FedprivError, match="inherits from Ternary, whose proofs are not its own"):
        by_hand(own)


def test_what_no_module_holds_is_refused() -> None:
    @dataclass(frozen=True)
    class Hidden(Twice):
        pass

    with pytest.raises(FedprivError, match="a frozen dataclass at the top of its module"):
        by_hand(Hidden())  # type: ignore[arg-type]
