"""Subsets of least diameter, by covers: who goes so that of those who stay no two are too far apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.aggregation._cloud import Places


def tightest_subset(squares: Vector, ball: Places, nearest: float) -> Places:
    """Mda's exact choice: the places of as many points as `ball` has, of least diameter, by squared distances.

    The diameter is one of the distances, at least `nearest` and at most the ball's own; halving finds it.
    """
    kept = ball
    distances = np.unique(squares[(squares >= nearest) & (squares <= squares[np.ix_(ball, ball)].max())])
    low, high = 0, len(distances) - 1
    while low < high:
        middle = (low + high) // 2
        cover = vertex_cover(squares > distances[middle], len(squares) - len(ball))
        if cover is None:
            low = middle + 1
        else:
            high, kept = middle, np.setdiff1d(np.arange(len(squares)), cover)[: len(ball)]
    return kept


def vertex_cover(lines: NDArray[np.bool_], most: int) -> list[int] | None:
    """At most so many points of a graph that between them touch all its lines, or None where there are none: for Mda.

    `lines` is symmetric, without loops. A point with one line gives way to its other end; the point with most lines
    goes, or all its neighbours do. Where all have two they form rings, of which any point may go: so a branch takes
    away one point or at least three.

    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
    >>> vertex_cover(path, 1), vertex_cover(path, 0)
    ([1], None)
    """
    neighbours = [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in lines]
    found = _covered(neighbours, (1 << len(lines)) - 1, most)
    return None if found is None else [place for place in range(len(lines)) if found >> place & 1]


def most_branches(points: int) -> float:
    """How many steps the search for a cover of so many points takes at most: T(k) = T(k − 1) + T(k − 3) + 1.

    >>> most_branches(3), most_branches(30) < 2e5 < most_branches(40)
    (5, True)
    """
    steps = [0, 0, 1]
    for _ in range(min(points, 1000)):
        steps.append(steps[-1] + steps[-3] + 1)
    return steps[-1]


def _covered(neighbours: list[int], alive: int, most: int) -> int | None:
    """A cover of the graph's points that are alive, as bits, of at most so many; None where there is none."""
    cover = 0
    while True:
        degrees = [(own & alive).bit_count() if alive >> place & 1 else 0 for place, own in enumerate(neighbours)]
        if not (widest := max(degrees)):
            return cover
        if sum(degrees) > 2 * widest * most:
            return None
        place = degrees.index(1 if 1 in degrees else widest)
        point, around = 1 << place, neighbours[place] & alive
        taken = around if degrees[place] == 1 else point
        if 2 < degrees[place] <= most:
            rest = _covered(neighbours, alive & ~point, most - 1)
            if rest is not None:
                return cover | point | rest
            taken = around
        cover, alive, most = cover | taken, alive & ~taken, most - taken.bit_count()
