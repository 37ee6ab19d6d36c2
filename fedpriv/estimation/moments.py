"""One access for what [M] asks of a set in four: its size, mean, covariance, and the covariance's norm and direction.

A record x of the ball of radius r about 0 is lifted to z = (x, b), and Σ zzᵀ is released: b²|S| in its corner, bΣx
beside, Σxxᵀ within. Lifted records have norms at most ρ = √(r² + b²), and ‖zzᵀ − z'z'ᵀ‖² = ‖z‖⁴ + ‖z'‖⁴ − 2⟨z, z'⟩²,
so replacing one moves the matrix by at most √2·ρ² in Frobenius norm (docs/proofs/prime.md, section 3). Nothing is
divided by the size of a filtered set before noise is added, so no set is too small for the proof. Records are rounded
toward 0 to whole numbers of units, r/2^j each, so that the sum is one of whole numbers, and exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2, sqrt

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Mask, Numbers, Vector
from fedpriv.estimation._clipping import blocks, rounding
from fedpriv.randomness.wide import rounded_real

LIFT = 1.0  # b/r: at 1 the mean is as exact as if asked alone (benchmarks/estimation_constants.py)


def moment_sensitivity(radius: float, n: int) -> float:
    """How far one replaced record moves the computed Σ zzᵀ that PRIME releases, in Frobenius norm.

    √2·ρ², and what rounding may add: two sums of n products, each in blocks, are each off by at most γ·n·ρ².

    >>> round(moment_sensitivity(2.0, 1), 6) == round(2**0.5 * 8.0, 6)
    True
    """
    squared = radius * radius * (1 + LIFT * LIFT)
    return squared * (sqrt(2) + 2 * rounding(n)) * (1 + 1e-12)


def moment_unit(radius: float, n: int, noise: float) -> float:
    """The unit r/2^j that records are rounded to before Σ zzᵀ, so that the released sum is one of whole numbers.

    4^j·n stays within 64 bits, 4^j·2¹³ of a block within a float's 53, and the noise within what can be drawn.

    >>> moment_unit(1.0, 1000, 10.0) == 2.0**-20
    True
    """
    powers = (20.0, (61 - log2(2 * n)) / 2, (45 - log2(noise) + 2 * log2(radius)) / 2)
    return float(radius * 2.0 ** -floor(min(powers)))


def lifted_sum(points: Vector, kept: Mask, radius: float, unit: float) -> Numbers:
    """Σ zzᵀ over the kept records, in squares of units, before its noise: exact, whatever the order, not private."""
    d = points.shape[1]
    total = np.zeros((d + 1, d + 1), np.int64)
    for rows in blocks(len(points)):
        block = np.full((rows.stop - rows.start, d + 1), np.trunc(LIFT * radius / unit))
        np.trunc(points[rows] / unit, out=block[:, :d])
        block *= kept[rows][:, None]
        total += (block.T @ block).astype(np.int64)
    return total


def symmetric_noise(size: int, noise: float, rng: Generator) -> Numbers:
    """A symmetric matrix of rounded Gaussian noise for Σ zzᵀ, of deviation `noise` in every direction.

    An entry of the diagonal has that deviation, and one beside it, which is there twice, 1/√2 of it.
    """
    drawn = np.diag(rounded_real(noise, 2).draw(size, rng))
    above = np.triu_indices(size, 1)
    drawn[above] = rounded_real(noise * sqrt(0.5) * (1 + 2.0**-50), 2).draw(above[0].size, rng)
    return np.asarray(np.triu(drawn) + np.triu(drawn, 1).T)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """What a released matrix says of a set of records, in the ball's coordinates."""

    size: float  # records, about: the noise is in it
    mean: Vector
    covariance: Vector  # about the released mean

    @staticmethod
    def of(matrix: Vector, radius: float) -> Moments:
        """Size, mean and covariance read from a released, noisy Σ zzᵀ; the mean is brought back into the ball."""
        lift = LIFT * radius
        size = float(matrix[-1, -1]) / lift**2
        divisor = max(size, 1.0)
        mean = matrix[:-1, -1] / (lift * divisor)
        mean = mean / max(1.0, float(np.linalg.norm(mean)) / radius)
        return Moments(size=size, mean=mean, covariance=matrix[:-1, :-1] / divisor - np.outer(mean, mean))


def spectral_noise(radius: float, d: int, n: int, mu: float) -> float:
    """About how far noise moves the largest eigenvalue of n records' covariance, by a plan: (√(2d) + 2)·σ/n."""
    return (sqrt(2 * d) + 2) * moment_sensitivity(radius, n) / mu / n
