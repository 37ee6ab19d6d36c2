"""What the mean of messages is off by where inputs are vectors uniform on the sphere of norm `clip`: by formula."""

from __future__ import annotations

from functools import lru_cache
from math import hypot, pi, sqrt
from typing import NamedTuple

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.mechanisms import Mechanism
from fedpriv.mechanisms.variance import message_spread

PLACES = 1 << 14
FAR = 12.0  # standard deviations of a coordinate, past which there is nothing


class MeanError(NamedTuple):
    """Root mean squares, ℓ2, of what the mean of N messages is off by; inputs are of norm `clip`."""

    noise: float  # what the mechanisms draw: it falls as 1/√N
    bias: float  # what `peak` cuts off and a grid rounds away, every client holding the same vector

    @property
    def total(self) -> float:
        """Both together: where clients' vectors differ the bias averages out in part, and the error is less."""
        return hypot(*self)


@lru_cache(maxsize=8)
def sphere_coordinates(dimension: int) -> tuple[Vector, Vector]:
    """|x_j| of a vector uniform on the unit sphere: places and their probabilities, P(x) ∝ (1 − x²)^{(d−3)/2}.

    Midpoints in the angle θ, x = sin θ, whose density is cos^{d−2} θ.

    >>> at, chance = sphere_coordinates(650)
    >>> round(float(chance @ at), 6), round(650 * float(chance @ at**2), 6)  # √(2/πd) is .031296
    (0.031308, 1.0)
    """
    if dimension == 1:
        return np.ones(1), np.ones(1)
    top = min(pi / 2, FAR / sqrt(dimension))
    angle = (np.arange(PLACES) + 0.5) * (top / PLACES)
    weight = np.exp((dimension - 2) * np.log1p(-2 * np.sin(angle / 2) ** 2))
    return np.sin(angle), weight / weight.sum()


def typical_mean(dimension: int, clip: float = 1.0) -> float:
    """The mean |x_j| of a vector uniform on the sphere of norm `clip`, about clip·√(2/πd): votes are counted at it."""
    at, chance = sphere_coordinates(dimension)
    return clip * float(chance @ at)


def mean_error(mechanism: Mechanism, dimension: int, clients: int) -> MeanError | None:
    """What the mean of so many clients' messages is off by; None where no decoder, or no variance of one, is known.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> noise, bias = mean_error(StochasticSign(clip=1, peak=0.2, scale=40), 650, 1000)
    >>> round(noise, 3), round(bias, 6)  # √((dA² − 1)/N) = 32.249
    (32.249, 0.000127)
    """
    spread = message_spread(mechanism)
    if spread is None:
        return None
    unit, chance = sphere_coordinates(dimension)
    at = mechanism.clip * unit
    within = np.minimum(at, mechanism.peak)
    grid = getattr(mechanism, "grid", None)
    held = within if grid is None else grid.mean(grid.index(within), 1)
    return MeanError(
        sqrt(dimension * float(chance @ spread.at(held)) / clients),
        sqrt(dimension * float(chance @ (at - held) ** 2)),
    )
