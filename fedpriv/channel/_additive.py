"""Rounded values plus rounded noise, a whole matrix at once: Gaussian and Laplace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedpriv._base.arrays import Vector, Words, finite_floats
from fedpriv.channel._bulk import Places, scratch
from fedpriv.mechanisms.additive import Gaussian, Laplace
from fedpriv.randomness.wide import BLOCK, Rounded


@dataclass(frozen=True, slots=True)
class Additive:
    """Values toward zero on the mechanism's grid, plus its noise: as its `encode` adds them, a row by its own words."""

    mechanism: Gaussian | Laplace
    law: Rounded  # of its noise, in steps of its grid

    coordinates: ClassVar[int] = BLOCK
    packed: ClassVar[bool] = False

    @classmethod
    def of(cls, mechanism: Gaussian | Laplace, dimension: int) -> Additive | None:
        """The encoder of Gaussian or Laplace messages for short rows; None for long ones: one by one is as fast."""
        if dimension > BLOCK:
            return None
        return cls(mechanism, mechanism.fine.law(mechanism.noise, mechanism.power))

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row of so many coordinates is given, as many as a block of draws."""
        return self.law.words(dimension)

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[Vector, Places]:
        """The noised messages of a block of updates x · factors, from each row's words; the rows to encode again."""
        values = finite_floats(x.astype(np.float64) * factors[:, None])
        whole = self.mechanism.fine.whole(np.clip(values, -self.mechanism.peak, self.mechanism.peak, out=values))
        noise = scratch.array("noise", x.shape, np.int64)
        late = self.law.rows(words, noise)
        return self.mechanism.fine.real(whole, noise), late
