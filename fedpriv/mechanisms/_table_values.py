"""What the symbols of a table stand for: by least squares where nobody says, and as whole numbers that add up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError

FEW = 1024  # steps of a grid that values are looked for on, the coarsest first
FINE = 1 << 20  # steps of the one they are rounded to where they lie on none of these
SAME = 1e-9  # of a step, or of what values span: what differs by less is the same


class Numbered(NamedTuple):
    """Values as whole numbers of steps from the lowest: what is sent, so that sums are exact."""

    numbers: NDArray[np.int64]  # of each value, rising
    low: float  # the value of number 0
    step: float  # between the values of two numbers next to each other


def fitted_values(chances: Vector, levels: Vector) -> tuple[float, ...]:
    """The symbols' values whose mean at each level is nearest to the level: at all of them the level itself, if it can.

    Of all that are as near the ones with the smallest squares. Between levels the mean is as straight as the chances.

    >>> rows = np.array([[0.3, 0.5, 0.2], [0.2, 0.5, 0.3]])
    >>> np.round(fitted_values(rows, np.array([-0.1, 0.1])), 9).tolist()
    [-1.0, 0.0, 1.0]
    """
    found = np.linalg.lstsq(chances, levels, rcond=None)[0]
    span = float(np.ptp(found))
    if not span > SAME * float(np.ptp(levels)):
        raise FedprivError("chances: no symbol says anything of the input, each is sent at every level alike")
    return tuple(float(value) + 0.0 for value in np.round(found / span, 13) * span)


def numbered_values(values: Vector) -> Numbered:
    """Rising values as numbers of steps: of the coarsest grid they lie on, else of a fine one.

    >>> numbered_values(np.array([-3.0, -1.0, 3.0]))
    Numbered(numbers=array([0, 1, 3]), low=-3.0, step=2.0)
    """
    span = float(values[-1] - values[0])
    share = (values - values[0]) / (span or 1.0)
    grids = (n for n in range(len(values) - 1, FEW + 1) if np.abs(share * n - np.rint(share * n)).max() < SAME)
    steps = next(grids, FINE)
    numbers = np.rint(share * steps).astype(np.int64)
    if (close := np.flatnonzero(np.diff(numbers) == 0)).size:
        low, high = values[close[0]], values[close[0] + 1]
        raise FedprivError(
            f"values must differ: two symbols stand for {low:g} and {high:g}, which a mean cannot tell apart: add "
            "their columns up, or give values"
        )
    return Numbered(numbers, float(values[0]), span / steps)
