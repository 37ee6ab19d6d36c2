"""One access for what [M] asks of a set in four: its size, mean, covariance, and the norm and direction of that.

A record x of the ball of radius r about 0 is lifted to z = (x, b), and Σ zzᵀ is released: b²|S| in its corner, bΣx
beside, Σxxᵀ within. Lifted records have norms at most ρ = √(r² + b²), and ‖zzᵀ − z'z'ᵀ‖² = ‖z‖⁴ + ‖z'‖⁴ − 2⟨z, z'⟩²,
so replacing one moves the matrix by at most √2·ρ² in Frobenius norm (docs/proofs/prime.md, section 3). Nothing is
divided by the size of a filtered set before noise is added, so no set is too small for the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.arrays import Vector
from fedpriv.estimation.clipping import blocks, rounding

LIFT = 1.0  # b/r: at 1 the mean is as exact as if asked alone (benchmarks/estimation_constants.py)

Mask = NDArray[np.bool_]


def sensitivity(radius: float, n: int) -> float:
    """√2·ρ², and what rounding may add: two sums of n products, each in blocks, are each off by at most γ·n·ρ².

    >>> round(sensitivity(2.0, 1), 6) == round(2**0.5 * 8.0, 6)
    True
    """
    squared = radius * radius * (1 + LIFT * LIFT)
    return squared * (sqrt(2) + 2 * rounding(n)) * (1 + 1e-12)


def lifted_sum(points: Vector, kept: Mask, radius: float) -> Vector:
    """Σ zzᵀ over the kept records: exact but for rounding, and private by no means."""
    d = points.shape[1]
    total = np.zeros((d + 1, d + 1))
    for rows in blocks(len(points)):
        block = np.full((rows.stop - rows.start, d + 1), LIFT * radius)
        block[:, :d] = points[rows]
        block *= kept[rows][:, None]
        total += block.T @ block
    return total


def symmetric_noise(size: int, noise: float, rng: Generator) -> Vector:
    """(Z + Zᵀ)/2: Gaussian of deviation `noise` in every direction of the symmetric matrices, by Frobenius norm."""
    drawn = rng.normal(0.0, noise, (size, size))
    return np.asarray((drawn + drawn.T) / 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """What a released matrix says of a set of records, in the ball's coordinates."""

    size: float
    mean: Vector
    covariance: Vector  # about the released mean

    @staticmethod
    def of(matrix: Vector, radius: float) -> Moments:
        """Read from Σ zzᵀ plus noise: all of it post-processing. The mean is brought back into the ball."""
        lift = LIFT * radius
        size = float(matrix[-1, -1]) / lift**2
        divisor = max(size, 1.0)
        mean = matrix[:-1, -1] / (lift * divisor)
        mean = mean / max(1.0, float(np.linalg.norm(mean)) / radius)
        return Moments(size=size, mean=mean, covariance=matrix[:-1, :-1] / divisor - np.outer(mean, mean))


def spectral_noise(radius: float, d: int, n: int, mu: float) -> float:
    """About how far noise moves the largest eigenvalue of a covariance of n records: (√(2d) + 2)·σ/n."""
    return (sqrt(2 * d) + 2) * sensitivity(radius, n) / mu / n
