"""No mechanism at all: updates as they are, for studies of attacks and defences without privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector, held_within
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import limited, positive
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency


@dataclass(frozen=True, kw_only=True)
class Plain:
    """float32 coordinates without noise; ε is infinite. The norm is bounded only where `clip` is given."""

    clip: Annotated[float, limited("must be positive", above=0), "c, the ℓ2 norm of an input; inf bounds nothing"] = inf

    effects: ClassVar[Mapping[str, int]] = {}
    alphabet: ClassVar = None
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 32.0
    bits: ClassVar = 32.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.clip != inf:
            positive(clip=self.clip)

    @property
    def peak(self) -> float:
        """The largest |coordinate| of an update that a client may encode; here the clip itself."""
        return self.clip

    def encode(self, x: ArrayLike, rng: Generator) -> NDArray[np.float32]:
        """A client's message without privacy: x itself as float32, each coordinate within ±clip."""
        return held_within(x, self.clip).astype(np.float32)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from their sum: no noise is in it."""
        return np.asarray(total, dtype=float) / n

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y: told apart at once unless they are equal."""
        return Tradeoff.pure(0.0 if x == y else inf)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The curve of a message without noise: everything is given away, ε = ∞."""
        return Tradeoff.pure(inf)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: updates sent as they are have no bound for the accountant."""
        return
