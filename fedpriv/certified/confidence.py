"""What so many draws prove about expected scores in [0, 1]: bounds for every class that hold all together.

The error 1 − confidence is split evenly over the two sides of every class. Which class is predicted is decided by the
same draws, so nothing less than bounds for all of them would do.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, real, whole, whole_from

OUTWARD = 1e-12  # what the inverse of the incomplete beta function may be off by, and far more


class Interval(NamedTuple):
    """Every class's expected score, from both sides."""

    lower: Vector  # one a class
    upper: Vector


def hoeffding_interval(means: ArrayLike, draws: int, error: float) -> Interval:
    """Bounds of every class's expected score from means of so many draws, Hoeffding's: mean ± √(ln(1/e)/2n).

    Each side is wrong with probability e = error / 2K. Hoeffding 1963; [S] section 3.4.

    >>> [side.round(4).tolist() for side in hoeffding_interval([0.9, 0.1], 2000, 0.001)]
    [[0.8545, 0.0545], [0.9455, 0.1455]]
    """
    found = _means(means)
    _check(found.size, draws, error)
    return _within(found, sqrt(log(2 * found.size / error) / (2 * draws)))


def clopper_pearson(votes: ArrayLike, draws: int, error: float) -> Interval:
    """Bounds of how often each class gets a draw's vote, exact from counts: never wider than Hoeffding's.

    Clopper and Pearson 1934.

    >>> [side.round(4).tolist() for side in clopper_pearson([1990, 10], 2000, 0.001)]
    [[0.9869, 0.0012], [0.9988, 0.0131]]
    """
    counts = np.asarray(votes)
    _check(counts.size, draws, error)
    if counts.dtype.kind not in "iu" or not ((counts >= 0) & (counts <= draws)).all():
        raise FedprivError(f"votes must be whole numbers from 0 to draws = {draws}, got {votes!r}")
    side, k = error / (2 * counts.size), counts.astype(float)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), draws - k + 1, side), 0.0)
    upper = np.where(k < draws, 1 - betaincinv(np.maximum(draws - k, 1), k + 1, side), 1.0)
    return Interval(np.maximum(lower - OUTWARD, 0.0), np.minimum(upper + OUTWARD, 1.0))


def bernstein_interval(means: ArrayLike, variances: ArrayLike, draws: int, error: float) -> Interval:
    """Bounds of every class's expected score from draws' means and variances, the empirical Bernstein's.

    mean ± (√(2V ln(2/e)/n) + 7 ln(2/e)/(3(n − 1))).

    V is the sample variance, over n − 1. Maurer and Pontil 2009, Theorem 4.

    >>> [side.round(4).tolist() for side in bernstein_interval([0.9, 0.1], [0.001, 0.001], 2000, 0.001)]
    [[0.8865, 0.0865], [0.9135, 0.1135]]
    """
    found, spread = _means(means), np.asarray(variances, dtype=float)
    _check(found.size, draws, error)
    whole_from(2)(draws=draws)
    if spread.shape != found.shape or not (spread >= 0).all():
        raise FedprivError(f"variances must be at least 0 and one a class, got {variances!r}")
    level = log(4 * found.size / error)
    return _within(found, np.sqrt(2 * spread * level / draws) + 7 * level / (3 * (draws - 1)))


def of_scores(means: ArrayLike, variances: ArrayLike, draws: int, error: float) -> Interval:
    """Bounds of every class's expected score from draws: Hoeffding's or Bernstein's, the tighter; half the error each.

    >>> [side.round(4).tolist() for side in of_scores([0.9, 0.1], [0.001, 0.001], 2000, 0.001)]
    [[0.8856, 0.0856], [0.9144, 0.1144]]
    """
    first, second = hoeffding_interval(means, draws, error / 2), bernstein_interval(means, variances, draws, error / 2)
    return Interval(np.maximum(first.lower, second.lower), np.minimum(first.upper, second.upper))


def leading_bounds(bounds: Interval, best: int) -> tuple[float, float]:
    """What a prediction is certified by: the lower bound of the class `best`, the upper one of the best of the others.

    Scores add up to 1 at most, so no other can be above 1 less the first.

    >>> leading_bounds(Interval(np.array([0.8, 0.0]), np.array([1.0, 0.3])), 0)
    (0.8, 0.19999999999999996)
    """
    lower, others = float(bounds.lower[best]), np.delete(bounds.upper, best)
    return lower, min(float(others.max()), 1 - lower)


def _means(means: ArrayLike) -> Vector:
    """Means of draws' scores as floats, one a class, refused outside of [0, 1]."""
    found = np.asarray(means, dtype=float)
    if not ((found >= -OUTWARD) & (found <= 1 + OUTWARD)).all():
        raise FedprivError(f"means of scores must be between 0 and 1, got {means!r}")
    return found


def _check(classes: int, draws: int, error: float) -> None:
    """Refuse, for a certificate, fewer than two classes or one draw, and a confidence 1 − error not between 0 and 1."""
    whole_from(2)(classes=classes)
    whole(draws=draws)
    real(error=error)
    if not 0 < error < 1:
        raise FedprivError(f"confidence must be above 0 and below 1, got {1 - error}")


def _within(means: Vector, width: float | Vector) -> Interval:
    """Bounds of each class's expected score: its mean ± that width, cut to [0, 1]."""
    return Interval(np.maximum(means - width, 0.0), np.minimum(means + width, 1.0))
