"""Rules that keep the rows which point the same way: clusters by cosine, and nobody longer than the median."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._chain import Rule
from fedpriv.aggregation._cloud import cosines
from fedpriv.aggregation._linkage import first_majority, larger_cluster
from fedpriv.aggregation.rows import Aid, measured_rows, weighted_sum


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
        return _clustered(larger_cluster, matrix, self)


@dataclass(frozen=True, kw_only=True)
class Flame:
    """The mean of the densest majority, none of its rows longer than the median one. Nguyen et al. 2022 (FLAME).

    HDBSCAN with clusters of more than half of the rows, as the paper has it, is this: rows are joined, the nearest by
    1 − cosine first, and the first cluster of a majority is kept. Each row is scaled by min(1, S / ‖x‖), S the median
    norm of all. The paper's last step, noise on the mean, is left out: messages here have their own.

    >>> Flame()(np.array([[3.0, 4.0], [4.0, 3.0], [30.0, 40.0], [-3.0, -4.0]])).round(3)
    array([3.333, 3.667])
    """

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of messages of the majority, clipped, rows that are not finite left out: the server's direction."""
        return _clustered(first_majority, matrix, self)


def _clustered(choice: Callable[[Vector], NDArray[np.bool_]], matrix: Vector, rule: Rule) -> Vector:
    """A rule's direction: of the messages that `choice` keeps by their cosine distances the mean, clipped."""
    rows, sizes = measured_rows(matrix, rule.least, rule)
    longest = np.median(sizes)
    with one_thread():
        kept = choice(1 - cosines(rows, sizes)) if len(rows) > 1 else np.ones(1, bool)
        within = np.where(sizes > longest, longest / np.where(sizes > 0, sizes, 1), 1)
        return weighted_sum(kept / kept.sum() * within, rows)
