"""Rules that trust the rows that lie closest together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import Cloud, Places, equally, weighed
from fedpriv.aggregation._order_statistics import nearest_mean
from fedpriv.aggregation.rows import Aid, Attackers, measured_rows
from fedpriv.errors import whole
from fedpriv.settings import check_fields

_LOST = 1e-9  # of a sum that was: what is left of it after subtractions has too few digits


@dataclass(frozen=True, kw_only=True)
class Krum:
    """The row closest to its n − f − 2 nearest others, by the sum of squared distances: Blanchard et al. 2017.

    Of rows as close, the first.

    >>> Krum(byzantine=1)(np.array([[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.5], [90.0, 9.0]]))
    array([2., 1.])
    """

    byzantine: Attackers

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages that can be ranked, 2f + 3; a round with fewer is refused."""
        return 2 * self.byzantine + 3

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The message that is closest to its neighbours, rows that are not finite left out: the server's direction."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weights that choose one message, 1 at its place and 0 elsewhere."""
        return equally(len(cloud), _ranked(cloud.squares, self.byzantine)[:1])


@dataclass(frozen=True, kw_only=True)
class MultiKrum:
    """The mean of the `kept` rows that Krum ranks first: Blanchard et al. 2017, section 4; n − f of them if not given.

    >>> MultiKrum(byzantine=1, kept=2)(np.array([[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.5], [90.0, 9.0]]))
    array([2. , 1.5])
    """

    byzantine: Attackers
    kept: Annotated[int | None, whole, "m, rows whose mean it is; n − f if not given"] = None

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are none from 0 on, kept rows none from 1 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages that can be ranked, 2f + 3, or as many as are kept if more; fewer are refused."""
        return max(2 * self.byzantine + 3, self.kept or 0)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages that Krum ranks first, rows that are not finite left out: the server's direction."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weights of the messages in the mean: one weight for all that are kept, 0 for the others."""
        kept = self.kept or len(cloud) - self.byzantine
        return equally(len(cloud), _ranked(cloud.squares, self.byzantine)[:kept])


@dataclass(frozen=True, kw_only=True)
class Bulyan:
    """Krum until θ = n − 2f rows are chosen, then the mean of each coordinate's θ − 2f values nearest the median.

    El Mhamdi et al. 2018 (ICML, arXiv 1802.07927), with Krum as its rule: after each choice the chosen row is taken out
    and the others are ranked anew.

    >>> Bulyan(byzantine=1)(np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [-99.0]]))
    array([3.])
    """

    byzantine: Attackers

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages it can work with, 4f + 3; a round with fewer is refused."""
        return 4 * self.byzantine + 3

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The trimmed mean of messages that Krum chose, rows that are not finite left out: the server's direction."""
        rows, sizes = measured_rows(matrix, self.least, self)
        with one_thread():
            squares = Cloud.of(rows, sizes).squares
        chosen = np.sort(_one_by_one(squares, self.byzantine, len(rows) - 2 * self.byzantine))
        return nearest_mean(rows[chosen], 2 * self.byzantine)


def _ranked(squares: Vector, byzantine: int) -> Places:
    """Krum's ranking, the best first: places by the sum of squared distances to the n − f − 2 nearest others."""
    near = len(squares) - byzantine - 2
    nearest = np.sort(squares, axis=1)[:, : near + 1]  # each point itself is its nearest, at 0
    return np.argsort(nearest.sum(axis=1), kind="stable")


def _one_by_one(squares: Vector, byzantine: int, wanted: int) -> list[int]:
    """Bulyan's choice: `wanted` places, each Krum's best among the messages that are left.

    When a point goes, the others lose it as a neighbour, or the farthest that counts: sums of squared distances are
    kept up by subtraction, and formed anew where that has cost too many digits.
    """
    count = len(squares)
    order = np.argsort(squares, axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(count)[None], axis=1)
    alive, every = np.ones(count, bool), np.arange(count)
    last = np.full(count, max(0, count - byzantine - 2))  # the place of the farthest neighbour that counts
    sums = np.take_along_axis(squares, order, axis=1)[:, : last[0] + 1].sum(axis=1)
    exact, chosen = sums.copy(), list[int]()
    while len(chosen) < wanted:
        level = alive & (sums <= sums[alive].min() * (1 + _LOST))  # two nearest to each other are as close: the first
        best = int(np.argmax(level))
        chosen.append(best)
        alive[best] = False
        inside = place[:, best] <= last
        sums -= np.where(inside, squares[:, best], squares[every, order[every, last]])
        last -= ~inside
        while (dead := ~alive[order[every, last]] & (last > 0)).any():
            last -= dead
        for row in np.flatnonzero(alive & (sums < _LOST * exact)):
            near = order[row, : last[row] + 1]
            exact[row] = sums[row] = squares[row, near[alive[near]]].sum()
    return chosen
