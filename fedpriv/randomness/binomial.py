"""Exact binomial counts, a p for each coordinate, by two digits of base 256.

Of M uniform numbers, S have a first digit below that of p (successes), T have the same one (ties, each a success with
the probability that follows), the rest fail. For each first digit c, (S, T) has one fixed law, multinomial with
probabilities (c, 1, 255 − c)/256, drawn by inversion: twelve bits of U and a table decide most draws, 56 bits all but
one in 10⁷, and that one is drawn on against whole numbers. T is about M/256: the ties are voted one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc, gammaln, xlogy

from fedpriv._base.arrays import Bytes, Symbols, Words
from fedpriv.errors import whole
from fedpriv.randomness._inversion import climb, draw_on, guide
from fedpriv.randomness.bits import (
    Probabilities,
    bernoulli,
    in_blocks,
    largest_probability,
    rest_after_byte,
)
from fedpriv.randomness.streams import random_bytes, random_words

_MOST = 512  # trials a table: above, the tables outgrow the cache, and the trials are shared out
_MARGIN = np.uint64(1 << 19)  # of 2⁵⁶, 7e-12: float64 may be wrong by 4e-12 in F for 512 trials, and was by 2e-13
_BITS = 12  # of U, by which a table is entered
OPEN = 65535  # in place of an outcome, where the first bits of U leave it open


def binomial(
    trials: int, p: Probabilities, rng: Generator, *, at: ArrayLike | None = None, within: float | None = None
) -> Symbols:
    """Exact votes of a coordinate, a p for each: how many of `trials` U are below p, in the least unsigned type.

    >>> binomial(16, [0.0, 0.5, 1.0], np.random.default_rng(1))
    array([ 0,  8, 16], dtype=uint8)
    """
    whole(trials=trials)
    shape, blocks = in_blocks(at, within, 1.0, p=p)
    out = np.zeros(shape, np.min_scalar_type(trials))
    flat = out.reshape(-1)
    for part, (share,) in blocks:
        certain = largest_probability(share, "p") == 1
        digit = np.minimum(share * 256, 255).astype(np.uint8)  # p = 1 is seen to below
        rest = share * 256 - digit
        second = np.minimum(rest * 256, 255).astype(np.uint8)
        pieces = -(-trials // _MOST)
        for piece in range(pieces):  # trials shared out to the last one
            packed = _splits((trials + piece) // pieces).draw(digit, rng)
            count, ties = packed & np.uint16(1023), (packed >> np.uint16(10)).astype(np.uint8)
            more, still = np.zeros_like(digit), np.zeros_like(digit)
            for vote in range(ties.max()):
                # a byte for each coordinate, whether it has a tie left or not: cheaper than a search
                byte, voting = random_bytes(digit.size, rng), ties > vote
                more += ((byte < second) & voting).view(np.uint8)
                still += ((byte == second) & voting).view(np.uint8)
            count += more
            place = np.flatnonzero(still)
            voters = np.repeat(place, still[place])  # those that tied twice
            np.add.at(count, voters, bernoulli(rest_after_byte(rest[voters]), rng))
            flat[part] += count
        if certain:
            flat[part][share == 1] = trials
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The law of (S, T) for each digit, packed as S + 1024 T."""

    trials: int  # M
    bounds: Words  # c·2⁵⁶ + F(s, t | c)·2⁵⁶ ± margin, for c = 0, …, 255; in each c by t, then s
    outcomes: NDArray[np.uint16]  # by t, then s
    guide: NDArray[np.uint16]  # by c and the first twelve bits: the outcome, or OPEN where they do not say
    start: NDArray[np.int32]  # by c and the first twelve bits: the first bound that may lie above U
    open: float  # the largest share of coordinates, over all c, whose outcome the first twelve bits leave open

    @staticmethod
    def of(trials: int) -> Splits:
        """The table by which votes of so many trials are drawn, kept; `fedpriv.channel` draws in bulk by it."""
        return _splits(trials)

    def draw(self, digit: Bytes, rng: Generator) -> NDArray[np.uint16]:
        """For each first digit of p, how many of M votes are sure and how many tie, (S, T), packed: an exact draw.

        By twelve bits of U, by 44 more, or by as many as it takes.
        """
        cell = self.cells(digit, random_bytes(2 * digit.size, rng).view(np.uint16))
        out = self.guide.take(cell)
        open_ = np.flatnonzero(out == OPEN)
        cell = cell[open_]
        word = random_words(cell.size, rng)
        found, near = self.refined(cell, word)
        for i in near:
            c, begun = divmod(int(_joined(cell[i], word[i])), 1 << 56)
            t, s = divmod(draw_on(_WholeNumbers(self.trials, c), begun, 56, rng), self.trials + 1)
            found[i] = s + 1024 * t
        out[open_] = found
        return out

    def cells(self, digit: Bytes, bits: NDArray[np.uint16]) -> NDArray[np.uint32]:
        """Where a draw of votes looks in its table: the digit of p and the first twelve of sixteen bits of U."""
        cell: NDArray[np.uint32] = digit.astype(np.uint32) << np.uint32(_BITS) | bits >> np.uint16(16 - _BITS)
        return cell

    def refined(self, cell: NDArray[np.uint32], word: Words) -> tuple[NDArray[np.uint16], NDArray[np.intp]]:
        """Votes sure and tied, (S, T), packed, by 56 bits of U where twelve leave them open; and where even 56 do."""
        place, near = climb(self.bounds, self.start.take(cell), _joined(cell, word), _MARGIN)
        return self.outcomes[place % self.outcomes.size], near


