"""Who holds the records and answers queries about them with noise: nobody else touches them after the range is known.

The set that filters leave is never released; what is released is a noisy answer about it, and the next filter is a
function of released answers. In the interactive form every answer filters all records anew; the centralised form
remembers what the filters so far have left. Both ask the same generator for the same noise, so their answers are the
same. [M] section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from numpy.random import Generator

from fedpriv._base.arrays import Mask, Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.estimation import _threshold as threshold
from fedpriv.estimation import moments
from fedpriv.estimation._filters import Filter, remaining
from fedpriv.estimation.moments import Moments
from fedpriv.randomness.grid import FineGrid


@dataclass(kw_only=True)
class Curator:
    """Clipped records, the noise of every answer, and the answers given so far by name."""

    points: Vector  # in the ball of `radius` about 0
    radius: float
    mus: dict[str, float]  # sensitivity over noise, by the name of the access
    rng: Generator
    interactive: bool = False
    made: list[str] = field(default_factory=list)
    filters: tuple[Filter, ...] = ()  # those that have left `kept`
    kept: Mask | None = None

    def moments(self, filters: tuple[Filter, ...]) -> Moments:
        """One private access: noisy size, mean and covariance of the records that the filters leave."""
        self.made.append("moments")
        noise = moments.moment_sensitivity(self.radius, len(self.points)) / self.mus["moments"]
        unit = moments.moment_unit(self.radius, len(self.points), noise)
        with one_thread():
            exact = moments.lifted_sum(self.points, self._remaining(filters), self.radius, unit)
        noisy = exact + moments.symmetric_noise(len(exact), noise / unit**2, self.rng)
        return Moments.of(noisy * unit**2, self.radius)

    def scores(self, filters: tuple[Filter, ...], asked: Filter, lower: Vector) -> Vector:
        """One private access: noisy counts of the records left by the filters, by their score under another one."""
        self.made.append("scores")
        exact = threshold.counts(asked.scores(self.points), self._remaining(filters), lower)
        noise = threshold.SENSITIVITY / self.mus["scores"]
        fine = FineGrid.of(1.0, noise)
        return fine.noisy(fine.whole(exact), noise, 2, self.rng)

    def _remaining(self, filters: tuple[Filter, ...]) -> Mask:
        """Which records the filters leave, for the curator's answers: found anew, or from what it remembers."""
        known = 0 if self.interactive or self.kept is None else len(self.filters)
        if known and not (len(filters) >= known and all(a is b for a, b in zip(self.filters, filters, strict=False))):
            known = 0
        self.kept = remaining(self.points, filters[known:], self.kept if known else None)
        self.filters = filters
        return self.kept
