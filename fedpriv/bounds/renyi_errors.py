"""What Rényi divergences leave an attacker: the least type II error at each type I error, by data processing.

A test turns the pair into two coins, of chance α under P and 1 − β under Q, and no divergence of theirs is larger than
that of the pair. This is more than what the (ε, δ) that follow from the divergences say.
"""

from __future__ import annotations

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.bounds.renyi import ROUNDING, Curve

ORDERS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)  # each is a proof: these are enough
HALVINGS = 20  # of the powers that are possible


def renyi_type_two(curve: Curve, alpha: Vector) -> Vector:
    """The least type II error at each type I error where D_a ≤ curve(a) in both directions.

    With x = 1 − β the largest with x^a·α^(1−a) + (1−x)^a·(1−α)^(1−a) ≤ e^((a−1)·D_a), and the same with both coins
    exchanged: both sums are convex in x, and least at x = α.

    >>> renyi_type_two(lambda order: order / 2, np.array([0.05])).round(3).tolist()  # the Gaussian's is 0.740
    [0.664]
    """
    order = np.array(ORDERS)[:, None]
    room = (order - 1) * np.array([curve(each) for each in ORDERS])[:, None] * (1 + ROUNDING) + ROUNDING
    low, high = np.broadcast_to(alpha, (order.size, alpha.size)), np.ones((order.size, alpha.size))
    with np.errstate(divide="ignore", invalid="ignore"):
        coin, rest = np.log(alpha), np.log1p(-alpha)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found, other = np.log(middle), np.log1p(-middle)
            ours = np.logaddexp(order * found + (1 - order) * coin, order * other + (1 - order) * rest)
            theirs = np.logaddexp(order * coin + (1 - order) * found, order * rest + (1 - order) * other)
            possible = np.maximum(ours, theirs) <= room
            low, high = np.where(possible, middle, low), np.where(possible, high, middle)
    return np.asarray(np.clip(1 - high.min(axis=0), 0.0, 1 - alpha))
