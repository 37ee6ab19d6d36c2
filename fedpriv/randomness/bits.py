"""Exact draws of two or three symbols, a probability for each coordinate.

A uniform number U is drawn digit by digit and compared with p: one random byte against ⌊256 p⌋ decides 255 times in
256, and only a tie draws further digits. p·256 and its fractional part are exact in binary floating point, so the
outcome has probability p to the last bit, where `rng.random() < p` knows multiples of 2⁻⁵³ only.

Where probabilities are wanted they may be an array, or a function together with `at=x`: it is called on float64 blocks
of x that stay in cache, held within ±`within` and then multiplied by `times`, so that a mechanism never holds an array
of probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Bytes, Mask, Vector, finite_floats
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import random_bytes, random_words

Probabilities = ArrayLike | Callable[[Vector], Vector]
_Block = tuple[slice, list[Vector]]
_ONE = np.float64(1).view(np.uint64)  # the bits of 1.0
_BLOCK = 1 << 17  # coordinates at once: they stay in cache. A multiple of 8, so no random byte is wasted between blocks


def bernoulli(p: Probabilities, rng: Generator, *, at: ArrayLike | None = None, within: float | None = None) -> Bytes:
    """Exact coins for signs and samples: 1 with probability p, else 0, independently in each coordinate.

    First a byte for every coordinate is drawn, then further digits for the ties, so the result depends on p and the
    generator alone, not on the size of the blocks.

    >>> rng = np.random.default_rng(1)
    >>> bernoulli([0.0, 0.5, 1.0], rng)
    array([0, 0, 1], dtype=uint8)
    >>> bernoulli(lambda x: (2 + x) / 4, rng, at=[-9, 0, 0, 9], within=1)
    array([0, 0, 1, 0], dtype=uint8)
    """
    shape, blocks = in_blocks(at, within, 1.0, p=p)
    out, places, rests = np.empty(shape, np.uint8), [], []
    flat = out.reshape(-1)
    for part, (share,) in blocks:
        flat[part], tied, _ = _compare(random_bytes(share.size, rng), share, largest_probability(share, "p") == 1)
        place = np.flatnonzero(tied)
        places.append(part.start + place)
        rests.append(rest_after_byte(share[place]))
    rest = _joined(rests)
    flat[_joined(places)] |= _decide(rest, np.zeros_like(rest), rng).view(np.uint8)
    return out


def ternary(
    plus: Probabilities,
    minus: Probabilities,
    rng: Generator,
    *,
    at: ArrayLike | None = None,
    within: float | None = None,
    times: float = 1.0,
) -> NDArray[np.int8]:
    """Exact symbols of the ternary mechanisms: +1 with probability plus, −1 with probability minus, else 0.

    That is +1 where U < plus, −1 where 1 − U < minus.

    One byte serves both sides, for the digits of 1 − U are the complements of those of U. plus + minus may pass 1 by
    no more than the rounding of the sum; the excess is then taken from the side decided later.

    >>> ternary([1.0, 0.0, 0.0, 0.25], [0.0, 1.0, 0.0, 0.25], np.random.default_rng(1))
    array([ 1, -1,  0,  0], dtype=int8)
    """
    shape, blocks = in_blocks(at, within, times, plus=plus, minus=minus)
    out, places, ups, downs = np.empty(shape, np.int8), [], [], []
    flat = out.reshape(-1)
    for part, (up, down) in blocks:
        byte = random_bytes(up.size, rng)
        above, tied_above, digit_up = _compare(byte, up, largest_probability(up, "plus") == 1)
        below, tied_below, digit_down = _compare(~byte, down, largest_probability(down, "minus") == 1)
        if (digit_up + digit_down).max() >= 255:  # below, plus + minus is surely below 1
            largest_probability(up + down, "plus + minus")
        np.subtract(above.view(np.int8), below.view(np.int8), out=flat[part])
        place = np.flatnonzero(tied_above | tied_below)
        place = place[above[place] == below[place]]  # nothing is decided yet
        places.append(part.start + place)
        ups.append(rest_after_byte(up[place]) * tied_above[place])
        downs.append(rest_after_byte(down[place]) * tied_below[place])
    flat[_joined(places)] = _decide(_joined(ups), _joined(downs), rng)
    return out


def _compare(byte: Bytes, p: Vector, certain: bool) -> tuple[Mask, Mask, NDArray[np.uint16]]:
    """For exact coins: where a random byte already says U < p, where it ties with p's first digit, and that digit.

    The digit 256 of p = 1 is 0 among bytes; `certain` says that there may be such.
    """
    digit = np.empty(p.shape, np.uint16)
    np.multiply(p, 256, out=digit, casting="unsafe")
    small = digit.astype(np.uint8)
    hit = byte < small
    if certain:
        hit |= p == 1
    return hit, byte == small, digit


def rest_after_byte(p: Vector) -> Vector:
    """256 p − ⌊256 p⌋: what is left of p to compare with U once a coin's first byte has tied.

    >>> rest_after_byte(np.array([3.25 / 256]))
    array([0.25])
    """
    scaled = p * 256
    return scaled - np.floor(scaled)


def largest_probability(p: Vector, what: str) -> float:
    """The largest of p, all found to be probabilities before coins are tossed by them; else an error.

    As unsigned words, floats rise from 0 to 1, and negative ones and nan lie above: one pass sees them all.
    """
    highest = np.ascontiguousarray(p).view(np.uint64).max()
    if highest <= _ONE:
        return float(highest.view(np.float64))
    wrong = p[~((p >= 0) & (p <= 1))]
    if wrong.size:
        raise FedprivError(f"{what} must be between 0 and 1, got {wrong[0]}")
    return float(p.max())  # only a negative zero


def _decide(plus: Vector, minus: Vector, rng: Generator) -> NDArray[np.int8]:
    """The exact coins, or ternary symbols, that a byte has left open: by 64-bit digits, and again where those tie."""
    open_ = (plus > 0) | (minus > 0)
    if not open_.all() or not plus.size:  # where nothing is left of either, U has passed both: 0, without a draw
        out = np.zeros(plus.size, np.int8)
        if open_.any():
            out[open_] = _decide(plus[open_], minus[open_], rng)
        return out
    word = random_words(plus.size, rng)
    above, below = plus * 2.0**64, minus * 2.0**64
    above_digit, below_digit = above.astype(np.uint64), below.astype(np.uint64)
    out = (word < above_digit).view(np.int8) - (~word < below_digit).view(np.int8)
    tied = ((word == above_digit) & (above > 0)) | ((~word == below_digit) & (below > 0))
    place = np.flatnonzero(tied & (out == 0)) if tied.any() else np.empty(0, np.intp)
    if place.size:
        up, down = (
            np.where(digit == own, scaled - digit, 0)[place]
            for digit, own, scaled in ((above_digit, word, above), (below_digit, ~word, below))
        )
        out[place] = _decide(up, down, rng)
    return out


def in_blocks(
    at: ArrayLike | None,  # what probabilities that are functions are called on
    within: float | None,  # of what they are called on, the largest absolute value
    times: float,  # what it is multiplied by, once it is within
    **given: Probabilities,
) -> tuple[tuple[int, ...], Iterator[_Block]]:
    """The shape of a draw's result, and each block's place in it with the probabilities there, for exact samplers."""
    shapes = {np.shape(p) for p in given.values() if not callable(p)} | ({np.shape(at)} if at is not None else set())
    if len(shapes) != 1:
        raise FedprivError(f"{' and '.join(given)} must be arrays of one shape, or functions with at=, got {shapes}")
    shape = shapes.pop()
    parts = (slice(start, start + _BLOCK) for start in range(0, int(np.prod(shape)), _BLOCK))
    flat = [p if callable(p) else np.ravel(p) for p in given.values()]
    x = None if at is None else np.ravel(at)
    return shape, ((part, _read(part, x, within, times, flat)) for part in parts)


def _read(
    part: slice,
    x: NDArray[Any] | None,
    within: float | None,
    times: float,
    given: list[Callable[[Vector], Vector] | NDArray[Any]],
) -> list[Vector]:
    """Every probability on one block, for exact samplers; x is read, checked, held in bounds and scaled but once."""
    block = None if x is None else finite_floats(x[part])
    if block is not None and within is not None:
        block = np.clip(block, -within, within)
        if times != 1:
            block *= times
    own = cast(Vector, block)  # functions are given with an x
    return [p(own) if callable(p) else p[part].astype(np.float64, copy=False) for p in given]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """An exact sampler's parts of several blocks (places, rests), end to end; empty if there are none."""
    return np.concatenate(parts) if parts else np.empty(0, np.intp)
