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

from fedpriv.curves._direction import (
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
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import at_least_zero, natural, probability

__all__ = ["FINE", "QUICK", "ROUGH", "Bounds", "Composition", "Part", "compose", "heavy_losses", "source"]


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
