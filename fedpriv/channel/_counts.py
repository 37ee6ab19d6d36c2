"""Counts of a few votes a coordinate, a whole matrix at once: Binomial and ShapedBinomial of 2 to 64 trials."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector, Words, finite_floats
from fedpriv.channel._bulk import Places, following, reserve
from fedpriv.mechanisms.shaped import ShapedBinomial
from fedpriv.mechanisms.votes import Binomial
from fedpriv.randomness.binomial import OPEN, Splits
from fedpriv.randomness.bits import rest_after_byte

_MOST = 1 << 17  # votes a row: with more, a tie of ties is not rare; and `binomial` would draw in two goes
_SHORT = 64  # trials: with more, ties are no longer few
_RARE = 1e-3  # how many rows may have more rounds of ties than they have words for


@dataclass(frozen=True, slots=True)
class Counts:
    """Votes for + with probability p = chance(x), as `exact.binomial` counts them.

    A row's words are two bytes for each coordinate; one for each that those leave open; a byte for each coordinate
    for every round of ties that some coordinate needs; a byte for each tie that is left.
    """

    mechanism: Binomial | ShapedBinomial
    splits: Splits
    rounds: int  # of ties, that a row has words for

    coordinates: ClassVar[int] = 1 << 17
    packed: ClassVar[bool] = False

    @classmethod
    def of(cls, mechanism: Binomial | ShapedBinomial, dimension: int) -> Counts | None:
        """The encoder of messages of counted votes, many short rows at once; None where rows one by one are as fast.

        That is, for many trials or long rows.
        """
        trials = mechanism.trials
        if trials > _SHORT or trials * dimension > _MOST:
            return None
        ties = (dimension * comb(trials, t + 1) / 256 ** (t + 1) for t in range(trials))  # coordinates with more than t
        rounds = next((t for t, mean in enumerate(ties) if mean < _RARE), trials)
        return cls(mechanism, Splits.of(trials), rounds)

    def words(self, dimension: int) -> int:
        """How many random words (64 bits) a row is given for its counts: enough but once in a thousand rows."""
        trials, rounds = self.mechanism.trials, self.rounds * -(-dimension // 8)
        left = -(-reserve(dimension, trials / 65536) // 8)
        return -(-dimension // 4) + reserve(dimension, self.splits.open) + rounds + left

    def draw(self, x: Vector, factors: Vector, words: Words) -> tuple[NDArray[np.uint8], Places]:
        """The counts of votes of a block of updates x · factors, a byte a coordinate; and the rows to encode again."""
        values = finite_floats(x.astype(np.float64) * factors[:, None])
        p = self.mechanism.chance(np.clip(values, -self.mechanism.peak, self.mechanism.peak, out=values))
        p *= 256
        certain = np.flatnonzero(p.max(axis=1) == 256)  # only by rounding: peak is below scale
        p[certain] = 0
        cell = self.splits.cells(p.astype(np.uint8), words.view(np.uint16)[:, : x.shape[1]])
        packed = self.splits.guide.take(cell)
        place = np.flatnonzero(packed == OPEN)
        row = place // x.shape[1]
        word, _ = following(words, -(-x.shape[1] // 4), row)  # who runs out here is late in the end
        packed.reshape(-1)[place], near = self.splits.refined(cell.take(place), word)
        begin = -(-x.shape[1] // 4) + np.bincount(row, minlength=len(x))
        out, late = _counted(packed, p, begin, words)
        return out, np.concatenate((certain, row[near], late))


def _counted(packed: NDArray[np.uint16], p: Vector, begin: Places, words: Words) -> tuple[NDArray[np.uint8], Places]:
    """Counts of votes: the sure ones, and ties decided by each row's words from `begin` on; rows that need more."""
    out, place = (packed & np.uint16(1023)).astype(np.uint8), np.flatnonzero(packed > 1023)
    dimension, stream = out.shape[1], words.view(np.uint8).reshape(-1)
    row, ties, rest = place // dimension, packed.take(place) >> np.uint16(10), p.take(place) % 1
    rounds, per_round = np.zeros(len(out), np.intp), -(-dimension // 8)
    np.maximum.at(rounds, row, ties)
    second, won, left = (rest * 256).astype(np.uint8), np.zeros(place.size, np.uint8), np.zeros(place.size, np.intp)
    first = 8 * (row * words.shape[1] + begin.take(row)) + place - row * dimension
    for vote in range(int(rounds.max())):
        byte = stream.take(first + 8 * per_round * vote, mode="clip")  # a row past its words is done over
        won += (byte < second) & (ties > vote)
        left += (byte == second) & (ties > vote)
    out.reshape(-1)[place] += won
    voter = np.repeat(np.arange(place.size), left)  # of those that tied twice, who wins is said by a byte each
    begin, row = begin + rounds * per_round, row.take(voter)
    number = np.bincount(row, minlength=len(words))
    rank = np.arange(row.size) - (np.cumsum(number) - number).take(row)
    byte = stream.take(8 * (row * words.shape[1] + begin.take(row)) + rank, mode="clip")
    third = (rest_after_byte(rest.take(voter)) * 256).astype(np.uint8)
    np.add.at(out.reshape(-1), place.take(voter), byte < third)
    short = np.flatnonzero(begin - (-number // 8) > words.shape[1])
    return out, np.concatenate((short, row[byte == third]))  # the rows where a byte is missing, or ties once more
