"""Votes whose bias is a straight line, a whole matrix at once: StochasticSign, Cldp, and Binomial of one trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes, Vector, Words
from fedpriv._base.compiled import compiled
from fedpriv.channel._bulk import Places, reserve, slopes
from fedpriv.mechanisms.votes import Binomial, StochasticSign

Whole = np.unsignedinteger[Any]  # of 32 or 64 bits, as the floats that it is the bits of
Bits = NDArray[Whole]
_TIES = 1 / 256  # of the coordinates, whose byte leaves the outcome open
_TILE = 4096  # coordinates whose bytes stay in the fastest cache
_NEAR = np.float32(0.5 + 2.0**-10)  # half a digit, and far more than all roundings
_ONE = np.float32(1)
_HALF = np.float32(0.5)
_MIDDLE = np.float32(128)  # 256 p at x = 0
_GATHER = np.uint64(0x8040201008040201)  # eight bytes of 0 and 1, times this, have them as the bits of the highest byte
_TOP = np.uint64(56)  # bits below that byte
_32 = 2.0**32  # half of 64 digits
_BITS = np.uint64(32)
_MAGNITUDE: dict[np.dtype[Any], tuple[Whole, Whole]] = {
    np.dtype(np.float32): (np.uint32(2**31 - 1), np.float32(np.inf).view(np.uint32)),
    np.dtype(np.float64): (np.uint64(2**63 - 1), np.float64(2.0**128).view(np.uint64)),
}  # the bits that are not the sign, and those of what is too large: past it a product might not be finite


@dataclass(frozen=True, slots=True)
class Votes:
    """+ with probability p = (A + x)/2A, |x| ≤ peak; one random byte a coordinate, and 64 bits more where it ties."""

    peak: float  # of |x|
    scale: float  # A

    coordinates: ClassVar[int] = 1 << 20
    packed: ClassVar[bool] = True

    @classmethod
    def of(cls, mechanism: Binomial | StochasticSign) -> Votes:
        """The encoder of messages of one vote a coordinate (StochasticSign, Binomial of one trial), a block at once."""
        return cls(mechanism.peak, mechanism.scale)

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row is given: a byte a coordinate, and a word for each tie."""
        return -(-dimension // 8) + reserve(dimension, _TIES)

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[Bytes, Places]:
        """The votes of a block of updates x · factors as bits, a row of bytes for each; and rows to encode again."""
        unit = 128 / self.scale
        slope, wild = slopes(factors, unit)
        out, late = np.empty((len(x), -(-x.shape[1] // 8)), np.uint8), np.zeros(len(x), np.bool_)
        magnitude, limit = _MAGNITUDE[x.dtype]
        bits = x.view(magnitude.dtype)
        slope32, bound = slope.astype(np.float32), np.float32(self.peak * unit)
        _cast(x, bits, magnitude, limit, slope32, bound, factors, self.peak, self.scale, words, out, late)
        late[wild] = True
        return out, np.flatnonzero(late)


@compiled
def _cast(
    x: Vector, bits: Bits, magnitude: Whole, limit: Whole, slopes: Vector, bound: np.float32, factors: Vector,
    peak: float, scale: float, words: Words, out: Bytes, late: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Write all rows' votes as bits to `out`, most by float32 alone; rows not finite or out of words become `late`."""
    dimension = x.shape[1]
    size = -(-dimension // 8)
    below, near = np.zeros(_TILE, np.uint8), np.zeros(_TILE, np.uint8)
    below_8, near_8 = below.view(np.uint64), near.view(np.uint64)
    for row in range(len(x)):
        stream = words[row].view(np.uint8)
        following = size
        highest = magnitude & ~magnitude
        for start in range(0, dimension, _TILE):
            stop = min(start + _TILE, dimension)
            values, digits = x[row, start:stop], stream[start:stop]
            highest = max(
                highest, _guessed(values, bits[row, start:stop], magnitude, slopes[row], bound, digits, below, near)
            )
            below[stop - start : -(-(stop - start) // 8) * 8] = 0
            near[stop - start : -(-(stop - start) // 8) * 8] = 0
            for eight in range(-(-(stop - start) // 8)):
                if near_8[eight]:
                    for place in range(8 * eight, 8 * eight + 8):
                        if near[place]:
                            vote, tied, rest = _looked_at(values[place], factors[row], peak, scale, digits[place])
                            if tied:
                                if following == words.shape[1]:
                                    late[row] = True
                                else:
                                    word = words[row, following]
                                    following += 1
                                    vote = word < rest
                                    late[row] |= word == rest
                            below[place] = vote
                out[row, start // 8 + eight] = below_8[eight] * _GATHER >> _TOP
        late[row] |= highest >= limit


@compiled
def _guessed(
    values: Vector, bits: Bits, magnitude: Whole, slope: np.float32, bound: np.float32,
    digits: Bytes, below: Bytes, near: Bytes,
) -> Whole:  # fmt: skip
    """Write to `below` the votes of a stretch of one row, by float32, and to `near` where a closer look is needed.

    Whether byte < ⌊256 p⌋, by t = 256 p − byte ≥ 1; near is where t is close to 0, 1 or between.

    What is returned is the largest magnitude of the values, as bits: nan is above infinity.

    Here 256 p = 128 + x·slope, the product held within ±bound, at most 128: the slope, the bound, the product and both
    sums are each rounded by 2⁻²⁴ of what they are, so t is wrong by less than 2⁻¹⁴, and 256 p of float64 by less still.
    """
    for place in range(len(values)):
        scaled = np.float32(values[place] * slope)
        scaled = bound if not scaled < bound else scaled
        scaled = -bound if scaled < -bound else scaled
        over = scaled + _MIDDLE - np.float32(digits[place])
        below[place] = over >= _ONE
        near[place] = abs(over - _HALF) < _NEAR
    highest = magnitude & ~magnitude
    for place in range(len(bits)):
        highest = max(highest, bits[place] & magnitude)
    return highest


@compiled
def _looked_at(
    value: np.floating[Any], factor: np.float64, peak: float, scale: float, byte: np.uint8
) -> tuple[bool | np.bool_, bool | np.bool_, np.uint64]:
    """One coordinate's vote, exactly: whether byte < ⌊256 p⌋; whether it ties, p having more digits; its next 64.

    They are looked at where float32 was too near.

    p is to the bit what the mechanism's `chance` says.
    """
    within = min(max(np.float64(value) * factor, -peak), peak)
    chance = (scale + within) * (0.5 / scale) * 256.0
    digit = np.int64(chance)
    rest = (chance - digit) * _32
    half = np.int64(rest)
    second = np.uint64(half) << _BITS | np.uint64(np.int64((rest - half) * _32))
    return byte < digit, byte == digit and rest > 0, second
