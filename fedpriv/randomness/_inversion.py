"""Exact draws of integers from one fixed law, by inversion: the least k with U < F(k), U drawn digit by digit.

F is known as integers: F(k)·2ᵇ to within one unit, for b = 64 from a table, and for any larger b on demand. Sixteen
bits of U decide most draws by one look-up, 64 bits all but about one in 2⁵⁰; that one is drawn on, with twice the
digits each time, so nothing is ever rounded, and no tail is ever cut off.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, repeat
from typing import Literal, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Words
from fedpriv.errors import FedprivError, positive, probability, whole
from fedpriv.randomness.streams import random_bytes, random_words

Size = int | tuple[int, ...]
_BLOCK = 1 << 16  # draws at once: they stay in cache
_LARGEST = np.uint64(2**64 - 1)
_UNIT = np.uint64(1)  # by which a bound of 64 bits may be off
_WIDEST = 1e5  # standard deviation: a table of 2·10⁶ bounds
_GUARD = 128  # bits beyond b: the n³ roundings on a ladder of n ≤ 2²¹ steps stay below 2⁻⁶⁰ units


class Bounds(Protocol):
    """Rising whole numbers, for bisection."""

    def __len__(self) -> int:
        """How many bounds a law's cumulative chances have, for bisection."""

    def __getitem__(self, index: int, /) -> int:
        """One bound F(k)·2ᵇ of a law, as a whole number, for bisection."""


# b ↦ first k, and F(k)·2ᵇ to within one unit for k = first, …; in a table the first is 0 and the last 2ᵇ − 1
Cumulative = Callable[[int], tuple[int, Bounds]]
Ratios = Callable[[int], Iterable[int]]  # b ↦ ratios of neighbouring probabilities, times 2ᵇ
Law = Literal["gaussian", "laplace", "poisson", "binomial"]


def discrete_gaussian(sigma: float, size: Size, rng: Generator) -> Numbers:
    """Exact discrete Gaussian noise, for the mechanism of that name: k with chance ∝ exp(−k²/2σ²), σ the very float.

    >>> discrete_gaussian(2.0, 5, np.random.default_rng(1))
    array([2, 0, 1, 0, 1])
    """
    positive(sigma=sigma)
    return _table("gaussian", float(sigma)).draw(size, rng)


def discrete_laplace(scale: float, size: Size, rng: Generator) -> Numbers:
    """k with probability proportional to exp(−|k|/b), b = scale the very number the float is.

    >>> discrete_laplace(2.0, 5, np.random.default_rng(1))
    array([3, 0, 1, 0, 1])
    """
    positive(scale=scale)
    return _table("laplace", float(scale)).draw(size, rng)


def skellam(variance: float, size: Size, rng: Generator) -> Numbers:
    """Exact Skellam noise, for the mechanism of that name: the difference of two Poisson draws of mean variance/2.

    >>> skellam(4.0, 5, np.random.default_rng(1))
    array([4, 2, 1, 1, 0])
    """
    positive(variance=variance)
    return poisson(variance / 2, size, rng) - poisson(variance / 2, size, rng)


def poisson(mean: float, size: Size, rng: Generator) -> Numbers:
    """Exact Poisson draws, of which Skellam noise is made: k with probability e^−λ λᵏ/k!, λ the mean.

    >>> poisson(2.0, 5, np.random.default_rng(1))
    array([4, 2, 3, 2, 2])
    """
    positive(mean=mean)
    return _table("poisson", float(mean)).draw(size, rng)


