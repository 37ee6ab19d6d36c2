"""The kinds of array that cross module borders, and the check they cross with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpriv.errors import FedprivError

Vector = NDArray[np.floating[Any]]  # data, probabilities, losses
Symbols = NDArray[np.integer[Any]]  # what a mechanism sends, in the smallest integer type that holds its alphabet
Numbers = NDArray[np.int64]  # of clients, records, rounds or counts
Rows = NDArray[np.float32]  # updates or gradients, one a row, and weights
Words = NDArray[np.uint64]  # random bits, 64 a word
Bytes = NDArray[np.uint8]  # packed symbols, or random bits
Mask = NDArray[np.bool_]  # which of them


def finite_floats(x: ArrayLike) -> Vector:
    """x as float64, refused where it holds a nan or an infinity: for updates and records before they are noised.

    >>> finite_floats([1, 2])
    array([1., 2.])
    """
    return held_within(x, np.inf)


def held_within(x: ArrayLike, peak: float) -> Vector:
    """x as float64, every coordinate cut to ±peak, as mechanisms encode it; a nan or an infinity is refused.

    >>> held_within([1, -2], 1.5)
    array([ 1. , -1.5])
    """
    values = np.asarray(x, dtype=np.float64)
    if not values.size:
        return values
    low, high = values.min(), values.max()
    if not (low > -np.inf and high < np.inf):  # nan fails both
        raise FedprivError(f"values must be finite, got {values[~np.isfinite(values)][0]}")
    return values if -peak <= low and high <= peak else values.clip(-peak, peak)
