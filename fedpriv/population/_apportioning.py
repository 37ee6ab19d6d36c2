"""Whole numbers from shares: what adds up to a total, is near what it should be, and nowhere below a least number."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Vector


def shares(logarithms: Vector) -> Vector:
    """Clients' shares of the records from the logarithms of their weights, each column adding up to 1."""
    weights = np.exp(logarithms - logarithms.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def rounded(shares: Vector, total: int, offset: float) -> Numbers:
    """How many of `total` records each client gets, from shares: sums of the first c are the shares' own, rounded.

    By an offset uniform in (0, 1), a part is on average exactly its share.

    >>> rounded(np.array([0.3, 0.3, 0.4]), 4, offset=0.5)
    array([1, 1, 2])
    """
    bounds = np.concatenate([[0.0], np.minimum(np.cumsum(shares) * total, total)])
    bounds[-1] = total
    whole = np.minimum(np.floor(bounds + offset), total).astype(np.int64)  # an offset just below 1 rounds up to it
    return whole[1:] - whole[:-1]


def with_least(counts: Numbers, least: int) -> Numbers:
    """Counts (clients, labels) of a split once nobody has fewer than `least`, given from the largest count of all.

    >>> with_least(np.array([[5, 3], [0, 0], [1, 0]]), least=2)
    array([[2, 3],
           [2, 0],
           [2, 0]])
    """
    counts, sizes = counts.copy(), counts.sum(axis=1)
    short = np.repeat(np.arange(len(sizes)), np.maximum(least - sizes, 0)).tolist()
    places = np.argwhere(counts > 0) if short else counts[:0]
    largest = [(-int(counts[client, label]), client, label) for client, label in places.tolist()]
    heapify(largest)
    for taker in short:
        while sizes[largest[0][1]] <= least:  # it has none to spare, now or later
            heappop(largest)
        negative, giver, label = largest[0]
        heapreplace(largest, (negative + 1, giver, label))
        for client, change in ((giver, -1), (taker, 1)):
            counts[client, label] += change
            sizes[client] += change
    return counts


def uniform(words: NDArray[np.uint64]) -> Vector:
    """Numbers strictly between 0 and 1 from random words, 52 bits each: what splits draw shares and sizes by."""
    return np.asarray(((words >> np.uint64(12)) + 0.5) * 2.0**-52)
