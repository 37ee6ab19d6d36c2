"""Attacks on the update, before an honest mechanism: a row for each attacker, with its own generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedpriv.arrays import Vector
from fedpriv.errors import positive


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """−factor·x: the attacker sends its own gradient upside down. [F] section 5."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        positive(factor=self.factor)

    def on_updates(self, updates: Vector, generators: Sequence[Generator]) -> Vector:
        """The rows, flipped.

        >>> SignFlip().on_updates(np.array([[1.0, -2.0]]), [])
        array([[-1.,  2.]])
        """
        return np.asarray(-self.factor * updates)


@dataclass(frozen=True, kw_only=True)
class RandomNoise:
    """Gaussian noise of standard deviation `deviation` in the place of the update; every attacker its own."""

    deviation: float = 1.0

    def __post_init__(self) -> None:
        positive(deviation=self.deviation)

    def on_updates(self, updates: Vector, generators: Sequence[Generator]) -> Vector:
        """One row of noise for each generator."""
        dimension = updates.shape[1]
        return np.stack([rng.normal(0, self.deviation, dimension) for rng in generators])
