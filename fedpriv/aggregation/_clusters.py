"""Rules that keep the rows which point the same way: clusters by cosine, and nobody longer than the median."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import cosines
from fedpriv.aggregation.rows import Aid, measured_rows, weighted_sum
from fedpriv.errors import at_least_zero
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class ClippedClustering:
    """The mean of the larger of two clusters, none of its rows longer than the median one. Li, Ngai, Voigt 2023.

    Clusters are joined by the mean of 1 − cosine between their rows until two are left; of two as large that of the
    first row counts. The paper's median is of all norms since the first round; here a round knows nothing of others.

    >>> ClippedClustering()(np.array([[3.0, 4.0], [4.0, 3.0], [30.0, 40.0], [-3.0, -4.0]])).round(3)
    array([3.333, 3.667])
    """

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of messages of the larger cluster, clipped, rows that are not finite left out: the direction."""
        rows, sizes = measured_rows(matrix, self.least, self)
        with one_thread():
            kept = _larger_half(1 - cosines(rows, sizes))
            return weighted_sum(_clipped_mean(kept, sizes, float(np.median(sizes))), rows)


@dataclass(frozen=True, kw_only=True)
class Flame:
    """The mean of the densest majority, none longer than the median row, and noise. Nguyen et al. 2022 (FLAME).

    HDBSCAN with clusters of more than half of the rows, as the paper has it, is this: rows are joined, the nearest by
    1 − cosine first, and the first cluster of a majority is kept. Each row is scaled by min(1, S / ‖x‖), S the median
    norm of all; each coordinate of the mean gets normal noise of `noise` · S. That noise is to blur backdoors; it
    is in no ε.

    >>> Flame(noise=0.0)(np.array([[3.0, 4.0], [4.0, 3.0], [30.0, 40.0], [-3.0, -4.0]])).round(3)
    array([3.333, 3.667])
    """

    noise: Annotated[float, at_least_zero, "λ, the deviation of the noise in median norms"] = 0.001

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a noise below 0."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of messages of the majority, clipped and noised, rows not finite left out: the direction."""
        rows, sizes = measured_rows(matrix, self.least, self)
        median = float(np.median(sizes))
        with one_thread():
            kept = _first_majority(1 - cosines(rows, sizes))
            found = weighted_sum(_clipped_mean(kept, sizes, median), rows)
        if self.noise:
            found += (aid or Aid()).draws_for(self).normal(0.0, self.noise * median, len(found))
        return found


def _clipped_mean(kept: NDArray[np.bool_], sizes: Vector, longest: float) -> Vector:
    """The weights of messages of the norms `sizes` in the mean of the kept ones, none longer than so much."""
    return np.asarray(kept / kept.sum() * np.where(sizes > longest, longest / np.where(sizes > 0, sizes, 1), 1))


def _larger_half(distances: Vector) -> NDArray[np.bool_]:
    """Which messages are in the larger of two clusters by average linkage; of equal ones in that of the first."""
    if len(distances) == 1:
        return np.ones(1, bool)
    merges = _merges(distances, "average")
    one = _members(merges, int(merges[-1, 0]))
    return one if 2 * one.sum() > len(one) or (2 * one.sum() == len(one) and one[0]) else ~one


def _first_majority(distances: Vector) -> NDArray[np.bool_]:
    """Which messages are in the first cluster of more than half of them, as single linkage joins the nearest first."""
    if len(distances) == 1:
        return np.ones(1, bool)
    merges = _merges(distances, "single")
    return _members(merges, len(distances) + int(np.argmax(2 * merges[:, 3] > len(distances))))


def _merges(distances: Vector, linkage: Literal["single", "average"]) -> Vector:
    """Which clusters of messages are joined, one row a time: two numbers, their distance, and how many are in it."""
    from scipy.cluster import hierarchy  # a third of a second to load
    from scipy.spatial.distance import squareform

    return np.asarray(hierarchy.linkage(squareform(distances, checks=False), linkage))


def _members(merges: Vector, cluster: int) -> NDArray[np.bool_]:
    """Which of the messages are in a cluster: numbers from their count on are clusters that were joined in turn."""
    count, left = len(merges) + 1, [cluster]
    inside = np.zeros(count, bool)
    while left:
        if (number := left.pop()) < count:
            inside[number] = True
        else:
            left += merges[number - count, :2].astype(int).tolist()
    return inside
