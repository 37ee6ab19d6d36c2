"""The private Tukey median, for so few coordinates that every candidate can be looked at. [M] appendix I."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.errors import positive, whole
from fedpriv.estimation import _budget as budget
from fedpriv.estimation._covers import check_dimension, directions, exponential, grid
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.estimation._settings import Epsilon
from fedpriv.mechanisms import Exponential
from fedpriv.settings import check_fields

INWARD = 1 - 1e-12  # of ε, so that the accountant's rounding does not take it past the target


@dataclass(frozen=True, kw_only=True)
class TukeyMedian:
    """A candidate of a grid drawn with weight e^{ε·depth/2}: private without a δ, robust, for 1 to 3 coordinates.

    The depth is the least number of records in a closed half space through the candidate. Replacing a record changes
    any such number by one at most, and so the least of them: ε-DP by the exponential mechanism, for any set of
    directions and any grid that do not depend on the data. On a line the depth is exact, else over `angles` directions.
    """

    epsilon: Epsilon
    bound: Annotated[float, positive, "of the coordinates of the mean: public"]
    spacing: Annotated[float, positive, "of the grid of candidates"] = 0.05
    angles: Annotated[int, whole, "directions that stand for all of them"] = 32

    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """The one access of the private Tukey median, as charged; too large a grid of candidates is refused."""
        check_dimension(d)
        grid(self.bound, self.spacing, d)
        return (drawn(INWARD * self.epsilon),)

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The private Tukey median of the records, n × d: a grid's point drawn with weight e^{ε·depth/2}."""
        rows = records_of(data)
        events = self.events(*rows.shape)
        candidates = grid(self.bound, self.spacing, rows.shape[1])
        scores = depths(within(rows, self.bound), candidates, self.angles)
        place = exponential(INWARD * self.epsilon, 1.0, scores, rng)
        return budget.costed(candidates[place], events, 0.0, ("candidate drawn by its depth",))


def depths(rows: Vector, candidates: Vector, angles: int) -> Vector:
    """Each candidate's Tukey depth: the least number of rows in a half space through it, over `angles` directions.

    >>> depths(np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [1.0], [2.0], [2.5]]), 1)
    array([0., 1., 2., 1.])
    """
    least = np.full(len(candidates), float(len(rows)))
    for direction in directions(rows.shape[1], angles):
        along, at = np.sort(np.vecdot(rows, direction)), np.vecdot(candidates, direction)
        above = len(rows) - np.searchsorted(along, at, side="left")
        below = np.searchsorted(along, at, side="right")
        np.minimum(least, np.minimum(above, below), out=least)
    return least


def within(rows: Vector, bound: float) -> Vector:
    """The rows with every coordinate brought within twice the bound, nan to 0, before medians and trimmed means.

    This changes no candidate's depth on a line, and what a row becomes depends on that row alone.
    """
    return np.clip(np.nan_to_num(rows, nan=0.0), -2 * bound, 2 * bound)


def drawn(epsilon: float, failure: float = 0.0) -> Event:
    """The event of one draw of a candidate mean by the exponential mechanism, as an estimator is charged for it."""
    return budget.release(Exponential(epsilon=epsilon, failure=failure))
