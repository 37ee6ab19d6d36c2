"""Factors that bring rows within an ℓ2 norm for certain, whatever rounding does to the sums."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, one_of, positive

HOW = ("clip", "normalise")
SEGMENT = 256  # squares summed up in the type they are given in
_REST = 2.0**-33  # of all that float64 rounds: sums of up to 2²⁰ segments, root, quotient, products
# quotients between which float64 has all its digits; a row beyond either is sent as 0
_LEAST = 1e-300
_MOST = 1e300

Matrix = NDArray[np.floating[Any]]


def clip_factors(
    updates: Matrix,
    clip: float,
    how: str,  # one of HOW
) -> Vector:
    """What to multiply each client's update, a row, by, so that its ℓ2 norm is certainly at most `clip`.

    "clip": min(1, clip/‖x‖); "normalise": clip/‖x‖, 0 for a row of zeros. Of float32 rows both may be 8e-6 below that.
    A row that is not finite gets nan.

    >>> clip_factors(np.array([[3, 4], [0.3, 0.4], [np.nan, 0]]), 1.0, "clip").round(4)
    array([0.2, 1. , nan])
    """
    one_of(HOW, how=how)
    x = np.ascontiguousarray(updates)  # sums go in the order of memory, and a row's factor must be its own
    if x.ndim != 2:
        raise FedprivError(f"updates must be a matrix, a row a client, got the shape {x.shape}")
    if not (clip == inf and how != "normalise"):
        positive(clip=clip)
    quotients = _quotients(x if x.dtype in (np.float32, np.float64) else x.astype(np.float64), float(clip))
    if how == "normalise":
        return np.where(quotients > _MOST, 0, quotients)
    return np.minimum(quotients, 1)


def _quotients(x: Matrix, clip: float) -> Vector:
    """clip/‖x‖ of each client's update, a row, or a little less for rounding: what factors are made of.

    It is inf for zeros, nan for what is not finite.

    A sum of n squares in a type of unit roundoff u, in any order, is within n·u/(1 − n·u) of itself (Higham, Accuracy
    and Stability of Numerical Algorithms, section 3.1), and the root halves that. Squares that underflow lose at most
    the smallest normal number each: a share of 2⁻⁴⁰ where the sum is not tiny. Other rows are scaled first. Squares are
    summed by segments in the type of x, and the segments in float64.
    """
    kind = np.finfo(x.dtype)
    whole = x.shape[1] - x.shape[1] % SEGMENT
    segments, rest = x[:, :whole].reshape(len(x), whole // SEGMENT, SEGMENT), x[:, whole:]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares = np.vecdot(segments, segments).astype(np.float64)  # a sum that casts would depend on the rows around
        sums = np.asarray(squares.sum(axis=1) + np.vecdot(rest, rest))
        room = 1 + 0.51 * SEGMENT * float(kind.epsneg) + _REST
        quotients = np.asarray(clip / (np.sqrt(sums) * room))
    plain = (sums >= x.shape[1] * float(kind.tiny) * 2.0**40) & (sums < inf)
    for row in np.flatnonzero(~plain):
        values = x[row].astype(np.float64)
        largest = float(np.abs(values).max(initial=0))
        if not 0 < largest < inf:
            quotients[row] = inf if largest == 0 else float("nan")
            continue
        parts = values / largest
        quotient = clip / largest / (sqrt(float((parts * parts).sum())) * (1 + _REST))
        quotients[row] = quotient if quotient > _LEAST else 0.0
    return quotients
