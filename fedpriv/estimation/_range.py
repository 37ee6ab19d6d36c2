"""Where the data lie, from histograms of every coordinate that show only bins with many records. [M] Algorithms 5, 14.

Bins are ⌊x/w⌋ for a width w that does not depend on the data, so no bin is known to exist before it is published; the
paper takes them from the data's minimum and maximum. A bin is published only where its noisy count reaches a threshold
(`mechanisms.Histogram`). From what is published the median is read, which is nearer to the mean than the fullest bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Vector
from fedpriv.mechanisms import Histogram
from fedpriv.randomness.grid import FineGrid

SPREAD = 4  # a coordinate that spans at most so many bins a record is counted in an array, others are sorted


class Published(NamedTuple):
    """The bins that one histogram shows, in order, and their noisy counts."""

    bins: Vector
    counts: Vector


def centre(records: Vector, histogram: Histogram, width: float, groups: int, rng: Generator) -> Vector | None:
    """Where records lie, found privately: each coordinate's median, or its median over groups; None if no bin shows.

    Groups are drawn by a record's place, not by its value: a neighbour differs in one group only, so all histograms of
    a coordinate together cost what one does. [M] Algorithm 14 gives each group a share of ε, which it need not.
    """
    place = np.argsort(rng.random(len(records))) % groups if groups > 1 else None
    found = np.empty(records.shape[1])
    for j, column in enumerate(records.T):
        medians = []
        for group in range(groups):
            shown = published(column if place is None else column[place == group], histogram, width, rng)
            medians.append(median(shown, width))
        known = [value for value in medians if value is not None]
        if not known:
            return None
        found[j] = np.median(known)
    return found


def published(column: Vector, histogram: Histogram, width: float, rng: Generator) -> Published:
    """What a noisy histogram shows of one coordinate: bins ⌊x/w⌋ that hold a record and whose noisy count passes."""
    bins, counts = occupied(column, width)
    fine = FineGrid.of(1.0, histogram.noise)  # whose step divides 1
    noisy = fine.noisy(fine.whole(counts), histogram.noise, 2, rng)
    passed = noisy - fine.step >= histogram.threshold  # rounded noise passes no more often than real noise would
    return Published(bins[passed], noisy[passed])


def occupied(column: Vector, width: float) -> Published:
    """The bins of width w of one coordinate that hold a record, in order, and how many each holds, before noise.

    >>> occupied(np.array([0.5, -0.1, 0.7, np.nan, np.inf]), 1.0)
    Published(bins=array([-1.,  0.]), counts=array([1., 2.]))
    """
    with np.errstate(over="ignore"):
        places = np.floor(column / width)
    places = places[np.isfinite(places)]
    if not places.size:
        return Published(np.zeros(0), np.zeros(0))
    low, high = float(places.min()), float(places.max())
    if high - low > SPREAD * places.size:
        bins, many = np.unique(places, return_counts=True)
        return Published(bins, many.astype(float))
    many = np.bincount((places - low).astype(np.int64))
    index = np.flatnonzero(many)
    return Published(low + index, many[index].astype(float))


def median(shown: Published, width: float) -> float | None:
    """One coordinate's median from a published histogram, records held to be even in a bin; None if it shows none.

    >>> median(Published(np.array([0.0, 1.0]), np.array([10.0, 10.0])), 1.0)
    1.0
    """
    if not shown.bins.size:
        return None
    before = np.cumsum(shown.counts)
    at = int(np.searchsorted(before, before[-1] / 2))
    share = 1 - (before[at] - before[-1] / 2) / shown.counts[at]
    return float((shown.bins[at] + share) * width)
