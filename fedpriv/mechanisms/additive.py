"""Mechanisms that add Gaussian and Laplace noise, for central trust and for comparison.

Messages are multiples of a step h far below clip and noise: data toward zero, noise rounded to the nearest, both exact
(`fedpriv.randomness.grid`). So a message is the rounding of one with real noise, and costs no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector, held_within
from fedpriv.bounds import vectors
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import finite_inputs, positive
from fedpriv.randomness.grid import FineGrid
from fedpriv.randomness.wide import Power
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, units_touched


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """x plus Gaussian noise: (c or 2c)/σ-GDP by adding or by replacing."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    noise: Annotated[float, positive, "σ, the noise's standard deviation, in the data's units"]

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None
    centre: ClassVar = Fraction(0)
    bits: ClassVar = 32.0
    power: ClassVar[Power] = 2

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    @property
    def fine(self) -> FineGrid:
        """The fine grid that messages lie on, so that their floats give away no more than real noise would."""
        return FineGrid.of(self.clip, self.noise)

    @property
    def entropy(self) -> float:
        """Bits of information in one coordinate of a message: the 24 of a float32's fraction, all noise."""
        return 24.0

    def encode(self, x: ArrayLike, rng: Generator) -> Vector:
        """A client's message: x within ±peak, toward zero on a fine grid, plus Gaussian noise rounded to it, exact."""
        return _noisy(self, x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages."""
        return np.asarray(total, dtype=float) / n

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, of that distance: what witnesses and audits ask."""
        finite_inputs(x, y)
        return Tradeoff.gaussian(abs(x - y) / self.noise)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies a message, G_μ: μ = c/σ (add-remove) or 2c/σ (replace), of a vector of norm ≤ c too.

        >>> round(Gaussian(clip=1, noise=1).tradeoff("replace").epsilon(1e-5), 3)
        9.997
        """
        return Tradeoff.gaussian(self.clip * units_touched(adjacency) / self.noise)

    def vector(self, dimension: int, adjacency: Adjacency = "add-remove") -> vectors.AdditiveNoise:
        """The bound that certifies ε for whole vectors: the ℓ2 distance over σ, whatever their dimension."""
        return vectors.AdditiveNoise(shift=self.clip * units_touched(adjacency) / self.noise)

    def aggregated(self, clients: int) -> Gaussian:
        """The mechanism whose one message has the noise of `clients` messages summed: variances add."""
        return Gaussian(clip=self.clip, noise=self.noise * sqrt(clients) * (1 - ROUNDING))


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """x plus Laplace noise: ε = c/b by adding, 2c/b by replacing."""

    clip: Annotated[float, positive, "c, the largest |coordinate|, the ℓ1 norm of one number"]
    noise: Annotated[float, positive, "b, the noise's scale, in the data's units"]

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None
    centre: ClassVar = Fraction(0)
    bits: ClassVar = 32.0
    power: ClassVar[Power] = 1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    @property
    def fine(self) -> FineGrid:
        """The fine grid that messages lie on, so that their floats give away no more than real noise would."""
        return FineGrid.of(self.clip, self.noise)

    @property
    def entropy(self) -> float:
        """Bits of information in one coordinate of a message: the 24 of a float32's fraction, all noise."""
        return 24.0

    def encode(self, x: ArrayLike, rng: Generator) -> Vector:
        """A client's message: x within ±peak, toward zero on a fine grid, plus Laplace noise rounded to it, exact."""
        return _noisy(self, x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages."""
        return np.asarray(total, dtype=float) / n

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, of that distance: what witnesses and audits ask."""
        finite_inputs(x, y)
        return Tradeoff.laplace(abs(x - y) / self.noise)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies one coordinate of a message, moved by c (add-remove) or 2c (replace).

        >>> round(Laplace(clip=1, noise=2).tradeoff().epsilon(0.0), 12)
        0.5
        """
        return Tradeoff.laplace(self.clip * units_touched(adjacency) / self.noise)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: no bound for a whole ℓ2-clipped vector, so the accountant holds each coordinate to its largest."""
        return


def _noisy(mechanism: Gaussian | Laplace, x: ArrayLike, rng: Generator) -> Vector:
    """A client's message: x held to the peak and brought to the fine grid, plus the mechanism's noise on it."""
    fine = mechanism.fine
    return fine.noisy(fine.whole(held_within(x, mechanism.peak)), mechanism.noise, mechanism.power, rng)