def _joined(cell: NDArray[np.uint32], word: Words) -> Words:
    """The digit of p and the first twelve bits of U, followed by 44 more: compared with the bounds of votes."""
    joined: Words = cell.astype(np.uint64) << np.uint64(56 - _BITS) | word >> np.uint64(8 + _BITS)
    return joined


@lru_cache(maxsize=8)
def _splits(trials: int) -> Splits:
    """The table by which votes of M trials are drawn: the law of (sure, tied) for each first digit c of p, kept.

    P(S = s, T = t | c) = M!/(s! t! (M − s − t)!)·c^s·(255 − c)^(M − s − t)/256^M, summed up.
    """
    most = int(np.argmax(bdtrc(np.arange(trials + 1), trials, 1 / 256) < 2**-45))
    s, t, c = np.arange(trials + 1), np.arange(most + 1)[:, None], np.arange(256)[:, None, None]
    left = np.maximum(trials - s - t, 0)
    ways = gammaln(trials + 1) - gammaln(s + 1) - gammaln(t + 1) - gammaln(left + 1) - trials * np.log(256)
    share = np.exp(ways + xlogy(s, c) + xlogy(left, 255 - c)) * (s + t <= trials)
    below = np.minimum(np.cumsum(share.reshape(256, -1), axis=1) * 2.0**56, 2.0**56 - 8).astype(np.uint64)
    below[:, -1] = 2**56 - 1
    bounds = (below + (np.arange(256, dtype=np.uint64) << np.uint64(56))[:, None]).reshape(-1)
    outcomes = np.broadcast_to(s + 1024 * t, share.shape[1:]).reshape(-1).astype(np.uint16)
    start, open_ = guide(bounds, 8 + _BITS, _MARGIN)
    known = np.where(open_, OPEN, outcomes[start % outcomes.size]).astype(np.uint16)
    return Splits(trials, bounds, outcomes, known, start, float(open_.reshape(256, -1).mean(axis=1).max()))


@dataclass(frozen=True, slots=True)
class _WholeNumbers:
    """F(s, t | c)·2ᵇ, rounded down, in the order of the bounds; each is a whole number of 256⁻ᴹ."""

    trials: int  # M
    digit: int  # c
    bits: int = 0  # b

    def __call__(self, bits: int) -> tuple[int, _WholeNumbers]:
        """The law as `draw_on` takes it, by so many bits: its first outcome, 0, and its exact bounds."""
        return 0, _WholeNumbers(self.trials, self.digit, bits)

    def __len__(self) -> int:
        """How many outcomes (votes sure, votes tied) there are, for bisection in `draw_on`."""
        return (self.trials + 1) ** 2

    def __getitem__(self, index: int) -> int:
        """F(s, t | c)·2ᵇ of one outcome, exactly and rounded down, for the draws that floats leave open."""
        t, s = divmod(index, self.trials + 1)
        left, c = self.trials - t, self.digit
        fewer_ties: int = sum(comb(self.trials, i) * 255 ** (self.trials - i) for i in range(t))
        so_many: int = sum(comb(left, i) * c**i * (255 - c) ** (left - i) for i in range(min(s, left) + 1))
        return (fewer_ties + comb(self.trials, t) * so_many) << self.bits >> 8 * self.trials
