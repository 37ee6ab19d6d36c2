"""COINPRESS: a ball that is known to hold the mean, made smaller step by step. Biswas, Dong, Kamath, Ullman 2020.

arXiv 2006.06618, Algorithms 1 and 2, with the constants of the authors' released code, whose figures the tests meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import positive, whole
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._noisy_means import noisy_mean, noisy_sum
from fedpriv.estimation._settings import Delta, Epsilon, LargestDeviation
from fedpriv.settings import check_fields

_UNLUCKY = 0.01  # β: how often a record, or the next ball, may lie farther out than is reckoned with
_ACROSS = 3.0  # deviations that a record may lie off along the line to the mean: the authors' √(2 ln(1/β))


@dataclass(frozen=True, kw_only=True)
class Coinpress:
    """The mean of records of covariance at most scale²·I, known to lie within `bound` of 0. Private, not robust.

    Each step clips the records to a ball that holds them if the mean is where the last step said, and adds noise. The
    last step has three quarters of ρ = μ²/2, the others share the rest.
    """

    epsilon: Epsilon
    delta: Delta
    bound: Annotated[float, positive, "of the norm of the mean: public"]
    steps: Annotated[int, whole, "t, balls that the mean is looked for in, one in the other"] = 2
    scale: LargestDeviation = 1.0

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The plan of COINPRESS, charged before any record is looked at: a noisy sum a step, the radii known."""
        return tuple(noisy_sum(radius, mu, n, d) for radius, mu in self._plan(n, d))

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """COINPRESS' private mean of the records, n × d: the last step's noisy mean, and what all steps cost."""
        rows = records_of(data)
        n, d = rows.shape
        centre: Vector = np.zeros(d)
        for radius, mu in self._plan(n, d):
            centre = noisy_mean(rows, centre, radius, mu, rng)
        made = tuple(f"mean {step} of {self.steps}" for step in range(1, self.steps + 1))
        return budget.costed(centre, self.events(n, d), self.delta, made)

    def _plan(self, n: int, d: int) -> list[tuple[float, float]]:
        """The radius of the ball COINPRESS clips records to, and the μ of its noisy sum, for each step.

        `tail` is the norm that N(0, I) exceeds with probability β at most: Laurent and Massart 2000.
        """
        last, others = (1.0, 0) if self.steps == 1 else (0.75, self.steps - 1)  # shares of μ²
        accesses = [budget.Access(f"{step}", 1, 0.25 / others) for step in range(others)]
        mus = budget.split(
            [*accesses, budget.Access("last", 1, last)], range_share=0.0, dimension=d, epsilon=self.epsilon,
            delta=self.delta, composition="certified",
        ).mus  # fmt: skip
        tail = sqrt(d + 2 * sqrt(d * log(1 / _UNLUCKY)) + 2 * log(1 / _UNLUCKY))
        ball, own, found = self.bound, self.scale * tail, []
        for mu in mus.values():
            # how far from the centre a record may lie whose mean lies within the ball
            radius = min(sqrt(ball**2 + 2 * ball * _ACROSS * self.scale + own**2), ball + own)
            found.append((radius, mu))
            ball = sqrt(self.scale**2 / n + (2 * radius / mu / n) ** 2) * tail
        return found
