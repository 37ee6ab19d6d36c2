"""The private means that are one noisy sum of clipped records: private, not robust.

Replacing a record moves the sum of vectors of norm at most r by 2r, so noise σ on every coordinate of the sum makes it
2r/σ-GDP, whatever the number of coordinates (`fedpriv.mechanisms.Gaussian` under replacement). Two computed sums may be
off by γnr each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._clipping import Region, blocks, clipped, rounding
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._range import centre
from fedpriv.estimation._settings import Delta, Epsilon, Held, LargestDeviation
from fedpriv.estimation.plan import RANGE_SHARE
from fedpriv.randomness.grid import FineGrid
from fedpriv.settings import check_fields

_OFF = 0.25  # deviations that the middle may be off in each coordinate, corruption and noise together
_ROOM = 4  # times the threshold: so many records make a fullest bin that passes for certain


@dataclass(frozen=True, kw_only=True)
class DpMean:
    """The private mean of Kamath, Li, Singhal, Ullman 2019 (arXiv 1805.00216), [M]'s "DP Mean", with its noise.

    Histograms find the middle of each coordinate, records are clipped to the ball about it that Gaussian ones do not
    leave, and their mean is released. Where a `bound` is known beforehand, an ℓ2 norm that all records are held to, it
    takes the histograms' place.
    """

    epsilon: Epsilon
    delta: Delta
    scale: LargestDeviation = 1.0
    bound: Held = None

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """Every access of DP Mean to n records of d numbers, as charged: a histogram a coordinate, and the mean."""
        plan = self._split(d)
        mean = noisy_sum(self._radius(n, d), plan.mus["mean"], n, d)
        if plan.histogram is None:
            return (mean,)
        if not n >= _ROOM * plan.histogram.threshold:
            raise FedprivError(
                f"DpMean: n = {n:,} is too few for epsilon = {self.epsilon:g} and delta = {self.delta:g} in {d} "
                f"coordinates: {ceil(_ROOM * plan.histogram.threshold):,} records would do, or a known bound"
            )
        return budget.release(plan.histogram, dimension=d), mean

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """DP Mean's noisy mean of the records, n × d, or the range that no histogram shows; and its cost."""
        rows = records_of(data)
        n, d = rows.shape
        events, plan = self.events(n, d), self._split(d)
        middle: Vector | None = np.zeros(d)
        if plan.histogram is not None:
            middle = centre(rows, plan.histogram, self.scale, 1, rng)
        if middle is None:
            return budget.costed(None, events, self.delta, ("range",), "range: a coordinate has no bin that passes")
        mean = noisy_mean(rows, middle, self._radius(n, d), plan.mus["mean"], rng)
        return budget.costed(mean, events, self.delta, ("mean",) if plan.histogram is None else ("range", "mean"))

    def _split(self, d: int) -> budget.Budget:
        """The noise of DP Mean's one sum, and of the histograms that find its middle where no bound is known."""
        ranged = RANGE_SHARE if self.bound is None else 0.0
        return budget.split(
            [budget.Access("mean", 1, 1 - ranged)], range_share=ranged, dimension=d,
            epsilon=self.epsilon, delta=self.delta, composition="certified",
        )  # fmt: skip

    def _radius(self, n: int, d: int) -> float:
        """The radius that DP Mean clips n records of d numbers to: the bound, or what Gaussian ones do not leave."""
        return self.bound or self.scale * ((1 + _OFF) * sqrt(d) + sqrt(2 * log(n)))


def noisy_sum(radius: float, mu: float, n: int, d: int) -> Event:
    """The event of one sum of n records within a ball, under noise that makes it μ-GDP: DP Mean's, or COINPRESS'."""
    return budget.release(budget.gaussian(2 * radius * (1 + rounding(n)), mu), dimension=d)


def noisy_mean(rows: Vector, middle: Vector, radius: float, mu: float, rng: Generator) -> Vector:
    """The private mean of rows clipped to a ball about `middle`, their sum on a grid under noise for μ-GDP."""
    region = Region(centre=middle, radius=radius, scale=1.0)
    noise = budget.gaussian(2 * radius * (1 + rounding(len(rows))), mu).noise
    fine = FineGrid.of(radius, noise, len(rows))
    total = np.sum([fine.whole(clipped(rows[block], region)).sum(axis=0) for block in blocks(len(rows))], axis=0)
    return np.asarray(middle + fine.noisy(total, noise, 2, rng) / len(rows))
