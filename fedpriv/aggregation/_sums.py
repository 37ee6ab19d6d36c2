"""Rules that add rows up: in double precision and in the order of the rows, so that sorted rows give the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation.rows import Aid, usable_rows
from fedpriv.errors import natural
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of the rows.

    >>> Mean()(np.array([[1.0, 2.0], [3.0, 6.0]]))
    array([2., 4.])
    """

    needs_rows: ClassVar[bool] = False
    least: ClassVar[int] = 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages, rows that are not finite left out: the server's direction."""
        rows = usable_rows(matrix, self.least, self)
        return _total(rows) / len(rows)


@dataclass(frozen=True, kw_only=True)
class NormTrimmedSum:
    """The sum of the rows but the F of largest ℓ2 norm: [P] section 5, TSUM_F. Of F rows or fewer nothing is left: 0.

    Of rows with equal norms the later ones go first, so a tie is decided by the order of the rows and nothing else.

    >>> NormTrimmedSum(dropped=1)(np.array([[3.0, 4.0], [-5.0, 0.0], [1.0, 1.0]]))
    array([4., 5.])
    """

    dropped: Annotated[int, natural, "F, so many of the longest rows are left out; the study's attackers if not given"]

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "dropped"
    sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a number of dropped rows that is none from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages of which something is left, dropped + 1; a study that asks fewer is refused."""
        return self.dropped + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The sum of the messages but the `dropped` longest and those not finite; the server divides by the rows."""
        rows = usable_rows(matrix, 0, self)
        square = np.empty(rows.shape[1])  # one row at a time, so that a row's norm does not depend on its place
        squares = np.array([np.multiply(row, row, out=square, dtype=np.float64).sum() for row in rows])
        order = np.argsort(squares, kind="stable")
        kept = np.sort(order[: max(0, len(rows) - self.dropped)])
        return _total(rows if len(kept) == len(rows) else rows[kept])


def _total(rows: Vector) -> Vector:
    """The sum of messages, coordinate by coordinate, in double precision and in the order of the rows."""
    return np.asarray(np.add.reduce(rows, axis=0, dtype=np.float64))
