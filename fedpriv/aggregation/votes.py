"""The majority of signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.aggregation.rows import usable
from fedpriv.arrays import Vector
from fedpriv.errors import FedprivError, one_of

TIES = ("zero", "plus", "minus", "random")
_ROWS = 16  # whose signs are held at once


@dataclass(frozen=True, kw_only=True)
class MajorityVote:
    """Each coordinate's more frequent sign; zeros abstain.

    >>> MajorityVote()(np.array([[1.0, -1.0, 0.0], [5.0, -1.0, 2.0], [-9.0, 1.0, -2.0]]))
    array([ 1., -1.,  0.])
    """

    ties: str = "zero"  # what as many + as − give: 0, +1, −1, or either at random

    needs_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        one_of(TIES, ties=self.ties)

    def __call__(self, matrix: Vector, rng: Generator | None = None) -> Vector:
        """The vote of the finite rows."""
        rows = usable(matrix, 1, self)
        total = np.zeros(rows.shape[1])
        for start in range(0, len(rows), _ROWS):
            total += np.sign(rows[start : start + _ROWS]).sum(axis=0)
        return self.of_sum(total, rng)

    def of_sum(self, total: NDArray[Any], rng: Generator | None = None) -> Vector:
        """The vote, −1, 0 or +1, from the sum of all signs; `rng` decides ties at random, one draw for each tie.

        >>> MajorityVote(ties="plus").of_sum(np.array([-3, 0, 2]))
        array([-1.,  1.,  1.])
        """
        votes: Vector = np.sign(np.asarray(total, dtype=np.float64))
        tied = votes == 0
        match self.ties:
            case "plus":
                votes[tied] = 1
            case "minus":
                votes[tied] = -1
            case "random":
                if rng is None:
                    raise FedprivError("MajorityVote(ties='random') needs a generator")
                votes[tied] = 2 * rng.integers(0, 2, int(tied.sum())) - 1
        return votes
