"""How far known updates lie from each other, to the same bits wherever it is worked out."""

from __future__ import annotations

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread

_COLUMNS = 4096  # at once


def products(rows: Vector) -> Vector:
    """Inner products (n, n) of the updates an attacker knows, about their mean, in double precision.

    None of the rows is an enemy's.

    >>> products(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    total = np.zeros((len(rows), len(rows)))
    with one_thread():
        for start in range(0, rows.shape[1], _COLUMNS):
            block = rows[:, start : start + _COLUMNS].astype(np.float64)
            block -= block.mean(axis=0)
            total += block @ block.T
    return total


def squares(rows: Vector) -> Vector:
    """Squared distances (n, n) between the updates an attacker knows: what attacks hide within.

    >>> squares(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[0., 4.],
           [4., 0.]])
    """
    inner = products(rows)
    own = np.diag(inner)
    found = np.maximum(own[:, None] + own - 2 * inner, 0)
    np.fill_diagonal(found, 0)
    return found
