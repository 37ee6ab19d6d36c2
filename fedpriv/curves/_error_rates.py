"""What tests come to whose errors are known from one side: the errors of the best of them, and μ.

A test rejects from some loss on. What both sides give to that is known, rounded to the safe side of one bound. Of the
upper bound D of the hockey stick every line 1 − tα − D(t) lies below the tradeoff curve; of the lower one every mixture
of two tests lies above it. Proofs: docs/proofs/composition.md, section 15.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves.atoms import ROUNDING

STEEP = 700.0  # nats past which e^loss is no number


class Tails(NamedTuple):
    """What P and Q give to losses from a point on, at several points: of an upper bound P at least and Q at most.

    Of a lower bound it is the other way round. What both are off by in absolute terms is counted with Q.
    """

    loss: Vector
    p: Vector
    q: Vector

    def mirrored(self) -> Tails:
        """The same of the other direction: what P and Q, exchanged, give to what is left."""
        return Tails(-self.loss, 1 - self.q, 1 - self.p)


def type_two_at_least(tails: Tails, alpha: Vector) -> Vector:
    """The highest of the lines 1 − tα − D(t), of an upper bound, at each type I error."""
    seen = tails.loss < STEEP
    loss, p, q = (each[seen][:, None] for each in tails)
    with np.errstate(divide="ignore", over="ignore"):
        lines = 1 - q - np.exp(loss) * (alpha - p) - ROUNDING * (16 + np.abs(loss))
    return np.asarray(lines.max(axis=0, initial=0.0))


def type_two_at_most(tails: Tails, alpha: Vector) -> Vector:
    """The least type II error of mixtures of two tests, of a lower bound, at each type I error."""
    order = np.argsort(tails.p)
    kept = order[(tails.p[order] >= 0) & (tails.p[order] < 1)]
    level = np.concatenate(([0.0], tails.p[kept], [1.0]))
    error = np.concatenate(([1.0], 1 - np.maximum(tails.q[kept], 0.0), [0.0]))
    return np.minimum(np.interp(alpha, level, error) + 64 * ROUNDING, 1 - alpha)


def mu_at_most(own: Tails, other: Tails, up_to: float) -> float:
    """A μ with T ≥ G_μ − up_to, from lines of the upper bounds of both directions.

    Lines with t < 1 are those of the other direction mirrored, for D(t) = 1 − t + t·D′(1/t) keeps its digits. A line is
    followed from where it meets one neighbour to where it meets the other, and lies above the convex G_μ there where
    both ends do; each end is put on the lower of two lines.
    """
    steep, flat = _sorted_above_zero(own), _sorted_above_zero(other).mirrored()
    t = np.exp(np.concatenate((steep.loss, flat.loss[::-1], [-np.inf])))  # no error is below 0: a line too
    p, q = np.concatenate((steep.p, flat.p[::-1], [0.0])), np.concatenate((steep.q, flat.q[::-1], [1.0]))
    if q[0] - t[0] * p[0] > up_to:  # no line reaches T(0) = 1 − up_to
        return np.inf
    one, two = slice(None, -1), slice(1, None)
    with np.errstate(invalid="ignore", divide="ignore"):
        meet = np.clip(p[one] + (q[two] - q[one] - t[two] * (p[two] - p[one])) / (t[one] - t[two]), 0.0, 1.0)
        power = np.maximum(q[one] + t[one] * (meet - p[one]), q[two] + t[two] * (meet - p[two]))
        power += 1024 * ROUNDING * power - up_to  # the logarithm of t is 700 at most
        found = np.where(power <= 0, 0.0, ndtri(np.minimum(power, 1.0)) - ndtri(meet))
    return float(np.nan_to_num(found, nan=np.inf).max(initial=0.0)) * (1 + 64 * ROUNDING) + 64 * ROUNDING


def mu_at_least(tails: Tails, up_to: float) -> float:
    """No smaller μ has T ≥ G_μ − up_to, for some test of a lower bound has more power than that."""
    power = tails.q - up_to - 16 * ROUNDING
    if (power[tails.loss == np.inf] > 0).any():
        return np.inf
    seen = (tails.p > 0) & (tails.p < 1) & (power > 0) & (power < 1)
    found = ndtri(power[seen]) - ndtri(tails.p[seen])
    return max(float(found.max(initial=0.0)) * (1 - 64 * ROUNDING) - 64 * ROUNDING, 0.0)


def _sorted_above_zero(tails: Tails) -> Tails:
    """Those of losses above 0, the largest first."""
    seen = np.flatnonzero((tails.loss > 0) & (tails.loss < STEEP))
    order = seen[np.argsort(-tails.loss[seen])]
    return Tails(*(each[order] for each in tails))
