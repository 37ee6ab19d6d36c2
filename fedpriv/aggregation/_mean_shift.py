"""Clusters by mean shift: Comaniciu, Meer 2002, with a flat window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector

_STEPS = 300  # at most, of a point that climbs
_SAME = 1e-13  # a squared distance that is rounding


def largest_cluster(points: Vector) -> NDArray[np.bool_]:
    """Which points, a message's shares of signs each, form the largest cluster, which SignGuard keeps.

    Of equal ones, that of the first point.

    Every point climbs to the mean of what lies within a window of it until it stands; who ends within a window of each
    other is a cluster. The window's radius is the mean distance of the points to the farthest of the nearer half.

    >>> largest_cluster(np.array([[0.0], [0.1], [0.2], [5.0], [5.1]]))
    array([ True,  True,  True, False, False])
    """
    points = points - points.mean(axis=0)
    squares = np.sort(_squares(points, points), axis=1)
    radius = float(np.sqrt(squares[:, (len(points) - 1) // 2]).mean())
    ends = points
    for _ in range(_STEPS):
        inside = _squares(ends, points) <= radius**2 + _SAME
        before, ends = ends, inside @ points / np.maximum(inside.sum(axis=1), 1)[:, None]
        if np.abs(ends - before).max(initial=0) <= 1e-3 * radius:
            break
    together = _squares(ends, ends) <= radius**2 + _SAME
    return np.asarray(together[int(np.argmax(together.sum(axis=1)))])


def _squares(ones: Vector, others: Vector) -> Vector:
    """Squared distances from each of the points `ones` to each of the `others`, for windows around them."""
    own = (ones**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * (ones @ others.T)
    return np.asarray(np.maximum(own, 0))
