"""What is told of a value without noise of numbers: k-ary randomised response, and the sign as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, finite_inputs, limited, positive, whole
from fedpriv.mechanisms.table import MOST_LEVELS, Table
from fedpriv.mechanisms.votes import STILL_RANDOM
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """One of k = l + 1 grid points: the value's own e^ε times as likely as any other. Warner 1965, Kairouz et al. 2016.

    A value between two grid points is one of them by a coin, so that means are unbiased.
    """

    clip: Annotated[float, positive, "c, the largest |coordinate|"]
    levels: Annotated[int, whole, limited(most=MOST_LEVELS - 1), "l, steps of the grid: one of l + 1 points is sent"]
    epsilon: Annotated[float, positive, STILL_RANDOM, "ε of one coordinate, once"]

    effects: ClassVar[Mapping[str, int]] = {"epsilon": +1}

    def __post_init__(self) -> None:
        check_fields(self)
        _ = self.table

    @cached_property
    def table(self) -> Table:
        """The table it is: e^ε : 1 : … : 1, and values that far apart that the mean of each row is its level."""
        points = np.linspace(-self.clip, self.clip, self.levels + 1)
        other = 1 / (exp(self.epsilon) + self.levels)
        rows = np.full((len(points), len(points)), other) + np.diag(np.full(len(points), 1 - len(points) * other))
        values = points / (1 - len(points) * other)
        chances = tuple(map(tuple, rows.tolist()))
        return Table(levels=tuple(points.tolist()), chances=chances, values=tuple(values.tolist()))

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    @property
    def alphabet(self) -> range:
        """What one coordinate may send."""
        return range(self.levels + 1)

    @property
    def centre(self) -> Fraction:
        """The middle of the grid."""
        return Fraction(self.levels, 2)

    @property
    def entropy(self) -> float:
        """Bits of information in one coordinate, at the input that has most."""
        return self.table.entropy

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire."""
        return self.table.bits

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Numbers of grid points, in the smallest unsigned type."""
        return self.table.encode(x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The unbiased mean of n inputs from the sum of their messages."""
        return self.table.decode(total, n)

    def symbol_law(self, x: float) -> Vector:
        """P(symbol | x) of each grid point."""
        return self.table.symbol_law(x)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        return self.table.between(x, y)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate: any two grid points.

        >>> f = RandomisedResponse(clip=1, levels=3, epsilon=1.0).tradeoff()
        >>> round(f.epsilon(0.0), 9), round(f.delta(0.0), 9)
        (1.0, 0.300489182)
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return


@dataclass(frozen=True, kw_only=True)
class Sign:
    """The sign of x as it is, a fair coin for 0: no privacy at all, ε is infinite. signSGD, Bernstein et al. 2018."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input, and its largest coordinate"]

    effects: ClassVar[Mapping[str, int]] = {}
    alphabet: ClassVar = range(-1, 2, 2)
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 1.0
    bits: ClassVar = 1.0
    proof: ClassVar = "a sign tells for certain on which side of 0 a coordinate is: no privacy"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    def chance(self, x: Vector) -> Vector:
        """The probability of +1: 0, 1/2 or 1."""
        return (np.sign(x) + 1) / 2

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Signs as int8."""
        return 2 * sampling_exact.bernoulli(self.chance, rng, at=x, within=self.peak).view(np.int8) - 1

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """There is no unbiased decoder; a majority vote needs none."""
        raise FedprivError("Sign has no unbiased decoder: take the majority vote")

    def symbol_law(self, x: float) -> Vector:
        """P(symbol | x) of −1 and 1."""
        plus = float(self.chance(np.array(float(x))))
        return np.array([1 - plus, plus])

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate: all or nothing, but for 0."""
        finite_inputs(x, y)
        return Tradeoff.between(self.symbol_law(x), self.symbol_law(y))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """Everything is given away.

        >>> Sign(clip=1).tradeoff().epsilon(0.5)
        inf
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """There is no bound."""
        return
