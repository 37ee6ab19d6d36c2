"""The grid that values are rounded to where noise is of whole numbers, and how such noise is told from itself moved.

The clipped value is rounded to the grid −c, −c + g, …, c with g = 2c/l, so that two inputs lie at
most l steps apart: the rounding is counted in the sensitivity. Sums of messages decode to unbiased means up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector, finite_floats
from fedpriv.curves.atoms import Atoms
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, whole

Levels = Annotated[int, whole, "l, steps of the grid that inputs are rounded to"]
NARROWEST = 1e-3  # grid steps: the least standard deviation of noise


@dataclass(frozen=True)
class Grid:
    """−c, −c + g, …, c in l steps."""

    clip: float  # c, the largest |coordinate|, in the data's units
    levels: int  # l, steps of the grid

    @property
    def step(self) -> float:
        """g, the distance between the points that updates are rounded to, in the data's units."""
        return 2 * self.clip / self.levels

    @property
    def centre(self) -> Fraction:
        """Where 0 lies on the grid, in steps from its lowest point: half-way, where votes tie."""
        return Fraction(self.levels, 2)

    def index(self, x: ArrayLike) -> NDArray[np.int64]:
        """Each coordinate's nearest grid point, 0 to l, before its noise; refuses what is not finite."""
        values = np.clip(finite_floats(x), -self.clip, self.clip)
        return np.asarray(np.rint((values + self.clip) / self.step), dtype=np.int64)

    def mean(self, total: ArrayLike, n: int, noise_mean: float = 0.0) -> Vector:
        """The mean of n updates, from the sum of their grid points and noise: what grid mechanisms decode by."""
        return np.asarray((np.asarray(total, dtype=float) / n - noise_mean) * self.step - self.clip)


def shifted(
    k: NDArray[np.int64],  # the noise's values, each one more than the last
    log_mass: Vector,  # ln of the chance of each
    ends: NDArray[np.int64],  # where the two inputs lie, in steps of the grid
    error: float,  # the most that rounding does to a loss
    balanced: bool = False,  # whether the pair the other way round is the pair itself
    rate: float | None = None,  # of Gaussian heights: the loss is exactly rate·away·(k − away/2), away the distance
) -> Tradeoff:
    """A grid mechanism's curve: noise about one point against about another; infinite loss where one alone reaches."""
    away = int(ends[1] - ends[0])
    size = k.size
    log_p, log_q = np.full(size + abs(away), -np.inf), np.full(size + abs(away), -np.inf)
    log_p[max(-away, 0) : max(-away, 0) + size] = log_mass
    log_q[max(away, 0) : max(away, 0) + size] = log_mass
    with np.errstate(invalid="ignore"):
        loss = log_q - log_p
    if rate is not None:
        place = np.arange(loss.size) + k[0] - max(-away, 0)
        loss = np.where(np.isfinite(loss), rate * away * (place - away / 2), loss)
    return Tradeoff(Atoms.sorted(log_p, log_q, loss, error, balanced=balanced))


def information(log_mass: Vector) -> float:
    """Bits of information in a mechanism's noise of these log masses: its `entropy`."""
    return float(-(np.exp(log_mass) * log_mass).sum() / log(2))


def not_too_wide(reach: int) -> None:
    """Refuse grid noise that reaches so many steps that its law, a list of masses, would fill memory."""
    if reach > 1 << 23:
        raise FedprivError(f"noise reaching {reach:.3g} grid steps is too wide: fewer levels, or less noise")


def not_too_narrow(deviation: float) -> None:
    """Refuse settings of a grid mechanism whose noise, in steps, is nearly always 0."""
    if not deviation >= NARROWEST:
        raise FedprivError(f"noise of {deviation:.3g} grid steps hides nothing: at least {NARROWEST} or fewer levels")
