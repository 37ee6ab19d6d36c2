"""A mechanism that adds Skellam noise on a grid, whose sums are Skellam noise again: see `fedpriv.mechanisms._grid`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log, log2, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ive

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import finite_inputs, positive
from fedpriv.mechanisms._grid import Grid, Levels, information, not_too_narrow, not_too_wide, shifted
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

WIDE = 1e6  # variance past which Bessel functions are expanded
FAR = 1e-300  # the tail at which infinite noise is cut; what lies beyond counts as seen


@dataclass(frozen=True, kw_only=True)
class Skellam:
    """A grid value plus Skellam noise, the difference of two Poisson numbers; sums of messages are Skellam again."""

    clip: Annotated[float, positive, "c, the largest |coordinate|"]
    levels: Levels
    noise: Annotated[float, positive, "the noise's standard deviation, in the data's units"]

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None

    def __post_init__(self) -> None:
        check_fields(self)
        not_too_narrow(self.noise / self.grid.step)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """The grid that updates' coordinates are rounded to before the noise: −clip to clip in `levels` steps."""
        return Grid(self.clip, self.levels)

    @property
    def centre(self) -> Fraction:
        """The mean symbol of an update of 0, where votes tie: the middle of the grid."""
        return self.grid.centre

    @property
    def variance(self) -> float:
        """The noise's variance in grid steps, squared: what its law and its draws take."""
        return (self.noise / self.grid.step) ** 2

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values, cut far out, and their log masses e^{−v}·I_|k|(v): what its curves are made of.

        ln e^{−v} I_k(v) is scipy's where it does not underflow, and the leading term of its series where it does:
        I_k(v) = (v/2)^k/k!·Σ (v²/4)^j/(j!·(k+1)…(k+j)). Past `WIDE` it is Debye's uniform expansion (DLMF 10.41.3),
        whose second term is below 1/v² of the whole.
        """
        v, reach = self.variance, ceil(40 * sqrt(self.variance) + 300)
        not_too_wide(reach)
        k = np.arange(0, reach + 1)
        if v > WIDE:
            x = k.astype(float)
            s = np.hypot(x, v)
            exponent = x * x / (s + v) - x * np.arcsinh(x / v)
            mass = np.asarray(exponent - np.log(2 * np.pi * s) / 2 + np.log1p((3 / s - 5 * x * x / s**3) / 24))
        else:
            bessel = ive(k, v)
            with np.errstate(divide="ignore"):
                direct = np.log(bessel)
            series = k * log(v / 2) - gammaln(k + 1) - v + v**2 / (4 * (k + 1))
            mass = np.where(bessel > 1e-290, direct, np.minimum(series, -660.0))
        kept = mass > log(FAR)
        k, mass = k[kept], mass[kept]
        return np.concatenate((-k[:0:-1], k)), np.concatenate((mass[:0:-1], mass))

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise, told in a run's header beside the bits it takes."""
        return information(self.law[1])

    @property
    def bits(self) -> float:
        """Bits that one coordinate of a client's message takes on the wire, all but 2⁻⁴⁰ of the time."""
        return float(ceil(log2(self.levels + 15 * sqrt(self.variance) + 40)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: each coordinate's grid point plus exact Skellam noise."""
        index = self.grid.index(x)
        return index + sampling_exact.skellam(self.variance, index.shape, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages, off the grid again."""
        return self.grid.mean(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        return shifted(*self.law, self.grid.index([x, y]), 2.0**-40)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, ±clip, so noise moved by l: the curve that certifies a message's ε.

        >>> round(Skellam(clip=0.5, levels=1, noise=4).tradeoff().delta(0.5), 5)
        0.00235
        """
        return self.between(-self.clip, self.clip)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: no bound for a whole ℓ2-clipped vector, so the accountant holds each coordinate to its largest."""
        return

    def aggregated(self, clients: int) -> Skellam:
        """The mechanism whose one message has the noise of `clients` messages summed: variances add."""
        return Skellam(clip=self.clip, levels=self.levels, noise=self.noise * sqrt(clients) * (1 - ROUNDING))
