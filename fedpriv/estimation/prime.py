"""PRIME: the mean of mostly honest records, private and robust. [M] Algorithms 9 to 13; docs/estimation.md says how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv.accounting.event import Event
from fedpriv.errors import positive, whole
from fedpriv.estimation._budget import Access
from fedpriv.estimation._course import excess_allowed
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._matrix_weights import Weighing, weighted_filtering
from fedpriv.estimation._settings import Composed, Corrupted, Delta, Deviation, Epsilon, Held, Interactive, Recentrings
from fedpriv.estimation.plan import SCORES_SHARE, Plan, carried_out, gaussian_extent, planned_estimate
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class Prime:
    """The mean of records with a known covariance scale²·I, a share of them corrupted. [M] Algorithm 9, Theorem 6.

    Neighbours have one record replaced, n being public. `bound` is an ℓ2 norm that all records are held to, where it is
    known beforehand; otherwise the range is found privately, whatever the mean.

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> data = rng.normal(7, 1, (20_000, 3))
    >>> data[:1000] += 5
    >>> found = Prime(epsilon=5, delta=1e-5, corruption=0.05).estimate(data, rng)
    >>> bool(np.abs(found.mean - 7).max() < 0.1), found.epsilon.upper <= 5
    (True, True)
    """

    epsilon: Epsilon
    delta: Delta
    corruption: Corrupted
    scale: Deviation = 1.0
    bound: Held = None
    composition: Composed = "certified"
    interactive: Interactive = False
    constant: Annotated[float, positive, "C: filtering ends at an excess variance of C·α·ln(1/α)"] = 0.5
    steps: Annotated[int, whole, "T₁·T₂, filterings at most"] = 4
    sharpness: Annotated[float, positive, "of the weights; the paper's proof has 1/(100·(0.1/C + 1.01))"] = 1.0
    recentrings: Recentrings = 2

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def plan(self, n: int, d: int) -> Plan:
        """All that PRIME knows before looking at n records of d numbers: region, noise and releases."""
        accesses = accesses_of(self.steps, self.recentrings)
        return planned_estimate(self, accesses, gaussian_extent, n, d)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """Every access of PRIME to n records of d numbers, as charged; raises where n is too small for the budget."""
        return self.plan(n, d).events

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """PRIME's private and robust mean of the records, n × d, or the check that failed; and its cost."""
        records = records_of(data)
        plan = self.plan(*records.shape)
        rule = Weighing(
            corruption=self.corruption, level=excess_allowed(self.constant, plan, self.corruption), honest=1.0,
            shrunk=0.5, sharpness=self.sharpness, steps=self.steps, recentrings=self.recentrings,
        )  # fmt: skip
        return carried_out(self, plan, records, rng, lambda curator: weighted_filtering(curator, plan, rule))


def accesses_of(steps: int, recentrings: int) -> list[Access]:
    """The accesses of PRIME's plan: moments at first and after each filtering or recentring, scores a filtering."""
    return [Access("moments", 1 + steps + recentrings, 1 - SCORES_SHARE), Access("scores", steps, SCORES_SHARE)]
