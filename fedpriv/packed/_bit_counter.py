"""How many of many rows of bits have each bit set, without ever taking the bits apart.

A count is kept as planes: plane k holds bit k of every column's count. Eight rows are added at a time by carry-save
adders of five operations each, and what they carry goes to the higher planes: a row costs about five operations in all
(Harley and Seal; Warren, Hacker's Delight, 5-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes
from fedpriv._base.compiled import compiled

_BLOCK = 1 << 14  # bytes of a row worked on at once: its planes and carries stay in a core's cache
_AT_ONCE = 1 << 12  # bytes of a row turned into counts at once


class BitCounter:
    """Counts of `columns` bits, over rows of ⌈columns/8⌉ bytes in the bit order of `np.packbits`.

    >>> counter = BitCounter(3)
    >>> for _ in range(5):
    ...     counter.add(np.array([[0b101_00000], [0b001_00000]], np.uint8))
    >>> counter.counts()
    array([ 5,  0, 10])
    """

    def __init__(self, columns: int) -> None:
        """No rows of packed votes counted yet, each of `columns` bits."""
        self._columns, self._rows = columns, 0
        self._planes = np.zeros((0, -(-columns // 8)), np.uint8)

    def add(self, rows: Bytes) -> None:
        """Count a matrix of packed messages, a row each: every bit set adds one to its column."""
        self._rows += len(rows)
        missing = self._rows.bit_length() - len(self._planes)
        if missing > 0:
            self._planes = np.concatenate((self._planes, np.zeros((missing, self._planes.shape[1]), np.uint8)))
        _count(np.ascontiguousarray(rows), self._planes)

    def counts(self) -> NDArray[np.int64]:
        """How many of the rows added so far have each bit set: for sums of packed votes, column by column."""
        size = self._planes.shape[1]
        counts = np.zeros(8 * size, np.int64)
        for start in range(0, size, _AT_ONCE):
            part = counts[8 * start : 8 * (start + _AT_ONCE)]
            for lowest in range(0, len(self._planes), 8):  # eight planes make a byte
                byte = np.zeros(part.size, np.uint8)
                for plane in self._planes[lowest : lowest + 8][::-1]:
                    byte += byte
                    byte |= np.unpackbits(plane[start : start + _AT_ONCE])
                part += byte.astype(np.int64) << lowest
        return counts[: self._columns]

    def majority(self, rows: int) -> NDArray[np.int8]:
        """Each column's vote of the `rows` added: 1 where more than half have the bit set, −1 less, 0 just half.

        Counts are compared with the half from the highest bit down, and never worked out.
        """
        half, planes = rows // 2, self._planes
        above, equal = np.zeros(planes.shape[1], np.uint8), np.full(planes.shape[1], 255, np.uint8)
        for level in range(max(len(planes), half.bit_length()) - 1, -1, -1):
            plane = planes[level] if level < len(planes) else np.uint8(0)
            if half >> level & 1:
                equal &= plane
            else:
                above |= equal & plane
                equal &= ~plane
        below = ~above if rows % 2 else ~(above | equal)  # equal to a half that was rounded down is below it
        plus, minus = (np.unpackbits(bits, count=self._columns).view(np.int8) for bits in (above, below))
        return np.subtract(plus, minus, out=plus)


@compiled
def _count(rows: Bytes, planes: Bytes) -> None:
    """Add rows of packed votes to the counter's planes, eight at a time to the lowest three; carries go to the rest."""
    number, size = rows.shape
    low, nothing = np.empty(4 * _BLOCK, np.uint8), np.zeros(min(_BLOCK, size), np.uint8)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        carry = low[3 * _BLOCK : 3 * _BLOCK + stop - start]
        for level in range(3):
            plane = planes[level, start:stop] if level < len(planes) else nothing[: stop - start]
            low[level * _BLOCK : level * _BLOCK + stop - start] = plane
        for row in range(0, number, 8):
            _add_eight(
                low, _row(rows, row, start, stop, nothing), _row(rows, row + 1, start, stop, nothing),
                _row(rows, row + 2, start, stop, nothing), _row(rows, row + 3, start, stop, nothing),
                _row(rows, row + 4, start, stop, nothing), _row(rows, row + 5, start, stop, nothing),
                _row(rows, row + 6, start, stop, nothing), _row(rows, row + 7, start, stop, nothing),
            )  # fmt: skip
            for level in range(3, len(planes)):
                add_carry(planes[level, start:stop], carry)
        for level in range(min(3, len(planes))):
            planes[level, start:stop] = low[level * _BLOCK : level * _BLOCK + stop - start]


@compiled
def _row(rows: Bytes, row: int, start: int, stop: int, nothing: Bytes) -> Bytes:
    """A stretch of one row of packed votes; zeros, `nothing`, past the last row, to make eight of them."""
    return rows[row, start:stop] if row < len(rows) else nothing[: stop - start]


@compiled
def _add_eight(low: Bytes, a: Bytes, b: Bytes, c: Bytes, d: Bytes, e: Bytes, f: Bytes, g: Bytes, h: Bytes) -> None:
    """Add eight rows of packed votes to the counter's planes of ones, twos and fours in `low`; its end is the carry.

    One array holds all that is written, a known distance apart, or the compiler would not trust that the rows are not
    among it, and would go byte by byte.
    """
    for place in range(len(a)):
        ones, two = _added(low[place], a[place], b[place])
        ones, more = _added(ones, c[place], d[place])
        twos, four = _added(low[place + _BLOCK], two, more)
        ones, two = _added(ones, e[place], f[place])
        low[place], more = _added(ones, g[place], h[place])
        low[place + _BLOCK], two = _added(twos, two, more)
        low[place + 2 * _BLOCK], low[place + 3 * _BLOCK] = _added(low[place + 2 * _BLOCK], four, two)


@compiled
def _added(first: np.uint8, second: np.uint8, third: np.uint8) -> tuple[np.uint8, np.uint8]:
    """The carry-save adder of the counter: of three bits in each of eight places, their sum and what it carries.

    Numba computes in 64 bits unless told otherwise, and eight times as many of 8 fit a register.
    """
    differ = np.uint8(first ^ second)
    return np.uint8(differ ^ third), np.uint8(np.uint8(first & second) | np.uint8(differ & third))


@compiled
def add_carry(plane: Bytes, carry: Bytes) -> None:
    """Add a carry to one plane of the counter: the sum is left in `plane`, and what that carries in `carry`."""
    for place in range(len(plane)):
        plane[place], carry[place] = np.uint8(plane[place] ^ carry[place]), np.uint8(plane[place] & carry[place])
