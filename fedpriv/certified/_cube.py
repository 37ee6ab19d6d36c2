"""Laplace noise on each of d coordinates against a move of each by at most r: one curve, from the accountant.

The worst move is that of every coordinate by r (docs/proofs/certified.md), so the curve is `Tradeoff.laplace(r / b)`
composed d times. It is asked for some δ(ε) only: each is a line below the curve, and whichever ε is taken is sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, floor, log, sqrt

from scipy.special import ndtri

from fedpriv.curves.compose import ROUGH, Composition, compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import probability, whole

RATIO = 1.01  # shifts are tried on a grid, and rounded down to it
FEWEST = -2000  # 2e-9: below it nothing is certified that matters
WIDER = 0.1  # and ε, by its logarithm
MANY = 8  # coordinates from which a few ε near that of the normal curve are enough
SAFE = 1e-12  # roundings of sums of scores are far smaller


@dataclass(frozen=True)
class Cube:
    """The ℓ∞ ball in d dimensions, under Laplace noise of scale 1.

    >>> round(Cube(784).shift(0.99, 0.01), 4)
    0.0839
    """

    dimension: int  # d, coordinates of an input

    def __post_init__(self) -> None:
        """Refuse, for a radius under Laplace noise, a dimension that is no whole number from 1 on."""
        whole(dimension=self.dimension)

    def shift(self, lower: float, upper: float) -> float:
        """The largest move of every coordinate, in noise scales, under which `lower` surely stays ahead of `upper`.

        That is, a class of at least `lower` of one of at most `upper`; moves are on a grid.
        """
        probability(lower=lower, upper=upper)
        if not lower > upper:
            return 0.0
        # A place at which it holds and one at which it does not, near that of the normal curve: far ones cost time.
        reach = float(ndtri(min(lower, 1 - 1e-15)) - ndtri(max(upper, 1e-15))) / 2
        low = high = floor(log(max(reach, 1e-6) / sqrt(self.dimension)) / log(RATIO))
        step = 4
        if self._holds(lower, upper, low):
            while self._holds(lower, upper, low + step):
                low, step = low + step, 2 * step
            high = low + step
        else:
            while high - step > FEWEST and not self._holds(lower, upper, high - step):
                high, step = high - step, 2 * step
            low = max(high - step, FEWEST)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds(lower, upper, middle) else (low, middle)
        return RATIO**low if low > FEWEST else 0.0

    def _holds(self, lower: float, upper: float, place: int) -> bool:
        """Whether a class of at least `lower` stays ahead of one of at most `upper` at moves of RATIO^place each."""
        return self._kept(lower, place) + self._kept(1 - upper, place) > 1 + SAFE

    def _kept(self, mass: float, place: int) -> float:
        """The least that an expected score of `mass` becomes after a move of every coordinate by RATIO^place.

        The most that one ε of the grid leaves: 1 − δ − e^ε·(1 − mass), or e^−ε·(mass − δ) where that is more.
        """
        mu = RATIO**place * sqrt(self.dimension)  # the curve is close to G_μ, whose slope there says which ε serves
        aim = -mu * float(ndtri(min(max(1 - mass, 1e-15), 1.0))) - mu * mu / 2
        power = floor(log(min(max(abs(aim), mu / 20, 1e-9), 600)) / WIDER)
        left = 0.0
        for by in (0, 1) if self.dimension >= MANY else range(-7, 8):
            epsilon = exp(WIDER * (power + by))
            if epsilon <= 700:  # the exponential of more is no float
                delta = _delta(self.dimension, place, power + by)
                left = max(left, 1 - delta - exp(epsilon) * (1 - mass), exp(-epsilon) * (mass - delta))
        return left


@lru_cache(maxsize=1 << 16)
def _delta(dimension: int, place: int, power: int) -> float:
    """δ at one ε of the grid, from above, between an input noised and one moved by RATIO^place in every coordinate."""
    return _composed(dimension, place).delta(exp(WIDER * power), ROUGH).upper


@lru_cache(maxsize=1 << 12)
def _composed(dimension: int, place: int) -> Composition:
    """The curve between an input noised by Laplace and one moved by RATIO^place in every coordinate."""
    return compose([(Tradeoff.laplace(RATIO**place), dimension)])
