"""What all encoders of whole matrices share: float32 numbers that are surely near enough, and words in their places.

A first digit is guessed from float32 arithmetic, which may be off by less than one: the few coordinates whose random
byte lies within one of the guess are decided in float64, by the mechanism's own expressions. So nothing is rounded
that the row-by-row encoder does not round, and the symbols are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from threading import local
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedpriv._base.arrays import Vector, Words, finite_floats

Places = NDArray[np.intp]
Floats = NDArray[np.float32]
Tile = tuple[slice, slice]
TILE = 1 << 18  # coordinates whose float32 values stay in cache
_SPILL = 1 + 2.0**-11  # times the bound, past which float32 values are clipped
_STEEPEST = 2.0**100  # past it a slope is left to the row-by-row encoder: float32 might lose a zero to infinity
_KEPT = 1 << 24  # bytes of the largest array that a thread holds on to


class Scratch(local):
    """Arrays that one thread writes over and over, each good until the next of its name.

    An allocator that returns to the system what is freed makes new memory cost more than all that is done in it.

    >>> scratch.array("some", (2, 3), np.float32).shape
    (2, 3)
    """

    def __init__(self) -> None:
        """No arrays yet: each thread that encodes messages begins with none to write in."""
        self._held: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
        """An array of that shape for an encoder to write in, this thread's own, good until the next of its name."""
        size = prod(shape) * np.dtype(kind).itemsize
        held = self._held.get(name)
        if held is None or held.size < size:
            held = np.empty(size, np.uint8)
            if size <= _KEPT:
                self._held[name] = held
        return held[:size].view(kind).reshape(shape)


scratch = Scratch()


class Bulk(Protocol):
    """How one mechanism encodes a block of rows, each by the words of its own stream."""

    @property
    def packed(self) -> bool:
        """Whether `draw` gives votes as bits, eight of them a byte, as they are sent, rather than symbols."""

    @property
    def coordinates(self) -> int:
        """How many coordinates a block of rows should have for the encoder's arrays to stay in cache."""

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row is given: nearly always enough, never more than it may use."""

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[NDArray[Any], Places]:
        """The symbols (or packed votes) of a block of updates x · factors, from each row's words; rows to encode again.

        Good until the next draw; rows are encoded again whose words did not do.
        """


def tiles(rows: int, dimension: int) -> Iterator[Tile]:
    """Pieces of a matrix of updates to be encoded one at a time in cache: whole rows together, or parts of one row.

    Each is one stretch of the flattened matrix.

    >>> list(tiles(1, 5)), len(list(tiles(3, TILE + 1))), len(list(tiles(TILE, 5)))
    ([(slice(0, 1, None), slice(0, 5, None))], 6, 6)
    """
    high, wide = max(1, TILE // dimension), min(TILE, dimension)
    for top in range(0, rows, high):
        for left in range(0, dimension, wide):
            yield slice(top, min(top + high, rows)), slice(left, min(left + wide, dimension))


def slopes(factors: Vector, unit: float) -> tuple[Vector, Places]:
    """factors · unit for an encoder's float32 products, and the rows where that is none to multiply by (there 0)."""
    slope = factors * unit
    wild = ~(np.abs(slope) < _STEEPEST)
    slope[wild] = 0
    return slope, np.flatnonzero(wild)


def scaled(x: Vector, factors: Vector, slope: Vector, bound: float) -> Floats:
    """An encoder's x · slope held within ±bound, in float32, of which at most a share of 2⁻¹⁰ is wrong.

    It refuses x · factors that are not finite.

    Half of that share is for what may pass the bound and be left. Good until the next call.
    """
    out = scratch.array("scaled", x.shape, np.float32)
    np.multiply(x, slope[:, None].astype(x.dtype), out=out, casting="same_kind")
    least, most = float(out.min()), float(out.max())  # nan where there is one
    if not (least >= -bound * _SPILL and most <= bound * _SPILL):
        if not (least > -np.inf and most < np.inf):
            finite_floats(
                x.astype(np.float64) * factors[:, None]
            )  # refuses what is not; float32 may merely have overflowed
        np.clip(out, np.float32(-bound), np.float32(bound), out=out)
    return out


