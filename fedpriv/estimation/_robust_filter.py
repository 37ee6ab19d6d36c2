"""The filter that private ones are made of, without privacy. [M] Algorithm 4, Proposition 2.1."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv.accounting.event import Event
from fedpriv.errors import positive, whole
from fedpriv.estimation._centres import unprotected, usable
from fedpriv.estimation._estimate import Estimate
from fedpriv.estimation._filters import Filter, thinned
from fedpriv.estimation._settings import Corrupted, Deviation
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class RobustFilter:
    """The mean after filtering along the first eigenvector until no direction stands out: robust, and not private.

    The cut is a random share of the largest score there is.

    >>> rng = np.random.default_rng(1)
    >>> data = rng.normal(7, 1, (20_000, 3))
    >>> data[:1000] += 5
    >>> bool(np.abs(RobustFilter(corruption=0.05).estimate(data, rng).mean - 7).max() < 0.1)
    True
    """

    corruption: Corrupted
    scale: Deviation = 1.0
    constant: Annotated[float, positive, "C: filtering ends at an excess variance of C·α·ln(1/α)"] = 0.5
    steps: Annotated[int, whole, "filterings at most"] = 1000

    private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """No accesses to charge for `fedpriv estimate`: this estimator of the robust mean hides nothing."""
        return ()

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The mean of the records left once no direction stands out: robust, without privacy. [M] Algorithm 4."""
        points = usable(data) / self.scale
        level = self.constant * self.corruption * log(1 / self.corruption)
        most = ceil(2 * self.corruption * len(points))
        kept = np.ones(len(points), dtype=bool)
        for step in range(self.steps + 1):
            left = points[kept]
            mean = left.mean(axis=0)
            values, vectors = np.linalg.eigh((left - mean).T @ (left - mean) / len(points))
            if values[-1] - 1 < level or step == self.steps:
                break
            scores = Filter(shape=vectors[:, -1], centre=mean, cut=0.0, most=most).scores(points)
            thinner = thinned(points, scores, kept, float(rng.random()) * scores[kept].max(), most)
            if not thinner.any():
                break
            kept = thinner
        return unprotected(self.scale * mean, f"{kept.sum():,} of {len(points):,} records were left")
