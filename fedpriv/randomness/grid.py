"""The grid on which noise is added to what leaves: no bit of a released number says more than the number does.

Data are rounded toward zero to multiples of a step h, a power of two, so that no norm grows; they are added up as whole
numbers, exactly; real noise is drawn rounded to the same grid, exactly (`wide`); and both are added as whole
numbers. A multiple of h plus rounded noise is the rounding of their sum: what is released is what a certificate of real
noise speaks of, rounded, so the certificate holds as it stands (docs/proofs/grid.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Numbers, Vector
from fedpriv.errors import FedprivError
from fedpriv.randomness.wide import Power, Rounded, rounded_real

FINE = 2.0**-26  # h of the smaller of clip and noise, at most: neither bound moves in its first seven digits
MOST = 2.0**53  # up to here floats add up whole numbers exactly
_RECORDS = 1 << 20  # so many are added up exactly, however little the noise
_NOISE = 2.0**-46  # h of the noise, at least: what can be drawn
_LEAST = 2.0**-900  # where numbers are so small that 1/h would pass what floats hold


@dataclass(frozen=True, slots=True)
class FineGrid:
    """The multiples of h.

    >>> FineGrid.of(clip=1.0, noise=3.0).step == FineGrid.of(clip=1.9, noise=3.0).step == 2.0**-26
    True
    """

    step: float  # h

    @staticmethod
    def of(clip: float, noise: float, records: int = _RECORDS) -> FineGrid:
        """The fine grid for sums of so many records of norm (or coordinates within) `clip` under noise of that scale.

        Sums of records limit how fine it can be where there is far less noise than clip, and so does the noise where
        there is far more.
        """
        near, far = _power(min(clip, noise)) * FINE, _power(noise) * 2 * _NOISE
        return FineGrid(max(near, far, _power(clip * records) * 2 / MOST, _LEAST))

    def whole(self, x: ArrayLike) -> Vector:
        """Data x in steps of the grid, toward zero, so that no norm grows: |x̃| ≤ |x| in every coordinate.

        >>> FineGrid(0.25).whole([0.74, -0.74, 1.0])
        array([ 2., -2.,  4.])
        """
        return np.trunc(np.asarray(x, np.float64) / self.step)

    def law(self, noise: float, power: Power) -> Rounded:
        """The exact law of noise of that scale, rounded to steps of the grid: power 2 is Gaussian, 1 Laplace."""
        return rounded_real(noise / self.step, power)

    def real(self, total: Vector, noise: Numbers) -> Vector:
        """What is released: h times data plus noise, both in steps; past 2⁵³ what is released is rounded."""
        return (total.astype(np.int64) + noise) * self.step

    def noisy(self, total: Vector, noise: float, power: Power, rng: Generator) -> Vector:
        """What is released of a sum in steps of the grid: with exact noise of that scale, in the data's units again.

        >>> grid = FineGrid(0.25)
        >>> grid.noisy(grid.whole([0.74, 1.0]), 1.0, 2, np.random.default_rng(1))
        array([1.  , 2.75])
        """
        return self.real(total, self.law(noise, power).draw(total.shape, rng))

    def check(self, records: float, clip: float) -> None:
        """Refuse a release of more records of norm `clip` than floats add up exactly in steps of the grid.

        >>> FineGrid.of(clip=1.0, noise=1e-6).check(10**8, clip=1.0)
        Traceback (most recent call last):
        fedpriv.errors.FedprivError: sums of 1e+08 records of norm 1 are exact with more noise only: ...
        """
        if not records * (clip / self.step) <= MOST:
            raise FedprivError(
                f"sums of {records:.6g} records of norm {clip:.6g} are exact with more noise only: of so little, "
                f"at most {MOST * self.step / clip:.6g}"
            )


def _power(x: float) -> float:
    """The largest power of two that is not above x: steps of the grid are such."""
    return float(2.0 ** (frexp(x)[1] - 1))
