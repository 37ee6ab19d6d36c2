"""Propose-test-release: the sum of a batch, or its trimmed sum with less noise where a noisy test allows it. [P].

It is costed as mechanisms are, and it is not sent as they are: it releases a whole batch (`fedpriv.releases.ptr`),
not a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, hypot, log
from typing import Annotated, ClassVar

from fedpriv.bounds.renyi import Curve
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, limited, positive
from fedpriv.mechanisms import ptr_renyi
from fedpriv.mechanisms.ptr_pairs import Seen, log_passing, ptr_cases
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

LEAST = 1e-50
SMALLEST_FAILURE = 1e-300
INVERTIBLE = limited(least=LEAST)  # inverses are squared
RATIO = limited("is the ratio τ/R, in (0, 1], 0.667 for τ = 2 and R = 3", most=1)
Failure = Annotated[
    float,
    positive,
    limited(f"must be between {SMALLEST_FAILURE:g} and 1/2", least=SMALLEST_FAILURE, most=0.5),
    "δ₀, the chance that a test passes which should not",
]
TestNoise = Annotated[float, positive, INVERTIBLE, "b, the scale of the test's Laplace noise, in records"]


@dataclass(frozen=True, kw_only=True)
class Ptr:
    """The sum of a batch of records, or its trimmed sum with less noise where a noisy test allows it. [P] Algorithm 3.

    Neighbours differ by one record that is there or not. The noises are multiples of what they hide, so `clip` is the
    unit of the data and no part of the guarantee.
    """

    clip: Annotated[float, positive, "R, the ℓ2 norm of a record"]
    bound: Annotated[float, positive, INVERTIBLE, RATIO, "τ/R, the local sensitivity proposed for the trimmed sum"]
    noise: Annotated[float, positive, INVERTIBLE, "σ: standard deviation σR on the sum, στ on the trimmed sum"]
    test_noise: TestNoise
    failure: Failure

    effects: ClassVar[Mapping[str, int]] = {"noise": -1, "test_noise": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of a record's gradient that propose-test-release sums: its norm bound R."""
        return self.clip

    @property
    def limit(self) -> float:
        """τ in the data's units: the norm that records of the trimmed sum keep to."""
        return self.bound * self.clip

    @property
    def threshold(self) -> float:
        """The margin that Laplace noise alone exceeds with probability δ₀: b·ln(1/2δ₀)."""
        return -self.test_noise * log(2 * self.failure)

    @property
    def enough(self) -> int:
        """The least whole noisy margin Δ̂ that passes the test: noise alone reaches it with a chance of at most δ₀."""
        return ceil(self.threshold * OUTWARD + 0.5)

    @property
    def mu(self) -> float:
        """A Gaussian-DP μ of a release, for the accountant: of test and sum, or of the branch wrongly taken."""
        tested = hypot(Tradeoff.laplace(1 / self.test_noise).mu, 1 / self.noise) if self.bound < 1 else 0.0
        return max(tested, 1 / (self.noise * self.bound)) * OUTWARD

    def passing(self, margin: int) -> float:
        """The chance that the test passes, and the trimmed sum is released, at a margin.

        >>> round(Ptr(clip=1, bound=0.5, noise=1, test_noise=5, failure=1e-5).passing(55), 2)
        0.55
        """
        return exp(log_passing(self.test_noise, self.enough, margin)[0])

    def tradeoff(self, adjacency: Adjacency = "add-remove", seen: Seen = "margin") -> Tradeoff:
        """The curve that certifies a release of any length of records: where Δ̂ is seen, or the branch alone.

        >>> ptr = Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5)
        >>> round(ptr.tradeoff().epsilon(1e-5), 4), round(ptr.tradeoff(seen="branch").epsilon(1e-5), 4)
        (0.5226, 0.5195)
        """
        check_adjacency(adjacency)
        return ptr_cases(self, seen).either

    def renyi(self, rounds: int) -> Curve:
        """Rényi divergences of `rounds` releases by [P] Theorem 4.3, one of the accountant's routes."""
        return lambda alpha: rounds * ptr_renyi.theorem_4_3(self, alpha) * OUTWARD


def check_adjacency(adjacency: Adjacency) -> None:
    """Refuse an event of propose-test-release for neighbours that [P] does not have: add-remove only."""
    if adjacency != "add-remove":
        raise FedprivError(f"Ptr is costed for neighbours by add-remove, as its test counts them, not by {adjacency}")