def rare(mask: NDArray[np.bool_]) -> Places:
    """np.flatnonzero of a mask that is nearly always false: the few coordinates an encoder must decide in float64.

    Numpy branches at each place where fewer than one in ten is true, and a branch that cannot be foreseen costs more
    than sixteen places. So groups of sixteen are looked for, in them groups of eight, and in those the places.

    >>> rare(np.arange(90) % 37 == 36)
    array([36, 73])
    """
    flat = mask.reshape(-1)
    end = flat.size - flat.size % 16
    eights = flat[:end].view(np.uint64)
    some = eights != 0
    pairs = some.view(np.uint16)
    pair = np.flatnonzero(pairs != 0)
    eight = _members(pair, np.flatnonzero(pairs.take(pair).view(np.bool_)), 1)
    found = _members(eight, np.flatnonzero(eights.take(eight).view(np.bool_)), 3)
    return np.concatenate((found, end + np.flatnonzero(flat[end:])))


def _members(group: Places, inside: Places, bits: int) -> Places:
    """Places in the whole mask from places `inside` its chosen groups of 2^bits, for the search of rare ones."""
    place = group.take(inside >> bits)
    place <<= bits
    inside &= (1 << bits) - 1
    place += inside
    return place


def reserve(dimension: int, share: float) -> int:
    """How many random words a row keeps for a `share` of its coordinates that tie: six deviations over the mean, and 8.

    >>> reserve(25600, 1 / 256)
    168
    """
    mean = dimension * share
    return int(mean + 6 * mean**0.5 + 8)


def bytes_at(place: Places, row: Places, dimension: int, words: Words) -> NDArray[np.uint8]:
    """The random bytes that belong to places of the flattened matrix, each row's words starting with a byte for each.

    >>> bytes_at(np.array([1, 4]), np.array([0, 1]), 3, np.array([[0x030201], [0x060504]], np.uint64))
    array([2, 5], dtype=uint8)
    """
    stream = words.view(np.uint8).reshape(-1)
    found: NDArray[np.uint8] = stream.take(place + row * (8 * words.shape[1] - dimension))
    return found


def values_at(place: Places, row: Places, x: Vector, factors: Vector, peak: float) -> Vector:
    """Updates x · factors in float64, held within ±peak, at the few places that an encoder decides exactly."""
    values = x.reshape(-1).take(place).astype(np.float64)
    values *= factors.take(row)
    return np.clip(values, -peak, peak, out=values)


def binary(share: Vector) -> Words:
    """Probabilities in [0, 1) as 64-bit digits, ⌊2⁶⁴ · share⌋, to compare random words with; `share` is written over.

    Exactly: all that is taken off is a whole number, and powers of two round nothing. By halves, as signed numbers need
    no branch; the cast to unsigned ones does, and cannot be foreseen: it takes three times as long.

    >>> binary(np.array([0.5, 2.0**-64, 1 - 2.0**-53]))
    array([ 9223372036854775808,                    1, 18446744073709549568],
          dtype=uint64)
    """
    share *= 2.0**32
    half = share.astype(np.int64)
    share -= half
    share *= 2.0**32
    half <<= 32
    half |= share.astype(np.int64)
    return half.view(np.uint64)


def following(words: Words, first: int, row: Places) -> tuple[Words, Places]:
    """The next random word from `first` on of each tied coordinate's row, in order; and the rows that ran out.

    >>> following(np.arange(8, dtype=np.uint64).reshape(2, 4), 2, np.array([0, 1, 1, 1]))
    (array([2, 6, 7, 7], dtype=uint64), array([1]))
    """
    count = words.shape[1]
    place = first + np.arange(row.size) - row.searchsorted(np.arange(len(words))).take(row)
    return words.reshape(-1).take(row * count + np.minimum(place, count - 1)), row[place >= count]
