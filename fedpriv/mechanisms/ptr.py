"""Propose-test-release: the sum of a batch, or its trimmed sum with less noise where a noisy test allows it. [P].

It is costed as mechanisms are, and it is not sent as they are: it releases a whole batch (`fedpriv.ptr`), not a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, hypot, log
from typing import ClassVar

from fedpriv import ptr_renyi
from fedpriv.errors import FedprivError, positive
from fedpriv.ptr_pairs import Seen, cases, log_passing
from fedpriv.renyi import Curve
from fedpriv.tradeoff import Tradeoff
from fedpriv.trust import Adjacency
from fedpriv.vectors import OUTWARD

LEAST = 1e-50  # of settings: their inverses are squared
SMALLEST_FAILURE = 1e-300


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

    def passing(self, margin: int) -> float:
        """The chance that a test passes at a margin.

        >>> round(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5).passing(55), 2)
        0.55
        """
        return exp(log_passing(self.test_noise, self.enough, margin)[0])

    def tradeoff(self, adjacency: Adjacency = "add-remove", seen: Seen = "margin") -> Tradeoff:
        """What dominates all neighbours, whatever the length of the records: where Δ̂ is seen, or the branch alone.

        >>> ptr = Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5)
        >>> round(ptr.tradeoff().epsilon(1e-5), 4), round(ptr.tradeoff(seen="branch").epsilon(1e-5), 4)
        (0.5226, 0.5195)
        """
        check_adjacency(adjacency)
        return cases(self, seen).either

    def renyi(self, rounds: int) -> Curve:
        """Theorem 4.3 for each of `rounds` releases."""
        return lambda alpha: rounds * ptr_renyi.theorem_4_3(self, alpha) * OUTWARD


def check_adjacency(adjacency: Adjacency) -> None:
    """Refuse neighbours that [P] does not have."""
    if adjacency != "add-remove":
        raise FedprivError(f"Ptr is costed for neighbours by add-remove, as its test counts them, not by {adjacency}")
