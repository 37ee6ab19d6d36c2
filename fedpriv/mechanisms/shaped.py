"""Votes whose chance follows the input along any curve: [F] Theorem 3 needs only that it stays between two numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.bounds.coins import log_binomial
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, above, finite_inputs, limited, positive, whole
from fedpriv.mechanisms._grid import information
from fedpriv.mechanisms._settings import Peak, fill_peak
from fedpriv.mechanisms.votes import MOST_TRIALS, votes_between, votes_drawn
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

Shape = Literal["linear", "sine", "root", "cube"]
SHAPES: Mapping[str, Callable[[Vector], Vector]] = {  # of u in −1 … 1, odd and rising from −1 to 1
    "linear": lambda u: u,
    "sine": lambda u: np.sin(np.pi / 2 * u),
    "root": lambda u: np.sign(u) * np.sqrt(np.abs(u)),
    "cube": lambda u: u**3,
}
Share = Annotated[float, positive, limited(below=1)]


@dataclass(frozen=True, kw_only=True)
class ShapedBinomial:
    """M votes a coordinate, each + with a chance that rises from p_min to p_max along a curve. [F] Theorem 3."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    trials: Annotated[int, whole, MOST_TRIALS, "M, votes a coordinate"]
    low: Annotated[Share, "p_min, the chance of a vote for + at −peak"]
    high: Annotated[Share, "p_max, the chance of a vote for + at peak: above low"]
    shape: Annotated[Shape, "how the chance rises between them; only a linear one has an unbiased mean"] = "linear"
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"trials": +1, "low": -1, "high": +1}

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        above("low", self.low, high=self.high)

    def chance(self, x: Vector) -> Vector:
        """The probability of a vote for +, |x| ≤ r: never outside p_min … p_max, whatever is rounded."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        share: Vector = middle + half * SHAPES[self.shape](x / self.peak)
        return share.clip(self.low, self.high)

    @property
    def alphabet(self) -> range:
        """What one coordinate may send."""
        return range(self.trials + 1)

    @property
    def centre(self) -> Fraction:
        """M·p(0), the shares as they are written: 0.3 is three tenths, so that ties are ties."""
        return self.trials * (Fraction(str(float(self.low))) + Fraction(str(float(self.high)))) / 2

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate where its chance is nearest to one half."""
        return information(log_binomial(self.trials, min(max(0.5, self.low), self.high), 0, self.trials))

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire."""
        return float(ceil(log2(self.trials + 1)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """The counts, in the smallest unsigned type."""
        return votes_drawn(self.trials, self.chance, self.peak, x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The unbiased mean of n inputs from the sum of their messages, where the chance is a straight line."""
        if self.shape != "linear":
            raise FedprivError(f"ShapedBinomial of shape {self.shape} has no unbiased decoder: take the majority vote")
        share = np.asarray(total, dtype=float) / (n * self.trials)
        return np.asarray(self.peak * (2 * (share - self.low) / (self.high - self.low) - 1))

    def symbol_law(self, x: float) -> Vector:
        """P(symbol | x) of each count."""
        share = float(self.chance(np.clip(np.array(float(x)), -self.peak, self.peak)))
        return np.exp(log_binomial(self.trials, share, 0, self.trials))

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        finite_inputs(x, y)
        return votes_between(self.trials, self.chance(np.clip([float(x), float(y)], -self.peak, self.peak)))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst of both ways round: p_max against p_min.

        Coins of p and q between them are these two after one channel, which keeps a + with one chance and makes one of
        a − with another: so no two inputs are told apart better, whatever the curve.

        >>> f = ShapedBinomial(clip=1, trials=16, low=0.45, high=0.55, shape="root").tradeoff()
        >>> round(f.mu, 12)
        0.814388173762
        """
        curve = self.between(self.peak, -self.peak)
        return curve if curve.symmetric else curve.hull(curve.inverse)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return
