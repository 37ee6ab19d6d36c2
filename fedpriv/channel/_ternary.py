"""Three symbols, a whole matrix at once: Ternary and Ternarize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector, Words
from fedpriv.channel._bulk import (
    Floats,
    Places,
    bytes_at,
    following,
    reserve,
    scaled,
    slopes,
    tiles,
    values_at,
)
from fedpriv.mechanisms.ternary import Ternarize, Ternary

_TIES = 2 / 256  # one side or the other


@dataclass(frozen=True, slots=True)
class Signs:
    """+1 and −1 with probabilities plus(x) and minus(x), |x| ≤ peak; 256 of them are middle ± unit·x, or 0."""

    peak: float
    plus: Callable[[Vector], Vector]  # x to the probability of +1
    minus: Callable[[Vector], Vector]  # x to the probability of −1
    unit: float  # by how much 256 of either change with x
    middle: float  # 256 of either at x = 0; 0 where one of them always is 0

    coordinates: ClassVar[int] = 1 << 20
    packed: ClassVar[bool] = False

    @classmethod
    def of(cls, mechanism: Ternary | Ternarize) -> Signs:
        """The encoder of Ternary or Ternarize messages, many rows at once."""
        if isinstance(mechanism, Ternarize):
            return cls(mechanism.peak, mechanism.plus, mechanism.minus, 256 / mechanism.scale, 0.0)
        middle = 128 * mechanism.spread / mechanism.scale
        return cls(mechanism.peak, mechanism.plus, mechanism.minus, 128 / mechanism.scale, middle)

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row is given: a byte a coordinate, and a word for each tie."""
        return -(-dimension // 8) + reserve(dimension, _TIES)

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[NDArray[np.int8], Places]:
        """The symbols −1, 0, +1 of a block of updates x · factors; and the rows to encode again.

        Guesses are as good as those of `Coins`, and used in the same way.

        Where they are near a byte, symbols are found by the digits that `bits.ternary` would compare.
        """
        slope, wild = slopes(factors, self.unit)
        first = words.view(np.uint8)[:, : x.shape[1]]
        out, places = np.empty(x.shape, np.int8), []
        for tile in tiles(*x.shape):
            rows, columns = tile
            plus = scaled(x[tile], factors[rows], slope[rows], self.peak * self.unit)
            minus = np.float32(self.middle - 0.5) - plus
            plus += np.float32(self.middle - 0.5)
            up, near_up = self._compared(first[tile], plus)
            down, near_down = self._compared(~first[tile], minus)
            np.subtract(up, down, out=out[tile])
            places.append(rows.start * x.shape[1] + columns.start + np.flatnonzero(near_up | near_down))
        place = np.concatenate(places)
        row = place // x.shape[1]
        byte = bytes_at(place, row, x.shape[1], words)
        values = values_at(place, row, x, factors, self.peak)
        above, rest_above = _digit(byte, self.plus(values))
        below, rest_below = _digit(~byte, self.minus(values))
        symbols = above.view(np.int8) - below.view(np.int8)
        open_ = np.flatnonzero((above == below) & ((rest_above > 0) | (rest_below > 0)))
        row = row.take(open_)
        word, late = following(words, -(-x.shape[1] // 8), row)
        rest_above, rest_below = ((rest.take(open_) * 2.0**64) for rest in (rest_above, rest_below))
        up_digit, down_digit = rest_above.astype(np.uint64), rest_below.astype(np.uint64)
        symbols[open_] = (word < up_digit).view(np.int8) - (~word < down_digit).view(np.int8)
        tied = ((word == up_digit) & (rest_above > 0)) | ((~word == down_digit) & (rest_below > 0))
        out.reshape(-1)[place] = symbols
        return out, np.concatenate((wild, late, row[tied]))

    def _compared(self, byte: NDArray[np.uint8], guess: Floats) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """Whether each random byte is below 256 p as guessed, where that is sure; and where it is too near to say."""
        if not self.middle:  # one side is never sent
            np.clip(guess, 0, 256, out=guess)
        digit = guess.astype(np.uint8)
        under = byte < digit
        np.subtract(byte, digit, out=digit)
        return under.view(np.int8), digit <= 1


def _digit(byte: NDArray[np.uint8], p: Vector) -> tuple[NDArray[np.bool_], Vector]:
    """Whether each random byte is below 256 p; and the digits of p after the first where it ties, else 0."""
    p *= 256
    digit = p.astype(np.uint16)
    rest = p - digit
    rest *= byte == digit
    return byte < digit, rest
