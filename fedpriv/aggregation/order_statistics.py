"""Rules that sort each coordinate: exact, and to the bit the same in whatever order the rows come.

Blocks of columns are turned so that each column lies in one piece, and sorted in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedpriv.aggregation.rows import usable
from fedpriv.arrays import Vector
from fedpriv.errors import whole

_BLOCK = 4096 * 100  # numbers sorted at once


@dataclass(frozen=True, kw_only=True)
class Median:
    """The median of each coordinate, half-way between the two in the middle where the rows are even in number.

    >>> Median()(np.array([[1.0, 9.0], [2.0, 8.0], [9.0, 1.0]]))
    array([2., 8.])
    """

    needs_rows: ClassVar[bool] = True

    def __call__(self, matrix: Vector) -> Vector:
        """The median of the finite rows."""
        rows = usable(matrix, 1, self)
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

    dropped: int  # at either end

    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole(0, dropped=self.dropped)

    def __call__(self, matrix: Vector) -> Vector:
        """The trimmed mean of the finite rows."""
        rows = usable(matrix, 2 * self.dropped + 1, self)
        kept = slice(self.dropped, len(rows) - self.dropped)
        mean = np.empty(rows.shape[1])
        for columns, values in _sorted_columns(rows):
            mean[columns] = values[:, kept].astype(np.float64).sum(axis=1)
        return mean / (kept.stop - kept.start) + 0.0  # a zero has no sign


def _sorted_columns(rows: Vector) -> Iterator[tuple[slice, Vector]]:
    """Blocks of columns and their values, each column sorted in a row of its own."""
    step = max(16, _BLOCK // len(rows))
    for start in range(0, rows.shape[1], step):
        columns = slice(start, min(start + step, rows.shape[1]))
        values = np.array(rows[:, columns].T, order="C")
        values.sort(axis=1)
        yield columns, values
