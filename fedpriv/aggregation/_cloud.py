"""Rows as points: their inner products about a centre, once, are all that rules of distances work with.

Without a centre float32 would lose all its digits where updates sit on a large offset. The mean will not do: one
attacker far away would take it along. A row among the others does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation.rows import measured_rows, scaled_rows, weighted_sum

Places = NDArray[np.intp]

_BLOCK = 1 << 22  # numbers at once
_OFF = 64  # a centre so many times as far off, squared, as points are from each other is not among them


@dataclass(frozen=True, eq=False)
class Cloud:
    """The inner products of points about a centre: (n, n), in double precision."""

    products: Vector  # of points i and j at (i, j)

    @staticmethod
    def of(rows: Vector, sizes: Vector) -> Cloud:
        """Messages, of the norms `sizes`, as points for a rule of distances: their inner products about one of them.

        About the row of median norm; about another, where that turns out to lie far off.

        >>> Cloud.of(np.array([[1.0, 0.0], [4.0, 4.0], [0.0, 0.0]]), np.array([1.0, 5.7, 0.0])).squares.tolist()
        [[0.0, 25.0, 1.0], [25.0, 0.0, 32.0], [1.0, 32.0, 0.0]]
        """
        cloud = Cloud(_products(rows, rows[np.argsort(sizes, kind="stable")[(len(rows) - 1) // 2]]))
        away = np.diag(cloud.products)
        other = np.argsort(away, kind="stable")[len(rows) // 2]
        if np.median(away + away[other] - 2 * cloud.products[other]) * _OFF < away[other]:
            cloud = Cloud(_products(rows, rows[other]))
        return cloud

    def __len__(self) -> int:
        """How many points, one a message."""
        return len(self.products)

    @property
    def squares(self) -> Vector:
        """Squared distances between the points, (n, n): what Krum and its kin rank messages by."""
        own = np.diag(self.products)
        found = own[:, None] + own - 2 * self.products
        np.maximum(found, 0, out=found)
        np.fill_diagonal(found, 0)
        return found

    def mixed(self, weights: Vector) -> Cloud:
        """The cloud of weighted means of the points, as Nnm makes them: a row of weights for each, which sums to 1."""
        return Cloud(weights @ self.products @ weights.T)


def cosines(rows: Vector, sizes: Vector) -> Vector:
    """The cosine between any two messages, (n, n), of the norms `sizes`, for rules of directions; with 0 it is 0.

    >>> cosines(np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]]), np.array([1.0, 5.0, 0.0])).round(1).tolist()
    [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    units = scaled_rows(rows, 1 / np.where(sizes > 0, sizes, 1))
    return np.clip(_products(units, np.zeros(rows.shape[1], rows.dtype)), -1, 1)


def _products(rows: Vector, centre: Vector) -> Vector:
    """Inner products of messages about a centre, (n, n), for a cloud.

    Blocks of columns in the precision of the rows, added up in double.
    """
    step = max(256, min(4096, _BLOCK // len(rows)))
    total, shifted = np.zeros((len(rows), len(rows))), np.empty((len(rows), step), rows.dtype)
    for start in range(0, rows.shape[1], step):
        columns = slice(start, start + step)
        block = shifted[:, : len(centre[columns])]
        np.subtract(rows[:, columns], centre[columns], out=block)
        total += block @ block.T
    return total


@runtime_checkable
class Weighing(Protocol):
    """A rule whose result is a weighted mean of the rows, with weights that only distances decide."""

    @property
    def least(self) -> int:
        """The fewest messages the rule can work with; a round with fewer is refused."""

    def weights(self, cloud: Cloud) -> Vector:
        """The weight of each message, a point of the cloud, in the mean that is the rule's result; they sum to 1."""


def weighed(rule: Weighing, matrix: Vector) -> Vector:
    """The direction of a rule that weighs messages by their distances: the weighted mean of the finite rows."""
    rows, sizes = measured_rows(matrix, rule.least, rule)
    with one_thread():
        return weighted_sum(rule.weights(Cloud.of(rows, sizes)), rows)


def equally(count: int, chosen: Places) -> Vector:
    """The weights, of `count` messages, of the mean of the chosen ones: the same for all these, 0 for others."""
    weights = np.zeros(count)
    weights[chosen] = 1 / len(chosen)
    return weights
