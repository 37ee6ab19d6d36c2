"""How much the noise of one message is worth once decoded: known before any record is, by formula."""

from __future__ import annotations

from dataclasses import dataclass
from math import sinh, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector, finite_floats
from fedpriv.mechanisms._discrete import BinomialNoise, DiscreteGaussian
from fedpriv.mechanisms._laplace import DiscreteLaplace
from fedpriv.mechanisms._skellam import Skellam
from fedpriv.mechanisms.additive import Gaussian, Laplace
from fedpriv.mechanisms.cldp import Cldp
from fedpriv.mechanisms.ternary import Ternarize, Ternary
from fedpriv.mechanisms.votes import Binomial, StochasticSign


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The variance of a decoded coordinate whose input is x: still + rising·|x| − falling·x²."""

    still: float
    rising: float = 0.0
    falling: float = 0.0

    def at(self, x: ArrayLike) -> Vector:
        """The variance at these inputs.

        >>> Spread(still=4.0, falling=1.0).at([0.0, 1.0])
        array([4., 3.])
        """
        values = np.abs(finite_floats(x))
        return self.still + self.rising * values - self.falling * values**2

    def largest(self, peak: float) -> float:
        """The most there is of one coordinate, |x| ≤ peak."""
        return self.total(1, peak)

    def total(self, dimension: int, length: float, *, at_length: bool = False) -> float:
        """The most there is of all coordinates together, ‖x‖₂ ≤ length; or where ‖x‖₂ is that length.

        ‖x‖₁ ≤ √d·‖x‖₂ with equality where all coordinates are alike, so it is a parabola in ‖x‖₂.
        """
        root = sqrt(dimension)
        if not at_length and self.falling:
            length = min(length, self.rising * root / (2 * self.falling))
        return dimension * self.still + self.rising * root * length - self.falling * length**2


def message_spread(mechanism: Any) -> Spread | None:
    """What the noise in one message is worth, decoded; None of what has no unbiased decoder, or none that is known.

    Votes: B²/M − x²/M. Three symbols: AB − x². Ternarize: B|x| − x². Noise on a grid: its own, in steps of the grid.

    >>> message_spread(Binomial(clip=1, scale=2, trials=4))
    Spread(still=1.0, rising=0.0, falling=0.25)
    """
    match mechanism:
        case Binomial():
            return Spread(still=mechanism.scale**2 / mechanism.trials, falling=1 / mechanism.trials)
        case StochasticSign():
            return Spread(still=mechanism.scale**2, falling=1.0)
        case Cldp():
            return message_spread(mechanism.sign)
        case Ternary():
            return Spread(still=mechanism.spread * mechanism.scale, falling=1.0)
        case Ternarize():
            return Spread(still=0.0, rising=mechanism.scale, falling=1.0)
        case BinomialNoise():
            return Spread(still=mechanism.grid.step**2 * mechanism.trials * mechanism.bias * (1 - mechanism.bias))
        case DiscreteGaussian():
            return Spread(still=mechanism.noise**2)  # at most: Canonne, Kamath, Steinke 2020, Corollary 9
        case DiscreteLaplace():
            return Spread(still=(mechanism.grid.step / (2 * sinh(0.5 / mechanism.scale))) ** 2 * 2)
        case Skellam() | Gaussian():
            return Spread(still=mechanism.noise**2)
        case Laplace():
            return Spread(still=2 * mechanism.noise**2)
    return None
