"""[M] Algorithm 2, for so few coordinates that every candidate and direction can be looked at.

A candidate's distance is max over directions v of |v·candidate − m_v|, m_v the mean of what 3αn records at either end
of the direction leave. Replacing a record moves m_v by at most the width of what is kept, divided by its number: little
where records are dense at the ends of what is kept. Resilience makes them so ([M] (18)); not all data are.

So that is tested before anything is drawn. The paper tests the resilience R(S) of the best (1 − 2α)n records, a minimum
over subsets that nobody can compute, with Laplace noise of width 3B√d/(nε). Here the width itself is tested, by
propose-test-release: how many records must be replaced before some direction's width passes the proposed one. Order
statistics say so exactly, it changes by one at most from a data set to its neighbour, and the noise on it is Lap(1/ε₁).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError, limited, positive, whole
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._covers import check_dimension, directions, exponential, grid
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._settings import Delta, Epsilon, LargestDeviation
from fedpriv.estimation._tukey import drawn, within
from fedpriv.mechanisms import Laplace
from fedpriv.randomness.grid import FineGrid
from fedpriv.settings import check_fields

_TEST = 0.25  # the share of ε that the test has
_ROUNDED = 2.0**-44  # of the largest number: what sums in pairs, and a distance, are off by at most, twice


@dataclass(frozen=True, kw_only=True)
class TrimmedDistance:
    """A candidate of a grid drawn by its distance to the trimmed means of all directions: [M] Algorithm 2.

    Private, robust to a share `corruption` of records, for 1 to 3 coordinates. ∅ where the records are too sparse at
    the ends of what is kept: `scale` says how wide that may be.
    """

    epsilon: Epsilon
    delta: Delta
    corruption: Annotated[
        float,
        positive,
        limited("must be below 1/6, as 3α is cut off at either end", below=1 / 6),
        "α, the share of records that may be anything",
    ]
    bound: Annotated[float, positive, "of the coordinates of the mean: public"]
    scale: LargestDeviation = 1.0
    spacing: Annotated[float, positive, "of the grid of candidates"] = 0.05
    angles: Annotated[int, whole, "directions that stand for all of them"] = 32

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The trimmed estimator's accesses, as charged: the test, and one draw whose proof fails with chance δ₀."""
        check_dimension(d)
        grid(self.bound, self.spacing, d)
        room, left = self._cut(n) / 2, n - 2 * self._cut(n)
        if not (self._needed < room and left > 0):
            least = max(2 * self._needed / (3 * self.corruption) + 1, 2 / (1 - 6 * self.corruption) + 1)
            raise FedprivError(
                f"TrimmedDistance: n = {n:,} is too few for epsilon = {self.epsilon:g} and corruption = "
                f"{self.corruption:g}: the test asks for {self._needed:.3g} records to spare, of {room:.0f} there can "
                f"be, and {max(left, 0)} would be kept; {ceil(least):,} records would do"
            )
        test = budget.release(Laplace(clip=0.5, noise=1 / (_TEST * self.epsilon)))
        return test, drawn((1 - _TEST) * self.epsilon, self._failure)

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The candidate mean drawn by its distance to all directions' trimmed means, or the test that failed."""
        rows = records_of(data)
        n, d = rows.shape
        events = self.events(n, d)
        rows, ways = within(rows, self.bound + 4 * self.scale), directions(d, self.angles)
        along = np.sort(np.stack([np.vecdot(rows, way) for way in ways]), axis=1)
        noise = 1 / (_TEST * self.epsilon)
        fine = FineGrid.of(1.0, noise)
        spare = float(fine.noisy(fine.whole(stability(along, self._cut(n), self._width)), noise, 1, rng))
        if not spare - fine.step > self._needed:  # rounded noise passes no more often than real noise would
            why = f"the width of what is kept: {spare:.1f} records to spare, {self._needed:.1f} needed"
            return budget.costed(None, events, self.delta, ("width tested",), why)
        means = along[:, self._cut(n) : n - self._cut(n)].mean(axis=1)
        candidates = grid(self.bound, self.spacing, d)
        away = np.zeros(len(candidates))
        for way, mean in zip(ways, means, strict=True):
            np.maximum(away, np.abs(np.vecdot(candidates, way) - mean), out=away)
        reach = sqrt(d) * 2 * (self.bound + 4 * self.scale)
        moved = self._width / (n - 2 * self._cut(n)) + _ROUNDED * reach
        place = exponential((1 - _TEST) * self.epsilon, moved, -away, rng)
        return budget.costed(candidates[place], events, self.delta, ("width tested", "candidate drawn by its distance"))

    @property
    def _width(self) -> float:
        """The width proposed for what trimming keeps in a direction, which the private test holds it to.

        A sub-Gaussian has a share of at most α/2 beyond √(2 ln(2/α)) deviations.
        """
        return 2 * self.scale * sqrt(2 * log(2 / self.corruption))

    @property
    def _needed(self) -> float:
        """Records to spare that the width's test asks for: its noise alone passes it with chance δ₀, ln(1/2δ₀)/ε₁."""
        return max(-log(2 * self._failure), 0.0) / (_TEST * self.epsilon)

    @property
    def _failure(self) -> float:
        """δ₀, the chance that the width's test passes wrongly: a little below δ, for the accountant's rounding."""
        return self.delta * 0.999

    def _cut(self, n: int) -> int:
        """How many of n records are trimmed at either end of a direction: ⌈3αn⌉."""
        return ceil(3 * self.corruption * n)


def stability(along: Vector, cut: int, width: float) -> int:
    """How many records must be replaced before the width that trimming keeps passes `width` in some sorted row.

    The width after k replacements is at most x₍n−cut+1+k₎ − x₍cut−k₎.

    Replacing one of n numbers moves the sum of the middle n − 2·cut by at most x₍n−cut+1₎ − x₍cut₎: each order
    statistic becomes its neighbour. After k replacements no order statistic has passed the one k places farther out.

    >>> stability(np.array([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]), 2, 5.0), stability(np.zeros((1, 8)), 2, 1.0)
    (1, 2)
    """
    n = along.shape[1]
    for k in range(cut):
        if not (along[:, n - cut + k] - along[:, cut - 1 - k]).max() <= width:
            return k
    return cut
