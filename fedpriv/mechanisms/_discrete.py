"""Mechanisms that add binomial and discrete Gaussian noise on a grid: see `fedpriv.mechanisms._grid`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.bounds import vectors
from fedpriv.bounds.coins import likely_window, log_binomial
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import finite_inputs, limited, positive, whole
from fedpriv.mechanisms._grid import Grid, Levels, information, not_too_narrow, not_too_wide, shifted
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

MANY = 1 << 12  # trials past which a law is cut
FAR = 1e-300  # the tail past which a binomial law is cut; what lies beyond counts as seen


@dataclass(frozen=True, kw_only=True)
class BinomialNoise:
    """A grid value 0…l plus Bin(M, p). [F] Algorithm 1; its finite reach always leaves a δ."""

    clip: Annotated[float, positive, "c, the largest |coordinate|"]
    levels: Levels
    trials: Annotated[int, whole, "M, coins whose sum is the noise"]
    bias: Annotated[float, positive, limited(below=1), "p, how often a coin falls on 1"] = 0.5

    effects: ClassVar[Mapping[str, int]] = {"levels": +1, "trials": -1}

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """The grid that updates' coordinates are rounded to before the noise: −clip to clip in `levels` steps."""
        return Grid(self.clip, self.levels)

    @property
    def alphabet(self) -> range:
        """The symbols that one coordinate of a client's message may be: grid point plus coins, 0 to l + M."""
        return range(self.levels + self.trials + 1)

    @property
    def centre(self) -> Fraction:
        """The mean symbol of an update of 0, where votes tie: l/2 + Mp, p as it is written (0.3 is three tenths)."""
        return self.grid.centre + self.trials * Fraction(str(float(self.bias)))

    @property
    def bits(self) -> float:
        """Bits that one coordinate of a client's message takes on the wire: those of l + M + 1 symbols."""
        return float(ceil(log2(len(self.alphabet))))

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The coins' sums and their log masses, from which curves are made; of very many coins, the likely ones."""
        first, last = likely_window(self.trials, self.bias, FAR) if self.trials > MANY else (0, self.trials)
        not_too_wide(last - first)
        return np.arange(first, last + 1), log_binomial(self.trials, self.bias, first, last)

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise, told in a run's header beside the bits it takes."""
        return information(self.law[1])

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: the nearest grid point plus the coins' sum, in the smallest unsigned type."""
        index = self.grid.index(x)
        noise = sampling_exact.binomial_fixed(self.trials, self.bias, index.shape, rng)
        return (index + noise).astype(np.min_scalar_type(self.levels + self.trials))

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages, the coins' mean taken off."""
        return self.grid.mean(total, n, self.trials * self.bias)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        k, mass = self.law
        return shifted(k, mass, self.grid.index([x, y]), ROUNDING * (16 + k.size), self.bias == 0.5)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, ±clip, both ways round: the curve that certifies a message's ε.

        >>> round(BinomialNoise(clip=1, levels=8, trials=500).tradeoff().delta(1.0), 13)
        0.041699274767
        """
        curve = self.between(-self.clip, self.clip)
        return curve if self.bias == 0.5 else curve.hull(curve.inverse)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: no bound for a whole ℓ2-clipped vector, so the accountant holds each coordinate to its largest."""
        return

    def aggregated(self, clients: int) -> BinomialNoise:
        """The mechanism whose one message has the noise of `clients` messages summed: binomials add their trials."""
        return BinomialNoise(clip=self.clip, levels=self.levels, trials=clients * self.trials, bias=self.bias)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """A grid value plus discrete Gaussian noise, P(v) ∝ e^{−v²/2σ²}. Canonne–Kamath–Steinke 2020; [F] Remark 3."""

    clip: Annotated[float, positive, "c, the largest |coordinate|, and the ℓ2 norm of a vector"]
    levels: Levels
    noise: Annotated[float, positive, "the noise's parameter, in the data's units: σ = noise/g steps of the grid"]

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
    def sigma(self) -> float:
        """The noise's σ in steps of the grid, as curves, vector bounds and draws take it."""
        return self.noise / self.grid.step

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values, cut far out, and their log masses: what its curves are made of."""
        reach = ceil(self.sigma * 38) + 2
        not_too_wide(reach)
        k = np.arange(-reach, reach + 1)
        height = -(k.astype(float) ** 2) / (2 * self.sigma**2)
        return k, height - float(np.logaddexp.reduce(height))

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise, told in a run's header beside the bits it takes."""
        return information(self.law[1])

    @property
    def bits(self) -> float:
        """Bits that one coordinate of a client's message takes on the wire, all but 2⁻⁴⁰ of the time."""
        return float(ceil(log2(self.levels + 15 * self.sigma + 1)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: each coordinate's grid point plus exact discrete Gaussian noise."""
        index = self.grid.index(x)
        return index + sampling_exact.discrete_gaussian(self.sigma, index.shape, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages, off the grid again."""
        return self.grid.mean(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between a client's messages for x and y, a coordinate: losses on a straight line in k."""
        finite_inputs(x, y)
        return shifted(*self.law, self.grid.index([x, y]), 64 * ROUNDING, balanced=True, rate=1 / self.sigma**2)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, ±clip, so noise moved by l: the curve that certifies a message's ε.

        >>> f = DiscreteGaussian(clip=0.5, levels=1, noise=4).tradeoff()
        >>> round(f.epsilon(1e-5), 3)
        0.927
        """
        return self.between(-self.clip, self.clip)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.AdditiveNoise:
        """The bound that certifies ε for whole ℓ2-clipped vectors, by how far rounding lets them lie apart.

        ‖x − x′‖₂ ≤ 2c moves the rounded vector by at most l + √d steps; where 0 is a grid point, by at most 2l.
        """
        steps = self.levels + sqrt(dimension)
        steps = min(steps, 2.0 * self.levels) if self.levels % 2 == 0 else steps
        steps *= 1 + 2.0**-49 * self.levels  # what rounding may do to a value half-way between two steps
        return vectors.AdditiveNoise(shift=steps / self.sigma, continuous=False)
