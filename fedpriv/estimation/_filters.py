"""Records filtered by released parameters: a contraction, so that neighbours stay neighbours. [M] Lemma 2.2.

A filter takes away the records whose score reaches `cut`, of those at most the `most` highest. Given the filter, a
record's score depends on the record alone. Adding a record to a set adds at most one to what is kept (proof in
docs/proofs/prime.md, section 1), and hence two sets that differ by m records each way still do after any filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedpriv._base.arrays import Mask, Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.estimation._clipping import blocks


@dataclass(frozen=True, kw_only=True, eq=False)
class Filter:
    """(x − centre)ᵀ U (x − centre) ≥ cut is taken away, of those the `most` highest; U may be one direction."""

    shape: Vector  # U, d × d, or v where U = vvᵀ
    centre: Vector
    cut: float  # the score that is too high
    most: int  # records that one filtering takes away

    def scores(self, points: Vector) -> Vector:
        """Every record's score (x − centre)ᵀ U (x − centre) under this filter, in blocks, each row for itself."""
        found = np.empty(len(points))
        with one_thread():
            for rows in blocks(len(points)):
                apart = points[rows] - self.centre
                towards = apart @ self.shape
                found[rows] = towards * towards if self.shape.ndim == 1 else np.vecdot(towards, apart)
        return found

    def apply(self, points: Vector, kept: Mask) -> Mask:
        """Which of the `kept` records this filter leaves: the highest scores from `cut` on go."""
        return thinned(points, self.scores(points), kept, self.cut, self.most)


def thinned(points: Vector, scores: Vector, kept: Mask, cut: float, most: int) -> Mask:
    """The mask `kept` after a filtering: records of score ≥ cut go, at most the `most` highest. [M] Definition C.1.

    Records of equal score go in the order of their first coordinate, the larger first, then of the second, …; of equal
    records, the first to stand goes first. So the order is one of the records, not of the set they are in.

    >>> thinned(np.array([[1.0], [3.0], [2.0]]), np.array([9.0, 9.0, 1.0]), np.ones(3, bool), 4.0, 1).tolist()
    [True, False, True]
    """
    reached = np.flatnonzero(kept & (scores >= cut))
    left = kept.copy()
    if reached.size > most:
        own = scores[reached]
        last = np.partition(own, reached.size - most)[reached.size - most] if most else np.inf
        tied = reached[own == last]
        reached = reached[own > last]
        largest_first = np.lexsort(tuple(-points[tied].T[::-1]))  # its last key, the first coordinate, counts most
        reached = np.concatenate((reached, tied[largest_first[: most - reached.size]]))
    left[reached] = False
    return left


def remaining(points: Vector, filters: Iterable[Filter], kept: Mask | None = None) -> Mask:
    """Which records a private mean's filters leave, one after the other, of all or of those `kept` so far."""
    kept = np.ones(len(points), dtype=bool) if kept is None else kept
    for each in filters:
        kept = each.apply(points, kept)
    return kept
