"""Composition: what many releases give away together, between two bounds that hold.

The losses of independent releases add, so their masses convolve. A direction of every round is put on one lattice
(`_lattice`) and composed by a Fourier transform after tilting by e^{θ·loss}, so that its bulk lies at the ε asked for
(`_convolution`): δ = 1e−30 then costs no more than δ = 1e−3, and ε = 5,000 no more than 1. One curve, made a little
more and a little less informative, gives the upper and the lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.curves._direction import (
    BOTH,
    FINE,
    LOWER,
    QUICK,
    ROUGH,
    UPPER,
    Bounds,
    Direction,
    Part,
    heavy_losses,
    source,
)
from fedpriv.curves._untilted import Band, Mu, gaussian_type_two, least_type_two, smallest_mu
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.pair import error_rates
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import at_least_zero, natural, probability

__all__ = [
    "BOTH",
    "FINE",
    "LOWER",
    "QUICK",
    "ROUGH",
    "UPPER",
    "Band",
    "Bounds",
    "Composition",
    "Mu",
    "Part",
    "compose",
    "gaussian_type_two",
    "heavy_losses",
    "source",
]


def compose(parts: Iterable[Part]) -> Composition:
    """Curves, each with the number of times it is released, as one composition to be asked for ε or δ.

    >>> vote = Tradeoff.between([0.6, 0.4], [0.4, 0.6])
    >>> low, high = compose([(vote, 1000)]).epsilon(1e-5)
    >>> high - low < 1e-6 * high
    True
    """
    others: dict[int, Part] = {}  # by identity: a curve met twice is counted together
    squares = 0.0  # Gaussian curves are made one, G_√Σμ²
    for curve, count in parts:
        natural(rounds=count)
        if count and curve.gaussian_mu is not None:
            squares += int(count) * curve.gaussian_mu**2
        elif count:
            others[id(curve)] = (curve, int(count) + others.get(id(curve), (curve, 0))[1])
    together = [(Tradeoff.gaussian(float(np.sqrt(squares)) * (1 + 4 * ROUNDING)), 1)] if squares else []
    return Composition((*others.values(), *together))


@dataclass(frozen=True, eq=False)
class Composition:
    """Releases composed; asked for δ at an ε or ε at a δ, it answers with bounds for the worse of both directions."""

    parts: tuple[Part, ...]  # curves, each with the number of times it is released

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions to compose: Q against P and, unless all curves are symmetric, P against Q; () if nothing."""
        if not self.parts:
            return ()
        forward = Direction(self.parts)
        if all(curve.symmetric for curve, _ in self.parts):
            return (forward,)
        return forward, Direction(tuple((curve.inverse, count) for curve, count in self.parts))

    @property
    def _both_ways(self) -> Iterable[tuple[Direction, Direction]]:
        """Each direction, and the other."""
        return zip(self.directions, self.directions[::-1], strict=True)

    @cached_property
    def mu(self) -> float:
        """A certified Gaussian-DP parameter of the composition, ∞ where some curve has none."""
        return max((direction.mu for direction in self.directions), default=0.0)

    def delta(self, epsilon: float, tolerance: float = FINE) -> Bounds:
        """δ(ε) of all releases together, from both sides; a larger tolerance is quicker, its bounds further apart."""
        at_least_zero(epsilon=epsilon)
        return self._worst(lambda direction, t: direction.delta(float(epsilon), t), tolerance)

    def epsilon(self, delta: float, tolerance: float = FINE) -> Bounds:
        """ε(δ) of all releases together, the smallest ε ≥ 0, from both sides; ∞ where there is none."""
        probability(delta=delta)
        return self._worst(lambda direction, t: direction.epsilon(float(delta), t), tolerance)

    def upper_epsilon(self, delta: float, tolerance: float) -> float:
        """The upper bound alone of all releases' ε(δ), at half the cost of both: what a route certifies."""
        probability(delta=delta)
        return max((side.epsilon(float(delta), tolerance, UPPER).upper for side in self.directions), default=0.0)

    def lower_epsilon(self, delta: float, tolerance: float) -> float:
        """The lower bound alone of all releases' ε(δ), at half the cost of both: what a witness reaches."""
        probability(delta=delta)
        return max((side.epsilon(float(delta), tolerance, LOWER).lower for side in self.directions), default=0.0)

    def tradeoff(self, alpha: ArrayLike, tolerance: float = FINE, wanted: int = BOTH) -> Band:
        """The least type II error at a type I error, or at each of several, from both sides; the worse direction.

        Where only δ's `UPPER` bound is wanted, which gives the lower one of errors, or the `LOWER`, the other is open.

        >>> low, high = compose([(Tradeoff.between([0.55, 0.45], [0.45, 0.55]), 100)]).tradeoff(0.05)
        >>> round(low, 7), round(high, 7)
        (0.3607909, 0.3607909)
        """
        levels = error_rates(alpha)
        flat = np.atleast_1d(levels)
        low, high = np.min([Band(1 - flat, 1 - flat), *self.tradeoffs(flat, tolerance, wanted)], axis=0)
        return Band(low, high) if levels.ndim else Band(float(low[0]), float(high[0]))

    def tradeoffs(self, alpha: Vector, tolerance: float = FINE, wanted: int = BOTH) -> list[Band]:
        """What `tradeoff` takes the worse of: Q told from P and, unless all curves are symmetric, P from Q."""
        return [least_type_two(*sides, alpha, tolerance, wanted) for sides in self._both_ways]

    def true_positive_rate(self, false_positive_rate: ArrayLike, tolerance: float = FINE) -> Band:
        """The largest rate at which an attacker finds the unit, at a given rate of false alarms: 1 − `tradeoff`."""
        low, high = self.tradeoff(false_positive_rate, tolerance)
        return Band(1 - high, 1 - low)

    @property
    def advantage(self) -> Bounds:
        """max (1 − α − β) = δ(0), from both sides: an attacker's best edge over guessing."""
        return self.delta(0.0)

    def mu_between(self, up_to: float = 0.0, tolerance: float = FINE, wanted: int = BOTH) -> Mu:
        """The smallest μ with T ≥ G_μ − up_to, from both sides: `mu`, or where δ₀ = `up_to` is left, what that saves.

        >>> low, high, _ = compose([(Tradeoff.between([0.55, 0.45], [0.45, 0.55]), 100)]).mu_between()
        >>> round(low, 7), round(high, 7)
        (2.0100336, 2.0100336)
        """
        probability(up_to=up_to)
        found = [smallest_mu(*sides, up_to, tolerance, wanted) for sides in self._both_ways]
        lower, upper = (max((own[at] for own in found), default=0.0) for at in (0, 1))
        if wanted != LOWER:
            upper = min(upper, self.mu)
        return Mu(min(lower, upper), upper, up_to)

    def _worst(self, ask: Callable[[Direction, float], Bounds], tolerance: float) -> Bounds:
        """What the worse direction answers, for `delta` and `epsilon`; the better one is asked only roughly."""
        if not self.parts:
            return Bounds(0.0, 0.0)
        open_ = list(self.directions)
        if len(open_) > 1 and tolerance < ROUGH:
            rough = [ask(direction, ROUGH) for direction in open_]
            largest = max(bounds.lower for bounds in rough)
            open_ = [direction for direction, bounds in zip(open_, rough, strict=True) if bounds.upper >= largest]
        answers = [ask(direction, tolerance) for direction in open_]
        return Bounds(max(a.lower for a in answers), max(a.upper for a in answers))
