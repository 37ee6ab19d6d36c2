"""How like two pictures are, and means over records with the interval about them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fedpriv._base.arrays import Vector
from simulations.figures.intervals import Interval, interval_of

WINDOW = 7  # pixels a side, of the windows that are compared
LEAST = 1e-10  # a squared error that is rounding


def share_taken(parts: Vector, wholes: Vector) -> Interval:
    """The share of the whole that is not in the parts, 1 − Σ parts / Σ wholes of the same records; ± to first order.

    >>> share_taken(np.array([0.5, 1.0]), np.array([1.0, 2.0]))[:2]
    (0.5, 0.0)
    """
    share = float(parts.mean() / wholes.mean())
    return mean_over_records(1 - share - (parts - share * wholes) / wholes.mean())


def mean_over_records(values: Vector) -> Interval:
    """The mean of one value a record that an inversion attacks, and half of its interval.

    >>> round(mean_over_records(np.array([1.0, 2.0, 3.0])).half, 3)
    2.484
    """
    found = interval_of(values.tolist())
    assert found is not None  # there is a record
    return found


def squared_errors(found: Vector, truth: Vector) -> Vector:
    """The mean squared error of each picture, a row of pixels of 0 to 1 each."""
    return np.asarray(((found - truth) ** 2).mean(axis=1))


def signal_to_noise(errors: Vector) -> Vector:
    """PSNR in dB of pictures of pixels from 0 to 1, by their squared errors; 100 dB where nothing is wrong.

    >>> signal_to_noise(np.array([0.01, 0.0])).tolist()
    [20.0, 100.0]
    """
    return np.asarray(-10 * np.log10(np.maximum(errors, LEAST)))


def similarity(found: Vector, truth: Vector) -> float:
    """SSIM of two pictures of pixels from 0 to 1: Wang et al. 2004, in uniform windows of 7 × 7.

    >>> similarity(np.eye(8), np.eye(8))
    1.0
    """
    size = min(WINDOW, *truth.shape)
    one, other = (sliding_window_view(each, (size, size)).reshape(-1, size * size) for each in (found, truth))
    means, others = one.mean(axis=1), other.mean(axis=1)
    together = ((one - means[:, None]) * (other - others[:, None])).sum(axis=1) / (size * size - 1)
    bright = (2 * means * others + 0.01**2) / (means**2 + others**2 + 0.01**2)
    alike = (2 * together + 0.03**2) / (one.var(axis=1, ddof=1) + other.var(axis=1, ddof=1) + 0.03**2)
    return float((bright * alike).mean())
