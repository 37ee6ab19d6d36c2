"""Real noise of Gaussian or Laplace law, rounded to whole numbers: exact draws, however wide the noise.

|X| has the density e^{−(x/s)^p/p}, p = 2 or 1. A point under that curve is drawn by 256 layers of one area (Marsaglia
and Tsang 2000), and X is its place. Of X no more digits are drawn than it takes to know in which cell [k, k + 1) it is:
a cell that lies under the curve over all of its layer needs none. Where a point lies too near the curve for double
precision to tell, both its coordinates are drawn on, digit by digit, and compared with enough of them. Beyond the
layers lie blocks of half the height each, without an end. So no probability is rounded and no tail is cut; and as
nothing but exact comparisons, +, · and / decides which words are used, the same words give the same numbers anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, frexp

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers, Vector, Words
from fedpriv._base.compiled import compiled, high_half
from fedpriv.errors import FedprivError, positive
from fedpriv.randomness._inversion import fixed_exp
from fedpriv.randomness._layers import LAYERS, Power, lay_out, layers_of
from fedpriv.randomness.streams import random_words

__all__ = ["BLOCK", "DOUBT", "WIDEST", "Power", "Rounded", "in_cells", "rounded_real"]

Size = int | tuple[int, ...]

WIDEST = 2.0**48  # s, in cells: the places of layers are floats, and must be right to a cell
BLOCK = 1 << 14  # draws whose words stay in cache
DOUBT = 2.0**-40  # relative: what double precision may be off by at the curve is below 2⁻⁴³
_MORE = {1: 0.062, 2: 0.039}  # words a draw takes beyond its first one, on average
_NARROWEST = 2.0**-30  # with less noise a number other than 0 has a chance of e^{−2⁵⁷}
_CELLS = 22  # at least 2²¹ cells, of which there are two or more in a whole number


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """A law ready to be drawn from: X of scale s cells, of which 2^shift make a unit."""

    scale: float  # s, in cells
    power: Power
    area: float  # of each layer: the float itself, not what it stands for
    cells: Words  # of each layer; of the lowest those of its blocks too
    spare: Words  # below it, the last digits of a word would favour some cells
    inner: Words  # cells of each layer that lie under the curve over all of it
    heights: Vector  # of the layers' lower edges, and of the last one's upper edge: about
    edge: int  # cells of the lowest layer before its blocks
    block: int  # cells of a block
    shift: int

    def words(self, count: int) -> int:
        """How many random words so many draws of noise are given beforehand: nearly always enough."""
        mean = count * _MORE[self.power]
        return count + int(mean + 12 * mean**0.5 + 24)

    def draw(self, size: Size, rng: Generator, doubt: float = DOUBT) -> Numbers:
        """Independent draws of the rounded noise from a generator, exact: what releases and mechanisms add."""
        out = np.empty(size, np.int64)
        flat = out.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            part = flat[start : start + BLOCK]
            words = random_words(self.words(part.size), rng)
            done, at, short = _row(words, part, 0, part.size, doubt, *self._tables)
            while done < part.size:
                if short:
                    words = np.concatenate((words, random_words(part.size, rng)))
                else:  # floats do not say what this draw is
                    source = _Source(words, at, rng)
                    cell, below = self._slowly(int(words[done]), source)
                    whole = cell + (1 << self.shift >> 1) >> self.shift
                    # modulo 2⁶⁴, as sums of 64 bits would have it: what passes them is a function of the draw
                    part[done] = ((-whole if below else whole) + 2**63) % 2**64 - 2**63
                    done, at = done + 1, source.at
                done, at, short = _row(words, part, done, at, doubt, *self._tables)
        return out

    def rows(self, words: Words, out: Numbers) -> NDArray[np.intp]:
        """Rounded noise into every row, each by its own stream's words; the rows that these did not suffice for."""
        late = np.zeros(len(out), np.bool_)
        _rows(words, out, late, DOUBT, *self._tables)
        return np.flatnonzero(late)

    @property
    def _tables(self) -> tuple[Words, Words, Words, Vector, np.uint64, np.uint64, int, float, bool]:
        """The law's layers and settings as the compiled loops that draw noise take them."""
        return (
            self.cells, self.spare, self.inner, self.heights, np.uint64(self.edge), np.uint64(self.block),
            self.shift, self.scale, self.power == 2,
        )  # fmt: skip

    def _slowly(self, word: int, words: Iterator[int]) -> tuple[int, bool]:
        """A draw of noise that floats could not decide, by whole numbers: its cell, and whether X is below 0."""
        while True:
            layer, below, wide = word & 255, bool(word >> 8 & 1), word >> 9 << 9
            cells = int(self.cells[layer])
            cell, rest = divmod(wide * cells, 1 << 64)
            if rest >= int(self.spare[layer]):
                if cell < int(self.inner[layer]):
                    return cell, below
                halvings = None
                if layer == 0 and cell >= self.edge:
                    halvings = 0  # as many as a fair coin shows tails before the first head
                    while not (coins := next(words)):
                        halvings += 64
                    halvings += (coins & -coins).bit_length() - 1
                    cell = self.edge + halvings * self.block + (cell - self.edge >> 1)
                if self._under(cell, layer, halvings, words):
                    return cell, below
            word = next(words)

    def _under(self, cell: int, layer: int, halvings: int | None, words: Iterator[int]) -> bool:
        """Whether a point of the cell lies under the curve e^{−(x/s)^p/p}, exactly: then the draw is taken.

        The point is of the layer, or of the block.

        By ever more digits of it: everything is multiplied by 2^digits, and the curve right to within one unit.
        """
        across, up, bits = next(words), next(words), 64
        while True:
            digits = bits + 64 + 2 * (halvings or 0)
            area = Fraction(self.area) * (1 << digits)
            lower = [int(area / int(cells)) for cells in self.cells[: 1 if halvings is not None else layer + 1]]
            base, height = (0, lower[0] >> halvings) if halvings is not None else (sum(lower[:-1]), lower[-1])
            low, high = base + (height * up >> bits), base + (height * (up + 1) >> bits) + len(lower) + 3
            ends = (Fraction((cell << bits) + across + one, 1 << bits) / Fraction(self.scale) for one in (1, 0))
            right, left = (fixed_exp(end**self.power / self.power, digits) for end in ends)
            if high <= right - 1:
                return True
            if low >= left + 1:
                return False
            across, up, bits = across << 64 | next(words), up << 64 | next(words), bits + 64


