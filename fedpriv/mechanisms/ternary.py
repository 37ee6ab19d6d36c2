"""Mechanisms with three symbols: a sign, or nothing at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.bounds import vectors
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import above, finite_inputs, positive, real
from fedpriv.mechanisms._settings import Peak, fill_peak
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

PACKED = 1.6  # five symbols of base 3 fit a byte


@dataclass(frozen=True, kw_only=True)
class Ternary:
    """±1 with probability (A ± x)/2B, else 0. [F] Example 3, with B > A > r (its A > B is a slip)."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    spread: Annotated[float, real, "A, how little a sign says: above peak"]
    scale: Annotated[float, real, "B, how rarely a sign is sent: above spread, with probability A/B"]
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "spread": -1, "scale": -1}
    alphabet: ClassVar = range(-1, 2)
    centre: ClassVar = Fraction(0)
    bits: ClassVar = PACKED

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        above("peak", self.peak, spread=self.spread)
        above("spread", self.spread, scale=self.scale)

    @property
    def entropy(self) -> float:
        """Bits of information in a symbol at x = 0, the most there are, for a run's header: H(A/B) + A/B."""
        return _entropy([self.spread / (2 * self.scale)] * 2)

    def plus(self, x: Vector) -> Vector:
        """The probability that a coordinate x of an update is sent as +1, |x| ≤ r: A/2B + x/2B."""
        return self.spread * (0.5 / self.scale) + x * (0.5 / self.scale)

    def minus(self, x: Vector) -> Vector:
        """The probability that a coordinate x of an update is sent as −1, |x| ≤ r: A/2B − x/2B."""
        return self.spread * (0.5 / self.scale) - x * (0.5 / self.scale)

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: a random −1, 0 or 1, as int8, for each coordinate."""
        unit = 0.5 / self.scale
        middle = self.spread * unit  # the very numbers of `plus` and `minus`, x/2B made once for both
        return sampling_exact.ternary(
            lambda y: middle + y, lambda y: middle - y, rng, at=x, within=self.peak, times=unit
        )  # fmt: skip

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's unbiased mean of n clients' updates, from the sum Z of their symbols over n: B·Z."""
        return np.asarray(self.scale * np.asarray(total, dtype=float) / n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        return _symbols_between(self, x, y)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, r against −r: the curve that certifies a message's ε.

        >>> f = Ternary(clip=0.1, spread=0.25, scale=0.5).tradeoff()
        >>> round(f.delta(np.log(2)), 12), round(f.mu, 12)
        (0.05, 0.651112923086)
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.TernaryVotes:
        """The bound that certifies ε for whole ℓ2-clipped vectors of symbols, whatever their dimension."""
        clip = min(self.clip, self.peak * sqrt(dimension))
        clip += self.scale * 2.0**-51 * sqrt(dimension)  # as if the input held the rounding of p
        return vectors.TernaryVotes(clip=clip, peak=self.peak, spread=self.spread, scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class Ternarize:
    """The sign of x with probability |x|/B, else 0: TernGrad's coder. [F] Definition 7.

    A sign that is sent is true, so a coordinate is hidden with probability 1 − r/B or not at all: δ = r/B at every ε.
    """

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    scale: Annotated[float, real, "B, how rarely a sign is sent: above peak, with probability |x|/B"]
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "scale": -1}
    alphabet: ClassVar = range(-1, 2)
    centre: ClassVar = Fraction(0)
    bits: ClassVar = PACKED

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        above("peak", self.peak, scale=self.scale)

    @property
    def entropy(self) -> float:
        """Bits of information in a symbol at |x| = r, for a run's header: the most where r/B is small."""
        return _entropy([self.peak / self.scale])

    def plus(self, x: Vector) -> Vector:
        """The probability that a coordinate x of an update is sent as +1, |x| ≤ r: x/B where x is positive."""
        return np.maximum(x, 0) * (1 / self.scale)

    def minus(self, x: Vector) -> Vector:
        """The probability that a coordinate x of an update is sent as −1, |x| ≤ r: −x/B where x is negative."""
        return np.maximum(-x, 0) * (1 / self.scale)

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: each coordinate's sign or 0, at random, as int8."""
        return sampling_exact.ternary(self.plus, self.minus, rng, at=x, within=self.peak)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's unbiased mean of n clients' updates, from the sum Z of their symbols over n: B·Z."""
        return np.asarray(self.scale * np.asarray(total, dtype=float) / n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        return _symbols_between(self, x, y)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, r against −r: the curve that certifies a message's ε.

        >>> round(Ternarize(clip=0.1, scale=1).tradeoff().delta(3.0), 12)
        0.1
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: no bound for a whole ℓ2-clipped vector, so the accountant holds each coordinate to its largest."""
        return


def _symbols_between(mechanism: Ternary | Ternarize, x: float, y: float) -> Tradeoff:
    """The tradeoff curve between the symbols (+1, 0, −1) that a ternary mechanism sends for x and for y."""
    finite_inputs(x, y)
    ends = np.clip([float(x), float(y)], -mechanism.peak, mechanism.peak)
    plus, minus = mechanism.plus(ends), mechanism.minus(ends)
    nothing = 1 - plus - minus
    if plus[0] == minus[1] and plus[1] == minus[0]:
        nothing = np.array([nothing[0], nothing[0]])  # the same number, rounded twice
    return Tradeoff.between([plus[0], nothing[0], minus[0]], [plus[1], nothing[1], minus[1]])


def _entropy(chances: list[float]) -> float:
    """Bits of information in a ternary mechanism's symbol, given all chances but that of the last."""
    mass = np.array([*chances, 1 - sum(chances)])
    mass = mass[mass > 0]
    return float(-(mass * np.log2(mass)).sum())
