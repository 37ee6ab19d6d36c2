"""PRIME-HT: PRIME where all that is known is a bound on the covariance. [M] Algorithms 3, 14, 15 and 16."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar

from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv.accounting.event import Event
from fedpriv.errors import above, positive, real, whole
from fedpriv.estimation._course import eigenvalue_of_chance
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._matrix_weights import Weighing, weighted_filtering
from fedpriv.estimation._settings import (
    Composed,
    Corrupted,
    Delta,
    Epsilon,
    Held,
    Interactive,
    LargestDeviation,
    Recentrings,
)
from fedpriv.estimation.plan import Extent, Plan, carried_out, planned_estimate
from fedpriv.estimation.prime import accesses_of
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class PrimeHeavyTailed:
    """The mean of records with covariance at most scale²·I, a share of them corrupted. [M] Algorithm 3, Theorem 9.

    Neighbours have one record replaced, n being public. Its error is of the order √α, where `Prime`'s is α√ln(1/α).

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> data = 7 + rng.standard_t(3, (50_000, 3)) / 3**0.5
    >>> data[:2500] += 20
    >>> found = PrimeHeavyTailed(epsilon=5, delta=1e-5, corruption=0.05).estimate(data, rng)
    >>> bool(np.abs(found.mean - 7).max() < 0.3), found.epsilon.upper <= 5
    (True, True)
    """

    epsilon: Epsilon
    delta: Delta
    corruption: Corrupted
    scale: LargestDeviation = 1.0
    bound: Held = None
    composition: Composed = "certified"
    interactive: Interactive = False
    constant: Annotated[float, real, "C: filtering ends at a variance of C in every direction: above 1"] = 1.5
    steps: Annotated[int, whole, "T₁·T₂, filterings at most"] = 4
    sharpness: Annotated[float, positive, "of the weights; the paper's proof has 1/(100·(0.1/C + 1.05))"] = 1.0
    recentrings: Recentrings = 1
    reach: Annotated[float, positive, "the ball's radius is (reach/√α + 2)·√d; the paper's is 25·√(d/α)"] = 1.0
    groups: Annotated[int, whole, "random groups whose medians' median is the centre; the paper's 200·ln(2/ζ)"] = 9

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)
        above("the variance of honest records", 1.0, constant=self.constant)

    def extent(self, n: int, d: int) -> Extent:
        """How far records of bounded covariance reach, for PRIME-HT's ball and histograms.

        A share of at most α/reach² is farther than reach·√(d/α) from the mean, by Chebyshev's inequality.

        Three in four are within two deviations in a coordinate, so of two bins four deviations wide one has 3/8.
        """
        return Extent((self.reach / sqrt(self.corruption) + 2) * sqrt(d), width=4.0, fullest=0.375, groups=self.groups)

    def plan(self, n: int, d: int) -> Plan:
        """All that PRIME-HT knows before looking at n records of d numbers: region, noise and releases."""
        return planned_estimate(self, accesses_of(self.steps, self.recentrings), self.extent, n, d)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """Every access of PRIME-HT to n records of d numbers, as charged; raises where n is too small."""
        return self.plan(n, d).events

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """PRIME-HT's private and robust mean of the records, n × d, or the check that failed; and its cost."""
        records = records_of(data)
        plan = self.plan(*records.shape)
        rule = Weighing(
            corruption=self.corruption, level=self.constant + eigenvalue_of_chance(plan), honest=0.0,
            shrunk=2 / 3, sharpness=self.sharpness, steps=self.steps, recentrings=self.recentrings,
        )  # fmt: skip
        return carried_out(self, plan, records, rng, lambda curator: weighted_filtering(curator, plan, rule))
