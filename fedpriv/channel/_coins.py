"""Votes whose bias follows a normal curve, a whole matrix at once: NoisySign."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector, Words
from fedpriv.channel._bulk import (
    Floats,
    Places,
    binary,
    bytes_at,
    following,
    rare,
    reserve,
    scaled,
    scratch,
    slopes,
    tiles,
    values_at,
)
from fedpriv.mechanisms.votes import NoisySign

_TIES = 1 / 256  # of the coordinates, whose byte leaves the outcome open
_CUBIC = 0.044715 * pi / 2  # 0.0702, of the approximation of Φ below


@dataclass(frozen=True, slots=True)
class Coins:
    """+ with probability p = chance(x), |x| ≤ peak; one random byte a coordinate, and 64 bits more where it ties."""

    peak: float
    chance: Callable[[Vector], Vector]  # x to p
    unit: float  # √(2/π) over the noise, by which x is multiplied before the approximation of Φ

    coordinates: ClassVar[int] = 1 << 20
    packed: ClassVar[bool] = True

    @classmethod
    def of(cls, mechanism: NoisySign) -> Coins:
        """The encoder of NoisySign messages, many rows at once."""
        return cls(mechanism.peak, mechanism.chance, sqrt(2 / pi) / mechanism.noise)

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row is given: a byte a coordinate, and a word for each tie."""
        return -(-dimension // 8) + reserve(dimension, _TIES)

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[NDArray[np.uint8], Places]:
        """The noisy signs of a block of updates x · factors as bits, a row of bytes for each; rows to encode again.

        The guess g is ⌊256 p⌋ or one less, for 256 p − 1/2 is known to within 1/2: `scaled` is wrong by 2⁻¹⁰ of what
        it is, so the normal curve by 2⁻¹⁰ of 256 t·φ(t) < 62 and by 0.08 of its own; all other roundings are below
        2⁻¹². So a byte below g is below ⌊256 p⌋, one above g + 1 is above it; for the two between, 1 in 128, U < p is
        decided by the digits that `bits.bernoulli` compares. What lies in (−1, 0) is cut to 0 by the cast, rightly.
        """
        slope, wild = slopes(factors, self.unit)
        first = words.view(np.uint8)[:, : x.shape[1]]
        below, apart = scratch.array("below", x.shape, np.bool_), scratch.array("apart", x.shape, np.uint8)
        for tile in tiles(*x.shape):
            rows, _ = tile
            guess = scaled(x[tile], factors[rows], slope[rows], self.peak * self.unit)
            _normal(guess)
            own = apart[tile]
            np.copyto(own, guess, casting="unsafe")
            np.less(first[tile], own, out=below[tile])
            np.subtract(first[tile], own, out=own)
        place = rare(np.less_equal(apart, 1, out=apart.view(np.bool_)))
        row = place // x.shape[1]
        byte = bytes_at(place, row, x.shape[1], words)
        p = self.chance(values_at(place, row, x, factors, self.peak))
        p *= 256
        digit = p.astype(np.uint16)
        votes = byte < digit
        tied = np.flatnonzero(byte == digit)
        rest = p.take(tied) - digit.take(tied)
        if not rest.all():  # nothing is left of p, so U has passed it: no word is drawn
            tied, rest = tied[rest > 0], rest[rest > 0]
        row = row.take(tied)
        word, late = following(words, -(-x.shape[1] // 8), row)
        second = binary(rest)
        votes[tied] = word < second
        below.reshape(-1)[place] = votes
        return np.packbits(below, axis=1), np.concatenate((wild, late, row[word == second]))


def _normal(y: Floats) -> None:
    """In place, y = √(2/π) t becomes 256 Φ(t) − 1/2 to within 0.08: the guess of a sign's chance in 256ths.

    Φ(t) ≈ (1 + tanh(y + 0.0702 y³))/2, wrong by 3e-4 at most.
    """
    y *= 1 + np.float32(_CUBIC) * (y * y)
    np.tanh(y, out=y)
    y *= np.float32(128)
    y += np.float32(127.5)
