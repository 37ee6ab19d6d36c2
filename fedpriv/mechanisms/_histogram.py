"""A histogram whose bins are not fixed beforehand: of the occupied bins, those whose noisy count passes a threshold.

It is costed as mechanisms are, and not sent as they are: it releases counts of all records, a histogram a coordinate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar

from scipy.special import ndtr

from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.joint import joint
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import above, positive, real
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, units_touched


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Counts of occupied bins plus Gaussian noise; a bin is seen only where its noisy count reaches the threshold.

    A record is in one bin a coordinate. Replacing it takes one from a bin and adds one to another: counts move by √2 in
    ℓ2 norm, and each of the two bins may be occupied in one data set and empty in the other, which shows with the
    probability that 1 + noise passes (docs/proofs/prime.md, section 2).
    """

    noise: Annotated[float, positive, "σ, the noise's standard deviation, in records"]
    threshold: Annotated[float, real, "T, the least noisy count that is published: above one record"]

    effects: ClassVar[Mapping[str, int]] = {"noise": -1, "threshold": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0
    clip: ClassVar[float] = 1.0
    peak: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        above("one record", 1.0, threshold=self.threshold)

    def shift(self, adjacency: Adjacency = "replace") -> float:
        """μ of Gaussian DP of an estimator's noisy counts of one coordinate: how far a neighbour moves them, over σ."""
        return sqrt(units_touched(adjacency)) / self.noise * OUTWARD

    def failure(self, adjacency: Adjacency = "replace") -> float:
        """The chance that one coordinate shows a bin that the neighbour lacks: δ set aside, by the union bound."""
        return min(units_touched(adjacency) * float(ndtr((1 - self.threshold) / self.noise)) * OUTWARD, 1.0)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The curve that certifies one coordinate's histogram: counts under Gaussian noise, and the chance of failure.

        >>> round(Histogram(noise=10, threshold=60).tradeoff().delta(1.0), 9) < 1e-8
        True
        """
        counts, shown = Tradeoff.gaussian(self.shift(adjacency)), Tradeoff.pure(0.0, self.failure(adjacency))
        return joint([(counts, 1), (shown, 1)])
