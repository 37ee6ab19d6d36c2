"""One direction asked for error rates and for μ, between two bounds, on lattices that are not tilted."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves._convolution import Convolution
from fedpriv.curves._direction import BOTH, LOWER, QUICK, UPPER, Direction
from fedpriv.curves._error_rates import mu_at_least, mu_at_most, type_two_at_least, type_two_at_most
from fedpriv.curves._transforms import Counts, TooLarge


class Band(NamedTuple):
    """A curve known from both sides at one point, or at each of several; the truth lies between."""

    lower: Any
    upper: Any


class Mu(NamedTuple):
    """The smallest μ with T ≥ G_μ − up_to, between two bounds: `upper` is certified, `lower` is what data show."""

    lower: float
    upper: float
    up_to: float  # δ₀: 0, or what is set aside of every error for what no Gaussian curve lies below


def least_type_two(
    side: Direction,
    other: Direction,  # P against Q, or the side itself where they are alike
    alpha: Vector,
    tolerance: float,
    wanted: int = BOTH,
    counts: Counts | None = None,
) -> Band:
    """The least type II error of a side at each type I error; of a bound that is not wanted what is known anyway.

    The other direction is asked too: its tests, mirrored, are tests of this one.
    """
    low, high = np.zeros_like(alpha), 1 - alpha
    if side.gaussian_mu is not None:
        return Band(gaussian_type_two(side.gaussian_mu, alpha, -1), gaussian_type_two(side.gaussian_mu, alpha, +1))
    if side.nothing_shared:
        return Band(low, low if side.told_apart else high)
    try:
        for own, its in _asked(side, other, tolerance, wanted, counts):
            bound = type_two_at_least if own.sign > 0 else type_two_at_most
            found = bound(own.tails_near(alpha, close=tolerance < QUICK), alpha)
            if other is not side:
                better = np.maximum if own.sign > 0 else np.minimum
                found = better(found, bound(its.tails_near(found).mirrored(), alpha))
            low, high = (found, high) if own.sign > 0 else (low, found)
    except TooLarge:
        if counts is not None:
            raise
        low = gaussian_type_two(side.mu, alpha, -1)
        if wanted != UPPER and (fewer := side.fewer).rounds < side.rounds:
            high = least_type_two(fewer, fewer, alpha, tolerance, LOWER).upper
    return Band(np.minimum(low, high), high)


def _asked(
    side: Direction, other: Direction, tolerance: float, wanted: int, counts: Counts | None
) -> Iterator[tuple[Convolution, Convolution]]:
    """Each wanted bound of both directions."""
    own = side.untilted(tolerance, wanted, counts)
    return zip(own, own if other is side else other.untilted(tolerance, wanted, counts), strict=True)


def gaussian_type_two(mu: float, alpha: Vector, sign: int) -> Vector:
    """G_μ(α) = Φ(Φ⁻¹(1−α) − μ), with room for its rounding above or below."""
    if mu == inf:
        return np.zeros_like(alpha)
    return np.clip(ndtr(-ndtri(alpha) - mu) * (1 + sign * 1e-11) + sign * 1e-15, 0.0, 1 - alpha)


def smallest_mu(
    side: Direction, other: Direction, up_to: float, tolerance: float, wanted: int = BOTH, counts: Counts | None = None
) -> Mu:
    """The smallest μ with T ≥ G_μ − up_to of a side, as lattices of both directions show it; 0 and ∞ if not wanted."""
    low, high = 0.0, np.inf
    if (mu := side.gaussian_mu) is not None:
        return Mu(mu * (1 - 1e-11) if up_to == 0 else 0.0, mu, up_to)
    if side.nothing_shared:
        return Mu(np.inf if side.told_apart and up_to < 1 else 0.0, np.inf, up_to)
    try:
        for own, its in _asked(side, other, tolerance, wanted, counts):
            if own.sign > 0:
                high = mu_at_most(own.tails, its.tails, up_to)
            else:
                low = max(mu_at_least(tails, up_to) for tails in (own.tails, its.tails.mirrored()))
    except TooLarge:
        if counts is not None:
            raise
        if wanted != UPPER and (fewer := side.fewer).rounds < side.rounds:
            low = smallest_mu(fewer, fewer, up_to, tolerance, LOWER).lower
    return Mu(min(low, high), high, up_to)