class _Source:
    """The words that a block was given, then those of its generator."""

    def __init__(self, words: Words, at: int, rng: Generator) -> None:
        self.at, self._words, self._rng = at, words, rng

    def __iter__(self) -> Iterator[int]:
        """The random words that one slow, exact draw of noise reads, one after another, without end."""
        return self

    def __next__(self) -> int:
        """The next random word of a slow draw: of its block while there are any, then of the generator."""
        if self.at < self._words.size:
            self.at += 1
            return int(self._words[self.at - 1])
        return int(random_words(1, self._rng)[0])


@lru_cache(maxsize=64)
def rounded_real(scale: float, power: Power) -> Rounded:
    """The law of Gaussian or Laplace noise of scale s, the very float, rounded to whole numbers, to be drawn from.

    P(0) = P(|X| < ½), P(±k) = P(k − ½ < |X| < k + ½)/2.

    >>> rounded_real(2.0**20, 2).draw(3, np.random.default_rng(1))
    array([ 115048, 1711490,  150428])
    >>> rounded_real(5.0, 1).draw(3, np.random.default_rng(1))
    array([ 0, 10,  1])
    """
    positive(scale=scale)
    own = max(scale, _NARROWEST)  # more noise than asked for is never less private
    shift = max(_CELLS - frexp(own)[1], 1)
    return in_cells(own * 2.0**shift, power, shift)


def in_cells(scale: float, power: Power, shift: int) -> Rounded:
    """The law of rounded noise of scale s in cells, 2^shift of them a unit: its layers, ready to be drawn from."""
    if not 1 <= scale <= WIDEST:
        raise FedprivError(f"noise must be at most 2^48 cells wide, got {scale:.6g}")
    widths, block, area = layers_of(power)
    room = 8 / (scale * widths[-1]) + 2.0**-45  # what rounding cells up may add to a layer's area, relative
    edge, blocks, whole = ceil(scale * widths[0]) + 1, ceil(scale * block) + 1, scale * area * (1 + room)
    cells, spare, inner = (np.empty(LAYERS, np.uint64) for _ in range(3))
    heights = np.zeros(LAYERS + 1)
    lay_out(scale, room, whole, power, widths, 2 * blocks, cells, spare, inner, heights)
    return Rounded(scale, power, whole, cells, spare, inner, heights, edge, blocks, shift)


@compiled
def _rows(
    words: Words, out: Numbers, late: NDArray[np.bool_], doubt: float, cells: Words, spare: Words,
    inner: Words, heights: Vector, edge: np.uint64, block: np.uint64, shift: int, scale: float, gaussian: bool,
) -> None:  # fmt: skip
    """The compiled loop of `Rounded.rows`: noise into every row by its own words; `late`: those that need more."""
    count = out.shape[1]
    for row in range(len(out)):
        done, _, _ = _row(
            words[row], out[row], 0, count, doubt, cells, spare, inner, heights, edge, block, shift, scale, gaussian
        )
        late[row] = done < count


@compiled
def _row(
    words: Words, out: Numbers, done: int, at: int, doubt: float, cells: Words, spare: Words,
    inner: Words, heights: Vector, edge: np.uint64, block: np.uint64, shift: int, scale: float, gaussian: bool,
) -> tuple[int, int, bool]:  # fmt: skip
    """Draw noise from place `done` on, draw i from word i and more from `at` on, until one needs what is not here.

    That is words past the last one (then it is said to be short), or digits past those of floats. It comes back as it
    was before that draw.
    """
    half = np.uint64(1) << np.uint64(shift) >> np.uint64(1)
    for place in range(done, len(out)):
        word, begun = words[place], at
        while True:
            layer = np.int64(word & np.uint64(255))
            sign = np.int64(word >> np.uint64(8) & np.uint64(1))
            wide = word & np.uint64(0xFFFFFFFFFFFFFE00)
            cell = high_half(wide, cells[layer])
            if wide * cells[layer] >= spare[layer]:
                if cell < inner[layer]:
                    break
                if at + 3 > len(words):
                    return place, begun, True
                low, high = heights[layer], heights[layer + 1]
                if layer == 0 and cell >= edge:
                    coins = words[at]
                    at += 1
                    if coins == 0:
                        return place, begun, False
                    cell = edge + ((cell - edge) >> np.uint64(1))
                    while not coins & np.uint64(1):
                        coins >>= np.uint64(1)
                        cell += block
                        high *= 0.5
                across = (float(cell) + float(words[at]) * 2.0**-64) / scale
                up = low + (high - low) * (float(words[at + 1]) * 2.0**-64)
                at += 2
                curve = exp(-across * across / 2) if gaussian else exp(-across)
                if abs(up - curve) <= doubt * (up + curve):
                    return place, begun, False
                if up < curve:
                    break
            if at >= len(words):
                return place, begun, True
            word = words[at]
            at += 1
        whole = np.int64((cell + half) >> np.uint64(shift))
        out[place] = (whole ^ -sign) + sign
    return len(out), at, False
