"""DPTHRESHOLD: a cut that takes away enough of the total score, from a noisy histogram of scores. [M] Algorithm 11."""

from __future__ import annotations

from math import ceil, log2, sqrt

import numpy as np

from fedpriv._base.arrays import Mask, Vector

SENSITIVITY = sqrt(2)  # replacing a record takes one from a bin and adds one to another
LEAST = 0.25  # the lowest edge
PER_DOUBLING = 4  # bins; the paper has one
SHARE = 0.31  # of the excess that what lies above the threshold must make up


def edges(most: float) -> Vector:
    """The lower ends of the bins that filters' scores are counted in: geometric, from ¼ to `most`, which none passes.

    >>> edges(1.0)[[0, 4, 8]].tolist()
    [0.25, 0.5, 1.0]
    """
    count = ceil(PER_DOUBLING * log2(max(most / LEAST, 1.0))) + 1
    return np.asarray(LEAST * 2.0 ** (np.arange(count) / PER_DOUBLING))


def counts(scores: Vector, kept: Mask, lower: Vector) -> Vector:
    """How many kept records score in each bin, before noise; the last has no end, those below the first are in none."""
    place = np.searchsorted(lower, scores[kept], side="right")
    return np.bincount(place, minlength=lower.size + 1)[1:].astype(float)


def threshold(noisy: Vector, lower: Vector, size: float, excess: float) -> float | None:
    """The score from which PRIME's filter cuts, by a noisy histogram of scores; None where no cut takes enough.

    The largest edge τ_ℓ with Σ_{j ≥ ℓ} (τ_j − τ_ℓ)·h_j ≥ 0.31·ψ·|S|.

    >>> threshold(np.array([5.0, 0.0, 1.0]), np.array([1.0, 2.0, 4.0]), size=6, excess=1.0)
    2.0
    """
    above = np.cumsum(noisy[::-1])[::-1]
    gained = np.cumsum((lower * noisy)[::-1])[::-1] - lower * above
    enough = np.flatnonzero(gained >= SHARE * excess * size)
    return float(lower[enough[-1]]) if enough.size else None
