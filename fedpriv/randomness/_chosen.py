"""Exact draws from laws that are given as numbers, one of a few laws for each draw: by inversion, digit by digit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Words
from fedpriv.randomness._inversion import Cumulative, draw_on
from fedpriv.randomness.streams import random_words


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Laws over 0 … K − 1, each the very fractions that its floats are of their sum.

    >>> own = Chosen.of([[0.5, 0.5, 0.0], [0.0, 0.0, 3.0]])
    >>> own.draw(np.array([0, 0, 1, 0]), np.random.default_rng(1))
    array([1, 1, 2, 1])
    """

    laws: tuple[Cumulative, ...]
    bounds: tuple[Words, ...]  # of each law: ⌊F(k)·2⁶⁴⌋ for k = 0 … K − 1, the last 2⁶⁴ − 1

    @classmethod
    def of(cls, weights: Sequence[Sequence[float]]) -> Chosen:
        """Ready to draw by these weights, a row a law."""
        laws = tuple(_cumulative(row) for row in weights)
        return cls(laws, tuple(np.array(law(64)[1], np.uint64) for law in laws))

    def draw(self, which: NDArray[np.integer], rng: Generator) -> Numbers:
        """An independent draw from the law of each number; one word of U each decides all but once in 2⁵⁰."""
        words = random_words(which.size, rng)
        out = np.empty(which.size, np.int64)
        for law, bounds in enumerate(self.bounds):
            own = np.flatnonzero(which == law)
            word = words[own]
            place = np.searchsorted(bounds, word)
            for i in np.flatnonzero(bounds[place] == word):  # U begins with the digits of a bound: more of them decide
                place[i] = draw_on(self.laws[law], int(word[i]), 64, rng)
            out[own] = place
        return out


def _cumulative(weights: Sequence[float]) -> Cumulative:
    """b ↦ 0, and ⌊F(k)·2ᵇ⌋ for every k, what is certain being 2ᵇ − 1: so nothing follows it."""
    sums = list(accumulate(Fraction(float(weight)) for weight in weights))
    shares = [each / sums[-1] for each in sums]

    def cumulative(bits: int) -> tuple[int, list[int]]:
        """Cumulative probabilities of a row to that many bits, by which a symbol of a Table is drawn exactly."""
        most = (1 << bits) - 1
        return 0, [min((share.numerator << bits) // share.denominator, most) for share in shares]

    return cumulative
