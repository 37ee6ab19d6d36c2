"""Propose-test-release: the sum of a batch, or its trimmed sum with less noise where a noisy test allows it. [P].

It is costed as mechanisms are, and it is not sent as they are: it releases a whole batch (`fedpriv.ptr`), not a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, hypot, log, log1p
from typing import ClassVar, NamedTuple

import numpy as np

from fedpriv import ptr_renyi
from fedpriv.atoms import Atoms
from fedpriv.errors import FedprivError, positive
from fedpriv.joint import joint
from fedpriv.renyi import Curve
from fedpriv.tradeoff import Enclosure, Tradeoff
from fedpriv.trust import Adjacency
from fedpriv.vectors import OUTWARD

LEAST = 1e-50  # of settings: their inverses are squared
SMALLEST_FAILURE = 1e-300
DEEPEST = 500.0  # nats: where losses reach farther, masses underflow, and a release is held to give everything away
EVERYTHING = Tradeoff.between([1.0, 0.0], [0.0, 1.0])


@dataclass(frozen=True, kw_only=True)
class Ptr:
    """The sum of a batch of records, or its trimmed sum with less noise where a noisy test allows it. [P] Algorithm 3.

    Neighbours differ by one record that is there or not. The noises are multiples of what they hide, so `clip` is the
    unit of the data and no part of the guarantee.
    """

    clip: float  # R, the ℓ2 norm of a record
    bound: float  # τ/R in (0, 1], the local sensitivity proposed for the trimmed sum
    noise: float  # σ: standard deviation σR on the sum, στ on the trimmed sum
    test_noise: float  # b, the scale of the test's Laplace noise, in records
    failure: float  # δ₀, the chance that a test passes which should not

    effects: ClassVar[Mapping[str, int]] = {"noise": -1, "test_noise": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0

    def __post_init__(self) -> None:
        positive(clip=self.clip, bound=self.bound, noise=self.noise)
        positive(test_noise=self.test_noise, failure=self.failure)
        for name in ("bound", "noise", "test_noise"):
            if not (value := getattr(self, name)) >= LEAST:
                raise FedprivError(f"{name} must be at least {LEAST:g}, got {value:g}")
        if not self.bound <= 1:
            raise FedprivError(f"bound is the ratio τ/R, in (0, 1], got {self.bound} (for τ = 2 and R = 3 it is 0.667)")
        if not SMALLEST_FAILURE <= self.failure <= 0.5:
            raise FedprivError(f"failure must be between {SMALLEST_FAILURE:g} and 1/2, got {self.failure}")

    @property
    def peak(self) -> float:
        """The largest coordinate of a record."""
        return self.clip

    @property
    def limit(self) -> float:
        """τ in the data's units."""
        return self.bound * self.clip

    @property
    def threshold(self) -> float:
        """What Laplace noise alone exceeds with probability δ₀: b·ln(1/2δ₀)."""
        return -self.test_noise * log(2 * self.failure)

    @property
    def enough(self) -> int:
        """The least whole Δ̂ that passes: noise rounded to a whole number reaches it with a chance of at most δ₀."""
        return ceil(self.threshold * OUTWARD + 0.5)

    @property
    def mu(self) -> float:
        """A Gaussian-DP parameter: of test and sum together, or of the branch that should not have been taken."""
        tested = hypot(Tradeoff.laplace(1 / self.test_noise).mu, 1 / self.noise) if self.bound < 1 else 0.0
        return max(tested, 1 / (self.noise * self.bound)) * OUTWARD

    @property
    def cases(self) -> Cases:
        """The curves of the two kinds of neighbours."""
        return _cases(float(self.noise), float(self.bound), float(self.test_noise), float(self.failure))

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The lower convex hull of both cases, whatever the length of the records.

        >>> curve = Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5).tradeoff()
        >>> round(curve.epsilon(1e-5), 4)
        0.5226
        """
        check_adjacency(adjacency)
        return self.cases.either

    def renyi(self, rounds: int) -> Curve:
        """Theorem 4.3 for each of `rounds` releases."""
        return lambda alpha: rounds * ptr_renyi.theorem_4_3(self, alpha) * OUTWARD


class Cases(NamedTuple):
    """What neighbours can be told apart by; data that attain each of the first two exist, so they are also witnesses.

    passes: the margin of neither, or of one only, is 0. The margins differ by at most 1, and either branch moves by at
    most one noise: Lap(0, b) × N(0, σ) against Lap(1, b) × N(1, σ), the Laplace noise left out where τ = R, for then
    the margin never moves. fails: both margins are 0, so the test says nothing, and with probability δ₀ the trimmed
    sum moves by R under noise στ: (1 − δ₀)·N(σ) + δ₀·N(σ·bound) against its shift by 1, the branch being visible.
    """

    passes: Tradeoff
    fails: Tradeoff
    either: Tradeoff


@lru_cache(maxsize=16)
def _cases(noise: float, bound: float, test_noise: float, failure: float) -> Cases:
    summed = Tradeoff.gaussian(1 / noise)
    if bound == 1:
        return Cases(summed, summed, summed)
    if (
        1 / test_noise + _reach(1 / noise) > DEEPEST
    ):  # test or sum held to give everything away; they do as `summed` does
        return Cases(summed, summed, EVERYTHING)
    passes = joint([(Tradeoff.laplace(1 / test_noise), 1), (summed, 1)])
    fails = _visible(summed, Tradeoff.gaussian(1 / (noise * bound)), failure)
    return Cases(passes, fails, passes.hull(fails))


def _visible(often: Tradeoff, seldom: Tradeoff, chance: float) -> Tradeoff:
    """One of two Gaussian releases, the second with a chance that the data do not change, and seen to be taken."""
    held = EVERYTHING if _reach(seldom.mu) > DEEPEST else seldom

    def together(one: Atoms, other: Atoms) -> Atoms:
        return Atoms.sorted(
            np.concatenate((one.log_p + log1p(-chance), other.log_p + log(chance))),
            np.concatenate((one.log_q + log1p(-chance), other.log_q + log(chance))),
            np.concatenate((one.loss, other.loss)),
            2 * max(one.error, other.error),
        )

    return Tradeoff(Enclosure(together(often.above, held.above), together(often.below, seldom.below)))


def _reach(mu: float) -> float:
    """The largest loss at which either side of a Gaussian pair has a mass that floats hold."""
    return (37 + mu / 2) * mu


def check_adjacency(adjacency: Adjacency) -> None:
    """Refuse neighbours that [P] does not have."""
    if adjacency != "add-remove":
        raise FedprivError(f"Ptr is costed for neighbours by add-remove, as its test counts them, not by {adjacency}")
