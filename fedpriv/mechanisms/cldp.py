"""CLDP: the stochastic sign by the name of its pure ε."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import tanh
from typing import Annotated, ClassVar

from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.bounds import vectors
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import finite_inputs, positive
from fedpriv.mechanisms.votes import STILL_RANDOM, StochasticSign
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency


@dataclass(frozen=True, kw_only=True)
class Cldp:
    """CLDP∞(ε): the stochastic sign with A = c(e^ε + 1)/(e^ε − 1), named by its pure ε for one coordinate."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input, and its largest coordinate"]
    epsilon: Annotated[float, positive, STILL_RANDOM, "ε of one coordinate, once"]

    effects: ClassVar[Mapping[str, int]] = {"epsilon": +1}
    alphabet: ClassVar = range(-1, 2, 2)
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 1.0
    bits: ClassVar = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    @cached_property
    def sign(self) -> StochasticSign:
        """The stochastic sign of the same ε, which does all the work of this mechanism."""
        return StochasticSign(clip=self.clip, scale=self.clip / tanh(self.epsilon / 2) * (1 + ROUNDING))

    def chance(self, x: Vector) -> Vector:
        """The probability that a client's sign is +1, at each coordinate x of its update, |x| ≤ clip."""
        return self.sign.chance(x)

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: a random sign, ±1 as int8, for each coordinate."""
        return self.sign.encode(x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's unbiased mean of n clients' updates, from the sum Z of their signs over n: A·Z."""
        return self.sign.decode(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        return self.sign.between(x, y)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, ±clip: the curve that certifies a message's ε.

        >>> round(Cldp(clip=0.1, epsilon=1.0).tradeoff().epsilon(0.0), 9)
        1.0
        """
        return self.sign.tradeoff(adjacency)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.Votes:
        """The bound that certifies ε for whole ℓ2-clipped vectors of signs, whatever their dimension."""
        return self.sign.vector(dimension)
