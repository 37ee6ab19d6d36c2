"""Clusters by linkage: which points are joined, the nearest first."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector


def larger_cluster(distances: Vector) -> NDArray[np.bool_]:
    """Which messages are in the larger of two clusters by average linkage; of equal ones in that of the first."""
    merges = _merges(distances, "average")
    one = _members(merges, int(merges[-1, 0]))
    first = one if one[0] else ~one
    return first if 2 * first.sum() >= len(first) else ~first


def first_majority(distances: Vector) -> NDArray[np.bool_]:
    """Which messages are in the first cluster of more than half of them, as single linkage joins the nearest first."""
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