def binomial_fixed(trials: int, p: float, size: Size, rng: Generator) -> Numbers:
    """Exact draws of Bin(trials, p), one p for all: the noise of the mechanism BinomialNoise.

    >>> binomial_fixed(100, 0.5, 5, np.random.default_rng(1))
    array([56, 50, 53, 50, 52])
    """
    whole(trials=trials)
    probability(p=p)
    if p in (0, 1):
        return np.full(size, trials * int(p))
    return _table("binomial", float(p), int(trials)).draw(size, rng)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A law ready to be drawn from."""

    cumulative: Cumulative
    first: int  # the least k there is, up to a chance of 2⁻⁶⁴
    bounds: Words  # F(k)·2⁶⁴ ± 1 for k = first, …
    start: NDArray[np.int32]  # by the first sixteen bits of U: how many bounds lie below
    open: NDArray[np.bool_]  # by the first sixteen bits of U: whether that depends on the bits to come

    @classmethod
    def of(cls, mode: int, up: Ratios, down: Ratios) -> Table:
        """The table that exact noise is drawn by, from ratios of neighbouring probabilities, away from the mode."""

        def cumulative(bits: int) -> tuple[int, list[int]]:
            """The first outcome less 1, and F(k)·2^bits of each from there on, to within one unit: for draws on."""
            precision = bits + _GUARD
            left, right = _ladder(down(precision), precision), _ladder(up(precision), precision)
            weights = [*reversed(left), 1 << precision, *right]
            total = sum(weights)
            bounds = [(weight << bits) // total for weight in accumulate(weights)]
            return mode - len(left) - 1, [0, *bounds[:-1], (1 << bits) - 1]

        first, bounds = cumulative(64)
        words = np.array(bounds, np.uint64)
        return cls(cumulative, first, words, *guide(words, 16, _UNIT))

    def draw(self, size: Size, rng: Generator) -> Numbers:
        """Independent draws from the law, as exact noise: a look-up for most, ever more digits of U for the rest."""
        out = np.empty(size, np.int64)
        flat = out.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            digit = random_bytes(2 * part.size, rng).view(np.uint16)
            part[:] = self.start.take(digit)
            undecided = np.flatnonzero(self.open.take(digit))
            digit = digit[undecided]  # of these, 48 more bits of U are drawn
            word = digit.astype(np.uint64) << np.uint64(48) | random_words(digit.size, rng) >> np.uint64(16)
            place, near = climb(self.bounds, self.start.take(digit), word, _UNIT)
            for i in near:
                place[i] = draw_on(self.cumulative, int(word[i]), 64, rng) - self.first
            part[undecided] = place
            part += self.first
        return out


def guide(bounds: Words, bits: int, margin: np.uint64) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """For each possible beginning of U, for tables of exact draws: how many bounds lie below, and if that is unsure.

    >>> [column.tolist() for column in guide(np.array([0, 2**62 + 9, 2**64 - 1], np.uint64), 2, np.uint64(1))]
    [[0, 1, 2, 2], [True, True, False, True]]
    """
    corner = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    last = corner | np.uint64((1 << (64 - bits)) - 1)
    start = np.searchsorted(bounds, np.maximum(corner, margin) - margin)
    beyond = np.searchsorted(bounds, np.minimum(last, _LARGEST - margin) + margin, side="right")
    return start.astype(np.int32), start != beyond


def climb(
    bounds: Words, place: NDArray[np.int32], word: Words, margin: np.uint64
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """How many of a table's bounds lie below each word of U, from a count not above; and where that is unsure.

    >>> bounds, words = np.array([0, 50, 99], np.uint64), np.array([20, 51, 70], np.uint64)
    >>> [column.tolist() for column in climb(bounds, np.zeros(3, np.int32), words, np.uint64(1))]
    [[1, 2, 2], [1]]
    """
    for _ in range(4):  # most cells hold few bounds, and a step is far cheaper than a search
        place += bounds.take(place) < word
    far = np.flatnonzero(bounds.take(place) < word)
    place[far] = np.searchsorted(bounds, word[far])
    below, above = bounds.take(np.maximum(place, 1) - 1), bounds.take(place)
    return place, np.flatnonzero((word - below <= margin) | (above - word <= margin))


def draw_on(cumulative: Cumulative, digits: int, bits: int, rng: Generator) -> int:
    """An exact draw whose U begins with these digits: ever more of them until no bound is within a unit of U.

    >>> third = lambda bits: (0, [2**bits // 3, 2**bits - 1])
    >>> draw_on(third, 2**64 // 3 - 9, 64, np.random.default_rng(1))
    0
    """
    words = 1
    while True:
        for word in random_words(words, rng):
            digits = digits << 64 | int(word)
        bits, words = bits + 64 * words, 2 * words
        first, bounds = cumulative(bits)
        place = bisect_left(bounds, digits - 1)
        if bounds[place] > digits + 1:
            return first + place


@lru_cache(maxsize=96)
def _table(law: Law, setting: float, trials: int = 0) -> Table:
    """The table of a law of exact noise, kept: its setting is σ, b, the mean λ, or p of a binomial law.

    Going up, p(k + 1)/p(k) is exp(−(2k+1)/2σ²), exp(−1/b), λ/(k + 1) or (n − k)/(k + 1)·p/(1 − p).
    """
    exact = Fraction(setting)
    match law:
        case "gaussian":
            deviation, mode = setting, 0
            up = down = partial(_gaussian_ratios, 1 / (2 * exact**2))
        case "laplace":  # its tail is long: a ladder of 133 b steps
            deviation, mode = 16 * setting, 0
            up = down = partial(_ratios_alike, 1 / exact)
        case "poisson":
            deviation, mode = setting**0.5, int(setting)
            up = partial(_ratios, lambda k: exact / k, range(mode + 1, 1 << 62))  # a ladder ends long before
            down = partial(_ratios, lambda k: k / exact, range(mode, 0, -1))
        case "binomial":
            deviation, mode = (trials * setting * (1 - setting)) ** 0.5, int(trials * setting)
            odds = exact / (1 - exact)
            up = partial(_ratios, lambda k: odds * (trials - k) / (k + 1), range(mode, trials))
            down = partial(_ratios, lambda k: k / (odds * (trials - k + 1)), range(mode, 0, -1))
    if not deviation <= _WIDEST:
        raise FedprivError(f"the standard deviation must be at most {_WIDEST:g} here, got {deviation:g}")
    return Table.of(mode, up, down)


def _ladder(ratios: Iterable[int], precision: int) -> list[int]:
    """A law's probabilities over its mode's, in units, from neighbours' ratios: until the tail no longer matters.

    1·r₁, r₁r₂, … until 2⁻⁶⁴ units; the tail is log-concave.
    """
    weights, weight = [], 1 << precision
    for ratio in ratios:
        weight = weight * ratio >> precision
        if not weight >> _GUARD // 2:
            break
        weights.append(weight)
    return weights


def _ratios_alike(rate: Fraction, bits: int) -> Iterator[int]:
    """exp(−rate), again and again, as whole numbers ⌊ratio·2ᵇ⌋: what the table of a Laplace law comes of."""
    return repeat(fixed_exp(rate, bits))


def _gaussian_ratios(half: Fraction, bits: int) -> Iterator[int]:
    """Ratios of the discrete Gaussian's neighbouring probabilities, times 2^bits: exp(−(2k+1)/2σ²), half = 1/2σ²."""
    ratio, square = fixed_exp(half, bits), fixed_exp(2 * half, bits)
    while True:
        yield ratio
        ratio = ratio * square >> bits


def _ratios(ratio: Callable[[int], Fraction], numbers: range, bits: int) -> Iterator[int]:
    """Ratios of a law's neighbouring probabilities as whole numbers, ⌊ratio(k)·2ᵇ⌋ for each k: tables come of them."""
    return ((x.numerator << bits) // x.denominator for x in map(ratio, numbers))


def fixed_exp(x: Fraction, bits: int) -> int:
    """exp(−x)·2ᵇ to within one unit: exact noise's tables, and its last digits, are made of it."""
    if x > bits:
        return 0
    context = Context(prec=bits // 3 + 30)  # decimal digits: more than b log₁₀ 2, and twenty to spare for x itself
    exponent = context.divide(Decimal(-x.numerator), Decimal(x.denominator))
    return int(context.multiply(context.exp(exponent), Decimal(1 << bits)))
