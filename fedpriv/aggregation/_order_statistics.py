"""Rules that sort each coordinate: exact, and to the bit the same in whatever order the rows come.

Blocks of columns are turned so that each column lies in one piece, and sorted in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation.rows import Aid, Attackers, usable_rows
from fedpriv.errors import natural
from fedpriv.settings import check_fields

_BLOCK = 4096 * 100  # numbers sorted at once


@dataclass(frozen=True, kw_only=True)
class Median:
    """The median of each coordinate, half-way between the two in the middle where the rows are even in number.

    >>> Median()(np.array([[1.0, 9.0], [2.0, 8.0], [9.0, 1.0]]))
    array([2., 8.])
    """

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The median of each coordinate of the messages, rows that are not finite left out: the server's direction."""
        rows = usable_rows(matrix, self.least, self)
        median = np.empty(rows.shape[1])
        for columns, values in _sorted_columns(rows):
            middle = values[:, (len(rows) - 1) // 2], values[:, len(rows) // 2]
            np.add(*middle, out=median[columns], dtype=np.float64)
        return median * 0.5 + 0.0  # a zero has no sign: which of −0 and 0 is in the middle depends on the rows' order


@dataclass(frozen=True, kw_only=True)
class TrimmedMean:
    """The mean of each coordinate without its `dropped` largest and `dropped` smallest values.

    >>> TrimmedMean(dropped=1)(np.array([[1.0, 9.0], [2.0, 8.0], [9.0, 1.0], [4.0, 4.0]]))
    array([3., 6.])
    """

    dropped: Annotated[int, natural, "values left out at either end; the study's attackers if not given"]

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "dropped"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a number of dropped values that is none from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages of which something is left, 2 · dropped + 1; a round with fewer is refused."""
        return 2 * self.dropped + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The trimmed mean of each coordinate, rows that are not finite left out: the server's direction."""
        rows = usable_rows(matrix, self.least, self)
        kept, count = slice(self.dropped, len(rows) - self.dropped), len(rows) - 2 * self.dropped
        mean = np.empty(rows.shape[1])
        for columns, values in _sorted_columns(rows):
            mean[columns] = np.vecdot(values[:, kept].astype(np.float64), np.ones(count))  # a sum, faster than sum's
        return mean / count + 0.0  # a zero has no sign


@dataclass(frozen=True, kw_only=True)
class Meamed:
    """The mean of each coordinate's n − f values nearest to its median: Xie, Koyejo, Gupta 2018 (arXiv 1802.10116).

    >>> Meamed(byzantine=1)(np.array([[1.0, 9.0], [2.0, 8.0], [9.0, 1.0], [3.0, 7.0]]))
    array([2., 8.])
    """

    byzantine: Attackers

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages it can work with, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean around each coordinate's median, rows that are not finite left out: the server's direction."""
        return nearest_mean(usable_rows(matrix, self.least, self), self.byzantine)


def nearest_mean(rows: Vector, dropped: int) -> Vector:
    """The mean of each coordinate of messages without the `dropped` values farthest from its median.

    In sorted values that is a window, which moves up as long as it loses a value farther off than the one it gains. Of
    two as far off, each counts half: no sign is preferred.
    """
    count, mean = len(rows), np.empty(rows.shape[1])
    kept = count - dropped
    for columns, values in _sorted_columns(rows):
        exact = values.astype(np.float64)
        twice_median = exact[:, (count - 1) // 2] + exact[:, count // 2]
        lost = np.sign(twice_median[:, None] - (exact[:, :dropped] + exact[:, kept:])) * 0.5 + 0.5
        weights = np.ones(exact.shape)
        weights[:, :dropped] -= lost
        weights[:, kept:] -= 1 - lost
        mean[columns] = np.vecdot(exact, weights)
    return mean / kept + 0.0  # a zero has no sign


def _sorted_columns(rows: Vector) -> Iterator[tuple[slice, Vector]]:
    """Blocks of a matrix's columns, with their values sorted, a row for each column: for rules of order statistics."""
    step = max(16, _BLOCK // len(rows))
    for start in range(0, rows.shape[1], step):
        columns = slice(start, min(start + step, rows.shape[1]))
        values = np.array(rows[:, columns].T, order="C")
        values.sort(axis=1)
        yield columns, values
